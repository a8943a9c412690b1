package watch

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// model is the same thing in the plainest form, after the description of
// Apache's two tables: a list of registrations, searched from end to end.
type model struct{ list []registration }

type registration struct {
	watcher int64
	path    string
	data    Kind // of Data, Persistent, Recursive: what stands in the data table
	child   Kind // of Child, Persistent: what stands in the child table
}

func (m *model) get(watcher int64, path string) *registration {
	for i := range m.list {
		if m.list[i].watcher == watcher && m.list[i].path == path {
			return &m.list[i]
		}
	}
	return &registration{}
}

func (m *model) sweep() {
	m.list = slices.DeleteFunc(m.list, func(r registration) bool { return r.data|r.child == 0 })
}

func (m *model) add(watcher int64, path string, kind Kind) {
	r := m.get(watcher, path)
	if r.path == "" {
		m.list = append(m.list, registration{watcher: watcher, path: path})
		r = &m.list[len(m.list)-1]
	}
	switch kind {
	case Data, Recursive:
		r.data |= kind
	case Child:
		r.child |= kind
	case Persistent:
		r.data |= kind
		r.child |= kind
	}
}

func (m *model) trigger(typ jute.EventType, path string) []int64 {
	var out []int64
	tell := func(w int64) {
		if !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	ancestors := []string{path}
	if typ != jute.EventNodeChildrenChanged && path != "/" {
		parts := strings.Split(path, "/")
		for i := len(parts) - 1; i > 1; i-- {
			ancestors = append(ancestors, strings.Join(parts[:i], "/"))
		}
		ancestors = append(ancestors, "/")
	}
	for depth, p := range ancestors {
		for i := range m.list {
			r := &m.list[i]
			if r.path != p {
				continue
			}
			if depth > 0 {
				if r.data&Recursive != 0 {
					tell(r.watcher)
				}
				continue
			}
			if typ != jute.EventNodeChildrenChanged && r.data != 0 {
				tell(r.watcher)
				r.data &^= Data
			}
			if (typ == jute.EventNodeChildrenChanged || typ == jute.EventNodeDeleted) && r.child != 0 {
				tell(r.watcher)
				r.child &^= Child
			}
		}
	}
	m.sweep()
	return out
}

// pick says which kinds of a registration a watcher type means.
func (r *registration) pick(typ jute.WatcherType) (data, child Kind) {
	switch typ {
	case jute.WatcherChildren:
		return 0, r.child & Child
	case jute.WatcherData:
		return r.data & Data, 0
	case jute.WatcherPersistent:
		return r.data & Persistent, r.child & Persistent
	case jute.WatcherPersistentRecursive:
		return r.data & Recursive, 0
	}
	return r.data, r.child
}

func (m *model) check(watcher int64, path string, typ jute.WatcherType) jute.Code {
	if data, child := m.get(watcher, path).pick(typ); data|child == 0 {
		return jute.ErrNoWatcher
	}
	return jute.OK
}

func (m *model) remove(watcher int64, path string, typ jute.WatcherType) jute.Code {
	r := m.get(watcher, path)
	data, child := r.pick(typ)
	if data|child == 0 {
		return jute.ErrNoWatcher
	}
	r.data &^= data
	r.child &^= child
	m.sweep()
	return jute.OK
}

func (m *model) removeWatcher(watcher int64) {
	m.list = slices.DeleteFunc(m.list, func(r registration) bool { return r.watcher == watcher })
}

// compare fails unless t and m agree on every report.
func (m *model) compare(tb testing.TB, t *Table) {
	tb.Helper()
	watchers, paths := map[int64][]string{}, map[string][]int64{}
	size, sizeOf := 0, map[int64]int{}
	var sum Summary
	for _, r := range m.list {
		sizeOf[r.watcher]++
		if r.child != 0 {
			size++
		}
		if r.data != 0 {
			size++
			sum.Watches++
			paths[r.path] = append(paths[r.path], r.watcher)
			watchers[r.watcher] = append(watchers[r.watcher], r.path)
		}
	}
	sum.Watchers, sum.Paths = len(watchers), len(paths)
	if got := t.Summary(); got != sum {
		tb.Fatalf("Summary() = %+v, want %+v", got, sum)
	}
	if got := t.Size(); got != size {
		tb.Fatalf("Size() = %d, want %d", got, size)
	}
	for w := range int64(watchersMax) {
		if got := t.SizeOf(w); got != sizeOf[w] {
			tb.Fatalf("SizeOf(%d) = %d, want %d", w, got, sizeOf[w])
		}
	}
	n := 0
	for p, got := range allPaths(t) {
		n++
		if list := slices.Collect(got); !slices.Equal(list, paths[p]) {
			tb.Fatalf("ByPath: %q has %v, want %v", p, list, paths[p])
		}
	}
	if n != len(paths) {
		tb.Fatalf("ByPath yields %d paths, want %d", n, len(paths))
	}
	byWatcher := map[int64][]string{}
	for w, p := range allWatches(t) {
		byWatcher[w] = append(byWatcher[w], p)
	}
	for w, got := range byWatcher {
		slices.Sort(got)
		if want := slices.Sorted(slices.Values(watchers[w])); !slices.Equal(got, want) {
			tb.Fatalf("ByWatcher: %d has %v, want %v", w, got, want)
		}
	}
	if n = len(byWatcher); n != len(watchers) {
		tb.Fatalf("ByWatcher yields %d watchers, want %d", n, len(watchers))
	}
}

// allPaths does all steps of ByPath.
func allPaths(t *Table) iter.Seq2[string, iter.Seq[int64]] { return allSteps(t.ByPath) }

// allWatches does all steps of ByWatcher.
func allWatches(t *Table) iter.Seq2[int64, string] { return allSteps(t.ByWatcher) }

func allSteps[K, V any](step func(*Listing) iter.Seq2[K, V]) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for l := (Listing{}); !l.Ended(); {
			for k, v := range step(&l) {
				if !yield(k, v) {
					return
				}
			}
		}
	}
}

