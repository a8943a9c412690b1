package storage

import "testing"

// TestLogKeptWithin: which log is kept for another server that needs the entries after one: all of it if that takes no
// more than so many bytes, else the last segments that do.
func TestLogKeptWithin(t *testing.T) {
	t.Parallel()
	l := &Log{}
	for _, last := range []uint64{10, 20, 30, 40, 50} {
		l.segments = append(l.segments, &segment{segmentHeader: segmentHeader{size: 100}, last: last})
	}
	for _, c := range []struct {
		what          string
		room          int64
		needed, index uint64
		want          uint64
	}{
		{"all that is needed", 1000, 15, 40, 10},
		{"from a segment's end on", 1000, 20, 40, 20},
		{"a segment's end less one", 1000, 19, 40, 10},
		{"two segments", 200, 15, 40, 20},
		{"three segments", 300, 15, 40, 10},
		{"no segment", 99, 15, 40, 40},
		{"one segment", 100, 15, 40, 30},
		{"from before the log", 1000, 5, 40, 5},
		{"up to within a segment", 200, 15, 39, 10},
	} {
		if got := l.within(c.room, c.needed, c.index); got != c.want {
			t.Errorf("%s: the log up to %d may be removed, want %d", c.what, got, c.want)
		}
	}
}
