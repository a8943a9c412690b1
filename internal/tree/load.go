package tree

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// errCorrupt is wrapped by every error of Load about the bytes of the snapshot.
var errCorrupt = errors.New("snapshot is corrupt")

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", errCorrupt, fmt.Sprintf(format, args...))
}

// Load builds the tree from the chunks of a snapshot, which next returns in order. It doesn't use a chunk after the
// next call of next. The key of the hashes comes from the snapshot, not from o. Load trusts nothing: it returns an
// error for anything that isn't a complete tree, and if the digest differs. It can't distinguish a tree that shrank
// from a forged one with a few znodes in slots far apart, which take about 100 KiB each. The caller must verify
// checksums.
func Load(o Options, next func() ([]byte, error)) (*Tree, error) {
	r := loading{tree: newTree(o), stage: chunkHeader}
	for {
		chunk, err := next()
		if err != nil {
			return nil, fmt.Errorf("read a chunk after %d znodes: %w", r.tree.nodes.live, err)
		}
		switch done, err := r.add(chunk); {
		case err != nil:
			return nil, err
		case done:
			return r.tree, nil
		}
	}
}

// loading is a tree that is being built from the chunks of a snapshot. Nothing else may use the tree before the last
// chunk: until then, its znodes lack hashes and links, and its sessions lack their lists.
type loading struct {
	tree    *Tree
	stage   byte // kind of the last chunk, or a lower kind that may come again
	version byte // of the snapshot, from its header
}

// add adds the next chunk. It reports whether that was the last one and the tree is complete.
func (r *loading) add(chunk []byte) (done bool, err error) {
	if len(chunk) == 0 || chunk[0] < r.stage || chunk[0] > r.stage+1 ||
		r.stage == chunkHeader && chunk[0] != chunkHeader {
		return false, corrupt("a chunk is missing or out of order")
	}
	r.stage = max(chunk[0], chunkACLs)
	var d jute.Decoder
	d.Reset(chunk[1:])
	switch chunk[0] {
	case chunkHeader:
		err = r.header(&d)
	case chunkACLs:
		err = r.tree.loadACLs(&d)
	case chunkSessions:
		err = r.tree.sessions.load(&d, r.version)
	case chunkNodes:
		err = r.tree.loadNodes(chunk[1:])
	case chunkEnd:
		return true, r.finish(&d)
	}
	if err == nil && d.Err() != nil {
		err = corrupt("%v", d.Err())
	}
	return false, err
}

func (r *loading) header(d *jute.Decoder) error {
	t, version := r.tree, d.Byte()
	if d.Err() == nil && (version < snapshotVersionMin || version > snapshotVersion) {
		what := fmt.Sprintf("the snapshot version %d (this version reads %d to %d)", version, snapshotVersionMin,
			snapshotVersion)
		return &NewerError{What: what, This: snapshotVersion, Wants: int32(version)}
	}
	for i := range t.key {
		t.key[i] = uint64(d.Long())
	}
	t.rootHash = t.key.root()
	t.position = position{term: uint64(d.Long()), index: uint64(d.Long()), zxid: d.Long(), time: d.Long()}
	s, err := t.decodeSettings(d)
	if err != nil {
		return err
	}
	t.set(s)
	t.totals.digest += t.settings.digest(&t.key)
	if version > snapshotVersionMin {
		err = t.sessions.loadEntrances(d)
	}
	if err == nil && version >= snapshotVersionKeyed {
		t.keyed = d.Bool()
		t.position.back = d.Long()
	}
	if err == nil && version >= snapshotVersionChanging {
		t.membership.set(decodeChange(d))
	}
	if err == nil && version >= snapshotVersionLineage {
		t.setLineage(uint64(d.Long()))
	}
	r.version = version
	return err
}

func (z *znodes) loadACLs(d *jute.Decoder) error {
	count, first := d.Count(4), d.Int()
	if int(first) != len(z.acls.entries) {
		return corrupt("ACLs begin at place %d instead of %d", first, len(z.acls.entries))
	}
	for range max(count, 0) {
		place := uint32(len(z.acls.entries))
		rest, begin := d.Rest(), d.Offset()
		list := jute.DecodeACLs(d)
		if d.Err() != nil {
			break
		}
		if list == nil {
			z.acls.entries = append(z.acls.entries, aclEntry{})
			continue
		}
		f := aclFix{encoded: strings.Clone(text(rest[:d.Offset()-begin]))}
		f.list = jute.DecodeACLs(jute.NewDecoder([]byte(f.encoded)))
		if z.internACL(&f) != place {
			return corrupt("the ACL at place %d is there twice", place)
		}
	}
	return nil
}

