package bench

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zooid-project/zooid/internal/tool/bench/wire"
	"github.com/zooid-project/zooid/jute"
)

// stallingServer answers every request at once, but for a pause that begins
// with request number stallAt. It is the far end of a pipe inside a bubble of
// fake time, so all delays are exact.
func stallingServer(c net.Conn, stallAt int, stall time.Duration, over <-chan struct{}) {
	var buf []byte
	for n := 0; ; n++ {
		f, err := jute.ReadFrame(c, buf, jute.MaxBufferDefault)
		if err != nil {
			return
		}
		buf = f
		if n == stallAt {
			select {
			case <-time.After(stall):
			case <-over:
				return
			}
		}
		var h jute.RequestHeader
		h.Decode(jute.NewDecoder(f))
		if _, err := c.Write(jute.AppendReply(nil, jute.ReplyHeader{Xid: h.Xid}, nil)); err != nil {
			return
		}
	}
}

// stalledLoad runs 10 s of load, with a server that stalls once, in fake time.
func stalledLoad(t *testing.T, rate float64, stallAt int, stall time.Duration) (r result, err error) {
	r, _, err = countedLoad(t, rate, stallAt, stall)
	return r, err
}

// writeCounter counts the writes to a connection.
type writeCounter struct {
	net.Conn
	writes int
}

func (c *writeCounter) Write(b []byte) (int, error) {
	c.writes++
	return c.Conn.Write(b)
}

// countedLoad is stalledLoad that also returns how many writes the load took.
func countedLoad(t *testing.T, rate float64, stallAt int, stall time.Duration) (r result, writes int, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		pipe, far := net.Pipe()
		near := &writeCounter{Conn: pipe}
		defer func() { writes = near.writes }()
		defer near.Close()
		over := make(chan struct{})
		defer close(over)
		go stallingServer(far, stallAt, stall, over)
		ping := wire.Encode(jute.OpPing, nil)
		l := &load{name: "test", conns: []*wire.Conn{wire.Attach(near, wire.IdleBuffer)}, depth: evenly(1), rate: rate,
			time: 10 * time.Second,
			source: func(int) wire.Request {
				return func(b []byte, _ uint64) ([]byte, wire.Kind) {
					if rate == 0 {
						time.Sleep(10 * time.Millisecond) // a client that thinks before it asks
					}
					return append(b, ping...), 0
				}
			}}
		r, err = l.run(context.Background())
	})
	return r, writes, err
}

// within reports whether got is want by the histogram's precision.
func within(got, want float64) bool { return got >= want*0.998 && got <= want*1.002 }

