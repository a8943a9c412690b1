package replica

import (
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/expiry"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/jute"
)

// session connects a client of 10 s and gives it its session.
func (s *localStage) session() *Client {
	s.t.Helper()
	c := s.client(nil)
	s.apply(s.forward()...)
	c.TakeOutput(nil)
	if !c.Established() {
		s.t.Fatal("no session")
	}
	return c
}

// TestOverdue: a connection whose write or sync isn't answered for its session's timeout is
// closed, and what wasn't proposed is dropped with it. One that gets answers is not, nor one that
// has asked for nothing, nor one that doesn't read its answers.
func TestOverdue(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	raw := pipeline{}
	create := func(path string) []byte { return raw.request(nil, jute.OpCreate, creating(path, nil, 0)) }
	sync := func() []byte {
		return raw.request(nil, jute.OpSync, func(b []byte) []byte { return jute.AppendString(b, "/") })
	}
	take := func(c *Client, b []byte) {
		t.Helper()
		if used, err := s.receive(c, b); err != nil || used != len(b) {
			t.Fatalf("%d of %d bytes, %v", used, len(b), err)
		}
	}
	idle, writes, syncs, moves, behind := s.session(), s.session(), s.session(), s.session(), s.session()
	take(moves, create("/m1"))
	first := s.forward()
	take(moves, create("/m2"))
	take(writes, create("/w"))
	take(syncs, sync())
	take(behind, sync())
	ticket := s.r.Syncs()
	take(behind, create("/b")) // held until the sync is ready
	look := func(ms int64, ended ...*Client) {
		t.Helper()
		s.now += ms
		s.r.EndOverdue(s.r.now())
		for _, c := range []*Client{idle, writes, syncs, moves, behind} {
			want := false
			for _, e := range ended {
				want = want || e == c
			}
			if got := c.Ending() != ""; got != want {
				t.Errorf("after %d ms connection %d is ended: %t (%s), want %t", s.now, c.id, got, c.Ending(), want)
			}
		}
	}
	look(9_999)
	s.apply(first...)
	syncs.syncs.gone, syncs.syncs.waits = true, 0 // this one's answer is lost
	s.r.Synced(ticket)
	look(1, writes, syncs)
	look(9_998, writes, syncs)
	s.r.Disconnected(writes)
	if got := s.sent(); len(got) != 2 {
		t.Errorf("%q are sent, want the two of those that are served", got)
	}
	look(1, writes, syncs, moves, behind)
	if n := s.r.meters.overload[overdueEnded].Value(); n != 4 {
		t.Errorf("%d connections count as ended, want 4", n)
	}
}

// TestBlockedIsNotSilent: a connection that isn't read, because as much is unanswered as may be, is
// heard whenever it is answered: its client's signs of life wait in its socket. Without an answer it
// ends in the end.
func TestBlockedIsNotSilent(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{Serving: Serving{ // ticks come as they should if Expire is called every 9 s
		Tick: 9 * time.Second * expiry.BucketsPerTick, SessionTimeoutMin: time.Second, SessionTimeoutMax: time.Minute,
	}})
	c := s.session()
	s.r.unanswered.countMax = 0 // from now on a connection may have one at a time
	s.r.Lead(quorum.Leadership{Leader: 1, Term: s.term, IsLeader: true})
	const writes = 5
	raw := pipeline{}
	var in []byte
	for range writes {
		in = raw.request(in, jute.OpCreate, creating("/b-", nil, jute.ModePersistentSequential))
	}
	done := make(chan error)
	go func(now int64) {
		_, err := s.r.Receive(c, in, now)
		done <- err
	}(s.r.now())
	blocked := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.blocked != 0 && c.unanswered.len() == 1
	}
	for range writes - 2 {
		eventually(t, "the reader waits", func() bool { return blocked() && s.r.proposals.Memory() > 0 })
		last := s.now
		s.now += 9_000
		s.r.EndOverdue(s.r.now())
		s.r.Expire(s.now, last)
		batch := s.r.Batch()
		s.index++
		if err := s.r.Apply([]quorum.Entry{{Term: s.term, Index: s.index, Data: batch}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok := s.r.tree.Sessions().Get(c.session); !ok || c.Ending() != "" {
		t.Fatalf("the session of a client whose connection isn't read has ended: %s", c.Ending())
	}
	eventually(t, "the reader waits", blocked)
	s.now += 10_000
	s.r.EndOverdue(s.r.now())
	if err := <-done; err != ErrClosing {
		t.Errorf("the reader of a connection without an answer: %v", err)
	}
}

// TestRoomIsNotAwaitedForEver: a large request for which there is no room waits for its session's
// timeout at most.
func TestRoomIsNotAwaitedForEver(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	s.now = 1_000
	others, c := s.session(), s.session()
	s.r.unanswered.bytesMax.Store(100_000)
	raw := pipeline{}
	large := raw.request(nil, jute.OpCreate, creating("/l", make([]byte, 60_000), 0))
	if _, err := s.receive(others, large); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func(now int64) {
		_, err := s.r.Receive(c, large, now)
		done <- err
	}(s.r.now())
	eventually(t, "the reader waits", func() bool { return s.r.unanswered.waits.Load() > 0 })
	eventually(t, "the reader is blocked", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.blocked != 0
	})
	s.now += 9_999
	s.r.EndOverdue(s.r.now())
	if c.Ending() != "" {
		t.Error("it ended before its session's timeout")
	}
	s.now++
	s.r.EndOverdue(s.r.now())
	if err := <-done; err != ErrClosing || c.Ending() == "" {
		t.Errorf("the reader that waited for room: %v, %q", err, c.Ending())
	}
}