func (ss *Sessions) load(d *jute.Decoder, version byte) error {
	slots := &ss.slots
	for range max(d.Count(sessionSize), 0) {
		slot := uint32(d.Int())
		s := session{id: d.Long(), cnx: d.Long(), next: d.Long(), timeout: d.Int()}
		for i := range s.passwd {
			s.passwd[i] = d.Byte()
		}
		if version > snapshotVersionMin {
			s.scope = Scope(d.Byte())
		}
		if s.scope >= scopes || s.scope != Global && ss.entranceOf(s.id).id == 0 {
			return corrupt("session %#x has the scope %d", s.id, s.scope)
		}
		if _, twice := ss.index[s.id]; twice || slot <= slots.used || s.id == 0 {
			return corrupt("session %#x at slot %d is invalid, or there twice", s.id, slot)
		}
		slots.reach(slot)
		slots.used = slot
		slots.live++
		s.base = ss.baseOf(&s)
		*slots.at(slot) = s
		if s.scope != Global {
			ss.entranceOf(s.id).inside++
		}
		ss.index[s.id] = slot
		ss.znodes.totals.digest += ss.digestOf(&s)
	}
	return nil
}

// loadNodes puts znodes into their slots, without the links that are derived from other znodes.
func (z *znodes) loadNodes(b []byte) error {
	if len(b) < 4 {
		return corrupt("a chunk of znodes has %d bytes", len(b))
	}
	count := binary.BigEndian.Uint32(b)
	b = b[4:]
	for range count {
		size, err := z.loadNode(b)
		if err != nil {
			return err
		}
		b = b[size:]
	}
	return nil
}

// loadNode decodes one znode at the start of b and returns its encoded size.
func (z *znodes) loadNode(b []byte) (int, error) {
	if len(b) < nodeFixedSize {
		return 0, corrupt("a znode is cut short")
	}
	u := func(i int) uint32 { return binary.BigEndian.Uint32(b[4*i:]) }
	l := func(i int) int64 { return int64(binary.BigEndian.Uint64(b[29+8*i:])) }
	slot, k := u(0), kind(b[28])
	n := node{
		parent: u(1), next: u(2), acl: u(4), version: int32(u(5)), aversion: int32(u(6)),
		czxid: l(0), mzxid: l(1), ctime: l(3), mtime: l(4),
	}
	rare := nodeExtra{last: u(3), pzxid: l(2), owner: l(5), created: l(6)}
	nameLen := binary.BigEndian.Uint32(b[85:])
	if slot <= z.nodes.used || k >= kinds || (slot == rootSlot) != (n.parent == 0) || k != ephemeral && rare.last != 0 ||
		int(n.acl) >= len(z.acls.entries) || z.acls.entries[n.acl].encoded == "" ||
		nameLen > nameLenMax || int(nameLen) > len(b)-nodeFixedSize || (nameLen == 0) != (slot == rootSlot) {
		return 0, corrupt("the znode at slot %d after %d is invalid", slot, z.nodes.used)
	}
	name := b[89 : 89+nameLen]
	rest := b[89+nameLen:]
	size := int32(binary.BigEndian.Uint32(rest))
	if size < -1 || int(size) > len(rest)-4 || strings.IndexByte(text(name), '/') >= 0 {
		return 0, corrupt("name or data of the znode at slot %d doesn't fit", slot)
	}
	data := rest[4 : 4+max(size, 0)]
	n.nameKind, n.dataLen = nameLen|uint32(k)<<kindShift, size
	z.longestName = max(z.longestName, int(nameLen))
	if rare != z.extraOf(&n) {
		*z.editExtra(&n) = rare
	}
	n.block = z.payloads.get(n.payload())
	block := z.payloads.bytes(n.block, n.payload())
	copy(block, name)
	copy(block[nameLen:], data)
	z.nodes.reach(slot)
	z.nodes.used = slot
	z.nodes.live++
	*z.at(slot) = n
	z.acls.retain(n.acl)
	return nodeFixedSize + n.payload(), nil
}

