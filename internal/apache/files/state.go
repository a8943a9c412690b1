package files

import (
	"strings"
	"unsafe"

	"github.com/zooid-project/zooid/jute"
)

// Apache's own znodes.
const (
	zookeeper   = "/zookeeper"
	quotaRoot   = "/zookeeper/quota"
	configNode  = "/zookeeper/config"
	limitsName  = "zookeeper_limits"
	statsName   = "zookeeper_stats"
	anyCversion = -1 // in a create of the first 3.4 logs: one more than the current value
)

// An ACL is shared by znodes. List is nil if a snapshot refers to an ACL that it doesn't contain, until a replayed
// create provides the list.
type ACL struct {
	List []jute.ACL
}

// A Znode is a znode of a State.
type Znode struct {
	Path string // "" for the root
	Data []byte // nil for null
	ACL  *ACL
	Stat Stat
	// Place is for the caller, to note where it has put the znode.
	Place uint32

	parent   *Znode
	children map[string]*Znode // by name; only in a live state
	gone     bool
}

// A State is what an Apache server holds in memory: the znodes and sessions of a snapshot, updated by the transactions
// after it.
//
// The znodes of a snapshot were written at different times, and may already include the replayed transactions. So each
// change must be idempotent: versions and zxids come from the transaction rather than from counting, a parent's
// cversion and pzxid only increase, and creating an existing znode or deleting a missing one is skipped.
type State struct {
	Zxid     int64           // of the last transaction
	Time     int64           // of the newest change, in milliseconds
	Sessions map[int64]int32 // timeouts in milliseconds, by id
	// Changed, if not nil, is called for each change that triggers clients' watches.
	Changed func(event jute.EventType, path string, zxid int64)

	nodes  map[string]*Znode
	order  []*Znode // in order of creation: parents before their children; some are deleted
	digest uint64
	acls   map[string]*ACL // by encoding
	open   *ACL            // world:anyone with all permissions; not in a snapshot's list
	memory []byte          // chunk from which paths and data are allocated
	slab   []Znode
	owned  map[int64][]*Znode // by ephemeralOwner; some are deleted
	live   bool               // see live.go
	walks  int                // snapshots that are being written
}

func newState() *State {
	s := &State{
		Sessions: map[int64]int32{}, nodes: map[string]*Znode{}, acls: map[string]*ACL{}, owned: map[int64][]*Znode{},
	}
	s.open = &ACL{List: jute.WorldACL(jute.PermAll)}
	return s
}

// Digest is Apache's digest of the tree.
func (s *State) Digest() uint64 { return s.digest }

// Len returns the number of znodes.
func (s *State) Len() int { return len(s.nodes) }

// Znodes calls visit for each znode, parents before their children, until it returns an error.
func (s *State) Znodes(visit func(*Znode) error) error {
	for _, z := range s.order {
		if z.gone || s.nodes[z.Path] != z {
			continue
		}
		if err := visit(z); err != nil {
			return err
		}
	}
	return nil
}

// find returns the znode at a path, nil if there is none. Both "" and "/" are the root.
func (s *State) find(path string) *Znode {
	if path == "/" {
		path = ""
	}
	return s.nodes[path]
}

// keep returns a copy of bytes that the caller doesn't own.
func (s *State) keep(b []byte) []byte {
	const step = 256 << 10
	if b == nil {
		return nil
	}
	if len(b) == 0 || len(b) > step/4 || s.live {
		return append([]byte{}, b...)
	}
	if cap(s.memory)-len(s.memory) < len(b) {
		s.memory = make([]byte, 0, step)
	}
	begin := len(s.memory)
	s.memory = append(s.memory, b...)
	return s.memory[begin:len(s.memory):len(s.memory)]
}

// keepText is keep for a string.
func (s *State) keepText(text string) string {
	if text == "" {
		return ""
	}
	b := s.keep(unsafe.Slice(unsafe.StringData(text), len(text)))
	return unsafe.String(&b[0], len(b)) // the result of keep is never modified
}

// put adds a znode, replacing the one at its path if there is one.
func (s *State) put(z Znode) *Znode {
	p := s.place()
	*p = z
	if s.live {
		s.adopt(p)
	}
	if old := s.nodes[z.Path]; old != nil {
		s.digest -= old.digest()
	}
	s.nodes[z.Path] = p
	s.order = append(s.order, p)
	s.digest += p.digest()
	if o := z.Stat.Owner; o != 0 && o != ownerContainer {
		s.owned[o] = append(s.owned[o], p)
	}
	return p
}

// place allocates a znode.
func (s *State) place() *Znode {
	if s.live {
		return new(Znode) // so that it can be freed individually
	}
	if len(s.slab) == 0 {
		s.slab = make([]Znode, 1024)
	}
	p := &s.slab[0]
	s.slab = s.slab[1:]
	return p
}

// changed reports a change.
func (s *State) changed(event jute.EventType, path string, zxid int64) {
	if s.Changed == nil {
		return
	}
	if path == "" {
		path = "/"
	}
	s.Changed(event, path, zxid)
}

