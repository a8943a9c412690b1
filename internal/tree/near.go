package tree

import "strings"

// A nearby is the parent of the znode that the last operation of a multi looked up. A megabyte of operations on paths
// of a thousand components would hash and compare half a million components, but most such multis create or delete a
// subtree: the next path begins with the last one's parent, so only the rest is looked up.
type nearby struct {
	path string // as the request has it; "" for the root
	slot uint32
}

// nearLen is the length of the longest path that is always looked up from the root: for short paths that is as fast.
const nearLen = 128

// nearRoot is the nearby at the start of a multi.
var nearRoot = nearby{slot: rootSlot}

// below returns the rest of a path that equals m's or begins with it.
func (m *nearby) below(path string) (rest string, ok bool) {
	rest, ok = strings.CutPrefix(path, m.path)
	return rest, ok && (rest == "" || rest[0] == '/' && len(rest) > 1)
}

// findNear is find for an operation that changes the tree or checks a version. Work counts the long paths that a multi
// looks up from the root again.
func (t *Tree) findNear(path string) (slot uint32) {
	if !t.undo.open || len(path) <= nearLen {
		return t.find(path)
	}
	if rest, ok := t.near.below(path); ok {
		slot = t.findBelow(t.near.slot, rest)
	} else {
		t.work++
		slot = t.find(path)
	}
	if slot > rootSlot {
		t.near = nearby{path[:strings.LastIndexByte(path, '/')], t.at(slot).parent}
	}
	return slot
}

// findBelow returns the slot of top's path followed by rest, which is "" or begins with a slash; 0 if there is no such
// znode.
func (z *znodes) findBelow(top uint32, rest string) uint32 {
	if rest == "" {
		return top
	}
	hash := z.hashBelow(z.at(top).hash, rest)
	p := z.table.probe(hash)
	for slot := p.next(); slot != 0; slot = p.next() {
		if z.at(slot).hash == hash && z.isBelow(slot, top, rest) {
			return slot
		}
	}
	if len(z.overflow) == 0 {
		return 0
	}
	return z.findByNames(top, rest)
}
