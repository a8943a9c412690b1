package replica

import (
	"fmt"
	"testing"

	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// TestFullQueuesStopReading fills each queue of a connection to its limit: it may
// take no further request until there is room.
func TestFullQueuesStopReading(t *testing.T) {
	write := func(bytes int) request { return request{op: lookup(jute.OpSetData), size: bytes} }
	now := func() int64 { return 0 }
	never, always := &unanswered{countMax: 1 << 20, now: now}, &unanswered{countMax: -1, now: now}
	never.bytesMax.Store(1 << 30)
	always.bytesMax.Store(1 << 30)
	for name, q := range map[string]struct {
		fill, drain func(*Client)
		all         *unanswered
	}{
		"requests": {
			func(c *Client) {
				for n := range unansweredMax {
					w := write(1)
					w.seq = int64(n)
					c.unanswered.push(w)
				}
			}, func(c *Client) { c.unanswered.pop() }, never,
		},
		"bytes of requests": {
			func(c *Client) { c.unanswered.push(write(unansweredBytesMax)) }, func(c *Client) { c.unanswered.pop() }, never,
		},
		"output": {
			func(c *Client) { c.out.frames = make([]byte, outputPauseBytes) },
			func(c *Client) { c.out.frames = c.out.frames[1:] }, never,
		},
		"the server's requests": { // with none of its own a connection still gets its turn
			func(c *Client) { c.unanswered.push(write(1)) }, func(c *Client) { c.unanswered.pop() }, always,
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := NewClient(1, "test", jute.ID{}, Woken(func() {}))
			told := 0
			c.reader.Blocks = func() { told++ }
			if !c.reserve(q.all, 1, func() { t.Error("an empty queue blocks") }) {
				t.Fatal("the connection is closed")
			}
			c.mu.Lock()
			q.fill(c)
			c.mu.Unlock()
			blocked, done := make(chan struct{}, 1), make(chan bool)
			go func() { done <- c.reserve(q.all, 1, func() { blocked <- struct{}{} }) }()
			select {
			case <-blocked:
			case <-done:
				t.Fatal("a full queue takes another request")
			}
			c.mu.Lock()
			q.drain(c)
			c.room.Broadcast()
			c.mu.Unlock()
			if !<-done {
				t.Error("the connection was closed when there was room again")
			}
			if told == 0 {
				t.Error("the connection waited and Blocks was not called")
			}
		})
	}
}

// TestUnreadOutputEndsTheConnection: notifications can't be held back, so what
// exceeds outputMaxBytes ends the connection.
func TestUnreadOutputEndsTheConnection(t *testing.T) {
	c := NewClient(1, "test", jute.ID{}, Woken(func() {}))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.out.frames = make([]byte, outputMaxBytes)
	c.queued()
	if c.closing {
		t.Fatal("closed at the limit")
	}
	c.out.frames = append(c.out.frames, 0)
	if c.queued(); !c.closing || c.out.frames != nil {
		t.Errorf("beyond the limit: closing %v, %d bytes kept", c.closing, len(c.out.frames))
	}
}

// TestCrowded: while connections of its identity wait for their turn, a connection that has a few unanswered waits at a
// smaller number in all; one that has less doesn't, and globalOutstandingLimit still counts.
func TestCrowded(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		own     int
		all     int64
		crowded bool
		waits   bool
	}{
		{fewUnanswered, crowdedUnanswered + 1, true, true},
		{fewUnanswered, crowdedUnanswered + 1, false, false},
		{fewUnanswered, crowdedUnanswered, true, false},
		{fewUnanswered - 1, fewUnansweredTimes * 1000, true, false},
		{1, fewUnansweredTimes*1000 + 1, true, true},
		{1, fewUnansweredTimes*1000 + 1, false, true},
		{0, fewUnansweredTimes*1000 + 1, true, false},
		{fewUnanswered, 1001, false, true},
	} {
		all := unanswered{countMax: 1000}
		all.add(x.all, 0)
		if waits := all.holds(x.own, x.crowded); waits != x.waits {
			t.Errorf("%d unanswered of %d in all, crowded %t: waits %t", x.own, x.all, x.crowded, waits)
		}
	}
	few := unanswered{countMax: 10} // less than crowdedUnanswered
	if few.add(11, 0); !few.holds(fewUnanswered, true) {
		t.Error("a connection of a crowded identity may have more unanswered than any other")
	}
}

// TestOutstandingLimit: with more requests unanswered in all than configured, a connection that has a few goes on; with
// several times as many, one that has any waits with its next.
func TestOutstandingLimit(t *testing.T) {
	t.Parallel()
	const limit = 5
	for name, c := range map[string]struct {
		limit int
		waits bool
	}{"above all": {limit, true}, "above the limit": {limit + 1, false}} {
		s := newStage(t, Options{Serving: Serving{MaxOutstanding: c.limit}})
		var clients []*Client
		for range 3 {
			clients = append(clients, s.client(nil))
			s.apply(s.forward()...)
		}
		for i, n := range []int{fewUnanswered, fewUnansweredTimes*limit - fewUnanswered, 1} {
			raw, stream := pipeline{}, []byte(nil)
			for range n {
				stream = raw.request(stream, jute.OpDelete, deleting("/none"))
			}
			if _, err := s.receive(clients[i], stream); err != nil {
				t.Fatal(err)
			}
		}
		for i, waits := range []bool{true, c.waits, c.waits} { // the first one has too many itself
			waited, last := false, clients[i]
			took := last.reserve(&s.r.unanswered, 0, func() { waited = true; last.closeLocked("it waits") })
			if waited != waits || took == waits {
				t.Errorf("%s: connection %d waits: %t, and gets its turn: %t", name, i, waited, took)
			}
			if took {
				s.r.unanswered.add(-1, 0)
			}
		}
	}
}

