package tree

import (
	"bytes"
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// TestGrowAndShrink fills a tree until the table has split many times, deletes
// most of it, loads the sparse rest and fills it again: structures stay right
// and memory is used again.
func TestGrowAndShrink(t *testing.T) {
	t.Parallel()
	const n = 30000
	tree, paths := grown(t, n)
	fail := func(when string, tree *Tree) {
		if bad := invariants(tree); bad != "" {
			t.Fatalf("%s: %s", when, bad)
		}
	}
	fail("grown", tree)
	if len(tree.table.segments) < 4 {
		t.Fatalf("the table has %d segments: this test should make it split", len(tree.table.segments))
	}
	whole, err := load(drain(tree, chunkSize))
	if err != nil {
		t.Fatal(err)
	}
	fail("loaded whole", whole)
	if made, grew := len(whole.table.segments), len(tree.table.segments); made > grew {
		t.Fatalf("the loaded table has %d segments, the grown one %d", made, grew)
	}
	keep := func(i int) bool { return i >= n/2 && i < n/2+50 }
	var doomed []string
	for i, p := range paths {
		if !keep(i) {
			doomed = append(doomed, p)
		}
		if i%100 == 99 && i > 99 && !keep(i-99) { // the first directory keeps a few
			doomed = append(doomed, p[:len("/service-000000")])
		}
	}
	rest := len(doomed) % 100
	run(t, tree, batches(len(doomed)/100, nextSeq(tree), func(i int) (jute.Op, []byte) {
		q := jute.PathVersionRequest{Path: doomed[rest+i], Version: -1}
		return jute.OpDelete, q.Append(nil)
	}))
	fail("shrunk", tree)
	chunks := drain(tree, chunkSize)
	again, err := load(chunks)
	if err != nil {
		t.Fatal(err)
	}
	fail("loaded", again)
	if len(again.nodes.empty) == 0 {
		t.Fatal("a sparse tree loaded with every chunk of the slab allocated")
	}
	if !bytes.Equal(pack(drain(again, chunkSize)), pack(chunks)) {
		t.Fatal("the snapshot of what was loaded differs")
	}
	used, pages := tree.nodes.used, len(tree.payloads.pages)
	for _, tr := range []*Tree{tree, again} {
		run(t, tr, batches(n/200, nextSeq(tr), func(i int) (jute.Op, []byte) {
			return jute.OpCreate, createBody(fmt.Sprintf("/again-%06d", i))
		}))
		fail("grown again", tr)
	}
	if tree.nodes.used != used || len(tree.payloads.pages) != pages || again.nodes.used > used {
		t.Fatalf("freed room isn't used again: slots %d to %d, pages %d to %d", used, tree.nodes.used, pages,
			len(tree.payloads.pages))
	}
	if tree.Digest() != again.Digest() {
		t.Fatal("the loaded tree went elsewhere")
	}
}

// TestReadsBesideReads reads a large directory from many goroutines while its
// list isn't cached yet, between changes of it.
func TestReadsBesideReads(t *testing.T) {
	t.Parallel()
	tree, paths := grown(t, 100)
	for round := range 20 {
		var want []byte
		want = tree.appendChildrenTo(want, tree.find("/service-000000"), math.MaxInt)
		tree.lists.forget(tree.find("/service-000000"))
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				got, code := tree.AppendGetChildren(nil, "/service-000000", nil)
				if code != jute.OK || !bytes.Equal(got, want) {
					t.Errorf("round %d: got %v and %d bytes instead of %d", round, code, len(got), len(want))
				}
				if _, code := tree.AppendGetData(nil, paths[50], nil); code != jute.OK {
					t.Errorf("round %d: %v", round, code)
				}
			})
		}
		wg.Wait()
		run(t, tree, batches(1, nextSeq(tree), func(i int) (jute.Op, []byte) {
			return jute.OpCreate, createBody(fmt.Sprintf("/service-000000/more-%d-%d", round, i))
		}))
		if bad := invariants(tree); bad != "" {
			t.Fatal(bad)
		}
	}
}

