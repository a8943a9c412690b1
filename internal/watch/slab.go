package watch

import (
	"iter"
	"math/bits"
)

// ref is the number of an element in a slab; none means no element.
type ref uint32

const none ref = 0

const (
	// chunkSize is the number of elements by which a slab grows. It is small enough that growing never stalls the
	// server and that a small table stays small.
	chunkSize = 1 << 10
	wordBits  = 64
)

// A slab holds elements that never move and are addressed by numbers instead of pointers. Numbers take half the memory
// of pointers and cost the garbage collector nothing. The memory of freed elements is reused, and returned once all
// elements of a chunk are free. One free chunk is kept, so that adding and removing the same element repeatedly costs
// nothing.
type slab[T any] struct {
	chunks []*chunk[T] // nil for a chunk without used elements
	open   []uint32    // the chunks with free elements; the last one is used first
	spare  *chunk[T]   // a free chunk; may be nil
	size   int         // elements taken
	held   int         // number of chunks, including spare
}

// A chunk is a part of a slab.
type chunk[T any] struct {
	taken    [chunkSize / wordBits]uint64 // a bit for each element
	size     int                          // elements taken
	elements [chunkSize]T
}

// at returns the element r.
func (s *slab[T]) at(r ref) *T { return &s.chunks[r/chunkSize].elements[r%chunkSize] }

// take allocates a zero element and returns its number.
func (s *slab[T]) take() ref {
	if len(s.open) == 0 {
		s.open = append(s.open, uint32(len(s.chunks)))
		s.chunks = append(s.chunks, nil)
	}
	at := s.open[len(s.open)-1]
	c := s.chunks[at]
	if c == nil {
		c = s.newChunk()
		if s.chunks[at] = c; at == 0 {
			c.taken[0], c.size = 1, 1 // number 0 is none, not an element
		}
	}
	word := 0
	for c.taken[word] == ^uint64(0) {
		word++
	}
	bit := bits.TrailingZeros64(^c.taken[word])
	c.taken[word] |= 1 << bit
	if c.size++; c.size == chunkSize {
		s.open = s.open[:len(s.open)-1]
	}
	s.size++
	return ref(int(at)*chunkSize + word*wordBits + bit)
}

func (s *slab[T]) newChunk() *chunk[T] {
	if c := s.spare; c != nil {
		s.spare = nil
		return c
	}
	s.held++
	return new(chunk[T])
}

// give frees element r.
func (s *slab[T]) give(r ref) {
	at := uint32(r / chunkSize)
	c := s.chunks[at]
	var zero T
	c.elements[r%chunkSize] = zero
	c.taken[r%chunkSize/wordBits] &^= 1 << (r % wordBits)
	if c.size == chunkSize {
		s.open = append(s.open, at)
	}
	c.size--
	s.size--
	if c.size > 0 && (at > 0 || c.size > 1) {
		return
	}
	if s.chunks[at] = nil; s.spare == nil {
		c.taken, c.size = [chunkSize / wordBits]uint64{}, 0
		s.spare = c
	} else {
		s.held--
	}
	s.trim()
}

// trim removes all chunks if the slab is empty, together with their numbers in open.
func (s *slab[T]) trim() {
	if s.size > 0 {
		return // numbers in between stay open; they cost four bytes for each chunk
	}
	s.chunks, s.open = nil, nil
}

// taken yields the numbers of the elements that are taken, ascending, from one on.
func (s *slab[T]) taken(from ref) iter.Seq[ref] {
	return func(yield func(ref) bool) {
		for r := max(from, none+1); int(r/chunkSize) < len(s.chunks); {
			c := s.chunks[r/chunkSize]
			if c == nil {
				r = (r/chunkSize + 1) * chunkSize
				continue
			}
			set := c.taken[r%chunkSize/wordBits] >> (r % wordBits)
			if set == 0 {
				r = (r/wordBits + 1) * wordBits
				continue
			}
			if r += ref(bits.TrailingZeros64(set)); !yield(r) {
				return
			}
			r++
		}
	}
}
