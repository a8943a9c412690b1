package busiest

import "math"

// A Sampler chooses requests of one connection: each with the same chance, whatever became of those before it. So what
// recurs at a fixed distance is chosen as often as all else. It has no lock.
type Sampler struct {
	left   int32 // requests until something is to be done, that one included; 0 before the first
	weight int32 // for how many that one stands; 0 if it isn't chosen, and the distance of the next is drawn anew
	state  uint32
}

// drawAgain is after how many requests a distance is drawn anew, which changes no chances, so that a connection learns
// soon how many the traffic wants.
const drawAgain = 128

// NewSampler returns one; seeds should differ.
func NewSampler(seed uint64) Sampler {
	const golden = 0x9e3779b97f4a7c15
	return Sampler{state: uint32((seed+1)*golden>>32) | 1}
}

// Take counts a request, and returns for how many it stands if it is chosen, and 0 otherwise.
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

// draw sets the distance of the next request that is chosen, by a geometric distribution.
func (s *Sampler) draw(t *Traffic) {
	every := t.takesEvery()
	if every == 1 {
		s.left, s.weight = 1, 1
		return
	}
	if s.state == 0 { // of a Sampler without a seed
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
