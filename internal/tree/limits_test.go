package tree

import (
	"fmt"
	"testing"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/jute"
)

// A limiter applies single requests of one session to a tree.
type limiter struct {
	t    *testing.T
	tree *Tree
	ids  []jute.ID
}

func newLimiter(t *testing.T, level int32) *limiter {
	tree, _ := grown(t, 0)
	s := tree.Settings()
	s.FeatureLevel = level
	batch := AppendRecord(AppendBatchHeader(nil, 1), &Request{Op: OpSettings, Body: s.Append(nil)})
	if err := tree.Apply(1, tree.LastIndex()+1, batch, nil); err != nil {
		t.Fatal(err)
	}
	return &limiter{t: t, tree: tree, ids: identities[1]}
}

// apply returns the code of a request; that of a multi is that of its first operation
// that failed.
func (l *limiter) apply(op jute.Op, body []byte) (code jute.Code) {
	l.t.Helper()
	q := Request{Op: op, Session: 1, Cnx: 1, Seq: nextSeq(l.tree) + 1, Identities: l.ids, Body: body}
	err := l.tree.Apply(1, l.tree.LastIndex()+1, AppendRecord(AppendBatchHeader(nil, 1), &q), func(r *Result) {
		code = r.Err
		for i := range r.Multi {
			if e := r.Multi[i].Err; code == jute.OK && e != jute.OK {
				code = e
			}
		}
	})
	if err != nil {
		l.t.Fatal(err)
	}
	if broken := invariants(l.tree); broken != "" {
		l.t.Fatal(broken)
	}
	return code
}

func (l *limiter) create(path string, acl []jute.ACL) jute.Code {
	l.t.Helper()
	return l.apply(jute.OpCreate, (&jute.CreateRequest{Path: path, ACL: acl}).Append(nil))
}

// auths returns n entries of the scheme auth, all different.
func auths(n int) []jute.ACL {
	list := make([]jute.ACL, n)
	for i := range list {
		list[i] = jute.ACL{Perms: jute.PermAll, ID: jute.ID{Scheme: "auth", ID: fmt.Sprint(i)}}
	}
	return list
}

func digests(n int) []jute.ACL {
	list := make([]jute.ACL, n)
	for i := range list {
		list[i] = jute.ACL{Perms: jute.PermAll, ID: jute.ID{Scheme: "digest", ID: fmt.Sprintf("u%d:h", i)}}
	}
	return list
}

// TestACLLimits reaches the limits of ACLs, which hold from feature level 2 on.
func TestACLLimits(t *testing.T) {
	var many []jute.ID // as many and as large as a connection may have
	for i := range auth.IDsMax {
		many = append(many, jute.ID{Scheme: "digest", ID: fmt.Sprintf("user%045d:hash", i)})
	}
	const entrySize = 4 + 4 + 6 + 4 + 54
	for level, limited := range map[int32]bool{1: false, 2: true} {
		l := newLimiter(t, level)
		code := func(what string, got, want jute.Code) {
			t.Helper()
			if !limited {
				want = jute.OK
			}
			if got != want {
				t.Errorf("level %d: %s: %v instead of %v", level, what, got, want)
			}
		}
		code("the most entries", l.create("/a", digests(aclEntriesMax)), jute.OK)
		code("an entry more", l.create("/b", digests(aclEntriesMax+1)), jute.ErrInvalidACL)
		set := jute.SetACLRequest{Path: "/", ACL: digests(aclEntriesMax + 1), Version: -1}
		code("an entry more by setACL", l.apply(jute.OpSetACL, set.Append(nil)), jute.ErrInvalidACL)
		l = newLimiter(t, level)
		l.ids = many
		most := aclExpandedMax / (auth.IDsMax * entrySize)
		code("the most expanded", l.create("/c", auths(most)), jute.OK)
		code("an entry more expanded", l.create("/d", auths(most+1)), jute.ErrInvalidACL)
		code("the next request", l.create("/e", auths(most)), jute.OK)
		var ops []jute.MultiOp
		for i := range 20 { // one after the other they are one and the same
			ops = append(ops, jute.MultiOp{Op: jute.OpCreate, Path: fmt.Sprint("/m", i), ACL: auths(most)})
		}
		code("a multi of one ACL", l.apply(jute.OpMulti, jute.AppendMulti(nil, ops)), jute.OK)
		for i := range ops {
			ops[i].Path = fmt.Sprint("/n", i)
			ops[i].ACL = auths(1 + i%2)
		}
		acls := len(l.tree.acls.index)
		code("a multi of many ACLs", l.apply(jute.OpMulti, jute.AppendMulti(nil, ops)), jute.ErrInvalidACL)
		if limited && len(l.tree.acls.index) != acls {
			t.Errorf("a multi that failed left %d ACLs", len(l.tree.acls.index)-acls)
		}
	}
}

// TestMultiOpsMax reaches the limit of operations, which holds from feature level 2
// on.
func TestMultiOpsMax(t *testing.T) {
	ops := make([]jute.MultiOp, multiOpsMax)
	for i := range ops {
		ops[i] = jute.MultiOp{Op: jute.OpCheck, Path: "/", Version: -1}
	}
	for level, want := range map[int32]jute.Code{1: jute.OK, 2: jute.ErrMarshallingError} {
		l := newLimiter(t, level)
		if code := l.apply(jute.OpMulti, jute.AppendMulti(nil, ops)); code != jute.OK {
			t.Errorf("level %d: %d operations: %v", level, len(ops), code)
		}
		if code := l.apply(jute.OpMulti, jute.AppendMulti(nil, append(ops, ops[0]))); code != want {
			t.Errorf("level %d: %d operations: %v instead of %v", level, len(ops)+1, code, want)
		}
	}
}