const watchersMax = 12

var (
	paths = []string{"/", "/a", "/a/b", "/a/b/c", "/a/bb", "/b", "/b/c", "/ä/b",
		"/" + strings.Repeat("long", 30), "/" + strings.Repeat("long", 30) + "/b", "/" + strings.Repeat("x", pathInline-1),
		"/" + strings.Repeat("x", pathInline),
		deep, deep[:len(deep)-2], deep + "/b", deep[:2*aboveLen-20], "/" + strings.Repeat("x", aboveLen)}
	deep   = strings.Repeat("/d", aboveLen)
	kinds  = []Kind{Data, Child, Persistent, Recursive}
	events = []jute.EventType{
		jute.EventNodeCreated, jute.EventNodeDeleted, jute.EventNodeDataChanged, jute.EventNodeChildrenChanged,
	}
	types = []jute.WatcherType{
		jute.WatcherChildren, jute.WatcherData, jute.WatcherAny, jute.WatcherPersistent, jute.WatcherPersistentRecursive,
	}
)

// step does one random operation on both and returns what it was.
func step(tb testing.TB, rnd *rand.Rand, t *Table, m *model) string {
	pick := func(n int) int { return rnd.IntN(n) }
	w, p := int64(pick(watchersMax)), paths[pick(len(paths))]
	switch op := pick(20); {
	case op < 9:
		k := kinds[pick(len(kinds))]
		if k == Recursive && pick(3) > 0 { // so that the short way is tested too
			k = Data
		}
		t.Add(w, p, k)
		m.add(w, p, k)
		return fmt.Sprintf("Add(%d, %q, %d)", w, p, k)
	case op < 14:
		e := events[pick(len(events))]
		got, want := t.Trigger([]int64{-1}, e, p), m.trigger(e, p)
		if got[0] != -1 || !slices.Equal(got[1:], want) {
			tb.Fatalf("Trigger(%d, %q) = %v, want %v", e, p, got[1:], want)
		}
		return fmt.Sprintf("Trigger(%d, %q) = %v", e, p, want)
	case op < 16:
		typ := types[pick(len(types))]
		if got, want := t.Check(w, p, typ), m.check(w, p, typ); got != want {
			tb.Fatalf("Check(%d, %q, %d) = %v, want %v", w, p, typ, got, want)
		}
		return fmt.Sprintf("Check(%d, %q, %d)", w, p, typ)
	case op < 19:
		typ := types[pick(len(types))]
		got, want := t.Remove(w, p, typ), m.remove(w, p, typ)
		if got != want {
			tb.Fatalf("Remove(%d, %q, %d) = %v, want %v", w, p, typ, got, want)
		}
		return fmt.Sprintf("Remove(%d, %q, %d) = %v", w, p, typ, want)
	default:
		for n := 1 + pick(3); pick(2) == 0; { // some now and the rest below
			before := t.SizeOf(w)
			more := t.RemoveSome(w, n)
			if after := t.SizeOf(w); after != max(before-n, 0) || more != (after > 0) {
				tb.Fatalf("RemoveSome(%d, %d) leaves %d of %d watches and reports %v", w, n, after, before, more)
			}
			t.check(tb)
		}
		t.RemoveWatcher(w)
		m.removeWatcher(w)
		return fmt.Sprintf("RemoveWatcher(%d)", w)
	}
}

