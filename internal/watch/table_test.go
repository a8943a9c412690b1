package watch

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

const (
	created  = jute.EventNodeCreated
	deleted  = jute.EventNodeDeleted
	changed  = jute.EventNodeDataChanged
	children = jute.EventNodeChildrenChanged
)

type reg struct {
	watcher int64
	path    string
	kind    Kind
}

func table(regs ...reg) *Table {
	t := New()
	for _, r := range regs {
		t.Add(r.watcher, r.path, r.kind)
	}
	return t
}

// TestTrigger fires an event twice: the second time shows what was consumed.
func TestTrigger(t *testing.T) {
	for _, tc := range []struct {
		name   string
		regs   []reg
		typ    jute.EventType
		path   string
		first  []int64
		second []int64
	}{
		{"nobody", nil, changed, "/a", nil, nil},
		{"another path", []reg{{1, "/a", Data}}, changed, "/b", nil, nil},
		{"data, created", []reg{{1, "/a", Data}}, created, "/a", []int64{1}, nil},
		{"data, changed", []reg{{1, "/a", Data}}, changed, "/a", []int64{1}, nil},
		{"data, deleted", []reg{{1, "/a", Data}}, deleted, "/a", []int64{1}, nil},
		{"data, children", []reg{{1, "/a", Data}}, children, "/a", nil, nil},
		{"child, created", []reg{{1, "/a", Child}}, created, "/a", nil, nil},
		{"child, changed", []reg{{1, "/a", Child}}, changed, "/a", nil, nil},
		{"child, deleted", []reg{{1, "/a", Child}}, deleted, "/a", []int64{1}, nil},
		{"child, children", []reg{{1, "/a", Child}}, children, "/a", []int64{1}, nil},
		{"persistent, created", []reg{{1, "/a", Persistent}}, created, "/a", []int64{1}, []int64{1}},
		{"persistent, changed", []reg{{1, "/a", Persistent}}, changed, "/a", []int64{1}, []int64{1}},
		{"persistent, deleted", []reg{{1, "/a", Persistent}}, deleted, "/a", []int64{1}, []int64{1}},
		{"persistent, children", []reg{{1, "/a", Persistent}}, children, "/a", []int64{1}, []int64{1}},
		{"persistent isn't recursive", []reg{{1, "/a", Persistent}}, changed, "/a/b", nil, nil},
		{"recursive, created", []reg{{1, "/a", Recursive}}, created, "/a", []int64{1}, []int64{1}},
		{"recursive, changed", []reg{{1, "/a", Recursive}}, changed, "/a", []int64{1}, []int64{1}},
		{"recursive, deleted", []reg{{1, "/a", Recursive}}, deleted, "/a", []int64{1}, []int64{1}},
		{"recursive, children", []reg{{1, "/a", Recursive}}, children, "/a", nil, nil},
		{"recursive, child created", []reg{{1, "/a", Recursive}}, created, "/a/b", []int64{1}, []int64{1}},
		{"recursive, grandchild deleted", []reg{{1, "/a", Recursive}}, deleted, "/a/b/c", []int64{1}, []int64{1}},
		{"recursive, grandchild's children", []reg{{1, "/a", Recursive}}, children, "/a/b/c", nil, nil},
		{"recursive on the root", []reg{{1, "/", Recursive}}, changed, "/a/b", []int64{1}, []int64{1}},
		{"recursive on the root, the root", []reg{{1, "/", Recursive}}, changed, "/", []int64{1}, []int64{1}},
		{"recursive is by component", []reg{{1, "/a", Recursive}}, changed, "/ab", nil, nil},
		{"one-shots of ancestors stay silent", []reg{{1, "/a", Data}, {2, "/a", Persistent}, {3, "/a", Recursive}}, changed,
			"/a/b", []int64{3}, []int64{3}},
		{"several kinds fire once", []reg{{1, "/a", Data}, {1, "/a", Child}, {1, "/a", Persistent}, {1, "/a", Recursive}},
			deleted, "/a", []int64{1}, []int64{1}},
		{"both tables, deleted: once, and both consumed", []reg{{1, "/a", Data}, {1, "/a", Child}}, deleted, "/a", []int64{1},
			nil},
		{"both tables, changed: the child watch stays", []reg{{1, "/a", Child}, {1, "/a", Data}, {2, "/a", Child}}, changed,
			"/a", []int64{1}, nil},
		{"recursive on path and ancestor: once", []reg{{1, "/", Recursive}, {1, "/a", Recursive}, {1, "/a/b", Data}}, changed,
			"/a/b", []int64{1}, []int64{1}},
		{"in order of registration", []reg{{5, "/a", Data}, {3, "/a", Persistent}, {9, "/a", Data}, {1, "/a", Recursive}},
			changed, "/a", []int64{5, 3, 9, 1}, []int64{3, 1}},
		{"adding again keeps the place", []reg{{5, "/a", Child}, {3, "/a", Data}, {5, "/a", Data}}, changed,
			"/a", []int64{5, 3}, nil},
		{"the path, then its parent, and up", []reg{{1, "/", Recursive}, {2, "/a", Recursive}, {3, "/a/b", Data}}, changed,
			"/a/b", []int64{3, 2, 1}, []int64{2, 1}},
		{"event types that don't travel", []reg{{1, "/a", Persistent}}, jute.EventDataWatchRemoved, "/a", nil, nil},
		{"no event", []reg{{1, "/a", Persistent}}, jute.EventNone, "/a", nil, nil},
	} {
		table := table(tc.regs...)
		if got := table.Trigger(nil, tc.typ, tc.path); !slices.Equal(got, tc.first) {
			t.Errorf("%s: %v are notified, want %v", tc.name, got, tc.first)
		}
		table.check(t)
		if got := table.Trigger(nil, tc.typ, tc.path); !slices.Equal(got, tc.second) {
			t.Errorf("%s: %v are notified again, want %v", tc.name, got, tc.second)
		}
	}
}

