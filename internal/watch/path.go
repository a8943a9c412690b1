package watch

import (
	"hash/maphash"
	"strings"
)

const (
	// pathInline is how many bytes of a path are stored in its watchedPath, which is enough for most paths. With them,
	// an element of Table.paths takes one cache line.
	pathInline = 36
	// pieceBytes is how many bytes of the rest are stored in one piece.
	pieceBytes = 60
)

// watchedPath is a path with its records, oldest first.
type watchedPath struct {
	first, last ref
	data        uint32 // records in the data table
	length      uint32
	rest        ref // the pieces of the part beyond begin
	begin       [pathInline]byte
}

// piece is a part of the rest of a path that is longer than pathInline.
type piece struct {
	next ref
	text [pieceBytes]byte
}

// hashPath hashes a path. The key differs between processes, so that clients can't choose paths that share a bucket. No
// result of a table depends on it.
func (t *Table) hashPath(path string) uint32 { return uint32(maphash.String(t.seed, path)) }

// findPath returns the element of a path, or none if the path has no record.
func (t *Table) findPath(path string) ref {
	if t.paths.size == 0 {
		return none
	}
	for p := t.paths.first(t.hashPath(path)); p != none; p = t.paths.after(p) {
		if t.isPath(t.paths.at(p), path) {
			return p
		}
	}
	return none
}

// isPath reports whether p is path.
func (t *Table) isPath(p *watchedPath, path string) bool {
	if int(p.length) != len(path) {
		return false
	}
	n := min(len(path), pathInline)
	if string(p.begin[:n]) != path[:n] {
		return false
	}
	for r := p.rest; r != none; r = t.pieces.at(r).next {
		path = path[n:]
		n = min(len(path), pieceBytes)
		if string(t.pieces.at(r).text[:n]) != path[:n] {
			return false
		}
	}
	return true
}

// addPath adds a copy of a path that the table doesn't have.
func (t *Table) addPath(path string) ref {
	r := t.paths.add(t.hashPath(path))
	p := t.paths.at(r)
	p.length = uint32(len(path))
	path = path[copy(p.begin[:], path):]
	for at := &p.rest; path != ""; {
		*at = t.pieces.take()
		s := t.pieces.at(*at)
		path = path[copy(s.text[:], path):]
		at = &s.next
	}
	return r
}

// removePath frees a path that has no record.
func (t *Table) removePath(r ref) {
	p := t.paths.at(r)
	for s := p.rest; s != none; {
		next := t.pieces.at(s).next
		t.pieces.give(s)
		s = next
	}
	t.paths.remove(r)
}

// pathOf returns a path as a newly allocated string.
func (t *Table) pathOf(p *watchedPath) string {
	var b strings.Builder
	b.Grow(int(p.length))
	b.Write(p.begin[:min(p.length, pathInline)])
	for r := p.rest; r != none; r = t.pieces.at(r).next {
		b.Write(t.pieces.at(r).text[:min(int(p.length)-b.Len(), pieceBytes)])
	}
	return b.String()
}
