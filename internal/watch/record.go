package watch

import (
	"encoding/binary"
	"hash/maphash"
)

// hashPair hashes the key of a record, its path and its watcher.
func (t *Table) hashPair(p, w ref) uint32 {
	var b [8]byte
	binary.LittleEndian.PutUint32(b[:], uint32(p))
	binary.LittleEndian.PutUint32(b[4:], uint32(w))
	return uint32(maphash.Bytes(t.seed, b[:]))
}

// findRecord returns the record of a path and a watcher, or none.
func (t *Table) findRecord(p, w ref) ref {
	if p == none || w == none {
		return none
	}
	for r := t.records.first(t.hashPair(p, w)); r != none; r = t.records.after(r) {
		if rec := t.records.at(r); rec.path == p && rec.watcher == w {
			return r
		}
	}
	return none
}

// link makes an empty record for a path and a watcher and appends it to the lists of both. The caller must set its
// kinds (I1).
func (t *Table) link(p, w ref) ref {
	r := t.records.add(t.hashPair(p, w))
	path, who, rec := t.paths.at(p), t.watchers.at(w), t.records.at(r)
	*rec = record{path: p, watcher: w, pathPrev: path.last, watcherPrev: who.last}
	if path.last == none {
		path.first = r
	} else {
		t.records.at(path.last).pathNext = r
	}
	path.last = r
	if who.last == none {
		who.first = r
	} else {
		t.records.at(who.last).watcherNext = r
	}
	who.last = r
	who.size++
	return r
}

// setKinds changes the set of kinds of record r and updates the counters. If the set is empty, it
// frees the record.
func (t *Table) setKinds(r ref, kinds Kind) {
	rec := t.records.at(r)
	path, who := t.paths.at(rec.path), t.watchers.at(rec.watcher)
	switch was, is := rec.kinds&dataTable != 0, kinds&dataTable != 0; {
	case !was && is:
		t.countData(path, who, 1)
	case was && !is:
		t.countData(path, who, -1)
	}
	t.childSize += has(kinds, childTable) - has(rec.kinds, childTable)
	if by := has(kinds, Recursive) - has(rec.kinds, Recursive); by != 0 {
		t.recursive += by
		t.recursiveLens[path.length%recursiveLens] += uint32(by)
		t.changes++
	}
	rec.kinds = kinds
	if kinds == 0 {
		t.unlink(r)
	}
}

// countData adds by, 1 or -1, to the counters of the data table for a record of path and who.
func (t *Table) countData(path *watchedPath, who *watcher, by int) {
	t.summary.Watches += by
	path.data += uint32(by)
	who.data += uint32(by)
	first := max(by, 0) // the count just after its first record was added, or its last one removed
	if int(path.data) == first {
		t.summary.Paths += by
	}
	if int(who.data) == first {
		t.summary.Watchers += by
	}
}

// unlink removes record r from its lists and frees it, and frees its path if that has no other
// record.
func (t *Table) unlink(r ref) {
	rec := *t.records.at(r)
	path, who := t.paths.at(rec.path), t.watchers.at(rec.watcher)
	if rec.pathPrev == none {
		path.first = rec.pathNext
	} else {
		t.records.at(rec.pathPrev).pathNext = rec.pathNext
	}
	if rec.pathNext == none {
		path.last = rec.pathPrev
	} else {
		t.records.at(rec.pathNext).pathPrev = rec.pathPrev
	}
	if rec.watcherPrev == none {
		who.first = rec.watcherNext
	} else {
		t.records.at(rec.watcherPrev).watcherNext = rec.watcherNext
	}
	if rec.watcherNext == none {
		who.last = rec.watcherPrev
	} else {
		t.records.at(rec.watcherNext).watcherPrev = rec.watcherPrev
	}
	who.size--
	t.records.remove(r)
	if path.first == none {
		t.removePath(rec.path)
	}
}

// has returns 1 if kinds and set have a kind in common, else 0.
func has(kinds, set Kind) int {
	if kinds&set != 0 {
		return 1
	}
	return 0
}
