package replica

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/invariant"
	"github.com/zooid-project/zooid/internal/limit"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// batchSize is how many requests a batch of these tests has.
const batchSize = 16

// A served is a client of a server alone, and a batch of getData requests.
type served struct {
	*diskShell
	c     *Client
	reads []byte
	pipeline
}

func serve(t testing.TB) *served {
	v := &served{}
	v.diskShell, v.c = pipelined(t)
	v.call(v.c, &v.pipeline, jute.OpSetData, setting("/turn", make([]byte, 128)))
	for range batchSize {
		v.reads = v.request(v.reads, jute.OpGetData, reading("/turn", false))
	}
	return v
}

// readBatch does what a connection does with what it read, and with what came of it.
func (v *served) readBatch(t testing.TB) {
	if used, err := v.receive(v.c, v.reads); err != nil || used != len(v.reads) {
		t.Fatalf("receive of %d bytes took %d: %v", len(v.reads), used, err)
	}
	if begun, _ := v.c.BeginFlush(); !begun {
		t.Fatal("there is nothing to write")
	}
	sent := 0
	for out, _ := v.c.TakeOutput(nil); out != nil; out, _ = v.c.TakeOutput(out) {
		sent += len(out)
	}
	if sent < batchSize*128 {
		t.Fatalf("%d reads of 128 bytes were answered with %d bytes", batchSize, sent)
	}
}

// pipelined returns a server alone, and a client of it that has made a znode.
func pipelined(t testing.TB) (*diskShell, *Client) {
	t.Helper()
	fs := storage.NewMemFS()
	fs.Budget = 256 << 20
	s := openOnDisk(t, fs, 1<<20, 3)
	c := s.client()
	s.call(c, &pipeline{}, jute.OpCreate, creating("/turn", nil, 0))
	return s, c
}

// TestReadsLeaveNoGarbage holds that reading costs no allocation: a server that
// only reads never collects.
func TestReadsLeaveNoGarbage(t *testing.T) {
	if invariant.Checked {
		t.Skip("the checks leave some")
	}
	v := serve(t)
	if n := testing.AllocsPerRun(2000, func() { v.readBatch(t) }); n != 0 {
		t.Errorf("a batch of %d reads allocates %v times", batchSize, n)
	}
}

// TestReadsOfLargeTree answers a batch on a tree for which reads are fetched ahead:
// whole paths, one of nothing, a ping, a read without a path, and a frame of which
// only a part is there.
func TestReadsOfLargeTree(t *testing.T) {
	v := serve(t)
	for i := range tree.PrefetchNodesMin/100 + 1 {
		var ops []jute.MultiOp
		for j := range 100 {
			ops = append(ops,
				jute.MultiOp{Op: jute.OpCreate, Path: fmt.Sprintf("/n-%d-%d", i, j), ACL: jute.WorldACL(jute.PermAll)})
		}
		v.call(v.c, &v.pipeline, jute.OpMulti, func(b []byte) []byte { return jute.AppendMulti(b, ops) })
	}
	n := v.rep.tree.NodeCount()
	if n < tree.PrefetchNodesMin {
		t.Fatalf("a tree of %d znodes is too small for this test", n)
	}
	v.reads = v.request(v.reads, jute.OpGetData, reading("/missing", false))
	v.reads = v.request(v.reads, jute.OpPing, nil)
	v.reads = v.request(v.reads, jute.OpWhoAmI, nil)
	v.reads = v.request(v.reads, jute.OpExists, reading("/n-7-7", false))
	v.readBatch(t)
	whole := len(v.reads)
	v.reads = v.request(v.reads, jute.OpGetData, reading("/turn", false))
	for end := whole; end < len(v.reads); end++ {
		if used, err := v.receive(v.c, v.reads[:end]); err != nil || used != whole {
			t.Fatalf("receive of %d bytes, of which %d are whole frames, took %d: %v", end, whole, used, err)
		}
	}
}

// limited puts the limits in force that a server has by default.
func limited(r *Replica) {
	var sets [limit.Scopes]limit.Set
	for scope := range limit.Scopes {
		sets[scope] = limit.Default(scope)
	}
	r.limiter.SetLimits(sets)
}

func BenchmarkReads(b *testing.B) {
	v := serve(b)
	limited(v.rep)
	b.ReportAllocs()
	for b.Loop() {
		v.now.Add(1e6) // slowly enough for the limit of requests a second
		v.readBatch(b)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batchSize, "ns/request")
}

