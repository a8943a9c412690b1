package server

import (
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// TestReapNeverUsed: a container that never had a child stays, or goes after the time that is set; one that was used
// goes in either case.
func TestReapNeverUsed(t *testing.T) {
	t.Parallel()
	for neverUsed, want := range map[time.Duration]jute.Code{0: jute.OK, time.Millisecond: jute.ErrNoNode} {
		s := open(t, Options{
			ReapPerMinute: 60_000, ReapInterval: 10 * time.Millisecond, ReapNeverUsed: neverUsed, Settings: tree.Settings{
				FeatureLevel: tree.FeatureLevelMax, ExtendedTypes: true,
			},
		})
		c := connect(t, s.Addrs()[0].String(), 0, nil)
		for _, name := range []string{"/never", "/used"} {
			if h, _ := c.call(jute.OpCreateContainer, creating(name, nil, jute.ModeContainer)); h.Err != jute.OK {
				t.Fatal(h.Err)
			}
		}
		gone := func(path string) bool {
			h, _ := c.call(jute.OpExists, reading(path, false))
			return h.Err == jute.ErrNoNode
		}
		if want == jute.ErrNoNode {
			eventually(t, "the container that was never used is gone", func() bool { return gone("/never") })
			continue
		}
		c.call(jute.OpCreate, creating("/used/child", nil, 0))
		c.call(jute.OpDelete, deleting("/used/child"))
		eventually(t, "the container that was used is gone", func() bool { return gone("/used") })
		if gone("/never") {
			t.Error("the container that was never used is gone, too")
		}
	}
}

// TestReapPerMinute empties three containers on a server that removes one a minute: the first goes, the others are
// there until a minute has passed. A server that removes a thousand a second removes all.
func TestReapPerMinute(t *testing.T) {
	t.Parallel()
	began := time.Now()
	left := emptied(t, Options{ReapPerMinute: 1, ReapInterval: 10 * time.Millisecond})
	eventually(t, "a container is removed", func() bool { return left() < 3 })
	for range 20 {
		if n := left(); n != 2 && time.Since(began) < time.Minute {
			t.Fatalf("%d of 3 containers are left within a minute", n)
		}
		time.Sleep(10 * time.Millisecond)
	}
	left = emptied(t, Options{ReapPerMinute: 60_000, ReapInterval: 10 * time.Millisecond})
	eventually(t, "all containers are removed", func() bool { return left() == 0 })
}

// TestReapInterval: a server that looks for empty containers once an hour has not removed any.
func TestReapInterval(t *testing.T) {
	t.Parallel()
	left := emptied(t, Options{ReapPerMinute: 60_000, ReapInterval: time.Hour})
	for range 50 {
		if n := left(); n != 3 {
			t.Fatalf("%d of 3 containers are left", n)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// emptied creates three containers on a server and takes their children away. left returns how many are there.
func emptied(t *testing.T, opt Options) (left func() int) {
	t.Helper()
	opt.Settings = tree.Settings{FeatureLevel: tree.FeatureLevelMax, ExtendedTypes: true}
	c := connect(t, open(t, opt).Addrs()[0].String(), 0, nil)
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
	return func() (n int) {
		for _, name := range names {
			if h, _ := c.call(jute.OpExists, reading(name, false)); h.Err == jute.OK {
				n++
			}
		}
		return n
	}
}

// TestTTLZnodesAreCounted: each znode with a time to live is counted when it is created and when it goes, because its
// time is over or by a client; one of a multi that failed isn't. Apache counts the same.
func TestTTLZnodesAreCounted(t *testing.T) {
	t.Parallel()
	s := open(t, Options{
		ReapInterval: 10 * time.Millisecond, Settings: tree.Settings{FeatureLevel: tree.FeatureLevelMax, ExtendedTypes: true},
	})
	c := connect(t, s.Addrs()[0].String(), 0, nil)
	multi := func(ops ...jute.MultiOp) {
		t.Helper()
		if h, _ := c.call(jute.OpMulti, func(b []byte) []byte { return jute.AppendMulti(b, ops) }); h.Err != jute.OK {
			t.Fatalf("a multi: %v", h.Err)
		}
	}
	lives := func(path string, ttl int64) jute.MultiOp {
		return jute.MultiOp{
			Op: jute.OpCreateTTL, Path: path, ACL: jute.WorldACL(jute.PermAll), Flags: jute.ModePersistentWithTTL, TTL: ttl,
		}
	}
	const hour = 3_600_000
	multi(lives("/brief", 1), lives("/long", hour), jute.MultiOp{
		Op: jute.OpCreateContainer, Path: "/container", ACL: jute.WorldACL(jute.PermAll), Flags: jute.ModeContainer,
	})
	multi(lives("/never", 1), jute.MultiOp{Op: jute.OpDelete, Path: "/nothing", Version: -1})
	eventually(t, "/brief is removed", func() bool {
		h, _ := c.call(jute.OpExists, reading("/brief", false))
		return h.Err == jute.ErrNoNode
	})
	multi(lives("/more", hour), jute.MultiOp{Op: jute.OpDelete, Path: "/more", Version: -1},
		jute.MultiOp{Op: jute.OpDelete, Path: "/container", Version: -1})
	created, deleted := s.metric("ttl_node_created_count"), s.metric("ttl_node_deleted_count")
	if created != 3 || deleted != 2 {
		t.Errorf("%d znodes with a time to live were created and %d deleted; want 3 and 2", created, deleted)
	}
}
