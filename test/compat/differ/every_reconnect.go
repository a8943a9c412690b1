package differ

import (
	"fmt"
	"slices"
)

// watchLists returns how many lists a request of watches has.
func watchLists(word string) int {
	if word == "setWatches" {
		return 3
	}
	return 5
}

// setWatches returns the request that names paths in one list, or in all if list is their number.
func (b *book) setWatches(word, zxid string, list int, paths []string) step {
	args := []any{zxid}
	for i := range watchLists(word) {
		if i == list || list == watchLists(word) {
			args = append(args, paths)
		} else {
			args = append(args, []string{})
		}
	}
	return b.step(0, word, args...)
}

// reconnects returns a generator in which a client that was away names its watches in each list, with each relative
// zxid: before the changes, the last that it saw, 0 and the highest. For each change there are a znode that existed
// all the time, one that was made after the mark, and one that didn't exist. All changes are made again afterwards.
func reconnects(word string) func(b *book) {
	return func(b *book) {
		for list := range watchLists(word) + 1 {
			for _, zxid := range []string{"0", "mark", "last", "max"} {
				var before, later, during, after []step
				var paths []string
				for i, what := range changes {
					old, young, none := fmt.Sprintf("~/old%d", i), fmt.Sprintf("~/young%d", i), fmt.Sprintf("~/none%d", i)
					before = append(before, b.step(1, "create", old, "", everybody, 0))
					later = append(later, b.step(1, "create", young, "", everybody, 0))
					for _, path := range []string{old, young, none} {
						during = append(during, b.change(path, what)...)
						after = append(after, b.change(path, what)...)
					}
					paths = append(paths, old, young, none)
				}
				steps := slices.Concat(before, []step{b.step(0, "sync", "~"), b.step(0, "mark")}, later,
					[]step{b.step(0, "sync", "~"), b.step(0, "getChildren", "~", false), b.step(0, "drop")})
				turn := len(steps)
				steps = slices.Concat(steps, during, []step{
					b.step(0, "connect", connectResume, everyTimeout), b.step(0, "sync", "~"), b.setWatches(word, zxid, list, paths),
				}, after, []step{b.step(0, "checkWatches", "~/old0", 3)})
				b.turning(fmt.Sprintf("list %d of %d, zxid %s", list, watchLists(word), zxid), turn, steps)
			}
		}
	}
}

// manyWatches returns a generator that sets each number of watches, in each list, and lets all of them fire.
func manyWatches(word string) func(b *book) {
	return func(b *book) {
		for _, n := range sizeClasses {
			for list := range watchLists(word) + 1 {
				var paths []string
				var set, remove []step
				for i := range n {
					path := fmt.Sprintf("~/many/%d", i)
					paths = append(paths, path)
					set = append(set, b.step(1, "setData", path, "y", -1))
					remove = append(remove, b.step(1, "delete", path, -1))
				}
				steps := slices.Concat(b.fill(1, n, 0), []step{
					b.step(0, "sync", "~"), b.step(0, "mark"), b.setWatches(word, "max", list, paths), b.multi(1, "multi", set...),
					b.setWatches(word, "mark", list, paths), b.multi(1, "multi", remove...), b.setWatches(word, "mark", list, paths),
				})
				b.script(fmt.Sprintf("%d watches in list %d", n, list), steps...)
			}
		}
	}
}
