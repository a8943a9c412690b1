package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// turnSize is how many requests a turn of these tests has.
const turnSize = 16

// A served is a client of a server as its connection's goroutine has it, and
// a turn of getData requests.
type served struct {
	*Server
	c     *client
	reads []byte
}

func serve(t testing.TB) *served {
	s := open(t, Options{})
	raw := connect(t, s.Addrs()[0].String(), 0, nil)
	raw.call(jute.OpCreate, creating("/turn", make([]byte, 128), 0))
	// A client without a connection, whose goroutine would flush beside the test.
	v := &served{Server: s, c: newClient(s.ids.take(), "test", jute.ID{Scheme: "ip", ID: "127.0.0.1"}, func() {})}
	for range turnSize {
		v.reads = raw.request(v.reads, jute.OpGetData, reading("/turn", false))
	}
	return v
}

// turn is what readRequests does with what it read and flush with what came of
// it, without the socket.
func (v *served) turn(t testing.TB) {
	if used, err := v.replica.receive(v.c, v.reads, v.now()); err != nil || used != len(v.reads) {
		t.Fatalf("receive of %d bytes took %d: %v", len(v.reads), used, err)
	}
	v.c.mu.Lock()
	v.c.flushing = true
	v.c.mu.Unlock()
	sent := 0
	for out, _ := v.c.takeOutput(nil); out != nil; out, _ = v.c.takeOutput(out) {
		sent += len(out)
	}
	if sent < turnSize*128 {
		t.Fatalf("%d reads of 128 bytes were answered with %d bytes", turnSize, sent)
	}
}

// TestReadsLeaveNoGarbage holds that reading costs no allocation: a server that
// only reads never collects.
func TestReadsLeaveNoGarbage(t *testing.T) {
	v := serve(t)
	if n := testing.AllocsPerRun(2000, func() { v.turn(t) }); n != 0 {
		t.Errorf("a turn of %d reads allocates %v times", turnSize, n)
	}
}

// TestReadsOfLargeTree answers a turn on a tree for which reads are fetched ahead:
// whole paths, one of nothing, a ping, a read without a path, and a frame of which
// only a part is there.
func TestReadsOfLargeTree(t *testing.T) {
	v := serve(t)
	raw := connect(t, v.Addrs()[0].String(), 0, nil)
	for i := range tree.FetchNodesMin/100 + 1 {
		var ops []jute.MultiOp
		for j := range 100 {
			ops = append(ops, jute.MultiOp{Op: jute.OpCreate, Path: fmt.Sprintf("/n-%d-%d", i, j), ACL: jute.WorldACL(jute.PermAll)})
		}
		raw.call(jute.OpMulti, func(b []byte) []byte { return jute.AppendMulti(b, ops) })
	}
	v.replica.mu.RLock()
	n := v.replica.tree.NodeCount()
	v.replica.mu.RUnlock()
	if n < tree.FetchNodesMin {
		t.Fatalf("a tree of %d znodes is too small for this test", n)
	}
	v.reads = raw.request(v.reads, jute.OpGetData, reading("/missing", false))
	v.reads = raw.request(v.reads, jute.OpPing, nil)
	v.reads = raw.request(v.reads, jute.OpWhoAmI, nil)
	v.reads = raw.request(v.reads, jute.OpExists, reading("/n-7-7", false))
	v.turn(t)
	whole := len(v.reads)
	v.reads = raw.request(v.reads, jute.OpGetData, reading("/turn", false))
	for end := whole; end < len(v.reads); end++ {
		if used, err := v.replica.receive(v.c, v.reads[:end], v.now()); err != nil || used != whole {
			t.Fatalf("receive of %d bytes, of which %d are whole frames, took %d: %v", end, whole, used, err)
		}
	}
}

func BenchmarkReads(b *testing.B) {
	v := serve(b)
	b.ReportAllocs()
	for b.Loop() {
		v.turn(b)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/turnSize, "ns/request")
}

// pipelined returns a connection to a fresh server and its client, whose reader
// waits: the test hands requests to receive in its place.
func pipelined(t *testing.T) (*Server, *rawClient, *client) {
	t.Helper()
	s := open(t, Options{})
	raw := connect(t, s.Addrs()[0].String(), 0, nil)
	raw.call(jute.OpCreate, creating("/turn", nil, 0))
	return s, raw, s.clients()[0]
}

