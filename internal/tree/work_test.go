package tree

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// multi applies a multi and returns how much work it was.
func (l *limiter) multi(ops []jute.MultiOp) uint64 {
	l.t.Helper()
	before := l.tree.Work()
	if code := l.apply(jute.OpMulti, jute.AppendMulti(nil, ops)); code != jute.OK {
		l.t.Fatal(code)
	}
	return l.tree.Work() - before
}

func plain(path string) jute.MultiOp {
	return jute.MultiOp{Op: jute.OpCreate, Path: path, ACL: jute.WorldACL(jute.PermAll)}
}

// TestStatsOfALargeSubtree: the stats of a quota are the sums of its subtree, and to create and delete
// them again and again is no more work for many znodes below than for few.
func TestStatsOfALargeSubtree(t *testing.T) {
	l := newLimiter(t, 3)
	ops := []jute.MultiOp{plain("/a"), plain("/a/b"), plain(pathQuota + "/a")}
	for n := range 1000 {
		o := plain(fmt.Sprintf("/a/b/%d", n))
		o.Data = make([]byte, 7)
		ops = append(ops, o)
	}
	l.multi(ops)
	stats := pathQuota + "/a/" + statsName
	var again []jute.MultiOp
	for range 100 {
		again = append(again, plain(stats), jute.MultiOp{Op: jute.OpDelete, Path: stats, Version: -1})
	}
	if work := l.multi(again); work > 20*uint64(len(again)) {
		t.Errorf("%d operations look at %d znodes", len(again), work)
	}
	l.multi([]jute.MultiOp{plain(stats)})
	if data, _ := l.tree.AppendGetData(nil, stats, nil); !strings.HasPrefix(string(data[4:]), "count=1002,bytes=7000") {
		t.Errorf("the stats are %q", data[4:])
	}
	// A multi that fails leaves the sums as they were: invariants, which apply calls, adds them up anew.
	l.apply(jute.OpMulti, jute.AppendMulti(nil, []jute.MultiOp{
		{Op: jute.OpSetData, Path: "/a/b/1", Data: make([]byte, 99), Version: -1},
		{Op: jute.OpSetData, Path: "/a/b/1", Version: -1}, {Op: jute.OpDelete, Path: "/a/b/2", Version: -1},
		plain("/a/b/2"), plain("/a/b/x"), {Op: jute.OpDelete, Path: "/none", Version: -1},
	}))
}

// TestQuotaOfADeepPath: to find the quota of each of many deep znodes takes one walk for all children
// of a parent, wherever the quotas are; and it is the nearest one, though quotas come and go.
func TestQuotaOfADeepPath(t *testing.T) {
	const depth, children = 200, 100
	l := newLimiter(t, 3)
	parent, quota := "", pathQuota
	var ops []jute.MultiOp
	for range depth {
		parent, quota = parent+"/d", quota+"/d"
		ops = append(ops, plain(parent), plain(quota), plain(quota+"/"+limitsName))
	}
	l.multi(append(ops, plain(quota+"/"+statsName)))
	ops = ops[:0]
	for n := range children {
		ops = append(ops, plain(fmt.Sprintf("%s/%d", parent, n)))
	}
	// The znode and its stats are counted in their ancestors, and the quota is looked for from the root once.
	if work := l.multi(ops); work > uint64(children*(2*depth+10)+2*depth) {
		t.Errorf("%d creates look at %d znodes", children, work)
	}
	if data, _ := l.tree.AppendGetData(nil, quota+"/"+statsName, nil); !strings.HasPrefix(string(data[4:]), "count=101,") {
		t.Errorf("the stats are %q", data[4:])
	}
	near := func(want string) {
		t.Helper()
		if got := l.quotaOf(parent + "/0"); got != want {
			t.Errorf("the quota of a znode is that of %q, want %q", got, want)
		}
	}
	near(parent)
	l.multi([]jute.MultiOp{plain(parent + "/n"), {Op: jute.OpDelete, Path: quota + "/" + limitsName, Version: -1}})
	near(parent[:len(parent)-2])
	l.multi([]jute.MultiOp{plain(parent + "/m"), plain(quota + "/" + limitsName)})
	near(parent)

	// Whatever was looked for before, the result is that of a search from the root.
	dice := rand.New(rand.NewPCG(1, 0))
	l.multi([]jute.MultiOp{plain(pathQuota + "/d/e"), plain(pathQuota + "/d/e/" + limitsName)})
	for range 2000 {
		path := strings.Repeat("/d", dice.IntN(depth)) + []string{"", "/e", "/e/f", "/d/d"}[dice.IntN(4)] + "/x"
		got := l.quotaOf(path)
		kept := l.tree.quotas.above
		l.tree.quotas.above = quotaAbove{}
		if want := l.quotaOf(path); got != want {
			t.Fatalf("the quota of %s is that of %q, want %q", path, got, want)
		}
		l.tree.quotas.above = kept
	}
}