// TestAncestorsKeepTheirWatches: a recursive watch that fires for a znode below takes no other watch of its path along.
func TestAncestorsKeepTheirWatches(t *testing.T) {
	table := New()
	for _, path := range []string{"/", "/a", "/a/b"} {
		table.Add(1, path, anyKind)
	}
	for _, below := range []string{"/x", "/a/x", "/a/b/" + strings.Repeat("x", aboveLen)} {
		table.Trigger(nil, deleted, below)
	}
	for _, path := range []string{"/", "/a", "/a/b"} {
		for _, typ := range types {
			if code := table.Check(1, path, typ); code != jute.OK {
				t.Errorf("after changes below it, %s has no watch of type %d: %v", path, typ, code)
			}
		}
	}
}

func TestTriggerAppends(t *testing.T) {
	table := table(reg{1, "/a", Persistent}, reg{2, "/", Recursive})
	dst := []int64{1, 2}
	if got := table.Trigger(dst, changed, "/a"); !slices.Equal(got, []int64{1, 2, 1, 2}) {
		t.Errorf("what was in dst changes the result: %v", got)
	}
}

func TestCheckAndRemove(t *testing.T) {
	const (
		c = jute.WatcherChildren
		d = jute.WatcherData
		a = jute.WatcherAny
		p = jute.WatcherPersistent
		r = jute.WatcherPersistentRecursive
	)
	for _, tc := range []struct {
		has  Kind
		typ  jute.WatcherType
		want jute.Code
		left Kind
	}{
		{Data, d, jute.OK, 0},
		{Data, c, jute.ErrNoWatcher, Data},
		{Data, p, jute.ErrNoWatcher, Data},
		{Data, r, jute.ErrNoWatcher, Data},
		{Data, a, jute.OK, 0},
		{Child, c, jute.OK, 0},
		{Child, d, jute.ErrNoWatcher, Child},
		{Child, a, jute.OK, 0},
		{Persistent, d, jute.ErrNoWatcher, Persistent},
		{Persistent, c, jute.ErrNoWatcher, Persistent},
		{Persistent, p, jute.OK, 0},
		{Persistent, r, jute.ErrNoWatcher, Persistent},
		{Persistent, a, jute.OK, 0},
		{Recursive, d, jute.ErrNoWatcher, Recursive},
		{Recursive, p, jute.ErrNoWatcher, Recursive},
		{Recursive, r, jute.OK, 0},
		{Recursive, a, jute.OK, 0},
		{Data | Child | Persistent | Recursive, d, jute.OK, Child | Persistent | Recursive},
		{Data | Child | Persistent | Recursive, c, jute.OK, Data | Persistent | Recursive},
		{Data | Child | Persistent | Recursive, p, jute.OK, Data | Child | Recursive},
		{Data | Child | Persistent | Recursive, r, jute.OK, Data | Child | Persistent},
		{Data | Child | Persistent | Recursive, a, jute.OK, 0},
		{0, a, jute.ErrNoWatcher, 0},
		{Data, 0, jute.ErrMarshallingError, Data},
		{Data, 6, jute.ErrMarshallingError, Data},
		{Data, -1, jute.ErrMarshallingError, Data},
		{0, 6, jute.ErrMarshallingError, 0},
	} {
		table := New()
		table.Add(7, "/a", tc.has)
		table.Add(7, "/b", anyKind)
		table.Add(8, "/a", anyKind)
		if got := table.Check(7, "/a", tc.typ); got != tc.want {
			t.Errorf("Check of %04b for type %d: %v, want %v", tc.has, tc.typ, got, tc.want)
		}
		if got := table.Remove(7, "/a", tc.typ); got != tc.want {
			t.Errorf("Remove of type %d from %04b: %v, want %v", tc.typ, tc.has, got, tc.want)
		}
		var left Kind
		for k, typ := range map[Kind]jute.WatcherType{Data: d, Child: c, Persistent: p, Recursive: r} {
			if table.Check(7, "/a", typ) == jute.OK {
				left |= k
			}
			if table.Check(7, "/b", typ) != jute.OK || table.Check(8, "/a", typ) != jute.OK {
				t.Errorf("Remove of type %d took away another's watch or one on another path", tc.typ)
			}
		}
		if left != tc.left {
			t.Errorf("Remove of type %d from %04b leaves %04b, want %04b", tc.typ, tc.has, left, tc.left)
		}
		table.check(t)
	}
	if got := New().Remove(1, "/nowhere", a); got != jute.ErrNoWatcher {
		t.Errorf("Remove from the empty table: %v", got)
	}
}

