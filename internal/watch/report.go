package watch

import (
	"iter"
	"maps"
)

// A Summary has the counts of the data table, as wchs prints them. It doesn't count child watches.
type Summary struct {
	Watchers int // connections with a watch
	Paths    int // paths with a watch
	Watches  int // records, each a watcher and a path
}

// Summary returns the counts of the data table.
func (t *Table) Summary() Summary { return t.summary }

// Size returns the number of watches in both tables, the metric watch_count. A watcher's watches on a path count once
// for each table that has them.
func (t *Table) Size() int { return t.summary.Watches + t.childSize }

// SizeOf returns the number of paths on which a watcher has watches.
func (t *Table) SizeOf(watcherID int64) int {
	w, ok := t.watcherIndex[watcherID]
	if !ok {
		return 0
	}
	return int(t.watchers.at(w).size)
}

// Watchers yields the watchers for which RemoveWatcher hasn't been called, in any order.
func (t *Table) Watchers() iter.Seq[int64] { return maps.Keys(t.watcherIndex) }

// ByPath yields the paths of the data table, each with its watchers in the order in which they began to watch it, as
// wchp prints them. The order of the paths is arbitrary, but always the same after the same calls. The table must not
// change before the loop ends. The caller may keep the strings.
func (t *Table) ByPath() iter.Seq2[string, iter.Seq[int64]] {
	return func(yield func(string, iter.Seq[int64]) bool) {
		for p := range t.paths.taken {
			path := t.paths.at(p)
			if path.data == 0 {
				continue
			}
			watchers := func(yield func(int64) bool) {
				for r := path.first; r != none; r = t.records.at(r).pathNext {
					if rec := t.records.at(r); rec.kinds&dataTable != 0 && !yield(t.watchers.at(rec.watcher).id) {
						return
					}
				}
			}
			if !yield(t.pathOf(path), watchers) {
				return
			}
		}
	}
}

// ByWatcher yields the watchers of the data table, each with its paths in the order in which it began to watch them, as
// wchc prints them. The order of the watchers is as arbitrary as that of the paths in ByPath, and the same rules apply
// to the caller.
func (t *Table) ByWatcher() iter.Seq2[int64, iter.Seq[string]] {
	return func(yield func(int64, iter.Seq[string]) bool) {
		for w := range t.watchers.taken {
			who := t.watchers.at(w)
			if who.data == 0 {
				continue
			}
			paths := func(yield func(string) bool) {
				for r := who.first; r != none; r = t.records.at(r).watcherNext {
					if rec := t.records.at(r); rec.kinds&dataTable != 0 && !yield(t.pathOf(t.paths.at(rec.path))) {
						return
					}
				}
			}
			if !yield(who.id, paths) {
				return
			}
		}
	}
}
