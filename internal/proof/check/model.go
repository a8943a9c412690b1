package check

import (
	"strings"

	"github.com/zooid-project/zooid/internal/proof/check/acls"
	"github.com/zooid-project/zooid/jute"
)

// The model is deliberately naive: a map from path to node, and for each node the list of its states by zxid. It shares
// no code with the server's tree, so a misunderstanding goes unnoticed only if both have it.

// lifetime says what may remove a znode, besides clients.
type lifetime uint8

const (
	persistent lifetime = iota
	ephemeral           // its session's end
	container           // the servers, once it is empty again
	withTTL             // the servers, once it is empty and old
)

// A stamp is the server time of one change. It is unknown until a Stat with the change is seen. All Stats must have the
// same time.
type stamp struct {
	zxid  int64
	ms    int64
	known bool
	multi bool // the change was a multi
	seen  bool // some reply has shown its effect
}

// A state is a znode, or its absence, between two changes. It is immutable.
type state struct {
	zxid   int64  // of the change that made it
	before *state // the previous state, nil if unknown

	czxid, mzxid, pzxid int64
	ctime, mtime        *stamp
	version, aversion   int32
	creations           int32 // of children: the stored cversion, and the next sequence number
	numChildren         int32
	owner               int64 // session, for an ephemeral
	data                []byte
	acl                 []jute.ACL
	open                jute.Perm // the permissions that acl grants to everybody, for speed
	life                lifetime
	absent              bool
	ended               bool // absent because it was removed with its session
}

// permits reports whether s's ACL grants one of ids any of perms.
func (s *state) permits(perms jute.Perm, ids []jute.ID) bool {
	return s.open&perms != 0 || acls.Permits(s.acl, perms, ids)
}

// A node is everything known about one path, whether it exists or not.
type node struct {
	path     string
	parent   *node  // nil for "/" and for a string that isn't a path
	last     *state // nil if it never existed
	verified int64  // zxid of the last read that agreed with the Stat
	opaque   bool   // not checked: the history doesn't cover it
	lost     bool   // opaque because an unanswered write left its state undecided
	below    int32  // number of existing descendants

	data, child []watcher // the two watch tables, with the watchers of all connections
	recursive   []*conn   // those in data with a recursive watch that may still receive events

	hash     uint64  // of its own name
	names    nameSet // of children
	children []*node // that exist at present
	slot     int     // index in parent.children while it exists
	ownSlot  int     // index in the session's ephemerals

	kids             []*node // all children that were ever named
	look             int64   // set by lookahead
	mark             int64   // set by readers that compare sets
	watchersLostFrom int64   // if not 0, its watchers are unknown from this zxid on, because it was lost
	seenAlive        int32   // index of the last request that found it
	reapGuessed      bool    // that the servers removed it is a guess

	unanswered []*unanswered // unanswered writes that may have touched it
}

// now returns the latest state, nil if the znode doesn't exist.
func (n *node) now() *state {
	if n.last == nil || n.last.absent {
		return nil
	}
	return n.last
}

// at returns the state as of zxid.
func (n *node) at(zxid int64) *state {
	s := n.last
	for s != nil && s.zxid > zxid {
		s = s.before
	}
	if s == nil || s.absent {
		return nil
	}
	return s
}

// A fired event is a change reported to the watch tables.
type fired struct {
	typ   jute.EventType
	table uint8 // tableData, tableChild or tableChildAfterData
	n     *node
	acl   []jute.ACL // decides which clients may receive it
}

type model struct {
	opt        *Options
	nodes      map[string]*node
	ephemerals map[int64][]*node // by session
	trail      []*node           // nodes with new states since it was last cleared
	events     []fired           // of the change being applied
	mark       int64
	lag        map[*node]int // number of setACLs that the next write's permission checks overlook
	recursive  int           // recursive watches registered, alive or not
	states     []state       // room for new states, which live as long as the model
	room       []node        // the same for nodes
}

func newModel(opt *Options) *model {
	m := &model{opt: opt, nodes: map[string]*node{}, ephemerals: map[int64][]*node{}}
	zero := &stamp{known: true}
	for _, p := range []string{"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"} {
		n := m.node(p)
		acl := jute.WorldACL(jute.PermAll)
		n.last = &state{ctime: zero, mtime: zero, data: []byte{}, acl: acl, open: acls.Open(acl)}
		if n.parent != nil {
			m.link(n)
			n.parent.last.numChildren++
		}
	}
	return m
}

// node returns the node of a path. It creates the node if necessary.
func (m *model) node(path string) *node {
	if n := m.nodes[path]; n != nil {
		return n
	}
	if len(m.room) == 0 {
		m.room = make([]node, nodesPerPage)
	}
	n := &m.room[0]
	m.room = m.room[1:]
	n.path, n.hash, n.opaque = path, hashName(baseName(path)), m.opt.opaque(path)
	m.nodes[path] = n
	if p := parentPath(path); p != "" && path != "/" {
		n.parent = m.node(p)
		n.parent.kids = append(n.parent.kids, n)
	}
	return n
}

