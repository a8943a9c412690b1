package subtree

import (
	"strings"
	"testing"
)

// TestLastBatch takes as many znodes as a transaction deletes, by number and bytes, but
// never none.
func TestLastBatch(t *testing.T) {
	t.Parallel()
	list := func(n, bytes int) []Listed {
		out := make([]Listed, n)
		for i := range out {
			out[i].Path = strings.Repeat("x", bytes-writeOverhead)
		}
		return out
	}
	for _, k := range []struct{ n, bytes, batch, want int }{
		{5, 100, 1000, 5}, {5, 100, 3, 3}, {5, deleteBatchBytes / 2, 1000, 2}, {5, deleteBatchBytes/2 + 1, 1000, 1},
		{5, deleteBatchBytes + 1, 1000, 1}, {1, deleteBatchBytes + 1, 1, 1},
	} {
		if got := len(lastBatch(list(k.n, k.bytes), k.batch)); got != k.want {
			t.Errorf("of %d with %d bytes each, %d at most: %d, want %d", k.n, k.bytes, k.batch, got, k.want)
		}
	}
}
