package watch

// ref is the number of an element in a slab; none means no element.
type ref uint32

const none ref = 0

// chunkSize is the number of elements by which a slab grows: small enough that
// growing never stalls the server, and that a small table stays small.
const chunkSize = 1 << 10

// A slab holds elements that never move and are addressed by numbers instead of pointers. Numbers
// take half the memory of pointers and cost the garbage collector nothing. The memory of freed
// elements is reused, but never returned.
type slab[T any] struct {
	chunks []*[chunkSize]T
	free   []ref
	last   ref // the highest number ever taken
}

// at returns the element r.
func (s *slab[T]) at(r ref) *T { return &s.chunks[r/chunkSize][r%chunkSize] }

// take allocates a zero element and returns its number.
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

// give frees element r.
func (s *slab[T]) give(r ref) {
	var zero T
	*s.at(r) = zero
	s.free = append(s.free, r)
}
