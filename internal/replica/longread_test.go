package replica

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// longListSize is enough for several steps of a Scan.
const longListSize = 20_000

// TestTurnLetsOthersIn: a turn of reads lets the replica go before it has done much
// more than readWorkMax, however many requests it has.
func TestTurnLetsOthersIn(t *testing.T) {
	t.Parallel()
	v := serve(t)
	raw := pipeline{}
	batch := readBatch{r: v.rep, c: v.c, now: v.now}
	held, released := 0, 0
	for range 5000 {
		before := len(v.c.out)
		request := raw.request(nil, jute.OpGetData, reading("/turn", false))
		if err := batch.request(raw.xid, lookup(jute.OpGetData), request[4+jute.RequestHeaderSize:]); err != nil {
			t.Fatal(err)
		}
		held += len(v.c.out) - before
		if !batch.held {
			held = 0
			released++
		}
		if held > readWorkMax {
			t.Fatalf("the replica is held over replies of %d bytes", held)
		}
	}
	if released == 0 {
		t.Error("the replica is never let go")
	}
	batch.release()
}

// TestLongReadsLetOthersIn: what waits behind a write is answered while the replica
// is held alone only if it is little; the rest is done in steps, between which
// nobody holds the replica.
func TestLongReadsLetOthersIn(t *testing.T) {
	t.Parallel()
	value := make([]byte, 100_000)
	for name, tc := range map[string]struct {
		requests int
		op       jute.Op
		record   func([]byte) []byte
		inline   int // bytes that may be answered at once
		steps    int // at least
	}{
		"large values": {900, jute.OpGetData, reading("/v", false), (queuedReadsMax + 4) * len(value), 100},
		"a long list":  {1, jute.OpGetChildren, reading("/l", false), 0, longListSize / 5000},
		"watches": {1, jute.OpSetWatches, func(b []byte) []byte {
			w := jute.SetWatches{Data: make([]string, 20*setWatchesStep)}
			for i := range w.Data {
				w.Data[i] = fmt.Sprintf("/l/n%06d", i)
			}
			w.RelativeZxid = 1 << 60
			return w.Append(b, jute.OpSetWatches)
		}, 0, 20},
		"many reads in one": {5, jute.OpMultiRead, func(b []byte) []byte {
			ops := make([]jute.MultiOp, 1000)
			for i := range ops {
				ops[i] = jute.MultiOp{Op: jute.OpGetData, Path: "/l/n000001"}
			}
			return jute.AppendMulti(b, ops)
		}, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, Options{})
			c := s.client(nil)
			s.apply(s.forward()...)
			c.TakeOutput(nil)
			raw := pipeline{}
			receive := func(stream []byte) {
				if _, err := s.receive(c, stream); err != nil {
					t.Fatal(err)
				}
			}
			receive(raw.request(nil, jute.OpCreate, creating("/v", value, 0)))
			receive(raw.request(nil, jute.OpCreate, creating("/l", nil, 0)))
			for i := 0; i < longListSize; i += 1000 {
				ops := make([]jute.MultiOp, 1000)
				for j := range ops {
					ops[j] = jute.MultiOp{Op: jute.OpCreate, Path: fmt.Sprintf("/l/n%06d", i+j), ACL: jute.WorldACL(jute.PermAll)}
				}
				receive(raw.request(nil, jute.OpMulti, func(b []byte) []byte { return jute.AppendMulti(b, ops) }))
			}
			for records := s.forward(); len(records) > 0; records = s.forward() {
				s.apply(records...)
			}
			c.TakeOutput(nil)

			receive(raw.request(nil, jute.OpSetData, setting("/v", value)))
			for range tc.requests {
				receive(raw.request(nil, tc.op, tc.record))
			}
			receive(raw.request(nil, jute.OpCreate, creating("/behind", nil, 0)))
			records := s.forward()
			s.apply(records...)
			if n := len(c.out); n > tc.inline+1000 {
				t.Errorf("%d bytes were answered while the write was applied, want up to %d", n, tc.inline)
			}
			steps, replies := 0, 0
			for n := 0; c.postponed || len(c.out) > 0; {
				if n = len(c.out); n > outputPauseBytes+tree.ReplyBytesMax {
					t.Fatalf("%d bytes wait to be read", n)
				}
				if replies += countReplies(c.out); c.postponed {
					c.out = nil
					s.r.readMore(c)
					if steps++; !s.r.mu.TryLock() {
						t.Fatal("a step holds the replica")
					}
					s.r.mu.Unlock()
					continue
				}
				c.out = nil
			}
			if steps < tc.steps || replies != tc.requests+1 {
				t.Errorf("%d replies in %d steps, want %d in at least %d", replies, steps, tc.requests+1, tc.steps)
			}
			s.apply(s.forward()...)
			if countReplies(c.out) != 1 || c.unanswered.len() != 0 || c.longReads.Load() != 0 {
				t.Errorf("the write behind: %d replies, %d requests unanswered", countReplies(c.out), c.unanswered.len())
			}
		})
	}
}