// TestReports has the counts of wchs, which sees the data table only, and of the
// metric watch_count, which sees both.
func TestReports(t *testing.T) {
	table := table(reg{2, "/b", Child}, reg{1, "/a", Data}, reg{1, "/a", Child}, reg{2, "/a", Persistent},
		reg{3, "/c", Recursive}, reg{1, "/c", Data})
	if got, want := table.Summary(), (Summary{Watchers: 3, Paths: 2, Watches: 4}); got != want {
		t.Errorf("Summary() = %+v, want %+v", got, want)
	}
	if got := table.Size(); got != 7 {
		t.Errorf("Size() = %d, want 7", got)
	}
	var b strings.Builder
	for p, watchers := range allPaths(table) {
		fmt.Fprint(&b, p, slices.Collect(watchers))
	}
	for w, path := range allWatches(table) {
		fmt.Fprint(&b, w, path)
	}
	if got, want := b.String(), "/a[1 2]/c[3 1]1/a2/a3/c1/c"; got != want {
		t.Errorf("the listings are %q, want %q", got, want)
	}
	for range allPaths(table) {
		break
	}
	for range allWatches(table) {
		break
	}
	table.RemoveWatcher(1)
	if got, want := table.Summary(), (Summary{Watchers: 2, Paths: 2, Watches: 2}); got != want || table.Size() != 4 {
		t.Errorf("after RemoveWatcher: %+v, %d; want %+v, 4", got, table.Size(), want)
	}
	table.check(t)
}

func TestAddNothing(t *testing.T) {
	table := New()
	table.Add(1, "/a", 0)
	table.Add(1, "/a", 1<<7)
	if table.Size() != 0 || table.SizeOf(1) != 0 || table.paths.size != 0 || len(table.watcherIndex) != 0 {
		t.Error("a watch of no kind is kept, or its watcher")
	}
	table.RemoveWatcher(1)
	table.check(t)
}