func TestModel(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 12
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 0))
			table, m := New(), &model{}
			var history []string
			defer func() {
				if t.Failed() {
					t.Logf("after:\n%s", strings.Join(history[max(0, len(history)-30):], "\n"))
				}
			}()
			for range 1000 {
				history = append(history, step(t, rnd, table, m))
				m.compare(t, table)
				table.check(t)
			}
		})
	}
}

// check fails unless the table's invariants hold.
func (t *Table) check(tb testing.TB) {
	tb.Helper()
	records, childSize, recursive := 0, 0, 0
	paths := 0
	for p := range t.paths.taken(none) {
		path := t.paths.at(p)
		paths++
		name := t.pathOf(path)
		prev, data := none, uint32(0)
		for r := path.first; r != none; r = t.records.at(r).pathNext {
			rec := t.records.at(r)
			if rec.pathPrev != prev || rec.path != p || rec.kinds == 0 || t.findRecord(p, rec.watcher) != r {
				tb.Fatalf("the record %d of path %q is broken: %+v", r, name, *rec)
			}
			prev = r
			records++
			data += uint32(has(rec.kinds, dataTable))
			childSize += has(rec.kinds, childTable)
			recursive += has(rec.kinds, Recursive)
		}
		if t.findPath(name) != p || path.last != prev || path.data != data {
			tb.Fatalf("the path %q is broken: %+v", name, *path)
		}
	}
	if paths != t.paths.size {
		tb.Fatalf("%d paths have records, the index has %d", paths, t.paths.size)
	}
	if records != t.records.size || childSize != t.childSize || recursive != t.recursive {
		tb.Fatalf("by path: %d records, %d child, %d recursive; the table says %d, %d, %d",
			records, childSize, recursive, t.records.size, t.childSize, t.recursive)
	}
	for id, w := range t.watcherIndex {
		who := t.watchers.at(w)
		prev, data, size := none, uint32(0), uint32(0)
		for r := who.first; r != none; r = t.records.at(r).watcherNext {
			rec := t.records.at(r)
			if rec.watcherPrev != prev || rec.watcher != w {
				tb.Fatalf("the record %d of watcher %d is broken: %+v", r, id, *rec)
			}
			prev = r
			size++
			data += uint32(has(rec.kinds, dataTable))
		}
		records -= int(size)
		if who.id != id || (who.first == none) != (size == 0) || who.last != prev || who.data != data || who.size != size {
			tb.Fatalf("the watcher %d is broken: %+v", id, *who)
		}
	}
	if records != 0 {
		tb.Fatalf("the watchers' lists have %d records less than the paths' lists", records)
	}
	checkSlab(tb, &t.records.slab, t.records.size)
	checkSlab(tb, &t.paths.slab, paths)
	checkSlab(tb, &t.watchers, len(t.watcherIndex))
	checkSlab(tb, &t.pieces, t.pieces.size)
}

// TestSameCallsSameOrder: two tables fed the same operations report the same in
// the same order, whatever the order of Go's maps.
func TestSameCallsSameOrder(t *testing.T) {
	dump := func() string {
		rnd := rand.New(rand.NewPCG(7, 7))
		table, m := New(), &model{}
		var b strings.Builder
		for range 2000 {
			b.WriteString(step(t, rnd, table, m))
			for p, watchers := range allPaths(table) {
				fmt.Fprint(&b, p, slices.Collect(watchers))
			}
			for w, path := range allWatches(table) {
				fmt.Fprint(&b, w, path)
			}
		}
		return b.String()
	}
	if first, second := dump(), dump(); first != second {
		t.Error("two runs of the same operations differ")
	}
}

// checkSlab fails unless a slab's counters and lists are right, and no chunk is held for nothing.
func checkSlab[T any](tb testing.TB, s *slab[T], want int) {
	tb.Helper()
	n, held, open := 0, 0, map[uint32]bool{}
	for range s.taken(none) {
		n++
	}
	for _, at := range s.open {
		if open[at] || s.chunks[at] != nil && s.chunks[at].size == chunkSize {
			tb.Fatalf("chunk %d is open twice, or full", at)
		}
		open[at] = true
	}
	for at, c := range s.chunks {
		if c != nil {
			held++
		}
		if full := c != nil && c.size == chunkSize; full == open[uint32(at)] {
			tb.Fatalf("chunk %d: full is %v, and so is open", at, full)
		}
	}
	if s.spare != nil {
		held++
	}
	if n != want || s.size != want || s.held != held {
		tb.Fatalf("%d elements are taken, %d counted, %d exist; %d of %d chunks are held", n, s.size, want, held, s.held)
	}
}
