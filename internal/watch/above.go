package watch

import "hash/maphash"

// A change fires the recursive watches on all ancestors of its path, of which there may be a thousand. One multi, or
// the end of one session, may change a hundred thousand such paths while its caller has locked the replica. So the
// ancestors of a long path are hashed in one pass over it, and the watchers found above a znode are cached for its next
// child.

const (
	// aboveLen is the length of the longest path whose ancestors are looked up one by one.
	aboveLen = 128
	// aboveMemos is how many parents are cached, and aboveMemoBytes the size of the longest one.
	aboveMemos     = 16
	aboveMemoBytes = 8 << 10
	// prefixesKeep is how many ancestors of one path keep their memory for the next path.
	prefixesKeep = 4096
	// recursiveLens is the number of classes of lengths in which the paths with Recursive watches are counted.
	recursiveLens = 256
)

// above caches the watchers with a Recursive watch on a path or on an ancestor of it, in the order in which Trigger
// notifies them. It may contain a watcher more than once.
type above struct {
	path     []byte
	watchers []ref
	changes  uint64 // Table.changes at the time of the search; 0 for an empty one
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
	for _, r := range m.watchers {
		if w := t.watchers.at(r); w.round != t.round {
			w.round = t.round
			dst = append(dst, w.id)
		}
	}
	if cap(m.path)+4*cap(m.watchers) > 2*aboveMemoBytes {
		*m = above{}
	}
	return dst
}

// findAbove fills m for a path.
func (t *Table) findAbove(m *above, path string) {
	m.watchers, m.changes = m.watchers[:0], 0
	t.hashPrefixes(path)
	for i := len(t.prefixes) - 1; i >= 0; i-- {
		at := t.prefixes[i]
		t.work++
		for p := t.paths.first(at.hash); p != none; p = t.paths.after(p) {
			if !t.isPath(t.paths.at(p), path[:at.end]) {
				continue
			}
			for r := t.paths.at(p).first; r != none; r = t.records.at(r).pathNext {
				if rec := t.records.at(r); rec.kinds&Recursive != 0 {
					m.watchers = append(m.watchers, rec.watcher)
				}
			}
		}
	}
	if len(path) <= aboveMemoBytes && len(m.watchers) <= aboveMemoBytes/4 {
		m.path, m.changes = append(m.path[:0], path...), t.changes
	}
	if cap(t.prefixes) > prefixesKeep {
		t.prefixes = nil
	}
}

// hashPrefixes sets t.prefixes to those of the path, the root and the other ancestors whose length is that of some path
// with a Recursive watch. A Hash that has received the parts of a string has the sum that maphash.String returns for
// the whole.
func (t *Table) hashPrefixes(path string) {
	t.prefixes = t.prefixes[:0]
	var h maphash.Hash
	h.SetSeed(t.seed)
	for last, i := 0, 1; i <= len(path); i++ {
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
