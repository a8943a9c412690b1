package tree

import (
	"strings"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/jute"
)

// Reads append the body of the reply to dst, or nothing if the code isn't jute.OK. Like Apache's they don't validate
// paths: a malformed path names no znode.

// readable returns the znode at path if ids have one of the permissions in want.
func (t *Tree) readable(path string, want jute.Perm, ids []jute.ID) (uint32, jute.Code) {
	slot := t.find(path)
	if slot == 0 {
		return 0, jute.ErrNoNode
	}
	if !t.access.allowsAt(path, t.at(slot).acl, want, ids) {
		return 0, jute.ErrNoAuth
	}
	return slot, jute.OK
}

// AppendGetData answers getData: the data and Stat.
func (t *Tree) AppendGetData(dst []byte, path string, ids []jute.ID) ([]byte, jute.Code) {
	slot, code := t.readable(path, jute.PermRead, ids)
	if code != jute.OK {
		return dst, code
	}
	n := t.at(slot)
	return t.appendStat(jute.AppendBuffer(dst, t.data(n)), n), jute.OK
}

// AppendGetDataInRoom is AppendGetData, but returns NoRoom if the reply is large and dst doesn't have the capacity for
// it.
func (t *Tree) AppendGetDataInRoom(dst []byte, path string, ids []jute.ID) ([]byte, jute.Code) {
	slot, code := t.readable(path, jute.PermRead, ids)
	if code != jute.OK {
		return dst, code
	}
	n := t.at(slot)
	if !hasRoom(dst, dataRoom(n)) {
		return dst, NoRoom
	}
	return t.appendStat(jute.AppendBuffer(dst, t.data(n)), n), jute.OK
}

// AppendExists answers exists: the Stat. For a path with a NUL the code is jute.ErrBadArguments.
func (t *Tree) AppendExists(dst []byte, path string, ids []jute.ID) ([]byte, jute.Code) {
	if strings.IndexByte(path, 0) >= 0 {
		return dst, jute.ErrBadArguments
	}
	slot, code := t.readable(path, jute.PermRead, ids)
	if code != jute.OK {
		return dst, code
	}
	return t.appendStat(dst, t.at(slot)), jute.OK
}

// AppendGetACL answers getACL: the ACL and Stat. It requires PermRead or PermAdmin; without PermAdmin the hashes of
// digest ids are hidden. The code is NoRoom in the same case as for AppendGetDataInRoom.
func (t *Tree) AppendGetACL(dst []byte, path string, ids []jute.ID) ([]byte, jute.Code) {
	slot, code := t.readable(path, jute.PermRead|jute.PermAdmin, ids)
	if code != jute.OK {
		return dst, code
	}
	n := t.at(slot)
	e := &t.acls.entries[n.acl]
	if !hasRoom(dst, len(e.encoded)+jute.StatSize) {
		return dst, NoRoom
	}
	if t.access.allows(n.acl, jute.PermAdmin, ids) && !t.access.Denies(path, jute.PermAdmin, ids) {
		dst = append(dst, e.encoded...)
	} else {
		dst = jute.AppendACLs(dst, auth.Mask(e.list))
	}
	return t.appendStat(dst, n), jute.OK
}

// AppendGetChildren answers getChildren: the names, oldest first. The code is LongRead if the list is too long to be
// read at once, and NoRoom in the same case as for AppendGetDataInRoom.
func (t *Tree) AppendGetChildren(dst []byte, path string, ids []jute.ID) ([]byte, jute.Code) {
	slot, code := t.readable(path, jute.PermRead, ids)
	if code != jute.OK {
		return dst, code
	}
	return t.appendList(dst, slot)
}

// AppendGetChildren2 answers getChildren2: the names, oldest first, and Stat. The code is LongRead
// if the list is too long to be read at once.
func (t *Tree) AppendGetChildren2(dst []byte, path string, ids []jute.ID) ([]byte, jute.Code) {
	slot, code := t.readable(path, jute.PermRead, ids)
	if code != jute.OK {
		return dst, code
	}
	if dst, code = t.appendList(dst, slot); code == jute.OK {
		dst = t.appendStat(dst, t.at(slot))
	}
	return dst, code
}

// appendList appends a znode's children if they can be read at once.
func (z *znodes) appendList(dst []byte, slot uint32) ([]byte, jute.Code) {
	if z.extraOf(z.at(slot)).children > scanStep && z.lists.get(slot) == nil {
		return dst, LongRead
	}
	list := z.appendChildrenTo(dst, slot, max(cap(dst), len(dst)+roomMin)-jute.StatSize)
	switch {
	case list != nil:
		return list, jute.OK
	case z.lists.get(slot) != nil:
		return dst, NoRoom
	}
	return dst, LongRead // few names, but long ones
}

// AppendAllChildrenNumber answers getAllChildrenNumber: the number of znodes below path.
func (t *Tree) AppendAllChildrenNumber(dst []byte, path string, ids []jute.ID) ([]byte, jute.Code) {
	slot, code := t.readable(path, jute.PermRead, ids)
	if code != jute.OK {
		return dst, code
	}
	below := t.extraOf(t.at(slot)).below
	if path == "" { // Apache counts "/" as below ""
		below++
	}
	return jute.AppendInt(dst, int32(below)), jute.OK
}

// AppendEphemerals answers getEphemerals: the paths of a session's znodes that begin with prefix,
// oldest first. A blank prefix and "/" mean all. An unknown session has none. The code is LongRead
// if the list is too long to be read at once.
func (t *Tree) AppendEphemerals(dst []byte, id int64, prefix string) ([]byte, jute.Code) {
	s := Scan{Op: jute.OpGetEphemerals, Session: id, Path: prefix, Body: dst, Room: max(cap(dst), len(dst)+roomMin)}
	done, code := t.Step(&s)
	if !done {
		return dst, LongRead
	}
	return s.Body, code
}

// Changes are the zxids of a znode's last changes, for setWatches.
type Changes struct {
	Mzxid int64 // of its data
	Pzxid int64 // of its list of children
}

// Changes returns the zxids of the last changes of the znode at path, and whether it exists. It checks no ACL.
func (t *Tree) Changes(path string) (Changes, bool) {
	slot := t.find(path)
	if slot == 0 {
		return Changes{}, false
	}
	return Changes{t.at(slot).mzxid, t.extraOf(t.at(slot)).pzxid}, true
}

// ACL returns the ACL of the znode at path, and whether it exists. The list never changes and must not be modified.
func (z *znodes) ACL(path string) ([]jute.ACL, bool) {
	slot := z.find(path)
	if slot == 0 {
		return nil, false
	}
	return z.acls.entries[z.at(slot).acl].list, true
}

// Stat returns the Stat of the znode at path, and whether it exists. It checks no ACL.
func (z *znodes) Stat(path string) (jute.Stat, bool) {
	slot := z.find(path)
	if slot == 0 {
		return jute.Stat{}, false
	}
	return z.stat(z.at(slot)), true
}
