package replica

import (
	"errors"
	"slices"
	"testing"

	"github.com/zooid-project/zooid/internal/expiry"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// ping returns a heartbeat.
func ping() []byte { return jute.AppendRequest(nil, jute.XidPing, jute.OpPing, nil) }

// asOf makes the server up to date as of ms ago.
func (s *localStage) asOf(ms int64) {
	s.r.freshness.at.Store(0)
	s.r.freshness.UpToDate((s.now - ms) * 1e6)
}

// TestOutdatedServerAnswersNobody lets a server learn nothing new. A session of 9 s is answered for 3 s, pings
// included. Then its requests wait, and are answered if the server learns that the session is alive. After 4.5 s
// the connection ends. A leader that can't hear blames nobody.
func TestOutdatedServerAnswersNobody(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{Serving: Serving{SessionTimeoutMin: 1e9}})
	s.now = 100_000
	begin := func(timeout int32) *Client {
		c := NewClient(s.ids(), "test", jute.ID{Scheme: "ip", ID: "127.0.0.1"}, Woken(func() {}))
		if err := s.r.Connect(c, &jute.ConnectRequest{Timeout: timeout, Passwd: make([]byte, jute.PasswdSize)},
			s.ids); err != nil {
			t.Fatal(err)
		}
		s.apply(s.forward()...)
		s.want(c, 1, true)
		return c
	}
	pings := func(c *Client, answered bool) {
		t.Helper()
		in := ping()
		switch used, err := s.receive(c, in); {
		case answered:
			if err != nil || used != len(in) {
				t.Fatalf("a ping: %v", err)
			}
			s.want(c, 1, true)
		case !errors.Is(err, ErrNotUpToDate) || used != 0:
			t.Fatalf("a ping to a server that may be outdated: %d of %d bytes, %v", used, len(in), err)
		}
	}
	s.asOf(0)
	c, brief := begin(9_000), begin(1_500)
	s.asOf(0)
	s.now += 1_000
	pings(c, true)
	pings(brief, true)
	s.now++
	pings(c, true)
	pings(brief, false) // a third of its timeout is less than the least bound
	s.now += 1_999
	pings(c, true)
	s.now++
	pings(c, false)
	s.now += 400
	s.asOf(3_000)
	pings(c, true)
	s.now++
	pings(c, false)
	if c.lastHeard.Load() != s.now {
		t.Error("a ping that waits isn't heard")
	}
	s.now += 10_000
	s.asOf(4_500)
	s.r.Expire(s.now, s.now-s.r.expiry.Tick())
	if c.Ending() != "" {
		t.Errorf("after half of its timeout the connection ends: %s", c.Ending())
	}
	if brief.Ending() == "" {
		t.Error("after more than its timeout a connection goes on")
	}
	s.now++
	s.r.Expire(s.now, s.now-s.r.expiry.Tick())
	if c.Ending() == "" {
		t.Error("after more than half of its timeout the connection goes on")
	}
	if n := s.r.meters.overload[letGo].Value(); n != 2 {
		t.Errorf("%d connections count as let go, want 2", n)
	}
	if err := s.r.Connect(NewClient(s.ids(), "test", jute.ID{}, Woken(func() {})), &jute.ConnectRequest{Timeout: 9_000},
		s.ids); err == nil {
		t.Error("a server that may be outdated takes a client")
	}
	s.asOf(0)
	waits := s.client(nil)
	s.now += 4_501
	s.r.Expire(s.now, s.now-s.r.expiry.Tick())
	if waits.Ending() != "" {
		t.Errorf("before half of its timeout has passed, a client that waits to connect is closed: %s", waits.Ending())
	}
	s.now += 500
	s.r.Expire(s.now, s.now-s.r.expiry.Tick())
	if waits.Ending() == "" {
		t.Error("after half of its timeout a client still waits for an answer to its connect request")
	}
}