// edit changes a znode and updates the digest.
func (s *State) edit(z *Znode, change func()) {
	s.digest -= z.digest()
	change()
	s.digest += z.digest()
}

// Parent returns the parent, nil for the root.
func (z *Znode) Parent() *Znode { return z.parent }

func (z *Znode) digest() uint64 { return NodeDigest(z.Path, z.Data, &z.Stat) }

// childOf reports whether a znode is a child of this parent. After a replay it may be a leftover of an earlier znode
// at the same path.
func (z *Znode) childOf(parent *Znode) bool { return z != nil && z.parent == parent }

// SplitPath returns the parent of a path, "" for the root, and the name.
func SplitPath(path string) (parent, name string) {
	at := strings.LastIndexByte(path, '/')
	return path[:max(at, 0)], path[at+1:]
}

// createTxn is a create of any kind, as in a transaction.
type createTxn struct {
	path     string
	data     []byte
	acl      *ACL
	owner    int64
	cversion int32 // the parent's after the create
	zxid, ms int64
}

// create replays a create.
func (s *State) create(c *createTxn) {
	parentPath, _ := SplitPath(c.path)
	parent := s.nodes[parentPath]
	if parent == nil {
		return
	}
	if c.cversion == anyCversion {
		c.cversion = parent.Stat.Cversion + 1
	}
	if c.cversion > parent.Stat.Cversion {
		s.edit(parent, func() { parent.Stat.Cversion, parent.Stat.Pzxid = c.cversion, c.zxid })
	}
	if there := s.nodes[c.path]; there.childOf(parent) {
		there.ACL = c.acl // the snapshot may lack it
		return
	}
	s.put(Znode{
		Path: c.path, Data: c.data, ACL: c.acl, parent: parent,
		Stat: Stat{Czxid: c.zxid, Mzxid: c.zxid, Pzxid: c.zxid, Ctime: c.ms, Mtime: c.ms, Owner: c.owner},
	})
	s.changed(jute.EventNodeCreated, c.path, c.zxid)
	s.changed(jute.EventNodeChildrenChanged, parentPath, c.zxid)
}

// delete replays a delete.
func (s *State) delete(path string, zxid int64) {
	parentPath, _ := SplitPath(path)
	parent := s.nodes[parentPath]
	if parent == nil || path == "" || path == "/" {
		return
	}
	if zxid > parent.Stat.Pzxid {
		s.edit(parent, func() { parent.Stat.Pzxid = zxid })
	}
	if z := s.nodes[path]; z != nil {
		s.digest -= z.digest()
		if z.parent != nil {
			delete(z.parent.children, path[strings.LastIndexByte(path, '/')+1:])
		}
		z.gone, z.parent = true, nil
		delete(s.nodes, path)
		s.changed(jute.EventNodeDeleted, path, zxid)
		s.changed(jute.EventNodeChildrenChanged, parentPath, zxid)
	}
}

// deleteOwned deletes the znodes of a session.
func (s *State) deleteOwned(session, zxid int64) (deleted int) {
	owned := s.owned[session]
	delete(s.owned, session)
	for _, z := range owned {
		if s.nodes[z.Path] == z {
			s.delete(z.Path, zxid)
			deleted++
		}
	}
	return deleted
}

// setData replays a setData or reconfig.
func (s *State) setData(path string, data []byte, version int32, zxid, ms int64) {
	if z := s.find(path); z != nil {
		s.edit(z, func() { z.Data, z.Stat.Version, z.Stat.Mzxid, z.Stat.Mtime = data, version, zxid, ms })
		s.changed(jute.EventNodeDataChanged, path, zxid)
	}
}

// setACL replays a setACL.
func (s *State) setACL(path string, acl *ACL, version int32) {
	if z := s.find(path); z != nil {
		s.edit(z, func() { z.ACL, z.Stat.Aversion = acl, version })
	}
}

// addOwn adds the znodes that later versions of Apache always have, and earlier ones don't write.
func (s *State) addOwn() {
	for _, path := range []string{zookeeper, quotaRoot, configNode} {
		parentPath, _ := SplitPath(path)
		if s.nodes[path] != nil || s.nodes[parentPath] == nil {
			continue
		}
		z := Znode{Path: path, Data: []byte{}, ACL: s.open, parent: s.nodes[parentPath]}
		if path == configNode {
			z.ACL = s.sharedACL(jute.AppendACLs(nil, jute.WorldACL(jute.PermRead)))
			z.Stat.Aversion = -1
		}
		s.put(z)
	}
}

// sharedACL returns the ACL with an encoding, as a vector of ACL.
func (s *State) sharedACL(encoded []byte) *ACL {
	if a := s.acls[string(encoded)]; a != nil {
		return a
	}
	key := string(encoded)
	a := &ACL{List: jute.DecodeACLs(jute.NewDecoder([]byte(key)))}
	if a.List == nil {
		a.List = []jute.ACL{} // null grants everything to everybody, as an empty list does
	}
	s.acls[key] = a
	return a
}