// finish links the loaded znodes and sessions and verifies that they are a complete tree.
func (r *loading) finish(d *jute.Decoder) error {
	t := r.tree
	nodes, sessions, digest := d.Int(), d.Int(), uint64(d.Long())
	if d.Err() != nil || int(nodes) != t.nodes.live || int(sessions) != t.sessions.slots.live || t.nodes.live == 0 {
		return corrupt("%d znodes and %d sessions instead of %d and %d", t.nodes.live, t.sessions.slots.live, nodes, sessions)
	}
	if err := t.finishACLs(); err != nil {
		return err
	}
	for slot := range t.nodes.all {
		if t.exists(slot) {
			if err := r.link(slot); err != nil {
				return err
			}
		}
	}
	if err := t.sessions.finish(); err != nil {
		return err
	}
	if err := t.finishNodes(func(id int64, pathLen int) {
		t.sessions.slots.at(t.sessions.index[id]).pathBytes += int64(pathLen)
		t.totals.ephPaths += pathLen
	}); err != nil {
		return err
	}
	t.nodes.loaded(func(slot uint32) bool { return !t.exists(slot) })
	t.sessions.slots.loaded(func(slot uint32) bool { return t.sessions.slots.at(slot).id == 0 })
	for _, path := range []string{pathZookeeper, pathQuota, pathConfig} {
		if t.find(path) == 0 {
			return corrupt("there is no %s", path)
		}
	}
	t.quotas.addAll()
	t.access.readPolicy()
	if t.Digest() != digest {
		return corrupt("the digest is %#x instead of %#x", t.Digest(), digest)
	}
	return nil
}

// exists is live for any slot number, including one that was never handed out.
func (z *znodes) exists(slot uint32) bool {
	n := z.nodes.peek(slot)
	return n != nil && slot <= z.nodes.used && (slot == rootSlot || n.parent != 0)
}

func (z *znodes) finishACLs() error {
	for i, f := range builtIn() {
		if i >= len(z.acls.entries) || z.acls.entries[i].encoded != f.encoded {
			return corrupt("place %d of the ACLs holds another one", i)
		}
		z.acls.retain(uint32(i))
	}
	for i := len(z.acls.entries) - 1; i >= 0; i-- {
		switch e := &z.acls.entries[i]; {
		case e.encoded == "":
			z.acls.free = append(z.acls.free, uint32(i))
		case e.refs == 0:
			return corrupt("no znode has the ACL at place %d", i)
		}
	}
	return nil
}

// link derives the links of a znode's neighbours from its own. It ensures that each znode has at most one predecessor,
// and each parent at most one first and one last child. finishNodes checks that they form one tree.
func (r *loading) link(slot uint32) error {
	t := r.tree
	n := t.at(slot)
	if slot == rootSlot {
		if n.next != 0 || n.kind() == ephemeral {
			return corrupt("the root has a sibling or an owner")
		}
		return nil
	}
	if !t.exists(n.parent) || t.at(n.parent).kind() == ephemeral {
		return corrupt("the parent of the znode at slot %d doesn't exist, or is ephemeral", slot)
	}
	p := t.editExtra(t.at(n.parent))
	p.children++
	if n.next == 0 {
		if p.last != 0 {
			return corrupt("the znode at slot %d has two last children", n.parent)
		}
		p.last = slot
	} else {
		if !t.exists(n.next) || n.next == rootSlot || t.at(n.next).parent != n.parent || t.at(n.next).prev != 0 {
			return corrupt("the znode at slot %d has a wrong sibling", slot)
		}
		t.at(n.next).prev = slot
	}
	if n.kind() != ephemeral {
		return nil
	}
	own := t.extraOf(n)
	at, ok := t.sessions.index[own.owner]
	if !ok {
		return corrupt("the session %#x of the znode at slot %d doesn't exist", own.owner, slot)
	}
	s := t.sessions.slots.at(at)
	s.ephemerals++
	t.totals.ephemerals++
	if own.last == 0 {
		if s.last != 0 {
			return corrupt("session %#x has two last znodes", s.id)
		}
		s.last = slot
		return nil
	}
	if !t.exists(own.last) || t.at(own.last).kind() != ephemeral {
		return corrupt("the znode at slot %d has a wrong neighbour in its session", slot)
	}
	neighbour := t.editExtra(t.at(own.last))
	if neighbour.owner != own.owner || neighbour.first != 0 {
		return corrupt("the znode at slot %d has a wrong neighbour in its session", slot)
	}
	neighbour.first = slot
	return nil
}

