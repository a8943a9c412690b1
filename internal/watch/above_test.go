package watch

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// TestWorkOfOneChange: a change costs one look-up for its path and one for each ancestor that may have a recursive
// watch: every ancestor of a short path, those of a long one whose length some recursive watch has.
func TestWorkOfOneChange(t *testing.T) {
	for _, c := range []struct {
		name  string
		watch []string // recursive
		path  string
		want  uint64
	}{
		{"no recursive watch", nil, "/a/b/c", 1},
		{"the root", []string{"/"}, "/", 1},
		{"a short path", []string{"/x"}, "/a/b/c", 4},
		{"the longest short path", []string{"/"}, strings.Repeat("/d", aboveLen/2), 1 + aboveLen/2},
		{"the shortest long path", []string{"/"}, strings.Repeat("/d", aboveLen/2) + "x", 2},
		{"a long path", []string{"/d", "/d/d/d"}, strings.Repeat("/d", aboveLen), 3},
		{"a long path without such ancestors", []string{"/xx"}, strings.Repeat("/d", aboveLen), 1},
	} {
		table := New()
		for _, path := range c.watch {
			table.Add(1, path, Recursive)
		}
		before := table.Work()
		table.Trigger(nil, jute.EventNodeDataChanged, c.path)
		if got := table.Work() - before; got != c.want {
			t.Errorf("%s: %d look-ups, want %d", c.name, got, c.want)
		}
	}
}

// TestRememberedAbove: what stands above a znode is remembered for its next child up to a size of path and watchers,
// and what is kept for it is bounded, whatever was above.
func TestRememberedAbove(t *testing.T) {
	for _, c := range []struct {
		length   int // of the parent's path
		watchers int // above it, on the root
		kept     bool
	}{
		{aboveLen, 1, true},
		{aboveMemoBytes, 1, true},
		{aboveMemoBytes + 1, 1, false},
		{aboveLen, aboveMemoBytes / watcherAboveSize, true},
		{aboveLen, aboveMemoBytes/watcherAboveSize + 1, false},
		{aboveMemoBytes, aboveMemoBytes / watcherAboveSize, true},
		{aboveMemoBytes * 2, aboveMemoBytes, false},
	} {
		table := New()
		for w := range int64(c.watchers) {
			table.Add(w+1, "/", Recursive)
		}
		parent := "/" + strings.Repeat("x", c.length-1)
		if got := table.Trigger(nil, jute.EventNodeCreated, parent+"/a"); len(got) != c.watchers {
			t.Fatalf("%+v: %d are notified", c, len(got))
		}
		before := table.Work()
		table.Trigger(nil, jute.EventNodeCreated, parent+"/b")
		if kept := table.Work()-before == 1; kept != c.kept {
			t.Errorf("%+v: remembered for the next child: %v", c, kept)
		}
		for _, m := range table.above {
			if size := cap(m.path) + watcherAboveSize*cap(m.watchers); size > aboveKeepBytes {
				t.Errorf("%+v: %d bytes stay behind for a parent", c, size)
			}
		}
	}
}

// TestWorkOfAChain: each change of a path below or above that of the last one costs one look-up for the path, and one
// for each ancestor that it has and the last one didn't have. Who is notified, and in which order, is the same as
// without the last one.
func TestWorkOfAChain(t *testing.T) {
	const deepest = 200
	watched := func() *Table {
		table := New()
		table.Add(9, "/", Recursive)
		for n := 1; n < deepest; n++ {
			table.Add(int64(n%7), strings.Repeat("/d", n), Recursive)
			table.Add(int64(n%5), strings.Repeat("/d", n), Recursive)
		}
		return table
	}
	for _, step := range []int{1, 2, 5, -1, -3} {
		table := watched()
		trigger := func(path string) uint64 {
			before := table.Work()
			got := table.Trigger(nil, jute.EventNodeCreated, path)
			if want := watched().Trigger(nil, jute.EventNodeCreated, path); !slices.Equal(got, want) {
				t.Fatalf("steps of %d: %v are notified of %s, want %v", step, got, path, want)
			}
			return table.Work() - before
		}
		n := aboveLen/2 + 1
		if step < 0 {
			n = deepest - 1
		}
		trigger(strings.Repeat("/d", n))
		for n += step; n > aboveLen/2 && n < deepest; n += step {
			if work := trigger(strings.Repeat("/d", n)); work != uint64(1+max(step, 0)) {
				t.Fatalf("steps of %d: %d look-ups for a path of %d", step, work, n)
			}
		}
		path := strings.Repeat("/d", deepest-50) + "e/d" // its parent only looks like the last one's ancestor
		trigger(path)
		table.RemoveWatcher(3) // what was found before no longer holds
		if got := table.Trigger(nil, jute.EventNodeCreated, path+"/x"); slices.Contains(got, 3) {
			t.Errorf("%v are notified though 3 is gone", got)
		}
	}
}

// TestDeepestPathLeavesNothing: a path with more ancestors than any sensible one leaves no memory behind.
func TestDeepestPathLeavesNothing(t *testing.T) {
	table := New()
	deepest := strings.Repeat("/d", 2*prefixesKeep)
	for n := 1; n <= recursiveLens; n++ {
		table.Add(1, deepest[:2*n], Recursive)
	}
	if got := table.Trigger(nil, jute.EventNodeDeleted, deepest); !slices.Equal(got, []int64{1}) {
		t.Fatalf("%v are notified", got)
	}
	if n := cap(table.prefixes); n > prefixesKeep {
		t.Errorf("room for %d ancestors stays behind", n)
	}
}

// TestOneHash: paths with the same hash are different paths, short or long.
func TestOneHash(t *testing.T) {
	for _, length := range []int{pathInline / 2, aboveLen * 5 / 4} {
		table := New()
		a, b := table.oneHash(length)
		table.Add(1, a, Recursive)
		table.Add(2, b, Data)
		for _, c := range []struct {
			path string
			want []int64
		}{{b + "/c", nil}, {a + "/c", []int64{1}}, {b, []int64{2}}, {b, nil}, {a, []int64{1}}} {
			if got := table.Trigger(nil, jute.EventNodeCreated, c.path); !slices.Equal(got, c.want) {
				t.Errorf("a change of %s notifies %v, want %v", c.path, got, c.want)
			}
			table.check(t)
		}
		table.Add(2, b, Child)
		table.RemoveWatcher(1)
		if table.check(t); table.Check(2, b, jute.WatcherAny) != jute.OK || table.Check(2, a, jute.WatcherAny) == jute.OK {
			t.Errorf("%s and %s are taken for each other", a, b)
		}
	}
}

// oneHash finds two paths of a length that have one hash: among a hundred thousand there are mostly some.
func (t *Table) oneHash(length int) (a, b string) {
	seen := map[uint32]string{}
	for i := 0; ; i++ {
		path := fmt.Sprintf("/%0*d", length-1, i)
		if a, ok := seen[t.hashPath(path)]; ok {
			return a, path
		}
		seen[t.hashPath(path)] = path
	}
}