// BenchmarkWrites sends batches of writes to a server alone, whose disk costs nothing.
func BenchmarkWrites(b *testing.B) {
	s, c := pipelined(b)
	limited(s.rep)
	raw := pipeline{}
	var in []byte
	for range batchSize {
		in = raw.request(in, jute.OpSetData, setting("/turn", make([]byte, 128)))
	}
	for b.Loop() {
		s.send(c, in)
		for got := 0; got < batchSize; {
			s.step()
			got += len(s.repliesNow(c))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batchSize, "ns/request")
}

// TestWritesOfABatchAreOneEntry holds that writes that arrive together are agreed
// on together, and counted once each.
func TestWritesOfABatchAreOneEntry(t *testing.T) {
	t.Parallel()
	s, c := pipelined(t)
	raw := pipeline{}
	var in []byte
	for range batchSize {
		in = raw.request(in, jute.OpSetData, setting("/turn", nil))
	}
	index, _, _ := s.rep.Position()
	before, of := s.rep.View(), c.status()
	s.send(c, in)
	zxid := int64(0)
	for i, h := range s.replies(c, batchSize) {
		if h.Err != jute.OK || h.Xid != raw.xid-batchSize+1+int32(i) || h.Zxid <= zxid {
			t.Fatalf("answer %d: xid %d, error %v, zxid 0x%x after 0x%x", i, h.Xid, h.Err, h.Zxid, zxid)
		}
		zxid = h.Zxid
	}
	if now, _, _ := s.rep.Position(); now != index+1 {
		t.Errorf("%d writes of one batch became %d log entries", batchSize, now-index)
	}
	after, is := s.rep.View(), c.status()
	if n, m := after.Received-before.Received, after.Sent-before.Sent; n != batchSize || m != batchSize ||
		after.Outstanding != 0 {
		t.Errorf("of %d writes the server counts %d received, %d answered, %d outstanding", batchSize, n, m, after.Outstanding)
	}
	if n, m := is.Received-of.Received, is.Sent-of.Sent; n != batchSize || m != batchSize || is.LastCxid != raw.xid ||
		is.LastZxid != zxid {
		t.Errorf("of %d writes the connection counts %d received and %d answered, the last one as %d with zxid 0x%x",
			batchSize, n, m, is.LastCxid, is.LastZxid)
	}
}

// TestWritesOfABatchShareIdentities: of writes that arrive together only the first
// carries the identities of the connection, which all of them have, and one that
// follows a new identity has that too.
func TestWritesOfABatchShareIdentities(t *testing.T) {
	t.Parallel()
	s, c := pipelined(t)
	id := jute.ID{Scheme: "digest", ID: strings.Repeat("u", 1000)}
	prove := func() {
		ids := append(slices.Clip(c.identities()), id)
		c.ids.Store(&ids)
		id.ID += "u"
	}
	prove()
	own := jute.CreateRequest{Path: "/own", ACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "auth"}}}}
	bodies := [][]byte{own.Append(nil)}
	for range 4 {
		bodies = append(bodies, setting("/own", nil)(nil))
	}
	batch := readBatch{r: s.rep, c: c, now: s.now.Load()}
	for i, body := range bodies {
		if i == 3 {
			prove()
		}
		op := jute.OpSetData
		if i == 0 {
			op = jute.OpCreate
		}
		if err := batch.request(int32(i), lookup(op), body); err != nil {
			t.Fatal(err)
		}
	}
	records := tree.RecordsOf(slices.Clone(c.reader.records))
	size := len(c.reader.records)
	var counts []int
	for q := (tree.Request{}); records.Next(&q); {
		counts = append(counts, len(q.Identities))
	}
	if fmt.Sprint(counts) != "[2 2 2 3 3]" || records.Err() != nil {
		t.Errorf("the writes have %v identities, %v", counts, records.Err())
	}
	if size > 1000+2000+5*200 {
		t.Errorf("five writes take %d bytes", size)
	}
	batch.hand()
	for i, h := range s.replies(c, len(bodies)) {
		if h.Err != jute.OK || h.Xid != int32(i) {
			t.Fatalf("answer %d: xid %d, %v", i, h.Xid, h.Err)
		}
	}
	if code := s.call(s.client(), &pipeline{}, jute.OpSetData, setting("/own", nil))[0]; code != jute.ErrNoAuth {
		t.Errorf("a client without the identities: %v", code)
	}
}

// TestBatchLongerThanAConnectionMayQueue: a batch that has to wait for its own
// writes has sent them.
func TestBatchLongerThanAConnectionMayQueue(t *testing.T) {
	t.Parallel()
	s, c := pipelined(t)
	raw := pipeline{}
	const n = 3 * unansweredMax
	var in []byte
	for range n {
		in = raw.request(in, jute.OpSetData, setting("/turn", nil))
	}
	now, taken := s.now.Load(), make(chan error, 1)
	go func() {
		_, err := s.rep.Receive(c, in, now)
		taken <- err
	}()
	var got []reply
	for len(got) < n { // how many steps that takes is the scheduler's
		got = append(got, s.repliesNow(c)...)
		s.step()
	}
	if err := <-taken; err != nil {
		t.Fatal(err)
	}
	for i, h := range got {
		if h.Err != jute.OK || h.Xid != raw.xid-n+1+int32(i) {
			t.Fatalf("answer %d: xid %d, error %v", i, h.Xid, h.Err)
		}
	}
}

// TestBatchKeepsItsOrder: what a batch has in front of a sync is sent before what it
// has behind it, and each read shows the writes before it.
func TestBatchKeepsItsOrder(t *testing.T) {
	t.Parallel()
	s, c := pipelined(t)
	raw := pipeline{}
	for range 100 {
		var in []byte
		for i := range 12 {
			in = raw.request(in, jute.OpSetData, setting("/turn", make([]byte, i+1)))
			if i%3 == 1 {
				in = raw.request(in, jute.OpSync, func(b []byte) []byte { return jute.AppendString(b, "/turn") })
			}
			in = raw.request(in, jute.OpExists, reading("/turn", false))
		}
		s.send(c, in)
		got := s.replies(c, 12*2+4)
		for i := range 12 {
			if got = got[1:]; i%3 == 1 {
				got = got[1:]
			}
			h := got[0]
			got = got[1:]
			var stat jute.Stat
			stat.Decode(jute.NewDecoder(h.body))
			if h.Err != jute.OK || stat.DataLength != int32(i+1) {
				t.Fatalf("the read behind write %d: error %v, %d bytes", i, h.Err, stat.DataLength)
			}
		}
	}
}