// quotaOf returns the path of the quota that applies to a path, "" if none does.
func (l *limiter) quotaOf(path string) string {
	holder := l.tree.quotas.of(path)
	if holder == 0 {
		return ""
	}
	return strings.TrimPrefix(string(l.tree.appendPath(nil, holder)), pathQuota)
}

// TestChainIsLittleWork: to create or delete a chain of znodes in one multi looks up only the rest of each path beyond
// that of the operation before, whatever is on the way: no path is looked up from the root, and the search for a quota
// goes on where it was.
func TestChainIsLittleWork(t *testing.T) {
	const depth = 300
	l := newLimiter(t, 3)
	var create, quota, remove []jute.MultiOp
	for n := range depth {
		path := strings.Repeat("/d", n+1)
		create = append(create, plain(path))
		quota = append(quota, plain(pathQuota+path))
		remove = append([]jute.MultiOp{{Op: jute.OpDelete, Path: path, Version: -1}}, remove...)
	}
	l.multi(append(quota, plain(pathQuota+"/d/"+limitsName), plain(pathQuota+"/d/"+statsName)))
	// Each create counts in all ancestors of the znode, and those of the stats change a few times.
	counted := uint64(depth*(depth+1)/2 + depth)
	if work := l.multi(create); work > counted+5*depth {
		t.Errorf("to create a chain of %d is %d units of work, %d of them counting", depth, work, counted)
	}
	failing := jute.AppendMulti(nil, append(slices.Clone(remove), plain("/d/x")))
	if code := l.apply(jute.OpMulti, failing); code != jute.ErrNoNode { // apply checks that all is as before
		t.Fatal(code)
	}
	if work := l.multi(remove); work > counted+5*depth {
		t.Errorf("to delete a chain of %d is %d units of work, %d of them counting", depth, work, counted)
	}
}

// TestVerdictsOfAMulti: a multi of thousands of operations looks the identities of its sender up once in the
// long ACL that all of its znodes have, and what it grants is the same as for single requests.
func TestVerdictsOfAMulti(t *testing.T) {
	l := newLimiter(t, 3)
	l.ids = []jute.ID{address}
	for n := range 60 {
		l.ids = append(l.ids, jute.ID{Scheme: "digest", ID: fmt.Sprintf("person%d:x", n)})
	}
	acl := make([]jute.ACL, aclEntriesMax)
	for i := range acl {
		acl[i] = jute.ACL{Perms: jute.PermAll, ID: jute.ID{Scheme: "digest", ID: fmt.Sprintf("user%d:x", i)}}
	}
	acl[100] = jute.ACL{Perms: jute.PermRead | jute.PermWrite, ID: l.ids[len(l.ids)-1]}
	for n := range 10 {
		if code := l.create(fmt.Sprintf("/%d", n), acl); code != jute.OK {
			t.Fatal(code)
		}
	}
	var ops []jute.MultiOp
	for n := range 2000 {
		ops = append(ops, jute.MultiOp{Op: jute.OpCheck, Path: fmt.Sprintf("/%d", n%10), Version: -1},
			jute.MultiOp{Op: jute.OpSetData, Path: fmt.Sprintf("/%d", n%10), Version: -1})
	}
	if work := l.multi(ops); work > 4*uint64(len(l.ids)) {
		t.Errorf("%d operations look %d identities up", len(ops), work)
	}
	if code := l.apply(jute.OpMulti, jute.AppendMulti(nil, append(ops[:10:10], plain("/1/no")))); code != jute.ErrNoAuth {
		t.Errorf("a create without the right for it is %v in a multi", code)
	}
	reads := jute.AppendMulti(nil, []jute.MultiOp{{Op: jute.OpGetData, Path: "/1"}, {Op: jute.OpGetData, Path: "/2"}})
	for _, ids := range [][]jute.ID{l.ids, l.ids[:60]} {
		want := jute.OpGetData
		if len(ids) == 60 {
			want = jute.OpError
		}
		body, code := l.tree.AppendMultiRead(nil, reads, ids, 1<<20)
		if got := jute.Op(jute.NewDecoder(body).Int()); code != jute.OK || got != want {
			t.Errorf("%d identities read %v, %v; want %v", len(ids), got, code, want)
		}
	}
	if ok := l.tree.access.MayHear(&Event{Path: "/1", ACL: acl}, l.ids); !ok {
		t.Error("an event isn't told to who may read")
	}
}

