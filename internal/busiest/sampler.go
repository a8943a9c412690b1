package busiest

import "math"

// A Sampler chooses requests of one connection at random, each with the same probability and independent of earlier
// ones, so that periodic requests are chosen as often as others. It isn't safe for concurrent use.
type Sampler struct {
	left   int32 // requests until the next event, including that request; 0 before the first
	weight int32 // how many requests the next chosen one stands for; 0 if the event is only a new draw of the distance
	state  uint32
}

// drawAgain is the number of requests after which a distance is drawn again. That doesn't change the probabilities, but
// a connection soon notices a changed sampling rate.
const drawAgain = 128

// NewSampler returns a Sampler; the seeds of Samplers should differ.
func NewSampler(seed uint64) Sampler {
	const golden = 0x9e3779b97f4a7c15
	return Sampler{state: uint32((seed+1)*golden>>32) | 1}
}

// Take counts a request. It returns how many requests this one stands for if it is chosen, and 0 otherwise.
func (s *Sampler) Take(t *Traffic) int32 {
	if s.left > 1 {
		s.left--
		return 0
	}
	return s.choose(t)
}

func (s *Sampler) choose(t *Traffic) int32 {
	if s.left == 0 {
		if s.draw(t); s.left > 1 {
			s.left--
			return 0
		}
	}
	weight := s.weight
	s.draw(t)
	return weight
}

// draw draws the distance to the next chosen request from a geometric distribution.
func (s *Sampler) draw(t *Traffic) {
	every := t.takesEvery()
	if every == 1 {
		s.left, s.weight = 1, 1
		return
	}
	if s.state == 0 { // a Sampler without a seed
		s.state = 1
	}
	s.state ^= s.state << 13 // xorshift (Marsaglia, 2003)
	s.state ^= s.state >> 17
	s.state ^= s.state << 5
	chance := float64(s.state) / (1 << 32)
	distance := 1 + math.Floor(math.Log(chance)/math.Log1p(-1/float64(every)))
	if distance > drawAgain {
		s.left, s.weight = drawAgain, 0
		return
	}
	s.left, s.weight = int32(distance), every
}