// finish finds the first znode of each session, and verifies that the session's list has all of its znodes.
func (ss *Sessions) finish() error {
	for slot := range ss.slots.all {
		s := ss.slots.at(slot)
		if s.id == 0 {
			continue
		}
		count := uint32(0)
		for z := s.last; z != 0 && count <= s.ephemerals; z = ss.znodes.extraOf(ss.znodes.at(z)).first {
			s.first = z
			count++
		}
		if count != s.ephemerals {
			return corrupt("session %#x has %d znodes, its list %d", s.id, s.ephemerals, count)
		}
	}
	return nil
}

// finishNodes walks the tree from the root: it computes the hashes, fills the table, and verifies that every znode is
// reached. It calls owned for each ephemeral znode with its owner and the length of its path.
func (z *znodes) finishNodes(owned func(session int64, pathLen int)) error {
	for slot := range z.nodes.all {
		if n := z.at(slot); n.parent != 0 && n.prev == 0 {
			p := z.editExtra(z.at(n.parent))
			if p.first != 0 {
				return corrupt("the znode at slot %d has two first children", n.parent)
			}
			p.first = slot
		}
	}
	z.table.grow(z.nodes.live)
	var met loadedNodes
	pathLen := 0 // of the current znode
	for slot := uint32(rootSlot); ; {
		at, n := slot, z.at(slot)
		n.hash = z.rootHash
		if slot != rootSlot {
			pathLen += 1 + n.nameLen()
			n.hash = z.key.child(z.at(n.parent).hash, z.name(n))
		}
		z.totals.dataSize += pathLen
		if n.kind() == ephemeral {
			owned(z.extraOf(n).owner, pathLen)
		}
		if met.add(slot) {
			if err := z.loaded(&met); err != nil {
				return err
			}
		}
		if k := z.extraOf(n); k.children > 0 {
			if slot = k.first; slot == 0 {
				return corrupt("the znode at slot %d has children but no first", at)
			}
			continue
		}
		for slot != rootSlot && z.at(slot).next == 0 {
			z.addBelow(slot)
			pathLen -= 1 + z.at(slot).nameLen()
			slot = z.at(slot).parent
		}
		if slot == rootSlot {
			break
		}
		z.addBelow(slot)
		pathLen -= 1 + z.at(slot).nameLen()
		slot = z.at(slot).next
	}
	if err := z.loaded(&met); err != nil {
		return err
	}
	if z.totals.nodes != z.nodes.live {
		return corrupt("%d of %d znodes are reached from the root", z.totals.nodes, z.nodes.live)
	}
	return nil
}

// addBelow adds a znode and its descendants to its parent's counts.
func (z *znodes) addBelow(slot uint32) {
	n := z.at(slot)
	own, k := z.extraOf(n), z.extras.at(z.at(n.parent).extra)
	k.below += 1 + own.below
	k.sizes += int64(n.size()) + own.sizes
}

// loadedNodes are znodes that a walk has visited but not indexed yet. Indexing a znode waits for its place in the
// table, so several are indexed together (see Prefetch).
type loadedNodes struct {
	slots [PrefetchMax]uint32
	count int
}

// add adds a znode, and reports whether there is no room for another.
func (m *loadedNodes) add(slot uint32) (full bool) {
	m.slots[m.count] = slot
	m.count++
	return m.count == len(m.slots)
}

// loaded indexes and counts the znodes in met, and empties it. Their ancestors are already counted, or are among them.
func (z *znodes) loaded(met *loadedNodes) error {
	slots := met.slots[:met.count]
	met.count = 0
	z.touch(slots)
	for _, slot := range slots {
		n := z.at(slot)
		if slot != rootSlot && z.findChild(n.parent, n.hash, z.name(n)) != 0 {
			return corrupt("%s is there twice", z.appendPath(nil, slot))
		}
		z.index(slot)
		z.totals.nodes++
		z.totals.dataSize += n.size()
		z.totals.digest += z.nodeDigest(n)
		if n.kind() == container || n.kind() == ttl {
			z.totals.reapable++
		}
	}
	return nil
}

// touch loads the places in the table that znodes are going to have. Its result has no meaning.
//
//go:noinline
func (z *znodes) touch(slots []uint32) (touched entry) {
	for _, slot := range slots {
		p := z.table.probe(z.at(slot).hash)
		touched += *in(p.entries, p.at)
	}
	return touched
}