// TestPathsAreCopied: callers hand in windows on network buffers.
func TestPathsAreCopied(t *testing.T) {
	buf := []byte("/a/b")
	table := New()
	table.Add(1, aliasing(buf), Persistent)
	table.Add(2, aliasing(buf), Data) // the path is known: nothing to copy
	clear(buf)
	if got := table.Trigger(nil, changed, "/a/b"); !slices.Equal(got, []int64{1, 2}) {
		t.Errorf("after the buffer is reused, %v are notified", got)
	}
}

// TestNothingStays: nothing is left when all watches are gone, but for a chunk of each kind.
func TestNothingStays(t *testing.T) {
	table := New()
	for range 5 {
		for w := range int64(50) {
			for p := range 50 {
				table.Add(w, fmt.Sprintf("/%d", p), Data|Child)
			}
		}
		for w := range int64(25) {
			table.RemoveWatcher(w)
		}
		for p := range 50 {
			table.Trigger(nil, deleted, fmt.Sprintf("/%d", p))
		}
		for w := range int64(50) {
			table.RemoveWatcher(w)
		}
		table.check(t)
		if table.Size() != 0 || table.records.size+table.paths.size+len(table.watcherIndex) != 0 {
			t.Fatalf("%d watches stay", table.Size())
		}
		if table.records.held > 1 || table.paths.held > 1 || table.watchers.held > 1 {
			t.Fatalf("memory stays: %d chunks of records, %d of paths, %d of watchers", table.records.held, table.paths.held,
				table.watchers.held)
		}
	}
}

func TestTriggerDoesNotAllocate(t *testing.T) {
	table := table(reg{1, "/a", Persistent}, reg{2, "/", Recursive}, reg{3, "/a/b", Persistent})
	dst := make([]int64, 0, 8)
	for _, p := range []string{
		"/a", "/nobody/here/or/there", "/a/b/c", strings.Repeat("/deep", 200), strings.Repeat("/deep", aboveMemoBytes),
	} {
		if n := testing.AllocsPerRun(100, func() { table.Trigger(dst, changed, p) }); n != 0 {
			t.Errorf("Trigger(%q) allocates %v times", p, n)
		}
	}
}

// TestMemoryGoesBack: what a million watches took is free again when they are gone, whoever goes first; and Memory says
// what the heap holds, before and after.
func TestMemoryGoesBack(t *testing.T) {
	watchers, paths := int64(100), 10_000
	if testing.Short() {
		paths = 1000
	}
	before := heap()
	table := New()
	for w := range watchers {
		for p := range paths {
			table.Add(w, fmt.Sprintf("/applications/of-somebody-with-long-names/%d/%d", w, p), Persistent)
		}
	}
	full, said := float64(heap()-before), float64(table.Memory())
	if said < 0.9*full || said > 1.1*full {
		t.Errorf("with %d watches the heap has %.0f MB, Memory says %.0f MB", table.Size(), full/1e6, said/1e6)
	}
	for w := range watchers - 1 {
		for more := true; more; {
			more = table.RemoveSome(w, 128)
		}
		table.RemoveWatcher(w)
	}
	table.check(t)
	left, said := float64(heap()-before), float64(table.Memory())
	if left > full/20 || said < 0.8*left || said > 1.2*left {
		t.Errorf("with a hundredth of them the heap has %.1f MB of %.0f, Memory says %.1f MB", left/1e6, full/1e6, said/1e6)
	}
	for p := range paths {
		if table.Check(watchers-1, fmt.Sprintf("/applications/of-somebody-with-long-names/%d/%d", watchers-1, p),
			jute.WatcherPersistent) != jute.OK {
			t.Fatalf("the watch of path %d is lost", p)
		}
	}
	table.RemoveWatcher(watchers - 1)
	if table.check(t); table.Memory() > 1<<20 {
		t.Errorf("with no watch, Memory says %d bytes", table.Memory())
	}
}

