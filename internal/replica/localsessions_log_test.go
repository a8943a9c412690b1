package replica

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/proposals"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/serverid"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// A localStage is one replica of an ensemble whose log the test writes: what the
// replica forwards is applied in whatever order, as often as the test says.
type localStage struct {
	t     testing.TB
	r     *Replica
	now   int64 // ms
	index uint64
	term  uint64
	ids   func() int64
}

func newLocalStage(t *testing.T) *localStage {
	t.Helper()
	return newStage(t, Options{Serving: Serving{LocalSessions: true, LocalSessionsUpgrading: true}})
}

// newStage is newLocalStage for a server of other options.
func newStage(t testing.TB, o Options) *localStage {
	t.Helper()
	s := newStageAlone(t, o)
	s.lead(2)
	return s
}

// newStageAlone begins a server that knows no leader yet.
func newStageAlone(t testing.TB, o Options) *localStage {
	t.Helper()
	if o.Auth == nil {
		var err error
		if o.Auth, err = auth.New(auth.Options{}); err != nil {
			t.Fatal(err)
		}
	}
	s := &localStage{t: t, ids: serverid.NewIDs(1, 1_000_000)}
	if o.Tree == nil {
		o.Tree = tree.New(tree.Options{LevelMax: tree.FeatureLevelMax})
	}
	o.ID, o.Servers = 1, 3
	o.Now, o.Wall = func() int64 { return s.now * 1e6 }, func() int64 { return s.now }
	o.Secret = func() []byte { return bytes.Repeat([]byte{7}, jute.PasswdSize) }
	if o.Kick == nil {
		o.Kick = func() {}
	}
	if o.Panicked == nil {
		o.Panicked = func(_ quorum.Entry, cause any, _ string) error { panic(cause) } // else the replica stays locked
	}
	s.r = New(o)
	s.r.freshness.at.Store(math.MaxInt64) // as long as a test says nothing else
	return s
}

// lead begins a term of another server, with the entry that begins it.
func (s *localStage) lead(leader uint64) {
	s.term++
	s.index++
	s.r.Lead(quorum.Leadership{Leader: leader, Term: s.term})
	if err := s.r.Apply([]quorum.Entry{{Term: s.term, Index: s.index}}); err != nil {
		s.t.Fatal(err)
	}
}

// client connects, with a new session or that of was, and takes the answer.
func (s *localStage) client(was *Client) *Client {
	s.t.Helper()
	c := NewClient(s.ids(), "test", jute.ID{Scheme: "ip", ID: "127.0.0.1"}, Woken(func() {}))
	req := jute.ConnectRequest{Timeout: 10_000, Passwd: make([]byte, jute.PasswdSize), ReadOnly: s.r.readOnlyMode}
	if was != nil {
		req.SessionID, req.Passwd = was.session, s.r.secret()
	}
	if err := s.r.Connect(c, &req, s.ids); err != nil {
		s.t.Fatal(err)
	}
	if c.Established() {
		c.TakeOutput(nil)
	}
	return c
}

// receive hands a client's requests to the replica.
func (s *localStage) receive(c *Client, in []byte) (int, error) { return s.r.Receive(c, in, s.r.now()) }

// write sends a create.
func (s *localStage) write(c *Client, path string, mode jute.CreateMode) {
	s.t.Helper()
	raw := pipeline{}
	b := raw.request(nil, jute.OpCreate, creating(path, nil, mode))
	if used, err := s.receive(c, b); err != nil || used != len(b) {
		s.t.Fatalf("receive: %d of %d bytes, %v", used, len(b), err)
	}
}

// forward returns the records that go to the leader.
func (s *localStage) forward() (records [][]byte) {
	b := s.r.Forward()
	for len(b) > 0 {
		n := 4 + int(binary.BigEndian.Uint32(b))
		records = append(records, slices.Clone(b[:n]))
		b = b[n:]
	}
	return records
}

// apply puts records in the log.
func (s *localStage) apply(records ...[]byte) {
	s.t.Helper()
	s.index++
	data := proposals.AppendHead(nil, s.now, 0, 0)
	data = append(data, bytes.Join(records, nil)...)
	if err := s.r.Apply([]quorum.Entry{{Term: s.term, Index: s.index, Data: data}}); err != nil {
		s.t.Fatal(err)
	}
}

// want checks how many replies a client has, and whether it is connected.
func (s *localStage) want(c *Client, replies int, connected bool) {
	s.t.Helper()
	out, _ := c.TakeOutput(nil)
	n := 0
	for len(out) > 0 {
		n++
		out = out[4+binary.BigEndian.Uint32(out):]
	}
	if n != replies || c.closing == connected {
		s.t.Fatalf("%d replies, closing %t (%s); want %d, connected %t", n, c.closing, c.why, replies, connected)
	}
}

// nodes counts the children of the root that the test created.
func (s *localStage) nodes() int { return s.r.tree.NodeCount() - tree.New(tree.Options{}).NodeCount() }

