package tree

import "github.com/zooid-project/zooid/jute"

// reap evaluates the leader's deleteContainer. The znode may have changed since the leader checked it, so the rules are
// checked again: a znode that no longer meets them stays, and no zxid is taken.
func (t *Tree) reap(q *Request, r *Result) {
	var d jute.Decoder
	d.Reset(q.Body)
	path, neverUsed := d.String(), d.Long()
	slot := t.find(path)
	if d.Err() != nil || slot == 0 || guardOf(path).lasting || !t.due(t.at(slot), t.position.time, neverUsed) {
		r.Outcome = Ignored
		return
	}
	r.Zxid = t.position.nextZxid()
	parent, _, _ := splitPath(path)
	t.deleteNode(slot, path, parent, r)
}

// due reports whether a container or TTL znode must be deleted: a container whose last child is gone, a container that
// never had a child and has been idle for more than neverUsed milliseconds (0: never), or a TTL znode without children
// whose last setData, or else its creation, is longer ago than its time to live.
func (t *Tree) due(n *node, now, neverUsed int64) bool {
	k := t.extraOf(n)
	if k.children > 0 {
		return false
	}
	switch idle := now - t.position.changed(n, now); n.kind() {
	case container:
		return k.created > 0 || neverUsed > 0 && idle > neverUsed
	case ttl:
		return idle > k.owner
	}
	return false
}

// reapBytes is how many bytes of paths end a step of Reapable: a path may have a megabyte.
const reapBytes = 1 << 20

// Reapable finds containers and TTL znodes that deleteContainer may delete at the time now, in the next scan slots from
// cursor on (0 at first), or in fewer if their paths are long. It returns the paths and the cursor for the next call, 0
// at the end. neverUsed has the meaning of AppendDeleteContainer.
func (t *Tree) Reapable(cursor uint32, scan int, now, neverUsed int64) (paths []string, next uint32) {
	if t.totals.reapable == 0 {
		return nil, 0
	}
	at, size := t.nodes.from(max(cursor, rootSlot)), 0
	for ; at <= uint64(t.nodes.used) && scan > 0 && size < reapBytes; at = t.nodes.next(at) {
		scan--
		if slot := uint32(at); t.live(slot) && t.due(t.at(slot), now, neverUsed) {
			paths = append(paths, string(t.appendPath(nil, slot)))
			size += len(paths[len(paths)-1])
		}
	}
	if at > uint64(t.nodes.used) {
		at = 0
	}
	return paths, uint32(at)
}
