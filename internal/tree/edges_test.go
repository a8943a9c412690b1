package tree

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// TestQuotaText: what clients write into the limits of a quota is read part by part, and the tree's figures are written
// as Apache writes them.
func TestQuotaText(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                                     "count=-1,bytes=-1",
		"count=1,bytes=2":                      "count=1,bytes=2",
		"count=1":                              "count=1,bytes=-1",
		"bytes=2=;byteHardLimit=3":             "count=-1,bytes=2=;byteHardLimit=3",
		"bytes=2;countHardLimit=0":             "count=-1,bytes=2=;countHardLimit=0",
		"countHardLimit=-1;byteHardLimit=-1,":  "count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=-1",
		"count=x,bytes=7,nothing=5,count,,=,;": "count=-1,bytes=7",
	} {
		if got := string(parseQuota([]byte(in)).appendTo(nil)); got != want {
			t.Errorf("%q is read as %q, want %q", in, got, want)
		}
	}
	for parent, want := range map[string]string{
		"/zookeeper/quota/a": "/a", "/zookeeper/quota/a/b": "/a/b", "/zookeeper/quota": "", "/zookeeper/quotas/a": "",
		"/zookeeper": "", "/a": "",
	} {
		if got, ok := quotaPath(parent); ok != (want != "") || ok && got != want {
			t.Errorf("below %s is the quota of %q (%v), want %q", parent, got, ok, want)
		}
	}
}

