package tree

import (
	"bytes"
	"strconv"
	"strings"
)

// The quota of a path is two ordinary znodes that clients create below /zookeeper/quota<path>: the limits, which
// register the path, and the stats, which the tree updates without changing their version or mzxid. Stats are
// replicated state like other data: a replica must not recompute them after restoring a snapshot, since it might then
// differ from a replica that applied a client's write to them.
const (
	limitsName = "zookeeper_limits"
	statsName  = "zookeeper_stats"
)

// quotaFigures are the numbers in both znodes; -1 means none. A hard limit that was present in the text is written
// again, even without a value.
type quotaFigures struct {
	count, bytes, countHard, bytesHard int64
	hasCountHard, hasBytesHard         bool
}

var noFigures = quotaFigures{count: -1, bytes: -1, countHard: -1, bytesHard: -1}

// parseQuota parses count=N,bytes=N=;byteHardLimit=N;countHardLimit=N. Any part may be missing, and parts that aren't
// numbers are skipped. Apache writes the stray =.
func parseQuota(data []byte) quotaFigures {
	f := noFigures
	for len(data) > 0 {
		end := bytes.IndexAny(data, ",;")
		if end < 0 {
			end = len(data)
		}
		key, value, _ := strings.Cut(text(data[:end]), "=")
		n, err := strconv.ParseInt(strings.TrimRight(value, "="), 10, 64)
		if err == nil {
			switch key {
			case "count":
				f.count = n
			case "bytes":
				f.bytes = n
			case "countHardLimit":
				f.countHard, f.hasCountHard = n, true
			case "byteHardLimit":
				f.bytesHard, f.hasBytesHard = n, true
			}
		}
		data = data[min(end+1, len(data)):]
	}
	return f
}

// appendTo appends the numbers in Apache's form.
func (f quotaFigures) appendTo(b []byte) []byte {
	b = strconv.AppendInt(append(b, "count="...), f.count, 10)
	b = strconv.AppendInt(append(b, ",bytes="...), f.bytes, 10)
	if !f.hasBytesHard && !f.hasCountHard {
		return b
	}
	b = append(b, '=')
	if f.hasBytesHard {
		b = strconv.AppendInt(append(b, ";byteHardLimit="...), f.bytesHard, 10)
	}
	if f.hasCountHard {
		b = strconv.AppendInt(append(b, ";countHardLimit="...), f.countHard, 10)
	}
	return b
}

// quotaPath returns the path of the quota whose limits and stats znodes are children of parent. ok is false for a
// parent outside of /zookeeper/quota. The root has no quota.
func quotaPath(parent string) (string, bool) {
	path, ok := strings.CutPrefix(parent, pathQuota)
	return path, ok && len(path) > 1 && path[0] == '/'
}

// quotas find the quota that applies to a path, and keep the quota's stats up to date. paths has exactly the paths
// whose limits znode exists. The limits and stats themselves are data of znodes.
type quotas struct {
	znodes   *znodes   // of the same tree
	settings *Settings // in force

	paths map[string]struct{} // with a limits znode
	above quotaAbove          // of the request being applied
}

// of returns the slot of the znode that holds the limits and the stats of the longest path with a quota that is path or
// an ancestor of it, 0 if there is none.
func (q *quotas) of(path string) (holder uint32) {
	if len(q.paths) == 0 || len(path) < 2 {
		return 0
	}
	parent, m := path[:max(strings.LastIndexByte(path, '/'), 0)], &q.above
	switch known := text(m.path); {
	case m.known && known == parent:
	case m.known && strings.HasPrefix(parent, known) && parent[len(known)] == '/':
		m.at = q.znodes.quotaBelow(m.at, parent)
		m.path = append(m.path, parent[len(known):]...)
	case m.known && strings.HasPrefix(known, parent) && known[len(parent)] == '/':
		m.at = q.znodes.quotaUp(m.at, known, len(parent))
		m.path = m.path[:len(parent)]
	default:
		m.at = q.znodes.quotaBelow(quotaAt{slot: q.znodes.find(pathQuota)}, parent)
		m.path, m.known = append(m.path[:0], parent...), true
	}
	return q.znodes.quotaBelow(m.at, path).holder
}