// TestAnswersAreKeptBack lets a server that was behind apply a write, and then either learn that it
// is up to date, or of the end of the session. The answer goes out in the first case only.
func TestAnswersAreKeptBack(t *testing.T) {
	t.Parallel()
	for _, ends := range []bool{false, true} {
		s := newStage(t, Options{})
		c := s.client(nil)
		s.apply(s.forward()...)
		s.want(c, 1, true)
		c.TakeOutput(nil) // the flusher finds nothing left
		s.asOf(0)
		s.write(c, "/a", jute.ModeEphemeral)
		sent := s.forward()
		s.now += 4_000
		s.apply(sent...)
		if begun, _ := c.BeginFlush(); begun || c.out.flushing {
			t.Error("an answer that may come after the session's end is written")
		}
		if ends {
			s.apply(tree.AppendRecord(nil, &tree.Request{Op: tree.OpExpire, Session: c.session, Body: jute.AppendLong(nil,
				int64(s.term))}))
			s.want(c, 0, false)
			continue
		}
		s.asOf(3_999)
		if c.out.flushing {
			t.Error("the answer is written while the server is as little up to date as before")
		}
		s.asOf(10)
		if !c.out.flushing {
			t.Error("nobody writes the answer of a server that is up to date again")
		}
		s.want(c, 1, true)
	}
}

// TestLateAnswersAreKeptBack lets a server that was suspended answer what it took before: a sync and the read behind
// it, or the rest of a long read. The answers go out once the server is up to date again, and never if the connection
// is closed before.
func TestLateAnswersAreKeptBack(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what    string
		replies int
		asks    func(s *localStage, c *Client)
		answers func(s *localStage, c *Client)
	}{
		{"sync", 2, func(s *localStage, c *Client) {
			raw := pipeline{}
			in := raw.request(nil, jute.OpSync, func(b []byte) []byte { return jute.AppendString(b, "/") })
			s.receive(c, raw.request(in, jute.OpExists, reading("/", false)))
		}, func(s *localStage, _ *Client) { s.r.Synced(s.r.Syncs()) }},
		{"long read", 1, func(s *localStage, c *Client) {
			raw := pipeline{}
			s.receive(c, raw.request(nil, jute.OpMultiRead, func(b []byte) []byte {
				return jute.AppendMulti(b, slices.Repeat([]jute.MultiOp{{Op: jute.OpGetData, Path: "/"}}, 3000))
			}))
			s.r.readMore(c) // finds out how much memory the reply takes
		}, func(s *localStage, c *Client) {
			for c.steps.due {
				s.r.readMore(c)
			}
		}},
	} {
		for _, ends := range []bool{false, true} {
			s := newStage(t, Options{})
			client := s.client(nil)
			s.apply(s.forward()...)
			s.want(client, 1, true)
			client.TakeOutput(nil) // the flusher finds nothing left
			s.asOf(0)
			c.asks(s, client)
			client.out.flushing = false // the flusher waits, too
			if len(client.out.frames) > 0 {
				t.Fatalf("%s: it is answered at once", c.what)
			}
			s.now += 4_000
			c.answers(s, client)
			if begun, _ := client.BeginFlush(); begun || client.out.flushing || len(client.out.frames) == 0 {
				t.Errorf("%s: an answer that may come after the session's end is written, or there is none: %d bytes", c.what,
					len(client.out.frames))
			}
			if ends {
				s.r.freshness.LetOutdatedGo((s.now + 2_000) * 1e6)
				s.want(client, 0, false)
				continue
			}
			s.asOf(10)
			if !client.out.flushing {
				t.Errorf("%s: nobody writes the answer of a server that is up to date again", c.what)
			}
			s.want(client, c.replies, true)
		}
	}
}

