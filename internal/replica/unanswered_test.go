package replica

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/jute"
)

// TestUnansweredBytesOfAll: however many clients write while there is no quorum,
// what waits for an answer is bounded in all; small requests still get in, and once
// writes are answered all the others do.
func TestUnansweredBytesOfAll(t *testing.T) {
	t.Parallel()
	const clients, writes, size = 40, 3, 100_000
	s := newStage(t, Options{})
	s.r.unanswered.bytesMax.Store(1 << 20)
	raw := pipeline{}
	all := make([]*Client, clients)
	for i := range all {
		all[i] = s.client(nil)
		s.apply(s.forward()...)
	}
	small := s.client(nil)
	s.apply(s.forward()...)
	var stream []byte
	for range writes {
		stream = raw.request(stream, jute.OpCreate, creating("/w-", make([]byte, size), jute.ModePersistentSequential))
	}
	var received atomic.Int64
	for _, c := range all {
		go func() {
			s.receive(c, stream) // fails for the one that goes
			received.Add(1)
		}()
	}
	eventually(t, "readers wait", func() bool { return int64(s.r.unanswered.waits.Load())+received.Load() == clients })
	if received.Load() == clients {
		t.Fatal("nobody waits")
	}
	if n := s.r.unanswered.bytes(); n > s.r.unanswered.bytesMax.Load() {
		t.Fatalf("%d bytes wait for an answer", n)
	}
	if _, err := s.receive(small, raw.request(nil, jute.OpCreate, creating("/small", nil, 0))); err != nil {
		t.Fatal(err)
	}
	// One that goes still holds what it has sent, until that is dropped.
	holds := s.r.unanswered.bytes()
	for _, c := range all {
		c.mu.Lock()
		n := c.unanswered.len()
		c.mu.Unlock()
		if n > 0 {
			s.r.Disconnected(c)
			break
		}
	}
	if n := s.r.unanswered.bytes(); n != holds {
		t.Errorf("%d bytes wait after a client has gone, %d before", n, holds)
	}
	for deadline := time.Now().Add(30 * time.Second); received.Load() < clients; time.Sleep(time.Millisecond) {
		if records := s.forward(); len(records) > 0 {
			s.apply(records...)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d clients have got their writes in", received.Load(), clients)
		}
	}
	for records := s.forward(); len(records) > 0; records = s.forward() {
		s.apply(records...)
	}
	if n, bytes := s.r.unanswered.count(), s.r.unanswered.bytes(); n != 0 || bytes != 0 {
		t.Errorf("%d requests of %d bytes are unanswered in the end", n, bytes)
	}
}

// TestWaitingWritesAreNotCopied: a write that waits for room takes no memory but its reader's.
func TestWaitingWritesAreNotCopied(t *testing.T) {
	const clients, size = 40, 1 << 20
	s := newStage(t, Options{})
	raw := pipeline{}
	stream := raw.request(nil, jute.OpCreate, creating("/w-", make([]byte, size), jute.ModePersistentSequential))
	all := make([]*Client, clients)
	for i := range all {
		all[i] = s.client(nil)
		s.apply(s.forward()...)
	}
	s.r.limits.frameMax = 2 * size
	s.r.unanswered.bytesMax.Store(2 * size)
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	var received atomic.Int64
	var done sync.WaitGroup
	for _, c := range all {
		done.Go(func() {
			s.receive(c, stream)
			received.Add(1)
		})
	}
	eventually(t, "readers wait", func() bool { return int64(s.r.unanswered.waits.Load())+received.Load() == clients })
	if grown := heap() - before; received.Load() > 3 || grown > clients/2*size {
		t.Errorf("%d writes are let in, and %d MiB are taken", received.Load(), grown>>20)
	}
	for _, c := range all {
		s.r.Disconnected(c)
	}
	done.Wait()
}