// TestOpenLoopChargesAStallToEveryRequestDue: 100 requests a second and a stall
// of 2 s from request 300 on. The requests due during the stall waited for its
// end: 2 s, 1.99 s, 1.98 s... so a tenth of the thousand waited more than a second.
func TestOpenLoopChargesAStallToEveryRequestDue(t *testing.T) {
	r, err := stalledLoad(t, 100, 300, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if r.Ops != 1000 || r.errorCount() != 0 {
		t.Fatalf("%d operations, errors %v", r.Ops, r.Errors)
	}
	if !within(r.Max, 2000) || !within(r.P99, 1900) || !within(r.P90, 1000) || r.P50 > 0.01 {
		t.Errorf("p50 %v, p90 %v, p99 %v, max %v ms; want 0, 1000, 1900, 2000", r.P50, r.P90, r.P99, r.Max)
	}
	if !within(r.PerSec, 100) {
		t.Errorf("%v operations per second", r.PerSec)
	}
}

// TestOpenLoopWritesWhatFellDueTogether: at 10 000 requests a second one is due every
// 0.1 ms, five within each pause between two writes. They wait for it, and that
// counts: 0.4, 0.3, 0.2, 0.1 and 0 ms.
func TestOpenLoopWritesWhatFellDueTogether(t *testing.T) {
	r, writes, err := countedLoad(t, 10000, -1, 0)
	if err != nil {
		t.Fatal(err)
	}
	if want := 100000/5 + 1; r.Ops != 100000 || writes != want {
		t.Errorf("%d operations in %d writes, want 100000 in %d", r.Ops, writes, want)
	}
	if !within(r.P50, 0.2) || !within(r.Max, 0.4) {
		t.Errorf("p50 %v, max %v ms; want 0.2, 0.4", r.P50, r.Max)
	}
}

// TestOpenLoopCatchesUpWithoutPauses: after a stall of a second in which 10 000
// requests fell due, the last of them waits for the others' writes, not for pauses.
func TestOpenLoopCatchesUpWithoutPauses(t *testing.T) {
	r, err := stalledLoad(t, 10000, 1000, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if r.Ops != 100000 || r.errorCount() != 0 || !within(r.Max, 1000) || !within(r.P90, 0.4) {
		t.Errorf("%d operations, errors %v, p90 %v, max %v ms; want p90 0.4, max 1000", r.Ops, r.Errors, r.P90, r.Max)
	}
}

// TestClosedLoopChargesAStallOnce is the contrast: a client that waits asks
// nothing meanwhile, so its percentiles know of one slow request.
func TestClosedLoopChargesAStallOnce(t *testing.T) {
	r, err := stalledLoad(t, 0, 300, 2*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if !within(r.Max, 2000) || r.P99 > 0.01 || r.Ops < 790 || r.Ops > 801 {
		t.Errorf("%d operations, p99 %v, max %v ms", r.Ops, r.P99, r.Max)
	}
}

// TestOpenLoopGivesUp: a server that never comes back. What was due counts as
// errors, with the time it has waited.
func TestOpenLoopGivesUp(t *testing.T) {
	r, err := stalledLoad(t, 100, 500, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if r.Ops != 1000 || r.Errors["OperationTimeout"] != 500 || r.errorCount() != 500 {
		t.Errorf("%d operations, errors %v", r.Ops, r.Errors)
	}
	if !within(r.Max, 15000) || !within(r.P90, 14000) {
		t.Errorf("p90 %v, max %v ms; want 14000, 15000", r.P90, r.Max)
	}
}

func TestReplyOutOfOrderIsAnError(t *testing.T) {
	t.Parallel()
	near, far := net.Pipe()
	go func() {
		f, err := jute.ReadFrame(far, nil, jute.MaxBufferDefault)
		for err == nil && len(f) > 0 {
			_, err = far.Write(jute.AppendReply(nil, jute.ReplyHeader{Xid: 7}, nil))
			f = nil
		}
		io.Copy(io.Discard, far)
	}()
	defer far.Close()
	ping := wire.Encode(jute.OpPing, nil)
	l := &load{name: "test", conns: []*wire.Conn{wire.Attach(near, wire.IdleBuffer)}, depth: evenly(1), ops: 1,
		source: func(int) wire.Request {
			return func(b []byte, _ uint64) ([]byte, wire.Kind) { return append(b, ping...), 0 }
		}}
	_, err := l.run(context.Background())
	const want = "test: connection 0 to , after 0 replies: reply out of order: it has xid 7, the oldest request without one has 1"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestScheduleCountsWhatIsDueBeforeTheEnd(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		offset, until time.Duration
		rate          float64
		want          uint64
	}{
		{0, time.Second, 10, 10},
		{50 * time.Millisecond, time.Second, 10, 10},
		{0, time.Second + 1, 10, 11},
		{0, time.Second, 0.5, 1},
		{2 * time.Second, time.Second, 10, 0},
		{0, 10 * time.Second, 3, 30},
	} {
		s := schedule{tt.offset, 1e9 / tt.rate, tt.until}
		n := s.count()
		if n != tt.want || n > 0 && s.at(n-1) >= tt.until || s.at(n) < tt.until {
			t.Errorf("%+v: count %d, want %d", tt, n, tt.want)
		}
	}
}
