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

// listStep is how many watches one step of a list has at most, except for those of its last path.
const listStep = 4 << 10

// A Listing is how far a list of the watches has come. They are listed in steps, between which the table may change: a
// watch that is removed and set again meanwhile may be listed twice, or not at all. The zero value begins a list.
type Listing struct {
	next  ref
	ended bool
}

// Ended reports whether all watches are listed.
func (l *Listing) Ended() bool { return l.ended }

// ByPath yields the paths of a step of a list of the data table, each with all of its watchers in the order in which
// they began to watch it, as wchp prints them. The order of the paths is arbitrary, but always the same after the same
// calls. The table must not change before the loop ends. The caller may keep the strings.
func (t *Table) ByPath(l *Listing) iter.Seq2[string, iter.Seq[int64]] {
	return func(yield func(string, iter.Seq[int64]) bool) {
		left := listStep
		for p := range t.paths.taken(l.next) {
			if l.next = p; left <= 0 {
				return
			}
			path := t.paths.at(p)
			left -= 1 + int(path.data)
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
			text := t.pathOf(path)
			left -= len(text) / listStepBytes
			if !yield(text, watchers) {
				return
			}
		}
		l.ended = true
	}
}

// ByWatcher yields the watches of a step of a list of the data table, each as a watcher and a path, as wchc prints
// them. Their order is as arbitrary as that of the paths in ByPath, and the same rules apply to the caller.
func (t *Table) ByWatcher(l *Listing) iter.Seq2[int64, string] {
	return func(yield func(int64, string) bool) {
		left := listStep
		for r := range t.records.taken(l.next) {
			if l.next = r; left <= 0 {
				return
			}
			left--
			rec := t.records.at(r)
			if rec.kinds&dataTable == 0 {
				continue
			}
			path := t.pathOf(t.paths.at(rec.path))
			left -= len(path) / listStepBytes
			if !yield(t.watchers.at(rec.watcher).id, path) {
				return
			}
		}
		l.ended = true
	}
}

// listStepBytes is how many bytes of a path count as a watch in listStep.
const listStepBytes = 64
