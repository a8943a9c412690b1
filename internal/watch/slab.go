package watch

// ref is the number of an element in a slab; none is no element.
type ref uint32

const none ref = 0

// chunkSize is the number of elements by which a slab grows: small enough that
// growing never stalls the server, and that a small table stays small.
const chunkSize = 1 << 10

// A slab holds elements that never move and are named by numbers instead of
// pointers, which take half the memory and cost the garbage collector nothing.
// The memory of elements given back is used again, and never returned.
type slab[T any] struct {
	chunks []*[chunkSize]T
	free   []ref
	last   ref // the last number ever taken
}

// at returns the element r.
func (s *slab[T]) at(r ref) *T { return &s.chunks[r/chunkSize][r%chunkSize] }

// take returns the number of a zero element.
func (s *slab[T]) take() ref {
	if n := len(s.free); n > 0 {
		r := s.free[n-1]
		s.free = s.free[:n-1]
		return r
	}
	s.last++
	if int(s.last/chunkSize) >= len(s.chunks) {
		s.chunks = append(s.chunks, new([chunkSize]T))
	}
	return s.last
}

// give returns element r to the slab.
func (s *slab[T]) give(r ref) {
	var zero T
	*s.at(r) = zero
	s.free = append(s.free, r)
}
