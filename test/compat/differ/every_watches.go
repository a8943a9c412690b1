package differ

import (
	"fmt"
	"slices"
)

// watch returns the step that leaves a watch of a kind.
func (b *book) watch(kind, path string) step {
	switch kind {
	case "exist":
		return b.step(0, "exists", path, true)
	case "data":
		return b.step(0, "getData", path, true)
	case "child":
		return b.step(0, "getChildren", path, true)
	case "child2":
		return b.step(0, "getChildren2", path, true)
	case "persistent":
		return b.step(0, "addWatch", path, 0)
	case "recursive":
		return b.step(0, "addWatch", path, 1)
	}
	panic("differ: no watches of kind " + kind)
}

var watchKinds = []string{"exist", "data", "child", "child2", "persistent", "recursive"}

// changes are the changes of a znode, by the words of their steps.
var changes = [][]string{
	{"create"}, {"create", "delete"}, {"setData"}, {"setACL"}, {"delete"}, {"delete", "create"}, {"child"},
	{"child", "unchild"}, {"child", "setChild", "grandchild"}, {"multi"}, {"ephemeral", "close"}, {},
}

// change returns the steps of one of changes.
func (b *book) change(path string, what []string) []step {
	var steps []step
	for _, word := range what {
		var s step
		switch word {
		case "create":
			s = b.step(1, "create", path, "", everybody, 0)
		case "delete":
			s = b.step(1, "delete", path, -1)
		case "setData":
			s = b.step(1, "setData", path, "y", -1)
		case "setACL":
			s = b.step(1, "setACL", path, everybody, -1)
		case "child":
			s = b.step(1, "create", path+"/a", "", everybody, 0)
		case "setChild":
			s = b.step(1, "setData", path+"/a", "y", -1)
		case "grandchild":
			s = b.step(1, "create", path+"/a/b", "", everybody, 0)
		case "unchild":
			s = b.step(1, "delete", path+"/a", -1)
		case "multi":
			s = b.multi(1, "multi", b.step(1, "create", path+"/m", "", everybody, 0), b.step(1, "setData", path, "m", -1),
				b.step(1, "delete", path+"/m", -1))
		case "ephemeral":
			steps = append(steps, b.step(2, "connect", connectNew, everyTimeout))
			s = b.step(2, "create", path+"/e", "", everybody, 1)
		case "close":
			s = b.step(2, "closeSession")
		}
		steps = append(steps, s)
	}
	return steps
}

// watchesFire returns a generator that leaves a watch, makes each change twice, and counts the remaining watches.
func watchesFire(kind string) func(b *book) {
	return func(b *book) {
		for _, path := range []string{"~/old", "~/parent", "~/new"} {
			for _, what := range changes {
				steps := slices.Concat([]step{b.watch(kind, path)}, b.change(path, what), b.change(path, what))
				b.script(fmt.Sprint(kind, " on ", path, what), steps...)
			}
		}
		for _, other := range watchKinds {
			for _, what := range changes {
				steps := slices.Concat([]step{b.watch(kind, "~/old"), b.watch(other, "~/old"), b.watch(other, "~")},
					b.change("~/old", what))
				b.script(fmt.Sprint(kind, " beside ", other, what), steps...)
			}
		}
	}
}

func addedWatchesFire(b *book) {
	watchesFire("persistent")(b)
	watchesFire("recursive")(b)
	for _, n := range sizeClasses[:4] {
		var steps []step
		for i := range n {
			steps = append(steps, b.step(0, "addWatch", fmt.Sprintf("~/many/%d", i), i%2))
		}
		b.script(fmt.Sprintf("%d watches", n), append(steps, b.fill(1, n, 0)...)...)
	}
}

// watchTypes returns a generator for checkWatches and removeWatches: each type on each kind of watch.
func watchTypes(word string) func(b *book) {
	return func(b *book) {
		for _, kind := range watchKinds {
			for typ := range 8 {
				steps := []step{
					b.watch(kind, "~/old"), b.step(0, word, "~/parent", typ), b.step(0, word, "~/old", typ),
					b.step(0, word, "~/old", typ),
				}
				steps = append(steps, b.change("~/old", []string{"child", "setData", "unchild", "delete"})...)
				b.script(fmt.Sprintf("type %d on %s", typ, kind), steps...)
			}
		}
	}
}