// TestBlocks: before a login, and before a reconfig is vetted, the server is told that Receive may wait.
func TestBlocks(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	c := s.client(nil)
	s.apply(s.forward()...)
	told := 0
	c.reader.Blocks = func() { told++ }
	raw := pipeline{}
	auth := &jute.AuthPacket{Scheme: "digest", Auth: []byte("someone:x")}
	for i, stream := range [][]byte{
		raw.request(nil, jute.OpDelete, deleting("/none")), // doesn't wait
		raw.request(nil, jute.OpAuth, auth.Append),
		raw.request(nil, jute.OpReconfig, (&jute.ReconfigRequest{CurConfigID: -1}).Append),
	} {
		if _, err := s.receive(c, stream); err != nil {
			t.Fatal(err)
		}
		if told != i {
			t.Errorf("the server was told %d times after request %d", told, i)
		}
	}
}

// TestLateFrames: a connection is closed whose frame takes longer than 10 s and a second for each 16 KiB, seen at
// two looks. What it sends of the frame after that is no sign of life. A frame that is there in time, and one that
// only the server is late with, does no harm.
func TestLateFrames(t *testing.T) {
	t.Parallel()
	for _, at := range []struct {
		size    int
		seconds int64 // from the frame's beginning
		arrives bool  // the rest is there by then
		closed  bool
	}{
		{1000, 9, false, false}, {1000, 11, false, true}, {1000, 60, true, false},
		{1_000_000, 60, false, false}, {1_000_000, 65, false, true},
	} {
		s := newStage(t, Options{})
		c := s.client(nil)
		s.apply(s.forward()...)
		begun := int64(1e12)
		now := begun
		s.r.now = func() int64 { return now }
		frame := (&pipeline{}).request(nil, jute.OpSetData, setting("/", make([]byte, at.size)))
		if _, err := s.r.Receive(c, frame[:6], now); err != nil {
			t.Fatal(err)
		}
		for n := range 5 { // in pieces, some of which don't say how long it is
			c.frame.NoteFrame(frame[:2+n], n == 0, now)
			now += 1e6
		}
		if at.arrives {
			c.frame.FrameArrived(frame)
		}
		now = begun + at.seconds*1e9
		if _, err := s.r.Receive(c, frame[:7], now); err != nil {
			t.Fatal(err)
		}
		if heard := c.lastHeard.Load() == now/1e6; heard == at.closed {
			t.Errorf("%+v: a part of the frame is a sign of life: %t", at, heard)
		}
		s.r.AccountMemory(0, 0, 0)
		if c.Ending() != "" {
			t.Errorf("%+v: closed at the first look", at)
		}
		s.r.AccountMemory(0, 0, 0)
		if closed := c.Ending() != ""; closed != at.closed {
			t.Errorf("%+v: closed %t, %q", at, closed, c.Ending())
		}
	}
}

// TestLoginsWaitForOutput: answers to auth packets, too, wait until a client reads what it is sent.
func TestLoginsWaitForOutput(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	c := s.client(nil)
	s.apply(s.forward()...)
	for out, _ := c.TakeOutput(nil); out != nil; out, _ = c.TakeOutput(nil) {
	}
	c.mu.Lock()
	c.out.frames = make([]byte, outputPauseBytes)
	c.mu.Unlock()
	woken := make(chan struct{}, 1)
	c.Socket = Woken(func() { woken <- struct{}{} })
	login := (&pipeline{}).request(nil, jute.OpAuth, func(b []byte) []byte {
		return (&jute.AuthPacket{Scheme: "digest", Auth: []byte("bob:x")}).Append(b)
	})
	done := make(chan error)
	go func() {
		_, err := s.r.Receive(c, login, s.r.now())
		done <- err
	}()
	select {
	case <-woken: // it waits, and wants its output flushed
	case <-done:
		t.Fatal("a login is answered while its client doesn't read")
	}
	c.mu.Lock()
	size := len(c.out.frames)
	c.mu.Unlock()
	if size != outputPauseBytes {
		t.Errorf("%d bytes are to be sent, want no more than %d", size, outputPauseBytes)
	}
	out, _ := c.TakeOutput(nil)
	c.TakeOutput(out) // it was written
	if err := <-done; err != nil {
		t.Error(err)
	}
	if out, _ := c.TakeOutput(nil); countReplies(out) != 1 {
		t.Errorf("%d replies, want one", countReplies(out))
	}
}

// TestRefusedByTheTree: a write that a limit of the tree refuses is answered like one that is wrong for another reason,
// and counted by its limit.
func TestRefusedByTheTree(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	c := s.session()
	raw := pipeline{}
	settings := tree.DefaultSettings()
	settings.FeatureLevel = 2
	s.apply(tree.AppendRecord(nil, &tree.Request{Op: tree.OpSettings, Body: settings.Append(nil)}))
	for n, entries := range []int{1, 257} {
		acl := make([]jute.ACL, entries)
		for i := range acl {
			acl[i] = jute.ACL{Perms: jute.PermAll, ID: jute.ID{Scheme: "ip", ID: fmt.Sprintf("10.0.%d.%d", i>>8, i&255)}}
		}
		create := jute.CreateRequest{Path: fmt.Sprint("/n", n), ACL: acl}
		s.sends(c, &raw, jute.OpCreate, create.Append)
		if got := s.r.meters.refused[tree.LimitACL].Value(); got != int64(n) {
			t.Errorf("an ACL of %d entries: %d refusals are counted", entries, got)
		}
	}
	if _, ok := s.r.tree.Stat("/n1"); ok || c.Ending() != "" {
		t.Errorf("the znode exists: %t; the connection ends: %q", ok, c.Ending())
	}
}