// TestFetch fetches for znodes of each sort and for paths of none, and finds that
// it changes nothing and reaches what a read of each znode there is needs.
func TestFetch(t *testing.T) {
	t.Parallel()
	tree, paths := grown(t, PrefetchNodesMin)
	seq := nextSeq(tree)
	for _, q := range []jute.CreateRequest{
		{Path: "/null", ACL: jute.WorldACL(jute.PermAll)},
		{Path: "/empty", Data: []byte{}, ACL: jute.WorldACL(jute.PermAll)},
		{Path: "/large", Data: make([]byte, blockMax), ACL: jute.WorldACL(jute.PermAll)},
	} {
		seq++
		run(t, tree,
			[][]byte{
				AppendRecord(AppendBatchHeader(nil, 5),
					&Request{Op: jute.OpCreate, Session: 1, Cnx: 1, Seq: seq, Identities: identities[0], Body: q.Append(nil)}),
			})
	}
	few := []string{"", "/", "//", "a", "/null", "/empty", "/large", "/missing", paths[0], paths[len(paths)-1] + "/"}
	digest := tree.Digest()
	tree.Prefetch(few)
	tree.Prefetch(paths)
	tree.Prefetch(nil)
	if tree.Digest() != digest || tree.RecomputeDigest() != digest {
		t.Error("Prefetch changed the tree")
	}
	for _, p := range paths[:100] {
		n := tree.at(tree.find(p))
		block := tree.payloads.bytes(n.block, n.payload())
		before := tree.Prefetch([]string{p})
		block[len(block)-1]++
		last := tree.Prefetch([]string{p}) - before
		block[len(block)-1]--
		if last == 0 {
			t.Fatalf("Prefetch doesn't reach the data of %s", p)
		}
		for what, field := range map[string]*uint64{"znode": &n.hash, "parent's znode": &tree.at(n.parent).hash} {
			*field++
			reached := tree.Prefetch([]string{p}) - before
			*field--
			if reached != 1 {
				t.Fatalf("Prefetch doesn't reach the %s of %s", what, p)
			}
		}
	}
}

// TestListCacheBounded holds the cache to its bound.
func TestListCacheBounded(t *testing.T) {
	t.Parallel()
	var c listCache
	list := make([]byte, listSizeMax)
	for i := range uint32(2*listCacheSizeMax/listSizeMax + 1) {
		c.put(i+1, list)
		c.put(i+1, list)
		if c.size > listCacheSizeMax || len(c.lists)*listSizeMax != c.size {
			t.Fatalf("after %d lists the cache has %d of %d bytes", i+1, len(c.lists), c.size)
		}
	}
	for c.size < listCacheSizeMax {
		c.put(uint32(2000+len(c.lists)), list)
	}
	if c.put(900, []byte{1}); c.size != 1 || c.get(900) == nil {
		t.Fatalf("after a list too many the cache has %d bytes", c.size)
	}
	c.put(1000, make([]byte, listSizeMax+1))
	if c.get(1000) != nil {
		t.Fatal("a list larger than the bound was kept")
	}
}

// TestArenaClasses checks that each size fits its class and wastes little.
func TestArenaClasses(t *testing.T) {
	t.Parallel()
	last := 0
	for n := 1; n <= blockMax; n++ {
		c := classOf(n)
		size := classSize(c)
		if size < n || size%arenaGrain != 0 || c < last || c > last+1 || size-n >= max(arenaGrain, n/4+1) {
			t.Fatalf("%d bytes are of class %d of %d bytes, after class %d", n, c, size, last)
		}
		last = c
	}
	if last != classes-1 {
		t.Fatalf("the last class is %d of %d", last, classes)
	}
}

// TestVersionsWrap follows version numbers around their end, past -1.
func TestVersionsWrap(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]int32{{0, 1}, {1<<31 - 1, -1 << 31}, {-1 << 31, -1<<31 + 1}, {-3, -2}, {-2, 0}, {-1, 0}} {
		if got := nextVersion(c[0]); got != c[1] {
			t.Errorf("the version after %d is %d instead of %d", c[0], got, c[1])
		}
	}
}

// TestOutOfOrder refuses entries that can't come next.
func TestOutOfOrder(t *testing.T) {
	t.Parallel()
	tree := New(Options{})
	empty := AppendBatchHeader(nil, 7)
	if err := tree.Apply(3, 5, empty, nil); err != nil {
		t.Fatal(err)
	}
	before := tree.Digest()
	for _, at := range [][2]uint64{{3, 5}, {3, 4}, {2, 6}} {
		if tree.Apply(at[0], at[1], empty, nil) == nil || tree.NewTerm(at[0], at[1]) == nil {
			t.Errorf("entry %d of term %d was applied after 5 of 3", at[1], at[0])
		}
	}
	if tree.Digest() != before || tree.LastIndex() != 5 || tree.LastTerm() != 3 || tree.Time() != 7 ||
		tree.LastZxid() != 1<<32 {
		t.Error("a refused entry left a trace")
	}
	if err := tree.Apply(3, 6, AppendBatchHeader(nil, 2), nil); err != nil || tree.Time() != 7 {
		t.Errorf("time went back to %d, %v", tree.Time(), err)
	}
}

