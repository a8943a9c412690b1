package tree

// Four functions change znodes: insertNode, removeNode, setData and setNodeACL. Each keeps the table, the lists, the
// totals, the digest, open snapshots and the undo log up to date. No other function writes a node.

// editLinks returns the znode in slot for changing its links. It first saves the present state, except the data, for
// open snapshots. The undo log needs no links: they are undone with the insertion or removal that changed them.
func (z *znodes) editLinks(slot uint32) *node {
	for _, img := range z.images {
		img.nodes.save(slot, z.encodeFixed)
	}
	return z.at(slot)
}

// edit returns the znode in slot for changing. It first saves the present state, except the data, for open snapshots
// and the undo log.
func (z *znodes) edit(slot uint32) *node {
	n := z.editLinks(slot)
	if z.undo.open {
		z.saveNode(slot, n)
	}
	return n
}

// saveData saves the data of the znode in slot for open snapshots, before they change.
func (z *znodes) saveData(slot uint32) {
	for _, img := range z.images {
		img.nodes.saveData(slot)
	}
}

// editLinks is znodes.editLinks for sessions.
func (ss *Sessions) editLinks(slot uint32) *session {
	for _, img := range ss.znodes.images {
		img.sessions.save(slot, img.encodeSession)
	}
	return ss.slots.at(slot)
}

// edit is znodes.edit for sessions. It must not be called within a multi, which changes only the lists of ephemerals.
func (ss *Sessions) edit(slot uint32) *session {
	if ss.znodes.undo.open {
		panic("tree: invariant broken: a multi changes a session")
	}
	return ss.editLinks(slot)
}

// A newNode describes a znode for insertNode.
type newNode struct {
	data  []byte
	acl   uint32
	kind  kind
	owner int64 // depends on the kind
	zxid  int64
	time  int64

	aversion int32
}

// insertNode adds a child, which must not exist yet, as the parent's last. It changes only the links and the number of
// children of the parent.
func (t *Tree) insertNode(parent uint32, name string, c newNode) uint32 {
	slot := t.nodes.get()
	for _, img := range t.images {
		img.nodes.absent(slot)
	}
	if len(name) > nameLenMax {
		panic("tree: invariant broken: a name is longer than any frame")
	}
	t.longestName = max(t.longestName, len(name))
	n := t.at(slot)
	*n = node{
		hash: t.key.child(t.at(parent).hash, name), czxid: c.zxid, mzxid: c.zxid,
		ctime: c.time, mtime: c.time, parent: parent, acl: c.acl, aversion: c.aversion,
		nameKind: uint32(len(name)) | uint32(c.kind)<<kindShift, dataLen: dataLen(c.data),
	}
	if c.owner != 0 {
		t.editExtra(n).owner = c.owner
	}
	n.block = t.payloads.get(n.payload())
	b := t.payloads.bytes(n.block, n.payload())
	copy(b, name)
	copy(b[len(name):], c.data)
	t.acls.retain(c.acl)
	t.index(slot)
	if t.undo.open {
		t.undo.inserted(slot)
	}
	n.prev = t.editExtra(t.editLinks(parent)).last
	t.link(slot)

	pathLen := t.countBelow(n.parent, 1, n.size()) + 1 + len(name)
	switch c.kind {
	case ephemeral:
		t.sessions.append(slot, pathLen)
	case container, ttl:
		t.totals.reapable++
	}
	t.totals.nodes++
	t.totals.dataSize += pathLen + n.size()
	t.totals.digest += t.nodeDigest(n)
	return slot
}

