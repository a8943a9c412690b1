package tree

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// A Foreign is a znode from or for the files of another kind of server. It has every field that the tree keeps,
// unchanged.
type Foreign struct {
	Path   string // set by Znodes
	Parent uint32 // for Builder.Add: the place of the parent
	Name   string // for Builder.Add: the last component of the path

	Data                []byte // nil for null
	ACL                 []jute.ACL
	Czxid, Mzxid, Pzxid int64
	Ctime, Mtime        int64
	Version, Aversion   int32
	Created             int64 // number of children ever created
	Container           bool
	TTL                 int64 // milliseconds; 0 for none
	Owner               int64 // session that owns it; 0 for none
}

// A Builder builds a tree from the data files of another kind of server. It must not be used after an error.
type Builder struct {
	tree *Tree
	last []jute.ACL // the last ACL, since most znodes have the same one
	fix  aclFix     // what to store for last
}

// RootPlace is the place of the root, which exists from the start.
const RootPlace = rootSlot

// NewBuilder returns a Builder whose tree has only a root.
func NewBuilder(o Options) *Builder { return &Builder{tree: newRoot(o)} }

// AddSession adds a session that no connection owns.
func (b *Builder) AddSession(id int64, timeout int32, passwd [jute.PasswdSize]byte) error {
	if _, twice := b.tree.sessions.index[id]; twice || id == 0 || id == -1<<63 || timeout < 0 {
		return fmt.Errorf("add session %#x with a timeout of %d ms to the tree: it is invalid, or there twice", uint64(id),
			timeout)
	}
	b.tree.sessions.begin(session{id: id, next: 1, timeout: timeout, passwd: passwd})
	return nil
}

// Root sets the data, ACL and Stat of the root.
func (b *Builder) Root(z *Foreign) { b.become(rootSlot, z) }

// become sets the data, ACL and Stat of an existing znode to those of z.
func (b *Builder) become(slot uint32, z *Foreign) {
	t := b.tree
	t.totals.digest -= t.statHash(t.at(slot))
	t.setNodeACL(slot, b.intern(z.ACL))
	t.totals.digest += t.statHash(t.at(slot))
	t.setData(slot, z.Data)
	b.stat(slot, z)
}

// Add adds a znode and returns its place. Its parent and session must exist. It doesn't retain z or anything in it.
func (b *Builder) Add(z *Foreign) (place uint32, err error) {
	if err := b.check(z); err != nil {
		return 0, fmt.Errorf("add a znode with the name %q to the tree: %w", z.Name, err)
	}
	return b.insert(z), nil
}

// insert adds a znode that check has accepted.
func (b *Builder) insert(z *Foreign) (place uint32) {
	n := newNode{data: z.Data, zxid: z.Czxid, time: z.Ctime, acl: b.intern(z.ACL)}
	switch {
	case z.Container:
		n.kind = container
	case z.TTL != 0:
		n.kind, n.owner = ttl, z.TTL
	case z.Owner != 0:
		n.kind, n.owner = ephemeral, z.Owner
	}
	place = b.tree.insertNode(z.Parent, z.Name, n)
	b.stat(place, z)
	return place
}

// check returns why a znode can't be added, or nil.
func (b *Builder) check(z *Foreign) error {
	t := b.tree
	switch {
	case z.Parent == 0 || z.Parent > t.nodes.used || !t.live(z.Parent):
		return errors.New("its parent isn't there")
	case z.Name == "" || len(z.Name) > nameLenMax || strings.IndexByte(z.Name, '/') >= 0:
		return errors.New("no znode may have that name")
	case t.at(z.Parent).kind() == ephemeral:
		return errors.New("its parent is ephemeral")
	case t.findChild(z.Parent, t.key.child(t.at(z.Parent).hash, z.Name), z.Name) != 0:
		return errors.New("it is there twice")
	case z.TTL < 0 || z.TTL > jute.TTLMax:
		return fmt.Errorf("a TTL of %d ms", z.TTL)
	}
	if _, ok := t.sessions.index[z.Owner]; z.Owner != 0 && !ok {
		return fmt.Errorf("its session %#x isn't there", uint64(z.Owner))
	}
	return nil
}

// intern returns the place of an ACL. The caller must retain it.
func (b *Builder) intern(list []jute.ACL) uint32 {
	if b.fix.encoded == "" || !slices.Equal(list, b.last) {
		encoded := jute.AppendACLs(nil, append([]jute.ACL{}, list...)) // makes null an empty list
		b.fix = aclFix{jute.DecodeACLs(jute.NewDecoder(encoded)), text(encoded), true}
		b.last = b.fix.list
	}
	return b.tree.internACL(&b.fix)
}

// stat sets the fields of a znode's Stat that insertNode doesn't set.
func (b *Builder) stat(place uint32, z *Foreign) {
	t := b.tree
	n := t.edit(place)
	t.totals.digest -= t.statHash(n)
	n.czxid, n.mzxid, n.ctime, n.mtime = z.Czxid, z.Mzxid, z.Ctime, z.Mtime
	n.version, n.aversion = z.Version, z.Aversion
	if k := t.extraOf(n); k.pzxid != z.Pzxid || k.created != z.Created {
		k := t.editExtra(n)
		k.pzxid, k.created = z.Pzxid, z.Created
	}
	t.totals.digest += t.statHash(n)
}

// Finish returns the tree. Its position is (term, index) of a new log, with zxid as its last zxid and ms as its time.
func (b *Builder) Finish(term, index uint64, zxid, ms int64) (*Tree, error) {
	t := b.tree
	for _, path := range []string{pathZookeeper, pathQuota, pathConfig} {
		if t.find(path) == 0 {
			return nil, fmt.Errorf("build a tree: there is no %s", path)
		}
	}
	t.position = position{term: term, index: index, zxid: zxid, time: ms}
	t.quotas.addAll()
	return t, nil
}

// Znodes calls visit for each znode, parents before their children and siblings in the order of
// their creation, until visit returns false. The Foreign is valid only until visit returns.
func (t *Tree) Znodes(visit func(*Foreign) bool) {
	var path []byte
	for slot := uint32(rootSlot); slot != 0; slot = t.following(slot) {
		n := t.at(slot)
		k := t.extraOf(n)
		path = t.appendPath(path[:0], slot)
		z := Foreign{
			Path: text(path), Data: t.data(n), ACL: t.acls.entries[n.acl].list,
			Czxid: n.czxid, Mzxid: n.mzxid, Pzxid: k.pzxid, Ctime: n.ctime, Mtime: n.mtime,
			Version: n.version, Aversion: n.aversion, Created: k.created,
		}
		switch n.kind() {
		case container:
			z.Container = true
		case ttl:
			z.TTL = k.owner
		case ephemeral:
			z.Owner = k.owner
		}
		if !visit(&z) {
			return
		}
	}
}
