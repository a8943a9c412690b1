package tree

import (
	"encoding/binary"
	"slices"
	"sync/atomic"

	"github.com/zooid-project/zooid/jute"
)

// A snapshot is a stream of chunks, each of one kind and readable by itself:
//
//	header    byte 1 | byte version | 4 * long hash key | long term | long index | long zxid | long time | settings |
//	          since version 2 the entrances, see appendEntrances |
//	          since version 3 byte 1 if the key is a secret from the log, long time it was set back to, 0 if never |
//	          since version 4 the change of membership in progress, see change.append |
//	          since version 5 long lineage
//	ACLs      byte 2 | int count | int first place | count * vector<ACL>, null for a free place
//	sessions  byte 3 | int count | count * session, see encodeSession
//	znodes    byte 4 | int count | count * znode, see encodeNode
//	end       byte 5 | int znodes | int sessions | long digest
//
// Znodes and sessions come in the order of their slots and refer to their neighbours by slot. Load puts them into
// the same slots. So a chunk can be decoded without any other, and a snapshot of a loaded tree has the same bytes.
//
// A snapshot shows the tree as it was at BeginSnapshot, although the tree changes between calls of Next: a slot that is
// about to change before it was written is encoded first and kept aside (see aside).
const (
	chunkHeader   = 1
	chunkACLs     = 2
	chunkSessions = 3
	chunkNodes    = 4
	chunkEnd      = 5

	// A snapshot has the lowest version that can represent the state, so that older servers can read it if possible:
	// version 2 once a local session has entered, 3 once the hashes have a secret or the time was set back, 4 while a
	// change of membership is in progress, 5 once there is a lineage.
	snapshotVersionMin      = 1
	snapshotVersionEntered  = 2
	snapshotVersionKeyed    = 3
	snapshotVersionChanging = 4
	snapshotVersionLineage  = 5
	snapshotVersion         = snapshotVersionLineage
)

// BodyFormat is the number of this layout of a snapshot as a stream of chunks.
const BodyFormat = 1

// chunkSize is the size at which a chunk ends. It is large enough for compression, and small enough that Next holds its
// caller's lock, and a processor that clients may be waiting for, only for a tenth of a millisecond.
const chunkSize = 64 << 10

// An aside tracks one slab for a snapshot. The slots from cursor to last are not written yet. saved has the encodings
// at BeginSnapshot of those that have changed since then.
type aside struct {
	cursor uint64 // of the next slot to write
	last   uint64
	saved  map[uint32]savedSlot
	kept   *atomic.Int64 // bytes in saved
	// data appends the data of a slot, which follow in its encoding; nil if there are none.
	data func(dst []byte, slot uint32) []byte
}

// A savedSlot is the encoding of a slot, which is empty for one that was free. Most changes of a znode leave its data
// alone. Then the encoding lacks them, and they are taken from the slot.
type savedSlot struct {
	encoded []byte
	whole   bool
}

const savedBytes = 64 // of an entry of saved, besides its encoding

func (a *aside) put(slot uint32, s savedSlot) {
	a.saved[slot] = s
	a.kept.Add(savedBytes + int64(cap(s.encoded)))
}

func (a *aside) remove(slot uint32, s savedSlot) {
	delete(a.saved, slot)
	a.kept.Add(-savedBytes - int64(cap(s.encoded)))
}

func (a *aside) wants(slot uint32) bool {
	if uint64(slot) < a.cursor || uint64(slot) > a.last {
		return false
	}
	_, have := a.saved[slot]
	return !have
}

// save saves the present state of a slot that is about to change, except data.
func (a *aside) save(slot uint32, encode func([]byte, uint32) []byte) {
	if a.wants(slot) {
		a.put(slot, savedSlot{encode(nil, slot), a.data == nil})
	}
}

// saveData saves the data of a slot that is saved, before they change.
func (a *aside) saveData(slot uint32) {
	if s, ok := a.saved[slot]; ok && !s.whole {
		a.remove(slot, s)
		a.put(slot, savedSlot{a.data(s.encoded, slot), true})
	}
}

// absent records that a slot that was just handed out was free.
func (a *aside) absent(slot uint32) {
	if a.wants(slot) {
		a.put(slot, savedSlot{whole: true})
	}
}

