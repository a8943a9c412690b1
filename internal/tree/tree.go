package tree

import (
	"cmp"
	"fmt"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/jute"
)

// Options are the parameters of one replica. No result depends on them.
type Options struct {
	// Key keys the hashes until the log has a secret for them (see OpSecret). All replicas of a cluster must use the
	// same Key; otherwise their digests differ.
	Key [16]byte

	// Alloc returns n zeroed bytes, aligned to 8, which are never freed. Nil means make. With an allocator outside of
	// Go's heap, the pace of the garbage collector doesn't depend on the size of the tree.
	Alloc func(n int) []byte

	// Release, if not nil, returns memory to the system until it is written again. b is a part of the memory that Alloc
	// returned. Its content is no longer needed.
	Release func(b []byte)

	// Chunks is how many MiB of payloads (names and data) of up to 16 KiB each the tree can address. 0 means the
	// maximum, 64 GiB. Tests lower it.
	Chunks int

	// LevelMax is the highest feature level that this replica applies; 0 means FeatureLevelMax. Tests lower it to
	// simulate an older version.
	LevelMax int32

	// FindRule returns the rule with a name, or nil if this replica doesn't have it. A nil FindRule means
	// auth.FindRule. Tests replace it to simulate servers with different programs.
	FindRule func(name string) auth.Rule

	// Changing, if not nil, is called with the data of each znode that a request is about to create, change or delete;
	// a multi may undo the change. Data are nil if the znode doesn't exist.
	Changing func(path string, before, after []byte)

	// Reconfigure evaluates changes of membership; nil refuses them.
	Reconfigure Reconfigure
}

// A Tree is the replicated state and the request being applied. Each part of the state has a type of its own. The Tree
// evaluates requests, which usually concern several parts. Methods that change it (Apply, NewTerm, Compact,
// BeginSnapshot, Image.Close) need exclusive access to it; all others, and those of the parts that other packages see,
// may run concurrently with each other.
type Tree struct {
	znodes

	// The rest of the state. The parts hold pointers to those that they use, so a Tree must not be copied.
	sessions   Sessions
	quotas     quotas
	settings   Settings
	membership Membership
	lineage    uint64 // 0 if there is none yet
	position   position

	access Access // derived from znodes and settings

	reconfigure Reconfigure
	changing    func(path string, before, after []byte)
	levelMax    int32
	findRule    func(name string) auth.Rule

	// Not state: scratch of the request being applied, and caches.
	identities identityCache
	restored   int // number of times that all znodes were replaced
	result     Result
	request    Request
	scratch    []byte                   // paths of the result
	ending     map[uint32]*endingParent // of the session that is ending; nil otherwise
	near       nearby                   // while a multi is applied
	multiOps   []jute.MultiOp           // of the multi being applied
}

// position is the tree's position in the log, and its time. Terms, indexes and zxids only increase; the time goes back
// only as described in clock.go.
type position struct {
	term, index uint64
	zxid, time  int64
	back        int64 // the time to which the time was last set back; 0 if never
}

// New returns the initial tree of every cluster.
func New(o Options) *Tree {
	t := newRoot(o)
	zk := t.insertNode(rootSlot, "zookeeper", newNode{data: emptyData, acl: aclOpen})
	t.insertNode(zk, "config", newNode{data: emptyData, acl: aclConfig, aversion: -1}) // as Apache 3.8 shows it
	t.insertNode(zk, "quota", newNode{data: emptyData, acl: aclOpen})
	return t
}

// newRoot returns a tree with only a root.
func newRoot(o Options) *Tree {
	t := newTree(o)
	for _, f := range builtIn() {
		t.acls.retain(t.internACL(&f))
	}
	t.settings = DefaultSettings()
	t.totals.digest += t.settings.digest(&t.key)
	root := t.nodes.get()
	n := t.at(root)
	n.hash, n.acl = t.rootHash, aclOpen
	t.acls.retain(aclOpen)
	t.index(root)
	t.totals.nodes++
	t.totals.digest += t.nodeDigest(n)
	return t
}

