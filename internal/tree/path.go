package tree

import "strings"

// The paths of znodes that Apache creates by itself and never deletes.
const (
	pathZookeeper = "/zookeeper"
	pathQuota     = "/zookeeper/quota"
	pathConfig    = "/zookeeper/config"
)

// pathLimits is the znode with the limits of clients that apply on all servers (limit.Root). Only superusers may create
// it: otherwise every client could slow down all others. Its ACL says which users may change the znodes below it.
const pathLimits = "/zookeeper/limits"

// splitPath returns the parent's path, "" for the root, and the last component. Like Apache's writes, it requires only
// that the path has a slash and no NUL.
func splitPath(path string) (parent, name string, ok bool) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 || strings.IndexByte(path, 0) >= 0 {
		return "", "", false
	}
	return path[:i], path[i+1:], true
}

// parentEvent returns the path of a parent in events: splitPath, like Apache, calls the root "", but events call it
// "/".
func parentEvent(parent string) string {
	if parent == "" {
		return "/"
	}
	return parent
}

// find returns the slot of a path, 0 if there is no such znode. As in Apache, both "" and "/" name the root, and a
// malformed path names no znode.
func (z *znodes) find(path string) uint32 {
	if path == "" || path == "/" {
		return rootSlot
	}
	if path[0] != '/' {
		return 0
	}
	return z.findBelow(rootSlot, path)
}

// findByNames returns the znode at the path of the znode in slot followed by path, a part of which may be in the
// overflow.
func (z *znodes) findByNames(slot uint32, path string) uint32 {
	for rest, more := path[1:], true; more && slot != 0; {
		var name string
		name, rest, more = strings.Cut(rest, "/")
		slot = z.findChild(slot, z.key.child(z.at(slot).hash, name), name)
	}
	return slot
}

// isBelow reports whether the path of the znode in slot is top's path followed by path, which an equal hash doesn't
// prove.
func (z *znodes) isBelow(slot, top uint32, path string) bool {
	for slot != top {
		if slot == rootSlot {
			return false
		}
		n := z.at(slot)
		name := z.name(n)
		cut := len(path) - len(name) - 1
		if cut < 0 || path[cut] != '/' || path[cut+1:] != name {
			return false
		}
		path, slot = path[:cut], n.parent
	}
	return path == ""
}

// findChild returns the slot of a child of parent whose path hashes to hash.
func (z *znodes) findChild(parent uint32, hash uint64, name string) uint32 {
	p := z.table.probe(hash)
	for slot := p.next(); slot != 0; slot = p.next() {
		if n := z.at(slot); n.hash == hash && n.parent == parent && z.name(n) == name {
			return slot
		}
	}
	if len(z.overflow) == 0 {
		return 0
	}
	return z.overflow[childName{parent, name}]
}

// A childName identifies a znode in the overflow. Go's maps hash it with a random seed of the
// process, so clients can't choose names that collide there. A map's random order does no harm:
// the overflow is only looked up, never iterated over.
type childName struct {
	parent uint32
	name   string
}

// index adds a znode to the structures that find and findChild use.
func (z *znodes) index(slot uint32) {
	n := z.at(slot)
	if z.table.insert(n.hash, slot) {
		return
	}
	if z.overflow == nil {
		z.overflow = map[childName]uint32{}
	}
	z.overflow[childName{n.parent, strings.Clone(z.name(n))}] = slot
}

// unindex undoes index.
func (z *znodes) unindex(slot uint32) {
	n := z.at(slot)
	if z.table.remove(n.hash, slot) {
		return
	}
	key := childName{n.parent, z.name(n)}
	if z.overflow[key] != slot {
		panic("tree: invariant broken: a znode to remove is neither in the table nor in the overflow")
	}
	if delete(z.overflow, key); len(z.overflow) == 0 {
		z.overflow = nil // a map never shrinks
	}
}

// appendPath appends the path of the znode in slot, "/" for the root.
func (z *znodes) appendPath(dst []byte, slot uint32) []byte {
	if slot == rootSlot {
		return append(dst, '/')
	}
	size := 0
	for s := slot; s != rootSlot; s = z.at(s).parent {
		size += 1 + z.at(s).nameLen()
	}
	begin := len(dst)
	dst = append(dst, make([]byte, size)...)
	end := begin + size
	for s := slot; s != rootSlot; s = z.at(s).parent {
		name := z.name(z.at(s))
		end -= len(name)
		copy(dst[end:], name)
		end--
		dst[end] = '/'
	}
	return dst
}

// pathLen returns the length of the path of the znode in slot, 0 for the root, as ApproximateDataSize counts it.
func (z *znodes) pathLen(slot uint32) int {
	size := 0
	for ; slot != rootSlot; slot = z.at(slot).parent {
		size += 1 + z.at(slot).nameLen()
	}
	return size
}