// An Image is a snapshot being written.
type Image struct {
	tree     *Tree
	version  byte
	stage    int // kind of the next chunk; beyond chunkEnd the snapshot is finished
	size     int // where a chunk ends: chunkSize, less in tests
	nodes    aside
	sessions aside
	kept     atomic.Int64 // bytes that both keep aside

	// Small enough to be copied by BeginSnapshot.
	header    []byte
	acls      []string // encodings by index, "" where free
	aclCursor int
	end       []byte
}

// BeginSnapshot starts a snapshot of the tree as it is now. It takes microseconds and needs
// exclusive access to the tree. Close must be called; several snapshots may be open.
func (t *Tree) BeginSnapshot() *Image {
	img := &Image{
		tree: t, stage: chunkHeader, size: chunkSize, acls: make([]string, len(t.acls.entries)),
	}
	img.version = img.lowestVersion()
	img.nodes = aside{1, uint64(t.nodes.used), map[uint32]savedSlot{}, &img.kept, t.encodeData}
	img.sessions = aside{1, uint64(t.sessions.slots.used), map[uint32]savedSlot{}, &img.kept, nil}
	for i := range t.acls.entries {
		img.acls[i] = t.acls.entries[i].encoded
	}
	img.header = img.appendHeader([]byte{chunkHeader})
	img.end = jute.AppendInt([]byte{chunkEnd}, int32(t.totals.nodes))
	img.end = jute.AppendInt(img.end, int32(t.sessions.Count()))
	img.end = binary.BigEndian.AppendUint64(img.end, t.Digest())
	t.images = append(t.images, img)
	return img
}

// Close ends the snapshot, complete or not. It needs exclusive access to the tree. It is idempotent.
func (img *Image) Close() {
	t := img.tree
	t.images = slices.DeleteFunc(t.images, func(other *Image) bool { return other == img })
	img.stage = chunkEnd + 1
	img.nodes.saved, img.sessions.saved = nil, nil
}

// Next appends the next chunk to dst. It returns the result and whether there are more chunks. A chunk has about 64
// KiB, or more if a znode is larger. Next may run concurrently with reads, but not with changes or with itself.
func (img *Image) Next(dst []byte) (chunk []byte, more bool) {
	switch img.stage {
	case chunkHeader:
		img.stage++
		return append(dst, img.header...), true
	case chunkACLs:
		dst, more := img.nextACLs(dst)
		if !more {
			img.stage++
		}
		return dst, true
	case chunkSessions:
		dst, more := img.sessions.next(dst, img.size, chunkSessions, img.encodeSession, img.tree.sessions.slots.from)
		if !more {
			img.stage++
		}
		return dst, true
	case chunkNodes:
		t := img.tree
		dst, more := img.nodes.next(dst, img.size, chunkNodes, t.encodeNode, t.nodes.from)
		if !more {
			img.stage++
		}
		return dst, true
	case chunkEnd:
		img.stage++
		return append(dst, img.end...), false
	}
	return dst, false
}

// next appends a chunk of a slab's live slots; from is the slab's method.
func (a *aside) next(dst []byte, size int, kind byte, encode func([]byte, uint32) []byte,
	from func(uint32) uint64) ([]byte, bool) {
	dst = append(dst, kind, 0, 0, 0, 0)
	begin, count := len(dst), uint32(0)
	for a.cursor <= a.last && len(dst)-begin < size {
		if a.cursor%slabSlots == 0 {
			if a.cursor = from(uint32(a.cursor)); a.cursor > a.last {
				break
			}
		}
		before, slot := len(dst), uint32(a.cursor)
		if saved, ok := a.saved[slot]; ok {
			if dst = append(dst, saved.encoded...); !saved.whole {
				dst = a.data(dst, slot)
			}
			a.remove(slot, saved)
		} else {
			dst = encode(dst, slot)
		}
		if len(dst) > before {
			count++
		}
		a.cursor++
	}
	binary.BigEndian.PutUint32(dst[begin-4:], count)
	return dst, a.cursor <= a.last
}

func (img *Image) nextACLs(dst []byte) ([]byte, bool) {
	dst = append(dst, chunkACLs, 0, 0, 0, 0)
	first := img.aclCursor
	dst = jute.AppendInt(dst, int32(first))
	begin := len(dst)
	for img.aclCursor < len(img.acls) && len(dst)-begin < img.size {
		if encoded := img.acls[img.aclCursor]; encoded != "" {
			dst = append(dst, encoded...)
		} else {
			dst = jute.AppendACLs(dst, nil)
		}
		img.aclCursor++
	}
	binary.BigEndian.PutUint32(dst[begin-8:], uint32(img.aclCursor-first))
	return dst, img.aclCursor < len(img.acls)
}

