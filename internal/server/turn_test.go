package server

import (
	"testing"

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

func BenchmarkReads(b *testing.B) {
	v := serve(b)
	b.ReportAllocs()
	for b.Loop() {
		v.turn(b)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/turnSize, "ns/request")
}