// TestWritesOfATurnAreOneEntry holds that writes that arrive together are agreed
// on together, and counted once each.
func TestWritesOfATurnAreOneEntry(t *testing.T) {
	t.Parallel()
	s, raw, c := pipelined(t)
	var in []byte
	for range turnSize {
		in = raw.request(in, jute.OpSetData, setting("/turn", nil))
	}
	index, _, _ := s.replica.Position()
	before, of := s.Status(), c.status()
	if used, err := s.replica.receive(c, in, s.now()); err != nil || used != len(in) {
		t.Fatalf("receive of %d bytes took %d: %v", len(in), used, err)
	}
	zxid := int64(0)
	for i := range turnSize {
		h, _ := raw.reply()
		if h.Err != jute.OK || h.Xid != raw.xid-turnSize+1+int32(i) || h.Zxid <= zxid {
			t.Fatalf("answer %d: xid %d, error %v, zxid 0x%x after 0x%x", i, h.Xid, h.Err, h.Zxid, zxid)
		}
		zxid = h.Zxid
	}
	if now, _, _ := s.replica.Position(); now != index+1 {
		t.Errorf("%d writes of one turn became %d log entries", turnSize, now-index)
	}
	after, is := s.Status(), c.status()
	if n, m := after.Received-before.Received, after.Sent-before.Sent; n != turnSize || m != turnSize || after.Outstanding != 0 {
		t.Errorf("of %d writes the server counts %d received, %d answered, %d outstanding", turnSize, n, m, after.Outstanding)
	}
	if n, m := is.Received-of.Received, is.Sent-of.Sent; n != turnSize || m != turnSize || is.LastCxid != raw.xid || is.LastZxid != zxid {
		t.Errorf("of %d writes the connection counts %d received and %d answered, the last one as %d with zxid 0x%x", turnSize, n, m, is.LastCxid, is.LastZxid)
	}
}

// TestWritesOfATurnShareIdentities: of writes that arrive together only the first
// carries the identities of the connection, which all of them have, and one that
// follows a new identity has that too.
func TestWritesOfATurnShareIdentities(t *testing.T) {
	t.Parallel()
	s, raw, c := pipelined(t)
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
	turn := turn{r: s.replica, c: c, now: s.now()}
	for i, body := range bodies {
		if i == 3 {
			prove()
		}
		op := jute.OpSetData
		if i == 0 {
			op = jute.OpCreate
		}
		if err := turn.request(int32(i), lookup(op), body); err != nil {
			t.Fatal(err)
		}
	}
	records := tree.RecordsOf(slices.Clone(c.records))
	size := len(c.records)
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
	turn.hand()
	for i := range bodies {
		if h, _ := raw.reply(); h.Err != jute.OK || h.Xid != int32(i) {
			t.Fatalf("answer %d: xid %d, %v", i, h.Xid, h.Err)
		}
	}
	if h, _ := connect(t, s.Addrs()[0].String(), 0, nil).call(jute.OpSetData, setting("/own", nil)); h.Err != jute.ErrNoAuth {
		t.Errorf("a client without the identities: %v", h.Err)
	}
}

// TestTurnLongerThanAConnectionMayQueue: a turn that has to wait for its own
// writes has sent them.
func TestTurnLongerThanAConnectionMayQueue(t *testing.T) {
	t.Parallel()
	s, raw, c := pipelined(t)
	const n = 3 * unansweredMax
	var in []byte
	for range n {
		in = raw.request(in, jute.OpSetData, setting("/turn", nil))
	}
	go s.replica.receive(c, in, s.now())
	for i := range n {
		if h, _ := raw.reply(); h.Err != jute.OK || h.Xid != raw.xid-n+1+int32(i) {
			t.Fatalf("answer %d: xid %d, error %v", i, h.Xid, h.Err)
		}
	}
}

// TestTurnKeepsItsOrder: what a turn has in front of a sync is sent before what it
// has behind it, and each read shows the writes before it.
func TestTurnKeepsItsOrder(t *testing.T) {
	t.Parallel()
	s, raw, c := pipelined(t)
	for range 100 {
		var in []byte
		for i := range 12 {
			in = raw.request(in, jute.OpSetData, setting("/turn", make([]byte, i+1)))
			if i%3 == 1 {
				in = raw.request(in, jute.OpSync, func(b []byte) []byte { return jute.AppendString(b, "/turn") })
			}
			in = raw.request(in, jute.OpExists, reading("/turn", false))
		}
		if used, err := s.replica.receive(c, in, s.now()); err != nil || used != len(in) {
			t.Fatalf("receive of %d bytes took %d: %v", len(in), used, err)
		}
		for i := range 12 {
			raw.reply()
			if i%3 == 1 {
				raw.reply()
			}
			h, body := raw.reply()
			var stat jute.Stat
			stat.Decode(jute.NewDecoder(body))
			if h.Err != jute.OK || stat.DataLength != int32(i+1) {
				t.Fatalf("the read behind write %d: error %v, %d bytes", i, h.Err, stat.DataLength)
			}
		}
	}
}