// TestLongApply lets an Apply take 4 s. What it answers is kept back, also from a flusher that is already at work, and
// a ping whose reader has waited for the replica meanwhile isn't answered either.
func TestLongApply(t *testing.T) {
	t.Parallel()
	var s *localStage
	takes := int64(0)
	s = newStage(t, Options{Observe: func(*tree.Result) { s.now += takes }})
	c, other := s.client(nil), s.client(nil)
	s.apply(s.forward()...)
	s.want(c, 1, true)
	s.want(other, 1, true)
	c.TakeOutput(nil) // the flusher finds nothing left
	s.asOf(0)
	s.write(c, "/a", jute.ModeEphemeral)
	sent, before := s.forward(), s.now
	takes = 4_000
	s.apply(sent...)
	if begun, _ := c.BeginFlush(); begun || c.out.flushing {
		t.Error("an answer that may come after the session's end is written")
	}
	if out, _ := c.TakeOutput(nil); out != nil {
		t.Error("an answer that may come after the session's end is taken by a flusher that had begun before")
	}
	if used, err := s.r.Receive(other, ping(), before*1e6); !errors.Is(err, ErrNotUpToDate) || used != 0 {
		t.Errorf("a ping whose reader waited for a long Apply: %d bytes used, %v", used, err)
	}
	s.asOf(10)
	s.want(c, 1, true)
}

// TestExemptFromUpToDate has sessions that nobody else can end.
func TestExemptFromUpToDate(t *testing.T) {
	t.Parallel()
	s := newLocalStage(t)
	s.r.freshness.at.Store(0)
	s.now += 100
	c := s.client(nil)
	s.now += 9_000
	if _, err := s.receive(c, ping()); err != nil {
		t.Errorf("a ping of a local session: %v", err)
	}
	s.r.Expire(s.now, s.now-s.r.expiry.Tick())
	if c.Ending() != "" {
		t.Errorf("the connection of a local session ends: %s", c.Ending())
	}
	s = newStage(t, Options{})
	c = s.client(nil)
	s.apply(s.forward()...)
	s.r.alone = true
	s.r.freshness.at.Store(0)
	s.now += 9_000
	if _, err := s.receive(c, ping()); err != nil {
		t.Errorf("a ping to a standalone server: %v", err)
	}
}

// TestLeaderThatCannotHear: a leader that was not up to date ends no session before each
// had its full timeout again.
func TestLeaderThatCannotHear(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	c := s.client(nil)
	s.apply(s.forward()...)
	s.r.Lead(quorum.Leadership{Leader: 1, Term: s.term, IsLeader: true})
	s.r.Batch() // its settings
	ends := func(want bool) {
		t.Helper()
		s.r.Expire(s.now, s.now-s.r.expiry.Tick())
		if got := s.r.Batch() != nil; got != want {
			t.Errorf("at %d the end of the silent session is proposed: %t", s.now, got)
		}
	}
	s.asOf(0)
	s.now += int64(c.timeout) + 2*expiry.StallMs
	ends(false) // it heard nobody
	s.asOf(0)
	ends(false) // now it can hear
	s.now += int64(c.timeout) / 2
	s.asOf(0)
	ends(false)
	s.now += int64(c.timeout)/2 + expiry.ReportLagMs + 2*s.r.expiry.Tick()
	s.asOf(0)
	ends(true)
}

// TestServesOnlyUpToDate has a server start whose log ends in the term of its leader, as after a restart while the
// leader stays. It serves nobody, not even in a local session, before it has applied what was acknowledged before.
func TestServesOnlyUpToDate(t *testing.T) {
	t.Parallel()
	s := newLocalStage(t)
	s.now = 1_000
	s.r.serving = false
	s.r.freshness.at.Store(0)
	serves := func(want bool) {
		t.Helper()
		c := NewClient(s.ids(), "test", jute.ID{Scheme: "ip", ID: "127.0.0.1"}, Woken(func() {}))
		err := s.r.Connect(c, &jute.ConnectRequest{Timeout: 10_000, Passwd: make([]byte, jute.PasswdSize)}, s.ids)
		if got := s.r.View().Serving; got != want || (err == nil) != want {
			t.Fatalf("it serves: %t; a client connects: %v; want %t", got, err, want)
		}
	}
	s.r.Lead(s.r.leader)
	if s.r.tree.LastTerm() != s.r.leader.Term {
		t.Fatalf("the tree is of term %d, the leader of term %d", s.r.tree.LastTerm(), s.r.leader.Term)
	}
	serves(false)
	s.r.UpToDate(s.now * 1e6)
	serves(true)
	s.r.Lead(quorum.Leadership{Term: s.r.leader.Term})
	if !s.r.View().Serving {
		t.Error("a server that has lost its leader stops to serve at once")
	}
}
