package server

import (
	"fmt"
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