// TestSyncBehindALongRead: a sync that becomes ready while reads ahead of it are
// still to be answered doesn't let go the write behind it.
func TestSyncBehindALongRead(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	c := s.client(nil)
	s.apply(s.forward()...)
	c.TakeOutput(nil)
	raw := pipeline{}
	receive := func(op jute.Op, record func([]byte) []byte) {
		if _, err := s.receive(c, raw.request(nil, op, record)); err != nil {
			t.Fatal(err)
		}
	}
	receive(jute.OpCreate, creating("/v", make([]byte, 1000), 0))
	receive(jute.OpMultiRead, func(b []byte) []byte {
		ops := make([]jute.MultiOp, 1000)
		for i := range ops {
			ops[i] = jute.MultiOp{Op: jute.OpGetData, Path: "/v"}
		}
		return jute.AppendMulti(b, ops)
	})
	receive(jute.OpExists, reading("/behind", false))
	receive(jute.OpSync, func(b []byte) []byte { return jute.AppendString(b, "/") })
	receive(jute.OpCreate, creating("/behind", nil, 0))
	s.apply(s.forward()...)
	s.r.readMore(c)
	if !c.postponed || c.unanswered.len() != 3 {
		t.Fatalf("a step has left %d requests", c.unanswered.len())
	}
	s.r.Synced(s.r.Syncs())
	if sent := s.forward(); len(sent) != 0 {
		t.Fatal("the write is sent while a read ahead of it waits")
	}
	for c.postponed {
		s.r.readMore(c)
	}
	s.apply(s.forward()...)
	s.want(c, 5, true)
}

// countReplies counts the frames in out that aren't notifications.
func countReplies(out []byte) (n int) {
	for len(out) > 0 {
		if int32(binary.BigEndian.Uint32(out[4:])) != jute.XidNotification {
			n++
		}
		out = out[4+binary.BigEndian.Uint32(out):]
	}
	return n
}

// TestOutputOfASlowReader: a client that sends many reads of large values and takes
// nothing doesn't make the replica keep their replies; once it takes, it gets them all.
func TestOutputOfASlowReader(t *testing.T) {
	t.Parallel()
	s, c := pipelined(t)
	s.call(c, &pipeline{}, jute.OpSetData, setting("/turn", make([]byte, 1_000_000)))
	const reads = 50
	var stream []byte
	raw := pipeline{}
	for range reads {
		stream = raw.request(stream, jute.OpGetData, reading("/turn", false))
	}
	taken, now := make(chan error, 1), s.now
	go func() {
		_, err := s.rep.Receive(c, stream, now)
		taken <- err
	}()
	most := 0
	waits := func() int {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.out)
	}
	eventually(t, "replies wait", func() bool { return waits() > 0 })
	for got := 0; got < reads; {
		most = max(most, waits())
		got += len(s.repliesNow(c))
	}
	if err := <-taken; err != nil {
		t.Fatal(err)
	}
	if most > outputPauseBytes+2_000_000 {
		t.Errorf("%d bytes waited to be taken", most)
	}
}
