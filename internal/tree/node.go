package tree

import (
	"math"
	"unsafe"

	"github.com/zooid-project/zooid/jute"
)

// rootSlot is the slot of the znode "/", which is the first slot handed out.
const rootSlot = 1

// A kind determines what a znode's lifetime depends on. Apache encodes the kind in the owner, and decodes it by the
// settings in force. Here the kind is decided when the znode is created, and no later change of settings turns a TTL
// znode into an ephemeral one.
type kind uint8

const (
	persistent kind = iota
	ephemeral       // owner is its session
	container       // deleted after its last child
	ttl             // owner is its time to live in milliseconds
	kinds           // how many there are
)

// A node is a znode, 80 bytes without a pointer. Its children are linked in the order of their creation.
type node struct {
	hash              uint64 // of the path; the first four bytes link free slots
	czxid, mzxid      int64
	ctime, mtime      int64
	version, aversion int32
	parent            uint32 // slot; 0 for the root
	prev, next        uint32 // slots of the siblings
	extra             uint32 // slot of its nodeExtra, which most znodes don't need; 0 if there is none
	acl               uint32 // index of an entry of the ACL table
	block             uint32 // the name followed by the data
	nameKind          uint32 // length of the name, and the kind in the upper bits
	dataLen           int32  // -1 if the data is null
}

// A nodeExtra holds the fields that are only needed by znodes that have an owner or ever had a
// child. It lives as long as the znode.
type nodeExtra struct {
	// sizes is the bytes of the data of all znodes below. It must be first: the first four bytes of a free slot are its
	// link (slab.link).
	sizes       int64
	first, last uint32 // children; for an ephemeral, its neighbours in the session's list
	children    uint32
	below       uint32 // znodes below this one, at any depth
	pzxid       int64
	owner       int64 // depends on the kind
	created     int64 // children ever created: Apache's stored cversion, but without overflow
}

// extraOf returns a znode's nodeExtra. If it has none, extraOf returns the equivalent one.
func (z *znodes) extraOf(n *node) nodeExtra {
	if n.extra == 0 {
		return nodeExtra{pzxid: n.czxid}
	}
	return *z.extras.at(n.extra)
}

// editExtra returns the nodeExtra of a znode for changing. n must come from edit.
func (z *znodes) editExtra(n *node) *nodeExtra {
	if n.extra == 0 {
		n.extra = z.extras.get()
		z.extras.at(n.extra).pzxid = n.czxid
	}
	return z.extras.at(n.extra)
}

const (
	kindShift  = 28
	nameLenMax = 1<<kindShift - 1 // a name travels in a frame, so it is far shorter
)

func (n *node) kind() kind   { return kind(n.nameKind >> kindShift) }
func (n *node) nameLen() int { return int(n.nameKind & nameLenMax) }

// size returns the length of the data, 0 for null.
func (n *node) size() int { return max(int(n.dataLen), 0) }

// payload returns the size of the block.
func (n *node) payload() int { return n.nameLen() + n.size() }

func dataLen(data []byte) int32 {
	if data == nil {
		return -1
	}
	return int32(len(data))
}

// stat returns the Stat that clients see. cversion counts creations and deletions of children; it wraps around like
// Apache's.
func (z *znodes) stat(n *node) jute.Stat {
	k := z.extraOf(n)
	s := jute.Stat{
		Czxid: n.czxid, Mzxid: n.mzxid, Pzxid: k.pzxid, Ctime: n.ctime, Mtime: n.mtime,
		Version: n.version, Aversion: n.aversion, DataLength: int32(n.size()),
	}
	if n.kind() == ephemeral {
		s.EphemeralOwner = k.owner // it has no children
		return s
	}
	s.Cversion, s.NumChildren = int32(2*k.created-int64(k.children)), int32(k.children)
	return s
}

// nextVersion returns the version after v. It skips -1, which means "any" in requests.
func nextVersion(v int32) int32 {
	if v == -2 {
		return 0
	}
	if v == math.MaxInt32 {
		return math.MinInt32
	}
	return v + 1
}

func (z *znodes) at(slot uint32) *node { return z.nodes.at(slot) }

// live reports whether a slot that was handed out before holds a znode.
func (z *znodes) live(slot uint32) bool {
	return slot == rootSlot || z.nodes.chunks[slot/slabSlots] != nil && z.at(slot).parent != 0
}

// name returns the last component of a znode's path, "" for the root. It is valid until the znode changes.
func (z *znodes) name(n *node) string {
	return text(z.payloads.bytes(n.block, n.payload())[:n.nameLen()])
}

// data returns a znode's data, nil if it is null. It is valid until the znode changes.
func (z *znodes) data(n *node) []byte {
	if n.dataLen < 0 {
		return nil
	}
	if n.dataLen == 0 {
		return emptyData
	}
	return z.payloads.bytes(n.block, n.payload())[n.nameLen():]
}

var emptyData = []byte{}

// text returns b as a string that shares b's memory. It is valid as long as b doesn't change.
func text(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	return unsafe.String(&b[0], len(b))
}
