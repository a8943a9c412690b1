package watch

import (
	"hash/maphash"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// Kind is a set of kinds of watch that one watcher has on one path.
type Kind uint8

// The kinds. The package comment describes them.
const (
	Data Kind = 1 << iota
	Child
	Persistent
	Recursive

	anyKind    = Data | Child | Persistent | Recursive
	dataTable  = Data | Persistent | Recursive
	childTable = Child | Persistent
)

// A Table holds the watches of all connections of a server. Its zero value is not ready for use; see New. It has no
// locks: methods that change it (Add, Trigger, Remove, RemoveSome, RemoveWatcher) need exclusive access, the others
// shared access.
//
// It keeps these invariants, in addition to those of its lists:
//
//	I1  a record exists if and only if its set of kinds is not empty
//	I2  a path is in its index if and only if it has a record; a watcher is in its
//	    index from its first record until RemoveWatcher, since most will watch again
//	I3  every counter equals the result of counting all records
type Table struct {
	paths    indexed[watchedPath]
	pieces   slab[piece] // of long paths
	records  indexed[record]
	watchers slab[watcher]

	watcherIndex map[int64]ref
	seed         maphash.Seed

	summary   Summary
	childSize int // records in the child table
	recursive int // records with Recursive
	round     uint64
	changes   uint64 // grows whenever a record gets or loses Recursive
	work      uint64 // see Work

	// recursiveLens counts the records with Recursive by the length of their paths.
	recursiveLens [recursiveLens]uint32

	above     [aboveMemos]above
	lastAbove *above   // the one used last
	prefixes  []prefix // of the path being looked up; kept for its memory
}

// watcher is a connection with its records, oldest first.
type watcher struct {
	id          int64
	first, last ref
	data        uint32 // records in the data table
	size        uint32 // records
	round       uint64 // the last Trigger that notified it
}

// record holds the kinds of watches of one watcher on one path. It is in two lists, the path's and the watcher's.
type record struct {
	path, watcher            ref
	pathPrev, pathNext       ref
	watcherPrev, watcherNext ref
	kinds                    Kind
}

// New returns an empty table.
func New() *Table {
	return &Table{watcherIndex: map[int64]ref{}, seed: maphash.MakeSeed(), changes: 1}
}

// Add adds watches of kinds (usually one) to those of the watcher on path. It doesn't validate the path, and copies it
// if necessary.
func (t *Table) Add(watcherID int64, path string, kinds Kind) {
	if kinds &= anyKind; kinds == 0 {
		return
	}
	p := t.findPath(path)
	if p == none {
		p = t.addPath(path)
	}
	w, ok := t.watcherIndex[watcherID]
	if !ok {
		w = t.watchers.take()
		t.watchers.at(w).id = watcherID
		t.watcherIndex[watcherID] = w
	}
	r := t.findRecord(p, w)
	if r == none {
		r = t.link(p, w)
	}
	t.setKinds(r, t.records.at(r).kinds|kinds)
}

// Trigger appends to dst the watchers to notify of an event on path, each once, in the order described in the package
// comment, and removes the one-shot watches that fired. It ignores event types that servers don't send. Trigger
// allocates memory only to grow dst.
func (t *Table) Trigger(dst []int64, typ jute.EventType, path string) []int64 {
	var fires, consumed Kind
	switch typ {
	case jute.EventNodeCreated, jute.EventNodeDataChanged:
		fires, consumed = dataTable, Data
	case jute.EventNodeDeleted:
		// Apache fires the data table first, and then the child table, which doesn't notify a watcher again but removes
		// its watches.
		fires, consumed = anyKind, Data|Child
	case jute.EventNodeChildrenChanged:
		fires, consumed = childTable, Child
	default:
		return dst
	}
	t.round++
	dst = t.fire(dst, path, fires, consumed)
	if t.recursive == 0 || typ == jute.EventNodeChildrenChanged {
		return dst
	}
	if len(path) > aboveLen {
		return t.fireAbove(dst, path[:max(strings.LastIndexByte(path, '/'), 1)])
	}
	for len(path) > 1 {
		path = path[:max(strings.LastIndexByte(path, '/'), 0)]
		if path == "" {
			return t.fire(dst, "/", Recursive, 0)
		}
		dst = t.fire(dst, path, Recursive, 0)
	}
	return dst
}

// fire appends the watchers with one of the kinds in fires on exactly this path, except those already appended in this
// round. It removes the kinds in consumed.
func (t *Table) fire(dst []int64, path string, fires, consumed Kind) []int64 {
	t.work++
	p := t.findPath(path)
	if p == none {
		return dst
	}
	for r := t.paths.at(p).first; r != none; {
		rec := t.records.at(r)
		this := r
		r = rec.pathNext // before setKinds, which may free the record
		if rec.kinds&fires == 0 {
			continue
		}
		if w := t.watchers.at(rec.watcher); w.round != t.round {
			w.round = t.round
			dst = append(dst, w.id)
		}
		if rec.kinds&consumed != 0 {
			t.setKinds(this, rec.kinds&^consumed)
		}
	}
	return dst
}

// kindsOf returns the kinds for the type in a checkWatches or removeWatches request.
func kindsOf(typ jute.WatcherType) Kind {
	switch typ {
	case jute.WatcherChildren:
		return Child
	case jute.WatcherData:
		return Data
	case jute.WatcherAny:
		return anyKind
	case jute.WatcherPersistent:
		return Persistent
	case jute.WatcherPersistentRecursive:
		return Recursive
	}
	return 0
}

// Check answers checkWatches: jute.OK if the watcher has a watch of the type on path, jute.ErrNoWatcher if not, and
// jute.ErrMarshallingError for an unknown type. As in Apache since 3.9, Data and Children mean only the one-shot
// watches.
func (t *Table) Check(watcherID int64, path string, typ jute.WatcherType) jute.Code {
	_, code := t.find(watcherID, path, kindsOf(typ))
	return code
}

// Remove answers removeWatches: it removes the watcher's watches of the type on path. The codes are those of Check.
func (t *Table) Remove(watcherID int64, path string, typ jute.WatcherType) jute.Code {
	kinds := kindsOf(typ)
	r, code := t.find(watcherID, path, kinds)
	if code == jute.OK {
		t.setKinds(r, t.records.at(r).kinds&^kinds)
	}
	return code
}

// find returns the record of the watcher on path if it has one of kinds.
func (t *Table) find(watcherID int64, path string, kinds Kind) (ref, jute.Code) {
	if kinds == 0 {
		return none, jute.ErrMarshallingError
	}
	r := t.findRecord(t.findPath(path), t.watcherIndex[watcherID]) // findRecord returns none if either is none
	if r == none || t.records.at(r).kinds&kinds == 0 {
		return none, jute.ErrNoWatcher
	}
	return r, jute.OK
}

// RemoveSome removes the oldest watches of a watcher, on at most n paths, and reports whether the watcher has more.
// RemoveWatcher must still be called at the end.
func (t *Table) RemoveSome(watcherID int64, n int) (more bool) {
	w, ok := t.watcherIndex[watcherID]
	if !ok {
		return false
	}
	r := t.watchers.at(w).first
	for ; r != none && n > 0; n-- {
		this := r
		r = t.records.at(r).watcherNext
		t.setKinds(this, 0)
	}
	return r != none
}

// RemoveWatcher removes a watcher with all its watches and frees its memory, in time proportional to their number. It
// must be called for each watcher at the end.
func (t *Table) RemoveWatcher(watcherID int64) {
	w, ok := t.watcherIndex[watcherID]
	if !ok {
		return
	}
	for r := t.watchers.at(w).first; r != none; {
		this := r
		r = t.records.at(r).watcherNext
		t.setKinds(this, 0)
	}
	delete(t.watcherIndex, watcherID)
	t.watchers.give(w)
}