// TestModesAndTimesToLive: only a mode with a time to live has one, from 1 ms to Apache's longest.
func TestModesAndTimesToLive(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		extended bool
		op       jute.Op
		mode     jute.CreateMode
		ttl      int64
		want     jute.Code
	}{
		{true, jute.OpCreate, 0, -1, jute.OK},
		{true, jute.OpCreate, 0, 0, jute.ErrBadArguments},
		{true, jute.OpCreate, 0, 1, jute.ErrBadArguments},
		{true, jute.OpCreate, 7, -1, jute.ErrBadArguments},
		{true, jute.OpCreateTTL, 5, -1, jute.ErrBadArguments},
		{true, jute.OpCreateTTL, 5, 0, jute.ErrBadArguments},
		{true, jute.OpCreateTTL, 5, 1, jute.OK},
		{true, jute.OpCreateTTL, 6, jute.TTLMax, jute.OK},
		{true, jute.OpCreateTTL, 6, jute.TTLMax + 1, jute.ErrBadArguments},
		{true, jute.OpCreateTTL, 0, -1, jute.ErrBadArguments},
		{true, jute.OpCreateTTL, 0, 1, jute.ErrBadArguments},
		{false, jute.OpCreateTTL, 5, 1, jute.ErrUnimplemented},
		{false, jute.OpCreateTTL, 5, 0, jute.ErrUnimplemented},
		{false, jute.OpCreateContainer, 4, -1, jute.OK},
	} {
		asked := createRequest{op: c.op, mode: c.mode, ttl: c.ttl}
		if got := asked.checkMode(c.extended); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

// TestBlocksThatFit: data is written over the data before it where both take a block of the same size, and a large one
// that has shrunk to half of its block gives it back.
func TestBlocksThatFit(t *testing.T) {
	t.Parallel()
	tree := New(Options{})
	a := &tree.payloads
	large := largeSize(largeClass(blockMax + 1))
	for _, c := range []struct {
		was, n int
		want   bool
	}{
		{0, 0, true}, {0, 1, false}, {1, 0, false}, {2, 1, true}, {1, arenaGrain, true}, {1, arenaGrain + 1, false},
		{arenaGrain, 1, true}, {fineMax, fineMax + 1, false}, {blockMax, blockMax, true}, {blockMax, blockMax + 1, false},
		{blockMax + 1, blockMax, false}, {blockMax + 1, blockMax + 1, true}, {blockMax + 1, large, true},
		{blockMax + 1, large + 1, false}, {4 * large, 2*large + 1, true}, {4 * large, 2 * large, false},
		{blockMax + 1, 0, false}, {0, blockMax + 1, false},
	} {
		ref := a.get(c.was)
		if got := a.fits(ref, c.was, c.n); got != c.want {
			t.Errorf("%d bytes fit into a block of %d: %v", c.n, c.was, got)
		}
		a.put(ref, c.was)
	}
}

// TestListsAtOnce: the longest list that is read at once is read at once, and with one child more it takes a scan.
func TestListsAtOnce(t *testing.T) {
	t.Parallel()
	tree := begun(t, Options{})
	create(t, tree, "/d")
	run(t, tree, batches(scanStep/100, nextSeq(tree), func(i int) (jute.Op, []byte) {
		return jute.OpCreate, createOf(fmt.Sprintf("/d/%d", i), 0)
	}))
	for n := scanStep / 100 * 100; n <= scanStep+1; n++ {
		want := jute.OK
		if n > scanStep {
			want = LongRead
		}
		if n >= scanStep {
			for op, read := range map[jute.Op]func([]byte, string, []jute.ID) ([]byte, jute.Code){
				jute.OpGetChildren: tree.AppendGetChildren, jute.OpGetChildren2: tree.AppendGetChildren2,
			} {
				if _, code := read(nil, "/d", nil); code != want {
					t.Errorf("%v of %d children: %v, want %v", op, n, code, want)
				}
			}
		}
		create(t, tree, fmt.Sprintf("/d/%d", n))
	}
}

// TestIdentitiesOfAnySize: identities larger than their cache are decoded and not kept, and leave the others where they
// are.
func TestIdentitiesOfAnySize(t *testing.T) {
	t.Parallel()
	var c identityCache
	of := func(size int) []byte { // as bytes that many
		id := jute.ID{Scheme: "digest", ID: strings.Repeat("u", size-4-4-len("digest")-4)}
		return id.Append([]byte{0, 0, 0, 1})
	}
	c.decode(of(100))
	for range 2 {
		if ids := c.decode(of(identitiesBytesMax + 1)); len(ids) != 1 || ids[0].Scheme != "digest" {
			t.Fatalf("%d are decoded", len(ids))
		}
		if c.bytes != 100 || len(c.decoded) != 1 {
			t.Errorf("%d bytes of %d connections are kept", c.bytes, len(c.decoded))
		}
	}
	if c.decode(of(identitiesBytesMax - 100)); c.bytes != identitiesBytesMax || len(c.decoded) != 2 {
		t.Errorf("%d bytes of %d connections are kept, as many as may be are %d", c.bytes, len(c.decoded), identitiesBytesMax)
	}
	if c.decode(of(50)); c.bytes != 50 || len(c.decoded) != 1 {
		t.Errorf("after a byte too many, %d bytes of %d connections are kept", c.bytes, len(c.decoded))
	}
}

// TestLongPathBelowAQuota: the place of a long path among the quotas is forgotten with its memory, that of others is
// kept for the next request.
func TestLongPathBelowAQuota(t *testing.T) {
	t.Parallel()
	tree := begun(t, Options{})
	for _, path := range []string{"/q", "/zookeeper/quota/q", "/zookeeper/quota/q/" + limitsName} {
		create(t, tree, path)
	}
	create(t, tree, "/q/a")
	if n := cap(tree.quotas.above.path); n == 0 || n > 64 {
		t.Errorf("%d bytes are kept of a short path", n)
	}
	long := "/q/" + strings.Repeat("n", scratchKeep)
	create(t, tree, long)
	create(t, tree, long+"/a")
	if n := cap(tree.quotas.above.path); n > scratchKeep {
		t.Errorf("%d bytes are kept of a long path", n)
	}
}

// TestLoadOfOddChunks: chunks may be empty and as small as they like, and one that is out of its place, or not of
// its kind, is refused.
func TestLoadOfOddChunks(t *testing.T) {
	t.Parallel()
	tree := begun(t, Options{})
	for i := range 50 {
		create(t, tree, fmt.Sprintf("/%02d", i))
	}
	applied(t, tree, beginOf(2))
	chunks := drain(tree, 100)
	first := map[byte]int{}
	for i, c := range slices.Backward(chunks) {
		first[c[0]] = i
	}
	together := slices.Clone(chunks)
	sessions := slices.Clone(chunks[first[chunkSessions]])
	copy(sessions[5+sessionSize:], sessions[5:9])
	together[first[chunkSessions]] = sessions
	with := func(at int, more ...[]byte) [][]byte { return slices.Insert(slices.Clone(chunks), at, more...) }
	for what, c := range map[string]struct {
		chunks [][]byte
		whole  bool
	}{
		"as it is":                            {chunks, true},
		"znodes without any":                  {with(first[chunkNodes], []byte{chunkNodes, 0, 0, 0, 0}), true},
		"sessions without any":                {with(first[chunkSessions], []byte{chunkSessions, 0, 0, 0, 0}), true},
		"znodes without a count":              {with(first[chunkNodes], []byte{chunkNodes, 0, 0, 0}), false},
		"a znode that isn't there":            {with(first[chunkNodes], []byte{chunkNodes, 0, 0, 0, 1}), false},
		"a session that isn't there":          {with(first[chunkSessions], []byte{chunkSessions, 0, 0, 0, 1}), false},
		"an empty chunk":                      {with(first[chunkNodes], nil), false},
		"a second header":                     {with(1, chunks[0]), false},
		"no header":                           {chunks[1:], false},
		"ACLs twice":                          {with(first[chunkACLs], chunks[first[chunkACLs]]), false},
		"ACLs that begin elsewhere":           {with(first[chunkSessions], []byte{chunkACLs, 0, 0, 0, 0, 0, 0, 0, 9}), false},
		"ACLs after znodes":                   {with(first[chunkEnd], chunks[first[chunkACLs]]), false},
		"two sessions in one place":           {together, false},
		"sessions twice":                      {with(first[chunkNodes], chunks[first[chunkSessions]]), false},
		"a kind that isn't one":               {with(first[chunkEnd], []byte{chunkEnd + 1}), false},
		"znodes twice":                        {with(first[chunkEnd], chunks[first[chunkNodes]]), false},
		"an end that counts one znode more":   {append(chunks[:first[chunkEnd]:first[chunkEnd]], counted(chunks, 4)), false},
		"an end that counts one session more": {append(chunks[:first[chunkEnd]:first[chunkEnd]], counted(chunks, 8)), false},
		"an end with another digest":          {append(chunks[:first[chunkEnd]:first[chunkEnd]], counted(chunks, 16)), false},
	} {
		again, err := load(c.chunks)
		if whole := err == nil; whole != c.whole || !whole && !errors.Is(err, errCorrupt) {
			t.Errorf("%s: %v", what, err)
		} else if whole && again.Digest() != tree.Digest() {
			t.Errorf("%s: another tree", what)
		}
	}
}

// counted returns the last chunk with one more in the byte at.
func counted(chunks [][]byte, at int) []byte {
	end := slices.Clone(chunks[len(chunks)-1])
	end[at]++
	return end
}