// TestChildrenOfADeepParent: however deep znodes are, and wherever the recursive watches above them are, a
// change of each of many children looks up its own path and hardly anything else. Watches set in between count.
func TestChildrenOfADeepParent(t *testing.T) {
	const depth, children = 990, 1000
	parent := strings.Repeat("/d", depth)
	for _, everywhere := range []bool{false, true} {
		table := New()
		table.Add(1, "/", Recursive)
		for n := 1; everywhere && n <= depth; n++ {
			table.Add(int64(n%3), parent[:2*n], Recursive)
		}
		before, want := table.Work(), 1
		if everywhere {
			want = 3
		}
		for n := range children {
			path := fmt.Sprintf("%s/%d", parent, n)
			if got := table.Trigger(nil, deleted, path); len(got) != want {
				t.Fatalf("a change notifies %v, want %d watchers", got, want)
			}
		}
		if work := table.Work() - before; work > children+depth+1 {
			t.Errorf("%d changes look up %d paths", children, work)
		}
		table.Add(77, parent[:100], Recursive)
		if got := table.Trigger(nil, deleted, parent+"/0"); !slices.Contains(got, 77) {
			t.Errorf("a new watch isn't notified: %v", got)
		}
		table.Remove(77, parent[:100], jute.WatcherAny)
		if got := table.Trigger(nil, deleted, parent+"/0"); slices.Contains(got, 77) {
			t.Errorf("a removed watch is notified: %v", got)
		}
	}
}

// TestRecursiveAtEachLength: a change notifies the recursive watches on each ancestor of its path, the nearest first,
// and on nothing that only looks like one, whether the path is short or so long that its ancestors are hashed together.
func TestRecursiveAtEachLength(t *testing.T) {
	const self, parent, above, root, like, brother = 1, 2, 3, 4, 5, 6
	for _, n := range []int{
		1, 2, aboveLen - 5, aboveLen - 4, aboveLen - 3, aboveMemoBytes - 4, aboveMemoBytes, aboveMemoBytes + 1,
	} {
		name := strings.Repeat("n", n)
		for path, want := range map[string][]int64{
			"/" + name:          {self, root},
			"/p/" + name:        {self, parent, root},
			"/a/p/" + name:      {self, parent, above, root},
			"/" + name + "/p/s": {self, parent, above, root},
		} {
			table := New()
			table.Add(self, path, Recursive)
			table.Add(like, path+"n", Recursive)
			table.Add(like, "/n"+strings.Repeat("m", n), Recursive)
			for i := 2; i < min(len(path), aboveLen); i++ {
				if path[i] != '/' && path[i-1] != '/' {
					table.Add(like, path[:i], Recursive) // the beginning of a name
				}
			}
			table.Add(root, "/", Recursive)
			table.Add(brother, path[:strings.LastIndexByte(path, '/')+1]+"x", Recursive)
			for up, who := range []int64{parent, above} {
				ancestor := path
				for range up + 1 {
					ancestor = ancestor[:max(strings.LastIndexByte(ancestor, '/'), 0)]
				}
				if ancestor != "" {
					table.Add(who, ancestor, Recursive)
				}
			}
			for range 3 { // what was found above is remembered
				if got := table.Trigger(nil, changed, path); !slices.Equal(got, want) {
					t.Errorf("%.20s… of %d bytes: %v are notified, want %v", path, len(path), got, want)
				}
			}
			table.RemoveWatcher(root)
			if got := table.Trigger(nil, changed, path); !slices.Equal(got, want[:len(want)-1]) {
				t.Errorf("%.20s… of %d bytes, the root's gone: %v are notified", path, len(path), got)
			}
		}
	}
}

// TestStrangersHaveNothing: whoever never watched has nothing to remove, to check or to list.
func TestStrangersHaveNothing(t *testing.T) {
	table := table(reg{1, "/a", Data})
	if table.RemoveSome(2, 10) || table.SizeOf(2) != 0 || table.MemoryOf(2) != 0 {
		t.Error("a stranger has watches")
	}
	if empty := New(); empty.MemoryOf(1) != 0 || empty.SizeOf(1) != 0 || empty.RemoveSome(1, 1) {
		t.Error("in an empty table a stranger has watches")
	}
	if table.MemoryOf(1) <= 0 || table.MemoryOf(1) > table.Memory() {
		t.Errorf("a watch takes %d of %d bytes", table.MemoryOf(1), table.Memory())
	}
	table.RemoveWatcher(2)
	if code := table.Check(2, "/a", jute.WatcherAny); code != jute.ErrNoWatcher {
		t.Errorf("a stranger's check says %v", code)
	}
	if code := table.Remove(2, "/b", jute.WatcherType(99)); code != jute.ErrMarshallingError {
		t.Errorf("a type that doesn't exist: %v", code)
	}
	if table.Size() != 1 {
		t.Errorf("%d watches are left", table.Size())
	}
	table.check(t)
}