// named is node for callers that must not change the model. For an unknown path, it returns a separate node each time.
func (m *model) named(path string) *node {
	if n := m.nodes[path]; n != nil {
		return n
	}
	n := &node{path: path, opaque: m.opt.opaque(path)}
	if p := parentPath(path); p != "" && path != "/" {
		n.parent = m.named(p)
	}
	return n
}

// parentPath returns the parent's path: "/" for "/a", and "" for a path without a slash.
func parentPath(path string) string {
	switch i := strings.LastIndexByte(path, '/'); {
	case i < 0:
		return ""
	case i == 0:
		return "/"
	default:
		return path[:i]
	}
}

func (m *model) link(n *node) {
	n.slot = len(n.parent.children)
	n.parent.children = append(n.parent.children, n)
	n.parent.names.add(n.hash)
	n.parent.grow(1 + n.below)
}

func (m *model) unlink(n *node) {
	siblings := n.parent.children
	last := siblings[len(siblings)-1]
	siblings[n.slot], last.slot = last, n.slot
	n.parent.children = siblings[:len(siblings)-1]
	n.parent.names.remove(n.hash)
	n.parent.grow(-1 - n.below)
}

// grow adds to the number of descendants of n and of all its ancestors.
func (n *node) grow(by int32) {
	for n.below += by; n.now() != nil && n.parent != nil; {
		n = n.parent
		n.below += by
	}
}

func (m *model) own(n *node, session int64) {
	n.ownSlot = len(m.ephemerals[session])
	m.ephemerals[session] = append(m.ephemerals[session], n)
}

func (m *model) disown(n *node, session int64) {
	owned := m.ephemerals[session]
	last := owned[len(owned)-1]
	owned[n.ownSlot], last.ownSlot = last, n.ownSlot
	if owned = owned[:len(owned)-1]; len(owned) == 0 {
		delete(m.ephemerals, session)
		return
	}
	m.ephemerals[session] = owned
}

// statesPerPage and nodesPerPage are how many are allocated at once.
const (
	statesPerPage = 128
	nodesPerPage  = 32
)

// newState returns a copy of s that lives as long as the model.
func (m *model) newState(s *state) *state {
	if len(m.states) == 0 {
		m.states = make([]state, statesPerPage)
	}
	n := &m.states[0]
	m.states = m.states[1:]
	*n = *s
	return n
}

// set gives n the new state s at zxid. The caller must update the parents.
func (m *model) set(n *node, zxid int64, s *state) {
	old := n.now()
	s.zxid, s.before = zxid, n.last
	n.last = s
	m.trail = append(m.trail, n)
	m.turn(n, old, n.now())
}

// turn updates the sets of children and ephemerals for a change of state.
func (m *model) turn(n *node, from, to *state) {
	if from != nil && to == nil {
		m.unlink(n)
	}
	if from == nil && to != nil {
		m.link(n)
	}
	if from != nil && from.life == ephemeral && (to == nil || to.life != ephemeral) {
		m.disown(n, from.owner)
	}
	if to != nil && to.life == ephemeral && (from == nil || from.life != ephemeral) {
		m.own(n, to.owner)
	}
}

// undo undoes every change in the trail after the first keep.
func (m *model) undo(keep int) {
	for i := len(m.trail) - 1; i >= keep; i-- {
		n := m.trail[i]
		from := n.now()
		n.last = n.last.before
		m.turn(n, from, n.now())
	}
	m.trail = m.trail[:keep]
	m.events = m.events[:0]
}

// allows reports whether the ACL of n, in its state s, grants one of ids any of perms.
func (m *model) allows(n *node, s *state, perms jute.Perm, ids []jute.ID) bool {
	if len(m.lag) == 0 {
		return s.permits(perms, ids)
	}
	return acls.Permits(m.aclOf(n, s), perms, ids)
}

// aclOf returns the ACL that decides about a write to n.
func (m *model) aclOf(n *node, s *state) []jute.ACL {
	back := m.lag[n]
	for v := n.last.before; back > 0 && v != nil && !v.absent; v = v.before {
		if v.aversion != s.aversion {
			s = v
			back--
		}
	}
	return s.acl
}

// stat returns the Stat of s that clients see. Unknown times are 0.
func (s *state) stat() jute.Stat {
	return jute.Stat{
		Czxid: s.czxid, Mzxid: s.mzxid, Ctime: s.ctime.ms, Mtime: s.mtime.ms,
		Version: s.version, Cversion: 2*s.creations - s.numChildren, Aversion: s.aversion,
		EphemeralOwner: s.owner, DataLength: int32(len(s.data)), NumChildren: s.numChildren, Pzxid: s.pzxid,
	}
}

// reapable counts the descendants of n that the servers may remove at any time: containers and TTL znodes whose
// children, if any, are all of that kind.
func reapable(n *node) (total int32) {
	for _, child := range n.children {
		below := reapable(child)
		total += below
		if life := child.now().life; (life == container || life == withTTL) && below == child.below {
			total++
		}
	}
	return total
}