// lowestVersion returns the lowest version that can represent the state of the tree.
func (img *Image) lowestVersion() byte {
	t := img.tree
	switch {
	case t.lineage != 0:
		return snapshotVersionLineage
	case t.membership.change.id != 0:
		return snapshotVersionChanging
	case t.keyed || t.position.back != 0:
		return snapshotVersionKeyed
	}
	for i := range t.sessions.entrances {
		if t.sessions.entrances[i].id != 0 {
			return snapshotVersionEntered
		}
	}
	return snapshotVersionMin
}

func (img *Image) appendHeader(b []byte) []byte {
	t := img.tree
	b = append(b, img.version)
	for _, k := range t.key {
		b = binary.BigEndian.AppendUint64(b, k)
	}
	p := &t.position
	b = binary.BigEndian.AppendUint64(b, p.term)
	b = binary.BigEndian.AppendUint64(b, p.index)
	b = jute.AppendLong(jute.AppendLong(b, p.zxid), p.time)
	b = t.settings.Append(b)
	if img.version > snapshotVersionMin {
		b = t.sessions.appendEntrances(b)
	}
	if img.version >= snapshotVersionKeyed {
		b = jute.AppendLong(jute.AppendBool(b, t.keyed), p.back)
	}
	if img.version >= snapshotVersionChanging {
		b = t.membership.change.append(b)
	}
	if img.version >= snapshotVersionLineage {
		b = jute.AppendLong(b, int64(t.lineage))
	}
	return b
}

// encodeSession appends the session in a slot, or nothing if the slot is free:
//
//	int slot | long id | long cnx | long next | int timeout | 16 bytes password | since version 2 byte scope
func (img *Image) encodeSession(b []byte, slot uint32) []byte {
	s := img.tree.sessions.slots.peek(slot)
	if s == nil || s.id == 0 {
		return b
	}
	b = binary.BigEndian.AppendUint32(b, slot)
	b = jute.AppendLong(jute.AppendLong(jute.AppendLong(b, s.id), s.cnx), s.next)
	b = jute.AppendInt(b, s.timeout)
	b = append(b, s.passwd[:]...)
	if img.version > snapshotVersionMin {
		b = append(b, byte(s.scope))
	}
	return b
}

// sessionSize is the size of an encoded session, without its scope.
const sessionSize = 4 + 3*8 + 4 + jute.PasswdSize

// nodeFixedSize is the size of an encoded znode without name and data.
const nodeFixedSize = 7*8 + 9*4 + 1

// encodeNode appends the znode in a slot, or nothing if the slot is free:
//
//	int slot | int parent | int next sibling | int next of the session | int acl |
//	int version | int aversion | byte kind | long czxid | long mzxid | long pzxid |
//	long ctime | long mtime | long owner | long created | ustring name | buffer data
func (z *znodes) encodeNode(b []byte, slot uint32) []byte {
	if !z.live(slot) {
		return b
	}
	return z.encodeData(z.encodeFixed(slices.Grow(b, nodeFixedSize+z.at(slot).payload()), slot), slot)
}

// encodeData appends the last part of a znode's encoding.
func (z *znodes) encodeData(b []byte, slot uint32) []byte {
	return jute.AppendBuffer(b, z.data(z.at(slot)))
}

// encodeFixed appends all parts of a znode's encoding except its data.
func (z *znodes) encodeFixed(b []byte, slot uint32) []byte {
	n := z.at(slot)
	k := z.extraOf(n)
	var of uint32
	if n.kind() == ephemeral {
		of = k.last
	}
	b = slices.Grow(b, nodeFixedSize+n.nameLen())
	for _, v := range [...]uint32{slot, n.parent, n.next, of, n.acl, uint32(n.version), uint32(n.aversion)} {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	b = append(b, byte(n.kind()))
	for _, v := range [...]int64{n.czxid, n.mzxid, k.pzxid, n.ctime, n.mtime, k.owner, k.created} {
		b = jute.AppendLong(b, v)
	}
	return jute.AppendString(b, z.name(n))
}
