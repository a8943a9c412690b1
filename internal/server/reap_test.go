package server

import (
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// TestReapPerMinute empties three containers on a server that removes one a minute: the first goes, the others are
// there until a minute has passed.
func TestReapPerMinute(t *testing.T) {
	t.Parallel()
	began := time.Now()
	s := open(t, Options{
		ReapPerMinute: 1, ReapInterval: 10 * time.Millisecond, Settings: tree.Settings{FeatureLevel: tree.FeatureLevelMax, ExtendedTypes: true},
	})
	c := connect(t, s.Addrs()[0].String(), 0, nil)
	names := []string{"/a", "/b", "/c"}
	for _, name := range names {
		if h, _ := c.call(jute.OpCreateContainer, creating(name, nil, jute.ModeContainer)); h.Err != jute.OK {
			t.Fatal(h.Err)
		}
		if h, _ := c.call(jute.OpCreate, creating(name+"/child", nil, 0)); h.Err != jute.OK {
			t.Fatal(h.Err)
		}
	}
	for _, name := range names {
		if h, _ := c.call(jute.OpDelete, deleting(name+"/child")); h.Err != jute.OK {
			t.Fatal(h.Err)
		}
	}
	left := func() (n int) {
		for _, name := range names {
			if h, _ := c.call(jute.OpExists, reading(name, false)); h.Err == jute.OK {
				n++
			}
		}
		return n
	}
	eventually(t, "a container is removed", func() bool { return left() < len(names) })
	for range 20 {
		if n := left(); n != len(names)-1 && time.Since(began) < time.Minute {
			t.Fatalf("%d of %d containers are left within a minute", n, len(names))
		}
		time.Sleep(10 * time.Millisecond)
	}
}