// TestGoneWritesAreBounded: what clients have sent that are gone uses memory until it is applied or dropped, so it
// counts until then. Some close their sessions before they go. Others are being closed while their writes are applied.
func TestGoneWritesAreBounded(t *testing.T) {
	t.Parallel()
	const clients, writes, size, most = 60, 2, 100_000, 1 << 20
	s := newStage(t, Options{})
	s.r.unanswered.bytesMax.Store(most)
	raw := pipeline{}
	var stream []byte
	for range writes {
		stream = raw.request(stream, jute.OpCreate, creating("/w-", make([]byte, size), jute.ModePersistentSequential))
	}
	leaving := raw.request(slices.Clone(stream), jute.OpCloseSession, nil)
	all := make([]*Client, clients)
	for i := range all {
		all[i] = s.client(nil)
		s.apply(s.forward()...)
	}
	var gone atomic.Int64
	for i, c := range all {
		go func() {
			s.receive(c, [][]byte{stream, leaving}[i%2])
			if i%20 == 0 {
				c.CloseAfter("it is slow")
			} else {
				s.r.Disconnected(c)
			}
			gone.Add(1)
		}()
	}
	settled := func() bool { return int64(s.r.unanswered.waits.Load())+gone.Load() == clients }
	eventually(t, "readers wait", settled)
	if n := s.r.proposals.Memory(); gone.Load() == clients || n > 2*most || s.r.unanswered.bytes() > most {
		t.Fatalf("%d of %d are gone, and %d bytes of proposals wait", gone.Load(), clients, n)
	}
	disconnectClosing := func() {
		for i, c := range all {
			if c != nil && i%20 == 0 && c.Ending() != "" {
				s.r.Disconnected(c)
				all[i] = nil
			}
		}
	}
	for deadline := time.Now().Add(30 * time.Second); gone.Load() < clients; time.Sleep(time.Millisecond) {
		s.apply(s.forward()...)
		disconnectClosing()
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d clients have got their writes in", gone.Load(), clients)
		}
	}
	for records := s.forward(); len(records) > 0; records = s.forward() {
		s.apply(records...)
	}
	disconnectClosing()
	if n, bytes := s.r.unanswered.count(), s.r.unanswered.bytes(); n != 0 || bytes != 0 {
		t.Errorf("%d requests of %d bytes are unanswered in the end", n, bytes)
	}
}

// FuzzReceive feeds a client's bytes to a replica, frame after frame, in every state
// that a session can be in: nothing that a client sends may panic, and what is
// counted comes out even once the client has gone.
func FuzzReceive(f *testing.F) {
	raw := pipeline{}
	var all []byte
	for code := range jute.Op(128) {
		all = raw.request(all, code, nil)
		f.Add(uint8(code), raw.request(nil, code, reading("/zookeeper/config", true)))
	}
	f.Add(uint8(0), all)
	children := func(b []byte) []byte { return jute.AppendString(b, "/") }
	f.Add(uint8(1),
		raw.request(raw.request(nil, jute.OpCreate, creating("/a", nil, jute.ModeEphemeral)), jute.OpGetEphemerals, children))
	f.Add(uint8(2), raw.request(raw.request(nil, jute.OpSync, children), jute.OpCreate, creating("/a", nil, 0)))
	f.Add(uint8(3), raw.request(raw.request(nil, jute.OpSetWatches2, func(b []byte) []byte {
		w := jute.SetWatches{
			Data: []string{"/", "/x"}, Exist: []string{"/"}, Child: []string{"/q"}, Persistent: []string{"/"},
		}
		return w.Append(b, jute.OpSetWatches2)
	}), jute.OpCreate, creating("/q", nil, 0)))
	f.Add(uint8(4), raw.request(nil, jute.OpMulti, func(b []byte) []byte {
		return jute.AppendMulti(b,
			[]jute.MultiOp{
				{Op: jute.OpCreate, Path: "/m", ACL: jute.WorldACL(jute.PermAll)}, {Op: jute.OpDelete, Path: "/m", Version: -1},
			})
	}))
	f.Add(uint8(5), raw.request(raw.request(nil, jute.OpCreate, creating("/a", nil, 0)), jute.OpCloseSession, nil))
	f.Fuzz(func(t *testing.T, state uint8, in []byte) {
		s := newStage(t,
			Options{
				Serving: Serving{
					LocalSessions: state&1 != 0, LocalSessionsUpgrading: state&2 != 0, ReadOnlyMode: true, MaxFrame: 1 << 16,
				},
			})
		fuzzReceive(s, state, in)
	})
}

