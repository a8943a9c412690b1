package tree

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// TestPathsOfOneRequest: the room for paths is that of the longest request of an entry, not of all of them; and a
// request that took much leaves none.
func TestPathsOfOneRequest(t *testing.T) {
	t.Parallel()
	tree := begun(t, Options{})
	name := strings.Repeat("n", 1000)
	ephemerals := func(n int) {
		run(t, tree, batches(n/100, nextSeq(tree), func(i int) (jute.Op, []byte) {
			q := jute.CreateRequest{
				Path: fmt.Sprintf("/%s%04d", name, i), ACL: jute.WorldACL(jute.PermAll), Flags: jute.ModeEphemeralSequential,
			}
			return jute.OpCreate, q.Append(nil)
		}))
	}
	ephemerals(100)
	if kept := cap(tree.scratch); kept == 0 || kept > 4*len(name) {
		t.Errorf("100 paths of %d bytes need room for %d", len(name), kept)
	}
	ops := make([]jute.MultiOp, 2*scratchKeep/len(name))
	for i := range ops {
		ops[i] = plain("/" + name)
		ops[i].Flags = jute.ModePersistentSequential
	}
	applied(t, tree,
		&Request{Op: jute.OpMulti, Session: 1, Cnx: 1, Seq: nextSeq(tree) + 1, Body: jute.AppendMulti(nil, ops)})
	if kept := cap(tree.scratch); kept > scratchKeep {
		t.Errorf("a multi of %d paths leaves room for %d bytes", len(ops), kept)
	}
	ephemerals(1000)
	run(t, tree, [][]byte{AppendRecord(AppendBatchHeader(nil, 5),
		&Request{Op: jute.OpCloseSession, Session: 1, Cnx: 1, Seq: nextSeq(tree) + 1})})
	if kept := cap(tree.scratch); tree.EphemeralsCount() != 0 || kept > scratchKeep {
		t.Errorf("the end of a session leaves %d ephemerals, and room for %d bytes of paths", tree.EphemeralsCount(), kept)
	}
}

// TestListsOfManyChildren: a list of children is kept from listChildrenMin of them on, until one comes or goes; what is
// kept is what is counted.
func TestListsOfManyChildren(t *testing.T) {
	t.Parallel()
	tree := begun(t, Options{})
	create(t, tree, "/d")
	read := func() int {
		reply, code := tree.AppendGetChildren(nil, "/d", identities[0])
		if code != jute.OK {
			t.Fatal(code)
		}
		return len(jute.NewDecoder(reply).Strings())
	}
	counted := func() {
		t.Helper()
		size := 0
		for _, list := range tree.lists.lists {
			size += len(list)
		}
		if size != tree.lists.size {
			t.Errorf("%d bytes are kept, %d counted", size, tree.lists.size)
		}
	}
	for n := 1; n <= listChildrenMin+2; n++ {
		create(t, tree, fmt.Sprintf("/d/%d", n))
		if tree.lists.get(tree.find("/d")) != nil {
			t.Fatalf("%d children: a list that isn't true any more is kept", n)
		}
		for range 2 {
			if got := read(); got != n {
				t.Errorf("%d children are listed, %d are there", got, n)
			}
		}
		if kept := tree.lists.get(tree.find("/d")) != nil; kept != (n >= listChildrenMin) {
			t.Errorf("the list of %d children is kept: %v", n, kept)
		}
		counted()
	}
	applied(t, tree,
		&Request{Op: jute.OpDelete, Session: 1, Cnx: 1, Seq: nextSeq(tree) + 1, Body: deleteOf("/d/1")})
	counted()
	if got := read(); got != listChildrenMin+1 {
		t.Errorf("%d children are listed after one went", got)
	}
	counted()
}

// TestRequestsOfACLs: ACLs as clients sent them are kept up to their bound and not one byte beyond.
func TestRequestsOfACLs(t *testing.T) {
	l := newLimiter(t, 2)
	fix := func(i, size int) {
		l.tree.access.budget = l.tree.settings.aclBudget()
		acl := []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "digest", ID: fmt.Sprintf("u%0*d:h", size, i)}}}
		if !l.tree.access.fixACL(jute.NewDecoder(jute.AppendACLs(nil, acl)), nil).ok {
			t.Fatal("an ACL is invalid")
		}
	}
	const around = 4 + 4 + 4 + len("digest") + 4 + len("u:h") // bytes around the number
	const size = 512
	for more, want := range []int{aclRequestsBytesMax, size + 1} {
		l.tree.acls.forgetRequests()
		for i := range aclRequestsBytesMax/size - 1 {
			fix(i, size-around)
		}
		fix(0, size-around) // it is there
		if fix(aclRequestsBytesMax, size+more-around); l.tree.acls.kept != want {
			t.Errorf("%d bytes are kept, with %d more than may be, want %d", l.tree.acls.kept, more, want)
		}
	}
	for size, kept := range map[int]bool{aclRequestSizeMax: true, aclRequestSizeMax + 1: false} {
		l.tree.acls.forgetRequests()
		if fix(1, size-around); (len(l.tree.acls.requests) == 1) != kept {
			t.Errorf("an ACL of %d bytes: %d are kept", size, len(l.tree.acls.requests))
		}
	}
}

// TestNoAddressLeft: a full arena stops the server rather than giving a block twice.
func TestNoAddressLeft(t *testing.T) {
	t.Parallel()
	tree := begun(t, Options{Chunks: 1})
	defer func() {
		if said := fmt.Sprint(recover()); !strings.Contains(said, "no address left") {
			t.Errorf("more than all addresses were taken: %s", said)
		}
	}()
	for i := range 2 * arenaChunk / blockMax {
		create(t, tree, fmt.Sprintf("/%s%d", strings.Repeat("n", blockMax/2), i))
	}
}
