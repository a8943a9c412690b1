package watch

import "testing"

// TestSlabInEachOrder fills a few chunks and frees them in each order, one of them but for one element: no element is
// given twice, what is given is empty, and the numbers of those that stay keep their values.
func TestSlabInEachOrder(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		var s slab[int]
		values := map[ref]int{}
		fill := func() {
			for len(values) < 3*chunkSize-1 { // none is no element
				r := s.take()
				if _, taken := values[r]; taken || r == none || *s.at(r) != 0 {
					t.Fatalf("%v: %d is given with the value %d; taken: %v", order, r, *s.at(r), taken)
				}
				values[r] = len(values) + 1
				*s.at(r) = values[r]
			}
			checkSlab(t, &s, len(values))
		}
		for range 2 {
			fill()
			for i, at := range order {
				for n := range ref(chunkSize) {
					r := ref(at*chunkSize) + n
					if r == none || i == 2 && n == 77 {
						continue
					}
					delete(values, r)
					s.give(r)
				}
				checkSlab(t, &s, len(values))
			}
			for r, want := range values {
				if *s.at(r) != want {
					t.Fatalf("%v: %d has the value %d instead of %d", order, r, *s.at(r), want)
				}
			}
			if len(values) != 1 || s.held != 2 {
				t.Fatalf("%v: %d elements stay, in %d chunks with the spare one", order, len(values), s.held)
			}
		}
		for r := range values {
			s.give(r)
		}
		if len(s.chunks) != 0 || len(s.open) != 0 {
			t.Errorf("%v: with no element there is a list of %d chunks, %d of them open", order, len(s.chunks), len(s.open))
		}
	}
}

// TestOneThatComesAndGoes: an element that comes and goes where a chunk ends costs no memory.
func TestOneThatComesAndGoes(t *testing.T) {
	var s slab[int]
	for range chunkSize - 1 {
		s.take()
	}
	s.give(s.take()) // the spare chunk
	if n := testing.AllocsPerRun(100, func() { s.give(s.take()) }); n != 0 {
		t.Errorf("it allocates %v times", n)
	}
}
