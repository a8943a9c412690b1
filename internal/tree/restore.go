package tree

import (
	"crypto/sha256"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// OpRestore replaces the content of the tree with that of a snapshot (decision 053). The new znodes, encoded one after
// another by AppendZnode, are cut into pieces, and each piece is the data of an ephemeral znode of the requesting
// session. So pieces are replicated, limited and removed like any other znodes. One request then names the pieces and
// applies them at once: readers see the tree before or after it.
//
// All znodes are replaced, with their Stats, ACLs and quotas. /zookeeper/config, the settings, the secret of the hashes
// and the position in the log stay. Every session except the requesting one ends.

// restoreBytesMax bounds the size of all pieces together: they are joined in memory, in addition to the tree.
const restoreBytesMax = 512 << 20

// restoreZxidMax bounds the zxids of a snapshot's znodes, so that enough later epochs remain.
const restoreZxidMax = 1 << 30 << 32

// AppendZnode appends a znode in the format of OpRestore:
//
//	ustring path | byte kind | long time to live | long czxid | long mzxid | long pzxid |
//	long ctime | long mtime | int version | int aversion | long created | vector<ACL> | buffer data
//
// The root must come first, and every parent before its children, as Znodes visits them. AppendZnode returns b
// unchanged for a znode that OpRestore doesn't replace: an ephemeral one, or one that belongs to the servers.
func AppendZnode(b []byte, z *Foreign) []byte {
	if z.Owner != 0 || !restorable(z.Path) {
		return b
	}
	k := persistent
	switch {
	case z.Container:
		k = container
	case z.TTL != 0:
		k = ttl
	}
	b = jute.AppendLong(append(jute.AppendString(b, z.Path), byte(k)), z.TTL)
	for _, v := range [...]int64{z.Czxid, z.Mzxid, z.Pzxid, z.Ctime, z.Mtime} {
		b = jute.AppendLong(b, v)
	}
	b = jute.AppendInt(jute.AppendInt(b, z.Version), z.Aversion)
	b = jute.AppendLong(b, z.Created)
	return jute.AppendBuffer(jute.AppendACLs(b, z.ACL), z.Data)
}

// RestorePath is the znode below which the pieces of a replacement are stored.
const RestorePath = "/zookeeper/restore"

// restorable reports whether OpRestore replaces the znode at a path.
func restorable(path string) bool {
	for _, own := range []string{pathConfig, RestorePath} {
		if rest, ok := strings.CutPrefix(path, own); ok && (rest == "" || rest[0] == '/') {
			return false
		}
	}
	return true
}

// A decodedZnode is a znode in the format of OpRestore.
type decodedZnode struct {
	Foreign
	kind kind
}

// decodeZnode decodes what AppendZnode wrote. The data refer to the input.
func decodeZnode(d *jute.Decoder, z *decodedZnode) {
	*z = decodedZnode{Foreign: Foreign{Path: d.String()}, kind: kind(d.Byte())}
	z.TTL = d.Long()
	for _, v := range [...]*int64{&z.Czxid, &z.Mzxid, &z.Pzxid, &z.Ctime, &z.Mtime} {
		*v = d.Long()
	}
	z.Version, z.Aversion = d.Int(), d.Int()
	z.Created = d.Long()
	z.ACL = jute.DecodeACLs(d)
	z.Data = d.Buffer()
	z.Container = z.kind == container
}

// AppendRestore appends the body of an OpRestore request. The pieces are the data of the
// znodes at prefix-0, prefix-1 and so on; sum is the SHA-256 of all of them.
func AppendRestore(b []byte, prefix string, pieces int, sum [sha256.Size]byte) []byte {
	return jute.AppendBuffer(jute.AppendInt(jute.AppendString(b, prefix), int32(pieces)), sum[:])
}

// PiecePath returns the path of a piece.
func PiecePath(prefix string, piece int) string { return prefix + "-" + strconv.Itoa(piece) }

// restore evaluates an OpRestore. It checks everything before it changes anything.
func (t *Tree) restore(d *jute.Decoder, q *Request, r *Result) jute.Code {
	prefix, pieces, sum := d.String(), d.Int(), d.Buffer()
	switch {
	case d.Err() != nil:
		return jute.ErrMarshallingError
	case !isSuper(q.Identities):
		return jute.ErrNoAuth
	}
	list, code := t.pieces(prefix, int(pieces), q.Session)
	if code != jute.OK {
		return code
	}
	if have := sha256.Sum256(list); text(have[:]) != text(sum) {
		return jute.ErrDataInconsistency
	}
	newest, ok := checkZnodes(list)
	if !ok {
		return jute.ErrBadArguments
	}
	if newest >= r.Zxid {
		t.position.zxid = (newest>>32 + 1) << 32 // zxids only increase, and no two changes share one
		r.Zxid = t.position.nextZxid()
	}
	t.restored++
	t.removeAll()
	t.endOthers(q.Session, r)
	t.insertAll(list)
	t.quotas.addAll()
	t.access.readPolicy()
	return jute.OK
}

// pieces returns the joined pieces of a session.
func (z *znodes) pieces(prefix string, count int, session int64) ([]byte, jute.Code) {
	size := 0
	var list []byte
	for _, counting := range []bool{true, false} {
		for i := range count {
			slot := z.find(PiecePath(prefix, i))
			if slot == 0 || z.at(slot).kind() != ephemeral || z.extraOf(z.at(slot)).owner != session {
				return nil, jute.ErrNoNode
			}
			data := z.data(z.at(slot))
			if size += len(data); counting && size > restoreBytesMax {
				return nil, jute.ErrBadArguments
			} else if !counting {
				list = append(list, data...)
			}
		}
		if counting {
			list = make([]byte, 0, size)
		}
	}
	return list, jute.OK
}

// checkZnodes reports whether znodes that AppendZnode wrote form a valid tree, and returns the highest zxid in them.
func checkZnodes(list []byte) (newest int64, ok bool) {
	var d jute.Decoder
	d.Reset(list)
	var z decodedZnode
	var above []string // paths of the last znode and of its ancestors
	for first := true; len(d.Rest()) > 0; first = false {
		decodeZnode(&d, &z)
		if d.Err() != nil || first != (z.Path == "/") || !checkZnode(&z) {
			return 0, false
		}
		if !first {
			parent, _, _ := splitPath(z.Path)
			for len(above) > 1 && above[len(above)-1] != parent {
				above = above[:len(above)-1]
			}
			if top := above[len(above)-1]; top != parent {
				return 0, false // its parent is missing
			}
			above = append(above, z.Path)
		} else {
			above = append(above, "")
		}
		newest = max(newest, z.Czxid, z.Mzxid, z.Pzxid)
	}
	return newest, len(above) > 0 && newest < restoreZxidMax
}

// checkZnode reports whether a znode is valid, apart from its place in the tree.
func checkZnode(z *decodedZnode) bool {
	switch {
	case jute.CheckPath(z.Path) != nil || !restorable(z.Path) || len(z.ACL) > aclEntriesMaxFirst:
		return false
	case z.kind >= kinds || z.kind == ephemeral || (z.kind == ttl) != (z.TTL > 0) || z.TTL < 0 || z.TTL > jute.TTLMax:
		return false
	case z.kind != persistent && guardOf(z.Path).lasting:
		return false
	}
	return min(z.Czxid, z.Mzxid, z.Pzxid, z.Created) >= 0 && z.Created <= math.MaxInt32
}

// removeAll removes every znode except those that every tree has.
func (t *Tree) removeAll() {
	keep := [...]uint32{rootSlot, t.find(pathZookeeper), t.find(pathQuota), t.find(pathConfig)}
	all := make([]uint32, 0, t.totals.nodes)
	for slot := uint32(rootSlot); slot != 0; slot = t.following(slot) {
		all = append(all, slot)
	}
	for _, slot := range slices.Backward(all) {
		if !slices.Contains(keep[:], slot) {
			t.removeNode(slot)
		}
	}
	t.quotas.removeAll()
}

// endOthers ends all sessions but one. At this point none of them has a znode.
func (t *Tree) endOthers(session int64, r *Result) {
	t.sessions.All(func(s Session) bool {
		if s.ID != session {
			r.Ended = append(r.Ended, s.ID)
		}
		return true
	})
	for _, id := range r.Ended {
		t.closeSession(id, r)
	}
	r.Closed = false
}

// insertAll inserts znodes that checkZnodes has accepted. If two have the same path, the first one stays.
func (t *Tree) insertAll(list []byte) {
	var d jute.Decoder
	d.Reset(list)
	b := Builder{tree: t}
	var z decodedZnode
	for len(d.Rest()) > 0 {
		decodeZnode(&d, &z)
		if guardOf(z.Path).lasting {
			b.become(t.find(z.Path), &z.Foreign)
			continue
		}
		parent, name, _ := splitPath(z.Path)
		z.Parent, z.Name = t.find(parent), name
		if b.check(&z.Foreign) == nil {
			b.insert(&z.Foreign)
		}
	}
}