// TestEnterIsSentAgain loses leaders in front of, between and behind the entry of a
// session and its first write.
func TestEnterIsSentAgain(t *testing.T) {
	t.Parallel()
	for name, play := range map[string]func(s *localStage, enter, write []byte){
		"both lost":       func(s *localStage, _, _ []byte) { s.lead(3) },
		"both arrive":     func(s *localStage, enter, write []byte) { s.apply(enter, write); s.lead(3) },
		"the write lost":  func(s *localStage, enter, _ []byte) { s.apply(enter); s.lead(3) },
		"the entry lost":  func(s *localStage, _, write []byte) { s.apply(write); s.lead(3) },
		"twice":           func(s *localStage, enter, write []byte) { s.apply(enter, write, enter, write); s.lead(3) },
		"the other order": func(s *localStage, enter, write []byte) { s.apply(write, enter); s.lead(3) },
		"lost twice":      func(s *localStage, _, _ []byte) { s.lead(3); s.forward(); s.lead(2) },
		"the same leader": func(s *localStage, _, _ []byte) { s.r.Resend() },
	} {
		t.Run(name, func(t *testing.T) {
			s := newLocalStage(t)
			c := s.client(nil)
			if c.session == 0 || len(s.forward()) != 0 {
				t.Fatalf("session %#x, or something is sent for it", c.session)
			}
			s.write(c, "/a", jute.ModeEphemeral)
			sent := s.forward()
			if len(sent) != 2 {
				t.Fatalf("%d records for the first write", len(sent))
			}
			play(s, sent[0], sent[1])
			s.apply(s.forward()...)
			s.want(c, 1, true)
			if s.nodes() != 1 || len(s.r.locals.sessions) != 0 || len(s.r.locals.entering) != 0 {
				t.Errorf("%d znodes, %d sessions not entered", s.nodes(), len(s.r.locals.sessions))
			}
			if again := s.forward(); len(again) != 0 {
				t.Errorf("%d records are sent once more", len(again))
			}
		})
	}
}

// TestEnterComesLate: copies of a session's entry and first write after its end
// begin nothing and write nothing.
func TestEnterComesLate(t *testing.T) {
	t.Parallel()
	s := newLocalStage(t)
	c, other := s.client(nil), s.client(nil)
	s.write(c, "/a", jute.ModePersistentSequential)
	late := s.forward()
	s.apply(late...)
	s.want(c, 1, true)
	close := (&pipeline{}).request(nil, jute.OpCloseSession, nil)
	if _, err := s.receive(c, close); err != nil {
		t.Fatal(err)
	}
	s.apply(s.forward()...)
	s.apply(late...)
	s.write(other, "/b", jute.ModePersistent)
	s.apply(s.forward()...)
	s.apply(late...)
	s.want(other, 1, true)
	if s.nodes() != 2 || s.r.tree.Sessions().Count() != 1 {
		t.Errorf("%d znodes, %d sessions", s.nodes(), s.r.tree.Sessions().Count())
	}
}

// TestEnteringIsResumed: a client that comes back while its session's entry is on
// the way waits for that; the connection that it left writes no more.
func TestEnteringIsResumed(t *testing.T) {
	t.Parallel()
	s := newLocalStage(t)
	c := s.client(nil)
	s.write(c, "/a", jute.ModePersistent)
	first := s.forward()
	again := s.client(c)
	if again.Established() || !c.closing {
		t.Fatal("answered at once, or the old connection goes on")
	}
	s.apply(append(first, s.forward()...)...)
	s.want(again, 1, true)
	s.r.Disconnected(c)
	s.write(again, "/b", jute.ModeEphemeral)
	s.apply(s.forward()...)
	s.want(again, 1, true)
	if s.nodes() != 2 {
		t.Errorf("%d znodes", s.nodes())
	}
}

// TestAttachBeforeTheEntry: a connect request for a session whose entry was lost on
// the way isn't told that the session is over; it is to try again.
func TestAttachBeforeTheEntry(t *testing.T) {
	t.Parallel()
	s := newLocalStage(t)
	c := s.client(nil)
	s.write(c, "/a", jute.ModePersistent)
	s.forward()
	again := s.client(c)
	s.apply(s.forward()...)
	s.want(again, 0, false)
	s.lead(3)
	s.apply(s.forward()...)
	if last := s.client(c); last.closing {
		t.Error("it can't be resumed after all")
	} else {
		s.apply(s.forward()...)
		s.want(last, 1, true)
	}
}

// TestClosedLocalSession: nothing behind a closeSession counts, and who comes back
// before the connection is gone is told that the session is over.
func TestClosedLocalSession(t *testing.T) {
	t.Parallel()
	s := newLocalStage(t)
	c := s.client(nil)
	raw := pipeline{}
	b := raw.request(nil, jute.OpSync, func(b []byte) []byte { return jute.AppendString(b, "/") })
	b = raw.request(b, jute.OpCloseSession, nil)
	b = raw.request(b, jute.OpCreate, creating("/late", nil, 0))
	if _, err := s.receive(c, b); err != nil {
		t.Fatal(err)
	}
	s.want(c, 0, true)
	s.r.Synced(s.r.Syncs())
	s.want(c, 2, false)
	if sent := s.forward(); len(sent) != 0 {
		t.Errorf("%d records are sent", len(sent))
	}
	if again := s.client(c); !again.Established() || again.session != 0 || !again.closing {
		t.Error("a closed session is resumed")
	}
	s.r.Disconnected(c)
	if len(s.r.locals.sessions) != 0 {
		t.Error("the session is still there")
	}
}