// TestRemoveSome: as many as are asked for go, and it says whether others are left.
func TestRemoveSome(t *testing.T) {
	table := New()
	for i := range 10 {
		table.Add(1, fmt.Sprintf("/%d", i), Data|Persistent)
		table.Add(2, fmt.Sprintf("/%d", i), Child)
	}
	for _, c := range []struct {
		n    int
		more bool
		left int
	}{{0, true, 10}, {3, true, 7}, {6, true, 1}, {1, false, 0}, {1, false, 0}} {
		if more := table.RemoveSome(1, c.n); more != c.more || table.SizeOf(1) != c.left || table.SizeOf(2) != 10 {
			t.Errorf("%d go: more is %v, %d and %d are left", c.n, more, table.SizeOf(1), table.SizeOf(2))
		}
		table.check(t)
	}
}

// TestListsEnd: a listing ends where its reader has enough.
func TestListsEnd(t *testing.T) {
	table := New()
	for i := range 5 {
		for w := range int64(5) {
			table.Add(w+1, fmt.Sprintf("/%d", i), Data)
		}
	}
	seen := 0
	for _, watchers := range allPaths(table) {
		for range watchers {
			if seen++; seen%2 == 0 {
				break
			}
		}
		if seen == 4 {
			break
		}
	}
	for range allWatches(table) {
		if seen++; seen == 8 {
			break
		}
	}
	if seen != 8 {
		t.Errorf("%d are seen", seen)
	}
}

// TestListsInSteps: a list of many watches takes several steps, and has each watch that is there all the time once,
// whatever comes and goes between the steps.
func TestListsInSteps(t *testing.T) {
	table := New()
	const watchers, each = 7, 5000
	kept := func(w int64, i int) string { return fmt.Sprintf("/kept%d", (i*int(w))%each) }
	for i := range each {
		for w := range int64(watchers) {
			table.Add(w+1, kept(w+1, i), Data)
			table.Add(w+1, fmt.Sprintf("/gone%d", i), Data)
			table.Add(w+1, kept(w+1, i), Child)
			table.Add(w+1, fmt.Sprintf("/child%d", i), Child)
		}
	}
	table.check(t)
	rnd := rand.New(rand.NewPCG(1, 1))
	churn := func() {
		for range 500 {
			table.Trigger(nil, jute.EventNodeDataChanged, fmt.Sprintf("/gone%d", rnd.IntN(each)))
			table.Add(watchers+1, fmt.Sprintf("/new%d", rnd.IntN(each)), Data)
		}
	}
	paths, steps := map[string]int{}, 0
	for l := (Listing{}); !l.Ended(); steps++ {
		n := 0
		for p, list := range table.ByPath(&l) {
			n++
			if strings.HasPrefix(p, "/kept") {
				paths[p]++
				n += len(slices.Collect(list))
			}
			if strings.HasPrefix(p, "/child") {
				t.Fatalf("%s is listed", p)
			}
		}
		if n > listStep+watchers {
			t.Errorf("a step has %d watches", n)
		}
		churn()
	}
	type watched struct {
		watcher int64
		path    string
	}
	watches := map[watched]int{}
	for l := (Listing{}); !l.Ended(); steps++ {
		n := 0
		for w, p := range table.ByWatcher(&l) {
			if n++; strings.HasPrefix(p, "/kept") {
				watches[watched{w, p}]++
			}
		}
		if n > listStep {
			t.Errorf("a step has %d watches", n)
		}
		churn()
	}
	for i := range each {
		if p := fmt.Sprintf("/kept%d", i); paths[p] != 1 {
			t.Fatalf("%s is listed %d times", p, paths[p])
		}
		for w := int64(1); w <= watchers; w++ {
			if n := watches[watched{w, kept(w, i)}]; n != 1 {
				t.Fatalf("%s of %d is listed %d times", kept(w, i), w, n)
			}
		}
	}
	if steps < 15 {
		t.Errorf("%d steps", steps)
	}
	table.check(t)
}
