package zk

import "testing"

// TestReconfigFromTheFirst: a change that applies to the first configuration, of version 0, applies to no other.
func TestReconfigFromTheFirst(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		from *int64
		want int64
	}{{nil, -1}, {new(int64(-1)), -1}, {new(int64(0)), 0}, {new(int64(7)), 7}} {
		change := Reconfig{Leaving: []string{"3"}, FromConfig: c.from}
		if r := change.request(); r.CurConfigID != c.want {
			t.Errorf("from %v: %d, want %d", c.from, r.CurConfigID, c.want)
		}
	}
}
