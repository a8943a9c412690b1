package tree

import (
	"errors"
	"fmt"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

func beginOf(id int64) *Request {
	return &Request{Op: jute.OpCreateSession, Session: id, Cnx: id,
		Body: jute.AppendBuffer(jute.AppendInt(nil, 1000), make([]byte, jute.PasswdSize))}
}

func applied(t *testing.T, tree *Tree, requests ...*Request) {
	t.Helper()
	batch := AppendBatchHeader(nil, 5)
	for _, q := range requests {
		batch = AppendRecord(batch, q)
	}
	run(t, tree, [][]byte{batch})
}

// TestSnapshotAtTheEdges: a snapshot has the last znode and the last session, wherever they are in their chunk.
func TestSnapshotAtTheEdges(t *testing.T) {
	t.Parallel()
	for _, slots := range []uint32{slabSlots - 1, slabSlots, slabSlots + 1, 2 * slabSlots} {
		tree := begun(t, Options{})
		for tree.nodes.used < slots {
			create(t, tree, fmt.Sprintf("/n%d", tree.nodes.used))
		}
		for id := int64(2); tree.sessions.slots.used < slots; id++ {
			applied(t, tree, beginOf(id))
		}
		again, err := load(drain(tree, chunkSize))
		if err != nil {
			t.Fatalf("%d slots: %v", slots, err)
		}
		if again.NodeCount() != tree.NodeCount() || again.sessions.Count() != tree.sessions.Count() {
			t.Errorf("%d slots: loaded %d znodes and %d sessions of %d and %d", slots, again.NodeCount(),
				again.sessions.Count(), tree.NodeCount(), tree.sessions.Count())
		}
	}
}

func create(t *testing.T, tree *Tree, path string) {
	t.Helper()
	applied(t, tree, &Request{Op: jute.OpCreate, Session: 1, Cnx: 1, Seq: nextSeq(tree) + 1, Identities: identities[0],
		Body: createOf(path, 5)})
}

// TestSnapshotOfTheInstant: znodes and sessions that begin while a snapshot is being written aren't in it, though they
// take the places of others that ended before.
func TestSnapshotOfTheInstant(t *testing.T) {
	t.Parallel()
	tree := begun(t, Options{})
	create(t, tree, "/early")
	create(t, tree, "/gone")
	applied(t, tree, beginOf(2), beginOf(3))
	applied(t, tree,
		&Request{Op: jute.OpCloseSession, Session: 2, Cnx: 2, Seq: 1},
		&Request{Op: jute.OpDelete, Session: 1, Cnx: 1, Seq: nextSeq(tree) + 1, Body: deleteOf("/gone")})
	digest, nodes, sessions := tree.Digest(), tree.nodes.used, tree.sessions.slots.used
	img := tree.BeginSnapshot()
	create(t, tree, "/late")
	applied(t, tree, beginOf(4))
	if tree.nodes.used != nodes || tree.sessions.slots.used != sessions {
		t.Fatal("the late ones take no place of an earlier one")
	}
	var chunks [][]byte
	for more := true; more; {
		var c []byte
		c, more = img.Next(nil)
		chunks = append(chunks, c)
	}
	img.Close()
	again, err := load(chunks)
	if err != nil || again.Digest() != digest {
		t.Fatalf("the snapshot isn't that of the instant it began: %v", err)
	}
	if _, late := again.sessions.Get(4); late || again.find("/late") != 0 || again.find("/early") == 0 {
		t.Error("what came later is in the snapshot, or what was there isn't")
	}
}

// TestAsideCounts: what changes under a snapshot before it is written there counts as the tree's memory, until it is
// written or the snapshot ends; and while it is much, each change of data makes the tree larger.
func TestAsideCounts(t *testing.T) {
	t.Parallel()
	const znodes, size = 40, 100_000
	tree := begun(t, Options{})
	request := func(op jute.Op, body []byte) {
		t.Helper()
		applied(t, tree, &Request{
			Op: op, Session: 1, Cnx: 1, Seq: nextSeq(tree) + 1, Identities: identities[0], Body: body,
		})
	}
	set := func(i, size int) []byte {
		return (&jute.SetDataRequest{Path: fmt.Sprint("/n", i), Data: make([]byte, size), Version: -1}).Append(nil)
	}
	for i := range znodes {
		request(jute.OpCreate, createOf(fmt.Sprint("/n", i), size))
	}
	img := tree.BeginSnapshot()
	for i := range znodes { // these leave the data of /n… alone
		path := fmt.Sprint("/n", i)
		request(jute.OpCreate, createOf(path+"/c", 0))
		request(jute.OpSetACL, (&jute.SetACLRequest{Path: path, ACL: jute.WorldACL(jute.PermAll), Version: -1}).Append(nil))
		request(jute.OpDelete, deleteOf(path+"/c"))
	}
	if kept := tree.Aside(); kept == 0 || kept > znodes*500 {
		t.Errorf("changes of %d znodes that leave their data alone keep %d bytes", znodes, kept)
	}
	img.Close()
	before := tree.Memory().Nodes
	img = tree.BeginSnapshot()
	var one int64 // bytes for one of the znodes
	grows := func() bool { return tree.Grows(jute.OpSetData, set(0, size), znodes/2*one) }
	for i := range znodes {
		if i == 1 {
			one = tree.Aside()
		}
		if i > 0 && grows() != (i > znodes/2) {
			t.Fatalf("while %d znodes are kept, a change of data makes the tree larger: %v", i, grows())
		}
		request(jute.OpSetData, set(i, size))
		request(jute.OpSetData, set(i, size)) // the old data are kept already
	}
	kept := tree.Memory().Nodes - before
	if kept < znodes*size || kept > znodes*size*5/4 || kept != tree.Aside() {
		t.Errorf("%d znodes of %d bytes are kept in %d bytes, %d by Memory", znodes, size, tree.Aside(), kept)
	}
	for more := true; more && tree.Aside() >= kept/2; {
		_, more = img.Next(nil)
	}
	if now := tree.Memory().Nodes - before; now < kept/4 || grows() {
		t.Errorf("half is written: %d of %d bytes are kept, and a change of data makes the tree larger: %v", now, kept, grows())
	}
	img.Close()
	if now := tree.Memory().Nodes; now != before || tree.Aside() != 0 {
		t.Errorf("after the snapshot, the tree takes %d bytes, before %d", now, before)
	}
}

// TestLoadRefusesBrokenTrees: a snapshot whose bytes are right and whose znodes form no tree is refused, also where
// its digest is that of what is reached.
func TestLoadRefusesBrokenTrees(t *testing.T) {
	t.Parallel()
	at := func(tree *Tree, path string) *node { return tree.at(tree.find(path)) }
	rename := func(tree *Tree, n *node, name string) {
		copy(tree.payloads.bytes(n.block, n.payload()), name)
		n.hash = tree.key.child(tree.at(n.parent).hash, name)
	}
	for what, c := range map[string]struct {
		damage func(*Tree)
		lost   []string // not reached any more, so not in the digest
	}{
		"a kind that isn't one": {damage: func(tree *Tree) {
			n := at(tree, "/n20")
			n.nameKind = n.nameKind&nameLenMax | uint32(kinds)<<kindShift
		}},
		"one of the first znodes has a name twice": {damage: func(tree *Tree) { rename(tree, at(tree, "/n01"), "n02") }},
		"one of the last znodes has a name twice":  {damage: func(tree *Tree) { rename(tree, at(tree, "/n59"), "n58") }},
		"a circle": {
			damage: func(tree *Tree) {
				last := at(tree, "/a")
				tree.at(last.prev).next = 0
				last.parent, last.prev = tree.find("/a/b"), 0
			},
			lost: []string{"/a", "/a/b"},
		},
		"a session that isn't there": {damage: func(tree *Tree) {
			n := at(tree, "/n20")
			n.nameKind = n.nameKind&nameLenMax | uint32(ephemeral)<<kindShift
			tree.editExtra(n).owner = 77
		}},
		"a child of an ephemeral": {damage: func(tree *Tree) {
			n := at(tree, "/a")
			n.nameKind = n.nameKind&nameLenMax | uint32(ephemeral)<<kindShift
			tree.editExtra(n).owner = 1
		}},
	} {
		tree := begun(t, Options{})
		for i := range 60 {
			create(t, tree, fmt.Sprintf("/n%02d", i))
		}
		create(t, tree, "/a")
		create(t, tree, "/a/b")
		if _, err := load(drain(tree, chunkSize)); err != nil {
			t.Fatal(err)
		}
		var lost uint64
		for _, path := range c.lost {
			lost += tree.nodeDigest(at(tree, path))
		}
		c.damage(tree)
		tree.totals.digest = tree.sumDigest() - lost
		if _, err := load(drain(tree, chunkSize)); !errors.Is(err, errCorrupt) {
			t.Errorf("%s: loaded, or %v", what, err)
		}
	}
}