// A quotaAt is the progress of the search for a path below /zookeeper/quota.
type quotaAt struct {
	slot    uint32 // of the deepest znode there that corresponds to a part of the path, its first end bytes
	end     int
	longest int    // length of the longest part of the path, up to end, that has a quota
	holder  uint32 // of the znode there that corresponds to that part, 0 if there is none
}

// quotaBelow continues the search from at to the end of a path. It hashes no byte twice: a path may have a thousand
// parts of a kilobyte.
func (z *znodes) quotaBelow(at quotaAt, path string) quotaAt {
	for at.end < len(path) {
		name, _, _ := strings.Cut(path[at.end+1:], "/")
		child := z.childNamed(at.slot, name)
		if child == 0 {
			break
		}
		at.slot = child
		at.end += 1 + len(name)
		if z.work++; z.childNamed(at.slot, limitsName) != 0 {
			at.longest, at.holder = at.end, at.slot
		}
	}
	return at
}

// quotaUp returns to the ancestor of a path whose length is end.
func (z *znodes) quotaUp(at quotaAt, path string, end int) quotaAt {
	up := func() {
		at.end = strings.LastIndexByte(path[:at.end], '/')
		at.slot = z.at(at.slot).parent
	}
	for at.end > end {
		up()
	}
	if at.longest <= end {
		return at
	}
	found := at
	for found.longest, found.holder = 0, 0; at.end > 0; up() {
		if z.work++; z.childNamed(at.slot, limitsName) != 0 {
			found.longest, found.holder = at.end, at.slot
			break
		}
	}
	return found
}

// A quotaAbove caches the search for a parent, for its other children, their descendants and its ancestors. It is valid
// within one request, until a znode is created or deleted below /zookeeper/quota.
type quotaAbove struct {
	known bool
	path  []byte
	at    quotaAt

	// The stats that were written last, if nothing else was written since: the slot of their znode, 0 for none, the slot
	// of its parent, and its numbers.
	stats, holder uint32
	used          quotaFigures
}

// begin prepares for the next request.
func (q *quotas) begin() { q.above.known, q.above.stats = false, 0 }

// dropLarge drops the memory of an unusually large request.
func (q *quotas) dropLarge() {
	if cap(q.above.path) > scratchKeep {
		q.above = quotaAbove{}
	}
}

// forget clears above if path, which was created or deleted, may affect it.
func (q *quotas) forget(path string) {
	if q.above.known && strings.HasPrefix(path, pathQuota) {
		q.begin()
	}
}

// childNamed returns the slot of a child of the znode in parent, 0 if there is none.
func (z *znodes) childNamed(parent uint32, name string) uint32 {
	return z.findChild(parent, z.key.child(z.at(parent).hash, name), name)
}

// figures returns the slot of the limits or stats znode of a quota, 0 if there is none, and its numbers.
func (z *znodes) figures(holder uint32, name string) (slot uint32, f quotaFigures) {
	slot = z.childNamed(holder, name)
	if slot != 0 {
		f = parseQuota(z.data(z.at(slot)))
	}
	return slot, f
}

// allow reports whether a change stays within the hard limits, if they are enforced. It doesn't check a number
// that doesn't change.
func (q *quotas) allow(path string, bytes, count int64) bool {
	if !q.settings.EnforceQuota {
		return true
	}
	holder := q.of(path)
	if holder == 0 {
		return true
	}
	limits, limit := q.znodes.figures(holder, limitsName)
	stats, used := q.znodes.figures(holder, statsName)
	if limits == 0 || stats == 0 {
		return true
	}
	return (count == 0 || limit.countHard < 0 || used.count+count <= limit.countHard) &&
		(bytes == 0 || limit.bytesHard < 0 || used.bytes+bytes <= limit.bytesHard)
}