// TestVerdictIsWork: what a multi looks up counts once for each identity of its sender, and one for the ACL.
func TestVerdictIsWork(t *testing.T) {
	l := newLimiter(t, 3)
	l.ids = []jute.ID{address, alice, bob}
	if code := l.create("/a", acls[7]); code != jute.OK {
		t.Fatal(code)
	}
	check := jute.MultiOp{Op: jute.OpCheck, Path: "/a", Version: -1}
	for n := range 3 {
		ops := slices.Repeat([]jute.MultiOp{check}, n+1)
		if work := l.multi(ops); work != uint64(1+len(l.ids)) {
			t.Errorf("%d looks at one ACL by %d identities are %d", n+1, len(l.ids), work)
		}
	}
}

// TestEndOfDeepEphemerals: the end of a session tells the ancestors of its ephemerals once for all children of a
// parent, however deep, and its events are those of each deletion in the order of creation.
func TestEndOfDeepEphemerals(t *testing.T) {
	const depth, many = 200, 300
	l := newLimiter(t, 3)
	var ops []jute.MultiOp
	parents := []string{"", ""}
	for i := range parents {
		for n := range depth {
			parents[i] += fmt.Sprintf("/%d.%d", i, n)
			ops = append(ops, plain(parents[i]))
		}
	}
	l.multi(ops)
	parents = append(parents, "")
	var want []string
	ops = ops[:0]
	for n := range many {
		o := plain(fmt.Sprintf("%s/e%d", parents[n%len(parents)], n))
		o.Flags, o.Data = jute.ModeEphemeral, make([]byte, n%5)
		ops, want = append(ops, o), append(want, o.Path, parentEvent(parents[n%len(parents)]))
	}
	l.multi(ops)
	before := l.tree.Work()
	var told []string
	q := Request{Op: jute.OpCloseSession, Session: 1, Cnx: 1, Seq: nextSeq(l.tree) + 1}
	err := l.tree.Apply(1, l.tree.LastIndex()+1, AppendRecord(AppendBatchHeader(nil, 1), &q), func(r *Result) {
		for i := range r.Events {
			told = append(told, strings.Clone(r.Events[i].Path))
		}
	})
	if err != nil || !slices.Equal(told, want) {
		t.Fatalf("%d events, want %d: %v", len(told), len(want), err)
	}
	if work := l.tree.Work() - before; work > 3*(depth+1) {
		t.Errorf("the end of a session with %d ephemerals looks at %d ancestors", many, work)
	}
	if broken := invariants(l.tree); broken != "" {
		t.Fatal(broken)
	}
}

// TestQuotaCountsInAMulti: after a multi the stats of quotas are those of the same operations one by one, whatever the
// multi writes into the stats and limits themselves.
func TestQuotaCountsInAMulti(t *testing.T) {
	const a, b = pathQuota + "/a", pathQuota + "/a/b"
	first := []jute.MultiOp{
		plain("/a"), plain("/a/b"), plain("/a/b/c"), plain(a), plain(b), plain(a + "/" + limitsName),
		plain(a + "/" + statsName), plain(b + "/" + limitsName), plain(b + "/" + statsName),
	}
	figures := []string{a + "/" + limitsName, a + "/" + statsName, b + "/" + limitsName, b + "/" + statsName}
	together, single := newLimiter(t, FeatureLevelMax), newLimiter(t, FeatureLevelMax)
	dice := rand.New(rand.NewPCG(7, 0))
	gone := map[string]bool{}
	do := func(ops []jute.MultiOp) {
		t.Helper()
		together.multi(ops)
		for _, op := range ops {
			single.multi([]jute.MultiOp{op})
		}
		for _, path := range figures {
			want, _ := single.tree.AppendGetData(nil, path, nil)
			got, _ := together.tree.AppendGetData(nil, path, nil)
			if end := len(want) - jute.StatSize; len(got) != len(want) || end > 0 && string(got[:end]) != string(want[:end]) {
				t.Fatalf("%s has %q, want %q, after %+v", path, got, want, ops)
			}
		}
	}
	do(first)
	for range 300 {
		var ops []jute.MultiOp
		for range 20 {
			path := figures[dice.IntN(len(figures))]
			text := []string{
				"", "junk", "count=5,bytes=9", "count=-1,bytes=7=;byteHardLimit=99", "bytes=1,count=2",
			}[dice.IntN(5)]
			switch n := dice.IntN(20); {
			case n < 12:
				under := []string{"/a", "/a/b", "/a/b/c"}[n%3]
				ops = append(ops, jute.MultiOp{Op: jute.OpSetData, Path: under, Data: make([]byte, dice.IntN(3)), Version: -1})
			case gone[path] && n < 18:
				o := plain(path)
				o.Data = []byte(text)
				ops, gone[path] = append(ops, o), false
			case gone[path]:
			case n < 18:
				ops = append(ops, jute.MultiOp{Op: jute.OpSetData, Path: path, Data: []byte(text), Version: -1})
			default:
				ops, gone[path] = append(ops, jute.MultiOp{Op: jute.OpDelete, Path: path, Version: -1}), true
			}
		}
		do(ops)
	}
}
