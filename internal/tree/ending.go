package tree

// A session may have a hundred thousand ephemerals, each below a thousand ancestors, and one request deletes all of
// them. So work that depends only on the parent is done once for each parent: building its path, and updating the
// counts of its ancestors.

// An endingParent is the parent of ephemerals of the session that is ending.
type endingParent struct {
	slot uint32
	path string // "" for the root, as in splitPath
	// znodes and size count the children removed so far and the bytes of their data.
	znodes, size int
}

// removed counts the removal of a child, and returns the length of the parent's path.
func (p *endingParent) removed(n *node) int {
	p.znodes++
	p.size += n.size()
	return len(p.path)
}

// deleteEphemerals deletes the znodes of the session in slot, oldest first.
func (t *Tree) deleteEphemerals(slot uint32, r *Result) {
	if t.sessions.slots.at(slot).first == 0 {
		return
	}
	t.ending = map[uint32]*endingParent{}
	var parents []*endingParent
	for z := t.sessions.slots.at(slot).first; z != 0; z = t.sessions.slots.at(slot).first {
		n := t.at(z)
		p := t.ending[n.parent]
		if p == nil {
			p = &endingParent{slot: n.parent}
			if n.parent != rootSlot {
				p.path = text(t.appendPath(t.scratchFor(t.pathLen(n.parent)), n.parent))
			}
			t.ending[n.parent], parents = p, append(parents, p)
		}
		name := t.name(n)
		path := append(append(append(t.scratchFor(len(p.path)+1+len(name)), p.path...), '/'), name...)
		t.deleteNode(z, text(path), p.path, r)
	}
	t.ending = nil
	for _, p := range parents {
		t.countBelow(p.slot, -p.znodes, -p.size)
	}
}

// scratchFor returns memory for n bytes of a path in the result. It takes the memory from t.scratch. When t.scratch is
// used up, a new one replaces it without a copy, so paths in the old one stay valid.
func (t *Tree) scratchFor(n int) []byte {
	if cap(t.scratch)-len(t.scratch) < n {
		t.scratch = make([]byte, 0, max(n, scratchKeep))
	}
	begin := len(t.scratch)
	t.scratch = t.scratch[:begin+n]
	return t.scratch[begin : begin : begin+n]
}