// created updates the quotas after a create.
func (q *quotas) created(slot uint32, path, parentPath, name string) {
	q.forget(path)
	size := int64(q.znodes.at(slot).size())
	if name == limitsName || name == statsName {
		if quota, ok := quotaPath(parentPath); ok {
			if name == limitsName {
				q.set(strings.Clone(quota), true)
			} else {
				q.znodes.setStats(slot, q.znodes.measure(q.znodes.find(quota)))
			}
		}
	}
	q.changed(path, size, 1)
}

// deleted updates the quotas after a delete.
func (q *quotas) deleted(path, parentPath string, size int64) {
	q.forget(path)
	if strings.HasSuffix(path, "/"+limitsName) {
		if quota, ok := quotaPath(parentPath); ok {
			q.set(quota, false)
		}
	}
	q.changed(path, -size, -1)
}

// changed adds to the stats of the quota that applies to path.
func (q *quotas) changed(path string, bytes, count int64) {
	holder, m := q.of(path), &q.above
	if strings.HasPrefix(path, pathQuota) { // it may be the stats themselves
		m.stats = 0
	}
	if holder == 0 {
		return
	}
	if m.stats == 0 || m.holder != holder {
		m.holder = holder
		if m.stats, m.used = q.znodes.figures(holder, statsName); m.stats == 0 {
			return
		}
	} else if bytes == 0 && count == 0 {
		return // they are written already
	}
	m.used.count += count
	m.used.bytes += bytes
	q.znodes.setStats(m.stats, m.used)
}

func (z *znodes) setStats(slot uint32, f quotaFigures) {
	var room [128]byte
	z.setData(slot, f.appendTo(room[:0]))
}

// measure returns the number of znodes at and below slot, and the bytes of their data. Both are 0 if there is no such
// znode.
func (z *znodes) measure(slot uint32) (f quotaFigures) {
	if slot != 0 {
		n := z.at(slot)
		k := z.extraOf(n)
		f.count, f.bytes = 1+int64(k.below), int64(n.size())+k.sizes
	}
	return f
}

// walk calls visit for the znode in slot and all znodes below it, in no particular order. It isn't recursive, since
// paths may be very deep.
func (z *znodes) walk(slot uint32, visit func(*node)) {
	if slot == 0 {
		return
	}
	for at := slot; ; {
		n := z.at(at)
		visit(n)
		if k := z.extraOf(n); k.children > 0 {
			at = k.first
			continue
		}
		for at != slot && z.at(at).next == 0 {
			at = z.at(at).parent
		}
		if at == slot {
			return
		}
		at = z.at(at).next
	}
}

// set registers or unregisters a path as the root of a quota.
func (q *quotas) set(path string, on bool) {
	_, was := q.paths[path]
	if q.znodes.undo.open && was != on {
		q.znodes.undo.note(undoStep{kind: undoQuota, on: was})
		q.znodes.undo.paths = append(q.znodes.undo.paths, path)
	}
	if on {
		q.paths[path] = struct{}{}
	} else {
		delete(q.paths, path)
	}
}

// removeAll removes all paths.
func (q *quotas) removeAll() { q.paths = map[string]struct{}{} }

// addAll registers the quotas of a restored tree.
func (q *quotas) addAll() {
	base := q.znodes.find(pathQuota)
	if base == 0 {
		return
	}
	var path []byte
	q.znodes.walk(base, func(n *node) {
		if q.znodes.name(n) != limitsName {
			return
		}
		path = q.znodes.appendPath(path[:0], n.parent)
		if quota, ok := quotaPath(string(path)); ok {
			q.paths[quota] = struct{}{}
		}
	})
}