// TestRecords decodes what was encoded, and keeps identities it has seen.
func TestRecords(t *testing.T) {
	t.Parallel()
	want := []Request{
		{Op: jute.OpCreate, Session: 5, Cnx: 6, Seq: 7, Xid: -8, Identities: identities[1], Body: []byte("body")},
		{Op: OpExpire, Session: 5, Identities: []jute.ID{}, Body: []byte{}},
	}
	batch := AppendBatchHeader(nil, 99)
	for i := range want {
		batch = AppendRecord(batch, &want[i])
	}
	records := NewRecords(batch)
	var q Request
	for i := range want {
		if !records.Next(&q) || fmt.Sprint(q) != fmt.Sprint(want[i]) {
			t.Fatalf("record %d is %v instead of %v, %v", i, q, want[i], records.Err())
		}
	}
	if records.Next(&q) || records.Err() != nil || records.Time() != 99 {
		t.Fatalf("after the last record: %v, time %d", records.Err(), records.Time())
	}
	for cut := 1; cut < len(batch); cut++ {
		if _, err := New(Options{}).validate(batch[:cut]); (err == nil) != (cut == batchHeaderSize ||
			cut == batchHeaderSize+len(AppendRecord(nil, &want[0]))) {
			t.Errorf("a batch cut to %d bytes: %v", cut, err)
		}
	}
}

// TestSettings decodes what was encoded and refuses a level it doesn't know.
func TestSettings(t *testing.T) {
	t.Parallel()
	s := DefaultSettings()
	s.EnforceQuota, s.SkipACL = true, true
	var got Settings
	if err := got.Decode(jute.NewDecoder(s.Append(nil))); err != nil || fmt.Sprint(got) != fmt.Sprint(s) {
		t.Fatalf("got %v, %v", got, err)
	}
	tree := New(Options{})
	if fmt.Sprint(tree.Settings()) != fmt.Sprint(DefaultSettings()) {
		t.Fatalf("a new tree has %v", tree.Settings())
	}
}

// TestLookups answers what the server asks beside requests.
func TestLookups(t *testing.T) {
	t.Parallel()
	tree, paths := grown(t, 3)
	if c, ok := tree.Changes(paths[0]); !ok || c.Mzxid != 1<<32+3 || c.Pzxid != c.Mzxid {
		t.Errorf("Changes: %+v, %v", c, ok)
	}
	if s, ok := tree.Stat(paths[0]); !ok || s.DataLength != 100 {
		t.Errorf("Stat: %+v, %v", s, ok)
	}
	if _, ok := tree.Changes("/missing"); ok {
		t.Error("Changes of a missing znode")
	}
	if _, ok := tree.Stat("/missing"); ok {
		t.Error("Stat of a missing znode")
	}
	if _, ok := tree.ACL("/missing"); ok {
		t.Error("ACL of a missing znode")
	}
	if tree.access.Permits("/", acls[6], jute.PermRead, nil) ||
		!tree.access.Permits("/", jute.WorldACL(jute.PermRead), jute.PermRead, nil) {
		t.Error("Permits")
	}
	ids := []int64{}
	body := jute.AppendBuffer(jute.AppendInt(nil, 1), make([]byte, jute.PasswdSize))
	batch := AppendBatchHeader(nil, 1)
	for _, id := range []int64{9, -1 << 60, 3} {
		batch = AppendRecord(batch, &Request{Op: jute.OpCreateSession, Session: id, Cnx: id, Body: body})
	}
	run(t, tree, [][]byte{batch})
	tree.sessions.All(func(s Session) bool {
		ids = append(ids, s.ID)
		return len(ids) < 3
	})
	if fmt.Sprint(ids) != "[-1152921504606846976 1 3]" {
		t.Errorf("Sessions: %v", ids)
	}
	if _, ok := tree.sessions.Get(77); ok || tree.sessions.EphemeralPaths(77, math.MaxInt) != nil {
		t.Error("an unknown session")
	}
}
