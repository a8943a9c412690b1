package serverid

import (
	"slices"
	"testing"
)

// TestNewIDs: ids are a server's, in order, and never one that stands for something else.
func TestNewIDs(t *testing.T) {
	t.Parallel()
	for _, of := range []struct {
		server uint64
		ms     int64
		want   []int64
	}{
		{0, 0, []int64{1, 2}}, {1, 0, []int64{1 << 56, 1<<56 + 1}}, {128, 0, []int64{-1<<63 + 1, -1<<63 + 2}},
		{2, 1, []int64{2<<56 + 1<<16, 2<<56 + 1<<16 + 1}}, {255, 1<<40 + 3, []int64{-1<<56 + 3<<16, -1<<56 + 3<<16 + 1}},
	} {
		next := NewIDs(of.server, of.ms)
		if got := []int64{next(), next()}; !slices.Equal(got, of.want) {
			t.Errorf("server %d at %d: %#x, want %#x", of.server, of.ms, got, of.want)
		}
	}
}