// TestLeftConnectionDoesNotEnter: of two connections that had a session one after
// the other, only the newer may let it in.
func TestLeftConnectionDoesNotEnter(t *testing.T) {
	t.Parallel()
	s := newLocalStage(t)
	c := s.client(nil)
	again := s.client(c)
	s.r.Disconnected(c)
	if again.session != c.session || s.r.locals.enter(c) || !s.r.locals.enter(again) {
		t.Error("the wrong connection may enter, or the session was not resumed")
	}
}

// TestLeftConnectionDoesNotClose: of two connections that had a session one after
// the other, only the newer may close it, on a read-only server too.
func TestLeftConnectionDoesNotClose(t *testing.T) {
	t.Parallel()
	for _, readOnly := range []bool{false, true} {
		s := newLocalStage(t)
		c := s.client(nil)
		if readOnly {
			s.r.Disconnected(c)
			s.r.readOnlyMode, s.r.cutOff = true, true
			c = s.client(c)
		}
		again := s.client(c)
		s.receive(c, (&pipeline{}).request(nil, jute.OpCloseSession, nil))
		if again.session != c.session || !c.closing || s.r.locals.sessions[c.session].left {
			t.Errorf("read-only %t: the connection that was left goes on, or has closed the session", readOnly)
		}
	}
}

// TestEnteredInASnapshot: a server that misses the entries of its sessions, and
// gets a snapshot with them, doesn't send them again, and goes on with the next.
func TestEnteredInASnapshot(t *testing.T) {
	t.Parallel()
	s := newLocalStage(t)
	c := s.client(nil)
	s.write(c, "/a", jute.ModePersistent)
	sent := s.forward()
	ahead := tree.New(tree.Options{LevelMax: tree.FeatureLevelMax})
	batch := append(tree.AppendBatchHeader(nil, s.now), bytes.Join(sent, nil)...)
	if err := ahead.Apply(s.term, s.index+1, batch, nil); err != nil {
		t.Fatal(err)
	}
	s.index++
	if s.r.become(ahead); c.Ending() == "" {
		t.Error("its client stays connected, though it may have missed events")
	}
	s.r.Disconnected(c)
	s.lead(3)
	if again := s.forward(); len(again) != 0 || len(s.r.locals.sessions) != 0 {
		t.Errorf("%d records are sent again, %d sessions not entered", len(again), len(s.r.locals.sessions))
	}
	next := s.client(nil)
	s.write(next, "/b", jute.ModePersistent)
	s.apply(s.forward()...)
	s.want(next, 1, true)
}

// TestEntranceAfterTheClockWentBack: a server that starts again with lower ids
// still gets a newer entrance.
func TestEntranceAfterTheClockWentBack(t *testing.T) {
	t.Parallel()
	s := newLocalStage(t)
	c := s.client(nil)
	s.write(c, "/a", jute.ModePersistent)
	s.apply(s.forward()...)
	before := s.r.tree
	s = newLocalStage(t)
	s.ids = serverid.NewIDs(1, 1000)
	s.r.tree, s.index = before, before.LastIndex()
	c = s.client(nil)
	s.write(c, "/b", jute.ModePersistent)
	s.apply(s.forward()...)
	s.want(c, 1, true)
}

// TestLocalSessionClock: silent local sessions end by this server's clock, whoever
// leads; not while their entry is on the way, nor for a stall of the server.
func TestLocalSessionClock(t *testing.T) {
	t.Parallel()
	s := newLocalStage(t)
	silent, alive, entering := s.client(nil), s.client(nil), s.client(nil)
	s.write(entering, "/a", jute.ModePersistent)
	tick := s.r.expiry.Tick()
	run := func(ms int64) {
		for end := s.now + ms; s.now < end; s.now += tick {
			alive.lastHeard.Store(s.now)
			s.r.Expire(s.now, s.now-tick)
		}
	}
	run(9000)
	s.now += 100_000
	s.r.Expire(s.now, s.now-100_000)
	run(9000)
	if silent.closing || alive.closing {
		t.Fatal("ended before its timeout, or for a stall")
	}
	run(9000)
	if !silent.closing || alive.closing || entering.closing || len(s.r.locals.sessions) != 2 {
		t.Errorf("silent %t, alive %t, entering %t, %d sessions", silent.closing, alive.closing, entering.closing,
			len(s.r.locals.sessions))
	}
	if sent := s.forward(); len(sent) != 2 {
		t.Errorf("%d records sent; want those of the first write", len(sent))
	}
	if again := s.client(silent); again.Established() {
		t.Error("an expired session is resumed")
	}
}
