package tree

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// TestDueAtTheLimit: containers and TTL znodes may go a millisecond after their time, and not at it; those with a child
// stay, and a container goes at once when its last child has gone.
func TestDueAtTheLimit(t *testing.T) {
	t.Parallel()
	const made, life, unused = int64(1_000_000), int64(5000), int64(700)
	s := &timed{t: t, tree: New(Options{})}
	settings := DefaultSettings()
	settings.ExtendedTypes = true
	s.apply(made, Request{Op: OpSettings, Body: settings.Append(nil)})
	container := func(path string) Request {
		r := jute.CreateRequest{Path: path, ACL: jute.WorldACL(jute.PermAll), Flags: jute.ModeContainer}
		return Request{Op: jute.OpCreateContainer, Body: r.Append(nil)}
	}
	s.apply(made, createTTL("/ttl", life), createTTL("/parent", life),
		Request{Op: jute.OpCreate, Body: createOf("/parent/a", 0)},
		container("/unused"), container("/used"), container("/in-use"),
		Request{Op: jute.OpCreate, Body: createOf("/used/a", 0)}, Request{Op: jute.OpCreate, Body: createOf("/in-use/a", 0)},
		Request{Op: jute.OpDelete, Body: deleteOf("/used/a")})
	for _, c := range []struct {
		after, neverUsed int64
		want             []string
	}{
		{0, 0, []string{"/used"}},
		{unused, unused, []string{"/used"}},
		{unused + 1, unused, []string{"/unused", "/used"}},
		{unused + 1, 0, []string{"/used"}},
		{life, 0, []string{"/used"}},
		{life + 1, 0, []string{"/ttl", "/used"}},
		{2, 1, []string{"/unused", "/used"}},
	} {
		if got, next := s.tree.Reapable(0, 1000, made+c.after, c.neverUsed); !slices.Equal(got, c.want) || next != 0 {
			t.Errorf("%d ms later, with %d for those never used: %v (next %d), want %v", c.after, c.neverUsed, got, next, c.want)
		}
	}
}

// TestReapableLongPaths: long paths end a step.
func TestReapableLongPaths(t *testing.T) {
	t.Parallel()
	const life, count = int64(10), 20
	s := &timed{t: t, tree: New(Options{})}
	settings := DefaultSettings()
	settings.ExtendedTypes = true
	s.apply(1000, Request{Op: OpSettings, Body: settings.Append(nil)})
	for i := range count {
		s.apply(1000, createTTL(fmt.Sprintf("/%d%s", i, strings.Repeat("x", reapBytes/4)), life))
	}
	found, cursor := 0, uint32(0)
	for begun := false; cursor != 0 || !begun; begun = true {
		var paths []string
		if paths, cursor = s.tree.Reapable(cursor, 1000, 5000, 0); len(paths) > 4 {
			t.Fatalf("a step finds %d paths of %d bytes", len(paths), reapBytes/4)
		}
		found += len(paths)
	}
	if found != count {
		t.Errorf("%d are found of %d", found, count)
	}
}

// TestReapableInSteps: a call looks at no more slots than it is asked to, and calls one after the other find each znode
// once.
func TestReapableInSteps(t *testing.T) {
	t.Parallel()
	const life, count, step = int64(10), 50, 7
	s := &timed{t: t, tree: New(Options{})}
	settings := DefaultSettings()
	settings.ExtendedTypes = true
	s.apply(1000, Request{Op: OpSettings, Body: settings.Append(nil)})
	if paths, next := s.tree.Reapable(5, step, 5000, 0); paths != nil || next != 0 {
		t.Errorf("nothing can be due: %v, next %d", paths, next)
	}
	var want, got []string
	for i := range count {
		want = append(want, fmt.Sprintf("/%d", i))
		s.apply(1000, createTTL(want[i], life))
	}
	calls, cursor := 0, uint32(0)
	for begun := false; cursor != 0 || !begun; begun = true {
		paths, next := s.tree.Reapable(cursor, step, 5000, 0)
		if len(paths) > step || next != 0 && next > max(cursor, rootSlot)+step {
			t.Fatalf("a step of %d slots from %d goes to %d and finds %d znodes", step, cursor, next, len(paths))
		}
		got, cursor = append(got, paths...), next
		calls++
	}
	if slots := int(s.tree.nodes.used); !slices.Equal(got, want) || calls != (slots+step-1)/step {
		t.Errorf("%d calls find %v", calls, got)
	}
}