// removeNode removes a znode without children. It changes only the links and the number of children of the parent.
func (t *Tree) removeNode(slot uint32) {
	n := t.editLinks(slot)
	t.totals.nodes--
	t.totals.digest -= t.nodeDigest(n)
	pathLen := 1 + n.nameLen()
	if p := t.ending[n.parent]; p != nil {
		pathLen += p.removed(n)
	} else {
		pathLen += t.countBelow(n.parent, -1, -n.size())
	}
	t.totals.dataSize -= pathLen + n.size()
	switch n.kind() {
	case ephemeral:
		t.sessions.remove(slot, pathLen)
	case container, ttl:
		t.totals.reapable--
	}

	t.unlink(slot)
	t.lists.forget(slot)
	t.unindex(slot)
	if t.undo.open {
		if t.near.slot == slot {
			t.near = nearRoot
		}
		t.undo.note(undoStep{kind: undoRemove, slot: slot})
		return
	}
	t.freeNode(slot)
}

// link puts a znode into the list of its parent's children, between the siblings that the znode names.
func (t *Tree) link(slot uint32) { t.relink(slot, slot, slot, 1) }

// unlink takes a znode out of the list of its parent's children. The znode keeps the names of its siblings, so link
// undoes unlink if all later changes of the list have been undone.
func (t *Tree) unlink(slot uint32) {
	n := t.at(slot)
	t.relink(slot, n.next, n.prev, -1)
}

// relink sets a link in each of a znode's siblings, next in the one before it and prev in the one after it, or in its
// parent in place of a missing one. It adds to the number of the parent's children.
func (t *Tree) relink(slot, next, prev uint32, children int) {
	n := t.at(slot)
	p := t.extras.at(t.editLinks(n.parent).extra)
	if n.prev != 0 {
		t.editLinks(n.prev).next = next
	} else {
		p.first = next
	}
	if n.next != 0 {
		t.editLinks(n.next).prev = prev
	} else {
		p.last = prev
	}
	p.children += uint32(children)
	t.lists.forget(n.parent)
}

// countBelow adds to the number of descendants of the znode in slot and of each of its ancestors, and to the size of
// their data. All of these znodes have children or have just lost their last one. It returns the length of the path of
// the znode in slot, as pathLen does.
func (z *znodes) countBelow(slot uint32, znodes, size int) (pathLen int) {
	for ; slot != 0; z.work++ {
		n := z.at(slot)
		k := z.extras.at(n.extra)
		k.below += uint32(znodes)
		k.sizes += int64(size)
		pathLen += 1 + n.nameLen()
		slot = n.parent
	}
	return pathLen - 1 // the root's path counts as empty
}

// freeNode frees the slot of a znode that is no longer in the table, with all its memory.
func (z *znodes) freeNode(slot uint32) {
	n := z.at(slot)
	z.saveData(slot)
	z.payloads.put(n.block, n.payload())
	z.acls.release(n.acl)
	if n.extra != 0 {
		z.extras.put(n.extra)
	}
	z.nodes.put(slot)
}

// setData replaces only a znode's data.
func (z *znodes) setData(slot uint32, data []byte) {
	n := z.edit(slot)
	z.saveData(slot)
	z.totals.digest -= z.dataHash(n)
	if more := len(data) - n.size(); more != 0 {
		z.totals.dataSize += more
		z.countBelow(n.parent, 0, more)
	}
	was, block := n.payload(), n.block
	now := n.nameLen() + len(data)
	if keep := z.undo.open && z.undo.keepData(slot, n); keep || !z.payloads.fits(block, was, now) {
		n.block = z.payloads.get(now)
		copy(z.payloads.bytes(n.block, now), z.payloads.bytes(block, was)[:n.nameLen()])
		if !keep {
			z.payloads.put(block, was)
		}
	}
	n.dataLen = dataLen(data)
	copy(z.payloads.bytes(n.block, now)[n.nameLen():], data)
	z.totals.digest += z.dataHash(n)
}

// setNodeACL replaces a znode's ACL. It must not be called within a multi.
func (z *znodes) setNodeACL(slot, acl uint32) {
	n := z.edit(slot)
	z.acls.retain(acl)
	z.acls.release(n.acl)
	n.acl = acl
}