// newTree returns a tree without a root.
func newTree(o Options) *Tree {
	alloc := o.Alloc
	if alloc == nil {
		alloc = func(n int) []byte { return make([]byte, n) }
	}
	t := &Tree{
		reconfigure: o.Reconfigure, changing: o.Changing, levelMax: o.LevelMax,
	}
	if t.findRule = o.FindRule; t.findRule == nil {
		t.findRule = auth.FindRule
	}
	t.levelMax = cmp.Or(t.levelMax, FeatureLevelMax)
	t.znodes.init(o, alloc)
	t.sessions.init(&t.znodes, o, alloc)
	t.membership = Membership{znodes: &t.znodes, sessions: &t.sessions}
	t.quotas = quotas{znodes: &t.znodes, settings: &t.settings, paths: map[string]struct{}{}}
	t.access = Access{znodes: &t.znodes, settings: &t.settings}
	return t
}

// Work returns the amount of work of Apply since the tree was made, except for work proportional to the bytes of its
// requests: znodes visited on the way up or down their paths, and identities looked up in ACLs by multis. Each takes
// some nanoseconds while the tree is locked.
func (z *znodes) Work() uint64 { return z.work }

// LastZxid returns the zxid of the last request that took one.
func (t *Tree) LastZxid() int64 { return t.position.zxid }

// LastTerm returns the term of the last log entry applied.
func (t *Tree) LastTerm() uint64 { return t.position.term }

// LastIndex returns the index of the last log entry applied.
func (t *Tree) LastIndex() uint64 { return t.position.index }

// Time returns the time of the last batch by the leader's clock, in milliseconds since 1970. It
// goes back only as described in clock.go.
func (t *Tree) Time() int64 { return t.position.time }

// NodeCount returns the number of znodes, including the root and Apache's own. Apache counts the root twice.
func (z *znodes) NodeCount() int { return z.totals.nodes }

// ApproximateDataSize returns the bytes of all paths and data.
func (z *znodes) ApproximateDataSize() int { return z.totals.dataSize }

// EphemeralsCount returns the number of znodes that belong to a session.
func (z *znodes) EphemeralsCount() int { return z.totals.ephemerals }

// EphemeralPathBytes returns the bytes of the paths of all these znodes.
func (z *znodes) EphemeralPathBytes() int { return z.totals.ephPaths }

// Sessions returns the tree's sessions, which may be read whenever the tree may be.
func (t *Tree) Sessions() *Sessions { return &t.sessions }

// Membership returns the membership of the ensemble, which may be read whenever the tree may be.
func (t *Tree) Membership() *Membership { return &t.membership }

// Access returns the part of the tree that decides what clients may do. It may be used whenever the tree may be read.
func (t *Tree) Access() *Access { return &t.access }

// follow moves to the log entry at (term, index), whose time is ms, and starts the next epoch if the term is new. level
// is the feature level in force. It fails for an entry that can't be the next one.
func (p *position) follow(term, index uint64, ms int64, level int32) error {
	if term < p.term || index <= p.index {
		return fmt.Errorf("apply log entry %d of term %d: the tree is already at %d of term %d", index, term, p.index, p.term)
	}
	if term > p.term {
		p.zxid = (p.zxid>>32 + 1) << 32
	}
	p.term, p.index = term, index
	p.advance(ms, level)
	return nil
}

// NewTerm applies a log entry without requests: the first one of a term, or one that concerns only consensus.
func (t *Tree) NewTerm(term, index uint64) error {
	return t.position.follow(term, index, 0, t.settings.FeatureLevel)
}

// nextZxid takes the next zxid. If the counter overflows, it carries into the epoch.
func (p *position) nextZxid() int64 {
	p.zxid++
	return p.zxid
}
