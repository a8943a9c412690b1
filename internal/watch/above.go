package watch

import "hash/maphash"

// A change fires the recursive watches on all ancestors of its path, of which there may be a thousand. One multi, or
// the end of one session, may change a hundred thousand such paths while its caller has locked the replica. So the
// ancestors of a long path are hashed in one pass over it, and the watchers found above a znode are cached for its next
// child, and for the next znode below or above it. So a multi that creates or deletes a chain of a thousand znodes
// looks up each of them once.

const (
	// aboveLen is the length of the longest path whose ancestors are looked up one by one.
	aboveLen = 128
	// aboveMemos is how many parents are cached, and aboveMemoBytes the size of the longest one.
	aboveMemos     = 16
	aboveMemoBytes = 8 << 10
	// aboveKeepBytes is how much memory is kept for one parent; slices grow by steps.
	aboveKeepBytes = 3 * aboveMemoBytes
	// watcherAboveSize is the size of a watcherAbove (bytes).
	watcherAboveSize = 8
	// prefixesKeep is how many ancestors of one path keep their memory for the next path.
	prefixesKeep = 4096
	// recursiveLens is the number of classes of lengths in which the paths with Recursive watches are counted.
	recursiveLens = 256
)

// above caches the watchers with a Recursive watch on a path or on an ancestor of it: those of the root first, which is
// the reverse of the order in which Trigger notifies them. It may contain a watcher more than once.
type above struct {
	path     []byte
	watchers []watcherAbove
	changes  uint64 // Table.changes at the time of the search; 0 for an empty one
}

// A watcherAbove is a watcher with a Recursive watch on the first end bytes of a path.
type watcherAbove struct {
	watcher ref
	end     uint32
}

// A prefix is an ancestor of a path, or the path itself: its length and its hash.
type prefix struct {
	end  int
	hash uint32
}

// fireAbove appends the watchers with a Recursive watch on parent, a long path, or on an ancestor of it, except those
// already appended in this round.
func (t *Table) fireAbove(dst []int64, parent string) []int64 {
	m := &t.above[maphash.String(t.seed, parent)%aboveMemos]
	if m.changes != t.changes || string(m.path) != parent {
		t.findAbove(m, parent)
	}
	t.lastAbove = m
	for i := len(m.watchers) - 1; i >= 0; i-- {
		if w := t.watchers.at(m.watchers[i].watcher); w.round != t.round {
			w.round = t.round
			dst = append(dst, w.id)
		}
	}
	if cap(m.path)+watcherAboveSize*cap(m.watchers) > aboveKeepBytes {
		*m = above{}
	}
	return dst
}

// findAbove fills m for a path.
func (t *Table) findAbove(m *above, path string) {
	begin, known := t.knownAbove(path)
	m.watchers, m.changes = append(m.watchers[:0], known...), 0 // known may be those of m
	t.hashPrefixes(path, begin)
	for _, at := range t.prefixes {
		t.work++
		for p := t.paths.first(at.hash); p != none; p = t.paths.after(p) {
			if !t.isPath(t.paths.at(p), path[:at.end]) {
				continue
			}
			for r := t.paths.at(p).last; r != none; r = t.records.at(r).pathPrev {
				if rec := t.records.at(r); rec.kinds&Recursive != 0 {
					m.watchers = append(m.watchers, watcherAbove{rec.watcher, uint32(at.end)})
				}
			}
		}
	}
	if len(path) <= aboveMemoBytes && len(m.watchers) <= aboveMemoBytes/watcherAboveSize {
		m.path, m.changes = append(m.path[:0], path...), t.changes
	}
	if cap(t.prefixes) > prefixesKeep {
		t.prefixes = nil
	}
}

// knownAbove returns the watchers on the first begin bytes of a path and on their ancestors if lastAbove has them,
// because its path is above or below this one.
func (t *Table) knownAbove(path string) (begin int, known []watcherAbove) {
	last := t.lastAbove
	if last == nil || last.changes != t.changes {
		return 0, nil
	}
	n, of := len(last.path), len(path)
	switch {
	case n < of && path[n] == '/' && path[:n] == string(last.path):
		return n, last.watchers
	case n > of && last.path[of] == '/' && path == string(last.path[:of]):
		known = last.watchers
		for len(known) > 0 && int(known[len(known)-1].end) > of {
			known = known[:len(known)-1]
		}
		return of, known
	}
	return 0, nil
}

// hashPrefixes sets t.prefixes to the prefixes of the path (the root, the other ancestors and the path itself) that are
// longer than begin and as long as some path with a Recursive watch. begin is the length of one of them, or 0. A Hash
// that has received the parts of a string has the sum that maphash.String returns for the whole.
func (t *Table) hashPrefixes(path string, begin int) {
	t.prefixes = t.prefixes[:0]
	var h maphash.Hash
	h.SetSeed(t.seed)
	for last, i := 0, begin+1; i <= len(path); i++ {
		if i > 1 && i < len(path) && path[i] != '/' || t.recursiveLens[i%recursiveLens] == 0 {
			continue
		}
		h.WriteString(path[last:i])
		last = i
		t.prefixes = append(t.prefixes, prefix{i, uint32(h.Sum64())})
	}
}

// Work returns the number of paths that Trigger has looked up so far.
func (t *Table) Work() uint64 { return t.work }