// TestCachesAreBounded sends more ACLs and identities than the caches of decoded ones
// may hold.
func TestCachesAreBounded(t *testing.T) {
	l := newLimiter(t, 2)
	for i := range 2 * aclRequestsBytesMax / 200 {
		acl := []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "digest", ID: fmt.Sprintf("u%0180d:h", i)}}}
		l.tree.access.budget = l.tree.settings.aclBudget()
		if f := l.tree.access.fixACL(jute.NewDecoder(jute.AppendACLs(nil, acl)), nil); !f.ok {
			t.Fatal("an ACL is invalid")
		}
		if l.tree.acls.kept > aclRequestsBytesMax {
			t.Fatalf("%d bytes of ACLs are kept", l.tree.acls.kept)
		}
	}
	var c identityCache
	for i := range 2 * identitiesBytesMax / 4000 {
		id := jute.ID{Scheme: "digest", ID: fmt.Sprintf("u%04000d:h", i)}
		if got := c.decode(id.Append([]byte{0, 0, 0, 1})); len(got) != 1 || got[0] != id {
			t.Fatalf("decoded %v", got)
		}
		if c.bytes > identitiesBytesMax || len(c.decoded) > identitiesBytesMax/4000 {
			t.Fatalf("%d bytes of identities are kept", c.bytes)
		}
	}
	if len(c.decoded) == 0 || len(l.tree.acls.requests) == 0 {
		t.Error("nothing is kept")
	}
}

// TestACLsAreAccountedFor: ACLs that no other znode has count as memory until they go, and a setACL that brings one
// makes the tree larger.
func TestACLsAreAccountedFor(t *testing.T) {
	l := newLimiter(t, 2)
	const znodes, size = 50, 10_000
	acl := func(i int) []jute.ACL {
		return []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "digest", ID: fmt.Sprintf("u%0*d:h", size, i)}}}
	}
	setACL := func(path string, acl []jute.ACL) []byte {
		return (&jute.SetACLRequest{Path: path, ACL: acl, Version: -1}).Append(nil)
	}
	before := l.tree.Memory().Identities
	for i := range znodes {
		path := fmt.Sprint("/n", i)
		if code := l.create(path, jute.WorldACL(jute.PermAll)); code != jute.OK {
			t.Fatal(code)
		}
		if !l.tree.Grows(jute.OpSetACL, setACL(path, acl(i)), 0) {
			t.Fatal("a setACL that brings a new ACL makes nothing larger")
		}
		if code := l.apply(jute.OpSetACL, setACL(path, acl(i))); code != jute.OK {
			t.Fatal(code)
		}
	}
	if n := l.tree.Memory().Identities - before; n < znodes*size {
		t.Errorf("%d ACLs of %d bytes count as %d bytes", znodes, size, n)
	}
	if l.tree.Grows(jute.OpSetACL, setACL("/n0", acl(1)), 0) || l.tree.Grows(jute.OpSetACL, []byte("malformed"), 0) {
		t.Error("a setACL of an ACL that is there, or a malformed one, makes something larger")
	}
	for i := range znodes {
		if code := l.apply(jute.OpDelete, deleteOf(fmt.Sprint("/n", i))); code != jute.OK {
			t.Fatal(code)
		}
	}
	if n := l.tree.Memory().Identities - before; n > size {
		t.Errorf("%d bytes of ACLs are left when all have gone", n)
	}
}

// TestLargeRequestsLeaveNothing: the paths, events and results of a request with very many of them are garbage once it
// is applied.
func TestLargeRequestsLeaveNothing(t *testing.T) {
	const ephemerals = 2 * resultKeep
	l := newLimiter(t, 2)
	ops := make([]jute.MultiOp, ephemerals)
	for i := range ops {
		ops[i] = jute.MultiOp{
			Op: jute.OpCreate, Path: fmt.Sprintf("/ephemeral-of-a-long-name-%06d", i), ACL: jute.WorldACL(jute.PermAll),
			Flags: jute.ModeEphemeral,
		}
	}
	small := func(what string) {
		t.Helper()
		scratch, events, results := cap(l.tree.scratch), cap(l.tree.result.Events), cap(l.tree.result.Multi)
		ops := cap(l.tree.multiOps)
		if scratch > scratchKeep || events > resultKeep || results > resultKeep || ops > multiOpsKeep {
			t.Errorf("%s leaves %d bytes of paths, %d events, %d results and %d operations", what, scratch, events, results, ops)
		}
	}
	if code := l.apply(jute.OpMulti, jute.AppendMulti(nil, ops)); code != jute.OK {
		t.Fatal(code)
	}
	small("a multi")
	if code := l.apply(jute.OpCloseSession, nil); code != jute.OK || l.tree.EphemeralsCount() != 0 {
		t.Fatal(code, l.tree.EphemeralsCount())
	}
	small("the end of a session")
	l = newLimiter(t, 2)
	if code := l.apply(jute.OpMulti, jute.AppendMulti(nil, ops[:10])); code != jute.OK {
		t.Fatal(code)
	}
	if small("a small multi"); cap(l.tree.multiOps) < 10 || l.tree.multiOps[:1][0].Path != "" {
		t.Error("a small multi leaves no room for the next one, or something in it")
	}
}