// fuzzReceive is one course of FuzzReceive. The bits of state say what happens to
// the client's requests, and when.
func fuzzReceive(s *localStage, state uint8, in []byte) {
	s.r.limits.frameMax = 1 << 16
	drain := func() {
		for records := s.forward(); len(records) > 0; records = s.forward() {
			s.apply(records...)
		}
	}
	c := s.client(nil)
	drain()
	if state&4 != 0 { // cut off: the session, or the next one, is read-only
		s.r.Lead(quorum.Leadership{Term: s.term})
		s.now += 1 << 20
		s.r.CheckQuorum(s.now, 1)
		s.r.Disconnected(c)
		c = s.client(nil)
	}
	s.r.room.none.Store(state&8 != 0)
	for n := 0; len(in) > 0 && c.Established() && n < 300; n++ { // below what makes receive wait
		size := min(len(in), 4+int(in[0])+int(in[len(in)/2])) // ends anywhere, in frames too
		if rest := len(in); rest >= 4 && state&16 != 0 {
			size = rest
		}
		used, err := s.receive(c, in[:size])
		if err != nil {
			break
		}
		if used == 0 && size == len(in) {
			break // the end of a frame that never comes
		}
		if used == 0 {
			if used, err = s.receive(c, in); err != nil || used == 0 {
				break
			}
		}
		in = in[used:]
		if state&32 != 0 {
			drain()
			s.r.Synced(s.r.Syncs())
		}
		if state&64 != 0 {
			s.lead(uint64(2 + n%2))
		}
		if state&128 != 0 {
			c.TakeOutput(nil)
		}
	}
	drain()
	s.r.Synced(s.r.Syncs())
	drain()
	c.TakeOutput(nil)
	s.r.Disconnected(c)
	drain() // what it has sent counts until it is dropped
	if n, bytes := s.r.unanswered.count(), s.r.unanswered.bytes(); n != 0 || bytes != 0 {
		s.t.Fatalf("%d requests of %d bytes are unanswered on no connection", n, bytes)
	}
	if names := fmt.Sprint(len(s.r.clients), s.r.watches.table.Size(), len(s.r.syncs.waiting)); names != "0 0 0" {
		s.t.Fatalf("clients, watches and syncs that are left: %s", names)
	}
}

// TestUnansweredBounds: the numbers from which on a connection waits for others.
func TestUnansweredBounds(t *testing.T) {
	t.Parallel()
	for _, of := range []struct {
		count   int64
		n       int
		crowded bool
		holds   bool
	}{
		{1000, 500, false, false}, {1001, 15, false, false}, {1001, 16, false, true}, {1001, 0, false, false},
		{4000, 1, false, false}, {4001, 1, false, true}, {4001, 0, false, false},
		{256, 16, true, false}, {257, 16, true, true}, {257, 15, true, false}, {257, 16, false, false},
	} {
		u := &unanswered{countMax: 1000}
		u.add(of.count, 0)
		if got := u.holds(of.n, of.crowded); got != of.holds {
			t.Errorf("%d unanswered of all, %d of a connection, crowded %t: it waits %t", of.count, of.n, of.crowded, got)
		}
	}
	u := &unanswered{countMax: 10}
	u.bound(0)
	if u.bytesMax.Load() != unansweredTotalMax {
		t.Errorf("without a limit, %d bytes", u.bytesMax.Load())
	}
	for limit, want := range map[int64]int64{
		unreadShare * 1000: 1000, unreadShare * unansweredTotalMax: unansweredTotalMax,
		unreadShare * (unansweredTotalMax + 1): unansweredTotalMax, -5: unansweredTotalMax,
	} {
		if u.bound(limit); u.bytesMax.Load() != want {
			t.Errorf("with a limit of %d, %d bytes, want %d", limit, u.bytesMax.Load(), want)
		}
	}
	for count, many := range map[int64]bool{10: false, 11: true} {
		u.sum.Store(0)
		if u.add(count, 5); u.manyRequests() != many || u.count() != count || u.bytes() != 5 {
			t.Errorf("%d requests are many: %t; %d, %d", count, u.manyRequests(), u.count(), u.bytes())
		}
	}
}

// TestWakesAtHalf: readers that wait for bytes go on once half of them are free.
func TestWakesAtHalf(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	u := &s.r.unanswered
	u.bytesMax.Store(1000)
	c := s.session()
	u.await(c)
	u.await(c)
	if len(u.waiting) != 1 || u.waits.Load() != 1 {
		t.Fatalf("one that waits waits %d times", len(u.waiting))
	}
	u.add(0, 501)
	if u.wake(); !c.awaits || len(u.waiting) != 1 {
		t.Error("with 501 of 1,000 bytes it goes on")
	}
	u.add(0, -1)
	if u.wake(); c.awaits || len(u.waiting) != 0 || u.waits.Load() != 0 {
		t.Error("with 500 of 1,000 bytes it doesn't go on")
	}
	ends := s.session()
	s.write(ends, "/much", jute.ModePersistent)
	if u.await(c); u.bytes() <= 500 {
		t.Fatalf("%d bytes are unanswered", u.bytes())
	}
	if s.r.Disconnected(ends); !c.awaits {
		t.Error("it goes on while what the one that is gone has sent still waits")
	}
	if records := s.forward(); len(records) > 0 || c.awaits {
		t.Errorf("%d records are sent; the requests that took the bytes are dropped, and it doesn't go on", len(records))
	}
}
