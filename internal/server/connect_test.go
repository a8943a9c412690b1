package server

import (
	"bytes"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// knock sends a connect request for a session and returns the session granted, 0
// for none.
func knock(t *testing.T, addr string, session int64, passwd []byte) int64 {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := handshake(t, conn, session, passwd)
	if c == nil {
		t.Fatalf("a connect request for session %#x got no answer", session)
	}
	return c.session
}

// heard returns when a server's expiry has last heard a session, in either table.
func heard(s *Server, session int64) (at [2]int64) {
	s.replica.mu.RLock()
	defer s.replica.mu.RUnlock()
	for i, e := range []*expiry{&s.replica.expiry, &s.replica.locals.expiry} {
		if l := e.sessions[session]; l != nil {
			at[i] = l.heard
		}
	}
	return at
}

// TestWrongPassword: a connect request with a wrong password, on any server,
// leaves a session, its connection and its expiry alone, and the log too.
func TestWrongPassword(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]Options{
		"global": {},
		"local":  {LocalSessions: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opt.Tick = time.Minute // nothing expires, and no timer of the server's changes expiry
			servers, opts := threeServers(t, opt)
			lead := leader(t, servers)
			caughtUp(t, opts)
			for at := range servers {
				c := connect(t, opts[at].Listen[0], 0, nil)
				caughtUp(t, opts)
				settled(t, servers)
				before := logged(servers[lead])
				for _, passwd := range [][]byte{make([]byte, jute.PasswdSize), c.passwd[:jute.PasswdSize-1], {}, bytes.Repeat([]byte{1}, 200)} {
					for other := range servers {
						if got := knock(t, opts[other].Listen[0], c.session, passwd); got != 0 {
							t.Fatalf("password % x gets session %#x", passwd, got)
						}
					}
				}
				if h, _ := c.call(jute.OpExists, reading("/", false)); h.Err != jute.OK {
					t.Fatalf("the living connection: %v", h.Err)
				}
				if n := logged(servers[lead]); n != before {
					t.Errorf("%d requests reached the log", n-before)
				}
				wrongPasswordOfTheDead(t, servers, opts, at, c)
				if got := knock(t, opts[at].Listen[0], c.session, c.passwd); got != c.session {
					t.Errorf("the right password gets session %#x", got)
				}
			}
		})
	}
}

// wrongPasswordOfTheDead is the part of TestWrongPassword after the connection
// of c, which was to server at, is lost: nothing prolongs its session.
func wrongPasswordOfTheDead(t *testing.T, servers []*Server, opts []Options, at int, c *rawClient) {
	t.Helper()
	c.conn.Close()
	r := servers[at].replica
	eventually(t, "the server forgets the lost connection", func() bool {
		r.mu.RLock()
		defer r.mu.RUnlock()
		return r.sessions[c.session] == nil && len(r.heardLast) == 0
	})
	all := func() (at [3][2]int64) {
		for i, s := range servers {
			at[i] = heard(s, c.session)
		}
		return at
	}
	var before [3][2]int64
	eventually(t, "the last report of the session is with the leader", func() bool {
		before = all()
		time.Sleep(2 * reportLagMs * time.Millisecond)
		return all() == before
	})
	for _, opt := range opts {
		knock(t, opt.Listen[0], c.session, make([]byte, jute.PasswdSize))
	}
	if after := all(); before != after {
		t.Errorf("a wrong password prolongs the session: heard at %v, then %v", before, after)
	}
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 2000 {
		if holds() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("it never comes to this: %s", what)
}

// begin puts a session in the table of a stage, as another server's entry does,
// and returns its id.
func (s *localStage) begin() int64 {
	id := s.ids()
	s.apply(tree.AppendRecord(nil, &tree.Request{
		Op: jute.OpCreateSession, Session: id, Cnx: s.ids(), Body: attachBody(jute.OpCreateSession, 10_000, s.r.secret()),
	}))
	return id
}

// TestForwardedWrongPassword: a leader doesn't take a follower's word for a
// session's life; the password in the forwarded request must be right.
func TestForwardedWrongPassword(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	s.lead(1)
	id := s.begin()
	began := s.r.expiry.sessions[id].heard
	s.now += 1000
	forwarded := func(passwd []byte) int64 {
		record := tree.AppendRecord(nil, &tree.Request{Op: tree.OpAttach, Session: id, Cnx: s.ids(), Body: attachBody(tree.OpAttach, 10_000, passwd)})
		if err := s.r.Forwarded(record); err != nil {
			t.Fatal(err)
		}
		return s.r.expiry.sessions[id].heard
	}
	if at := forwarded(make([]byte, jute.PasswdSize)); at != began {
		t.Errorf("a wrong password moves heard from %d to %d", began, at)
	}
	if at := forwarded(s.r.secret()); at != s.now {
		t.Errorf("the right password: heard at %d, want %d", at, s.now)
	}
}

// TestUnknownSessions: connect requests with made-up session ids are refused, on
// any server, without an entry of the log.
func TestUnknownSessions(t *testing.T) {
	t.Parallel()
	servers, opts := threeServers(t, Options{})
	lead := leader(t, servers)
	caughtUp(t, opts)
	eventually(t, "the log is quiet", func() bool {
		before := logged(servers[lead])
		time.Sleep(50 * time.Millisecond)
		return logged(servers[lead]) == before
	})
	before := logged(servers[lead])
	for i := range 300 {
		if got := knock(t, opts[i%3].Listen[0], int64(i+1), make([]byte, jute.PasswdSize)); got != 0 {
			t.Fatalf("made-up session %d was granted as %#x", i+1, got)
		}
	}
	if n := logged(servers[lead]); n != before {
		t.Errorf("300 connect requests with made-up sessions put %d requests in the log", n-before)
	}
}

// TestLaggingServerAsksForASession: a server that doesn't know a session refuses
// it only once it knows all that the leader does; one that it comes to know by
// then is resumed.
func TestLaggingServerAsksForASession(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	id := s.ids()
	var asked [2]*Client
	for i := range asked {
		asked[i] = NewClient(s.ids(), "test", jute.ID{Scheme: "ip", ID: "127.0.0.1"}, func() {})
		req := jute.ConnectRequest{Timeout: 10_000, SessionID: id + int64(i), Passwd: s.r.secret()}
		if err := s.r.Connect(asked[i], &req, s.ids); err != nil {
			t.Fatal(err)
		}
		if asked[i].Established() || asked[i].closing {
			t.Fatalf("session %#x was decided on by a server that may lag", req.SessionID)
		}
	}
	if sent := s.forward(); len(sent) != 0 {
		t.Fatalf("%d requests were sent for sessions that are unknown", len(sent))
	}
	ticket := s.r.Syncs()
	if ticket == 0 {
		t.Fatal("the quorum was not asked")
	}
	s.apply(tree.AppendRecord(nil, &tree.Request{
		Op: jute.OpCreateSession, Session: id, Cnx: s.ids(), Body: attachBody(jute.OpCreateSession, 10_000, s.r.secret()),
	}))
	s.r.Synced(ticket)
	if !asked[1].Established() || !asked[1].closing || asked[1].session != 0 {
		t.Error("the session that nobody knows was not refused")
	}
	s.apply(s.forward()...)
	if !asked[0].Established() || asked[0].closing || asked[0].session != id {
		t.Error("the session that the leader knows was not resumed")
	}
}

// TestConnectsMax: connect requests that wait for an answer are bounded, and each
// one answered or gone makes room for another.
func TestConnectsMax(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	first := s.client(nil)
	for range connectsMax - 1 {
		s.client(nil)
	}
	try := func() error {
		c := NewClient(s.ids(), "test", jute.ID{Scheme: "ip", ID: "127.0.0.1"}, func() {})
		return s.r.Connect(c, &jute.ConnectRequest{Passwd: make([]byte, jute.PasswdSize)}, s.ids)
	}
	if err := try(); err == nil || !strings.Contains(err.Error(), "wait for an answer") {
		t.Fatalf("connect request %d: %v", connectsMax+1, err)
	}
	s.r.Disconnected(first)
	if err := try(); err != nil {
		t.Errorf("one is gone: %v", err)
	}
	for records := s.forward(); len(records) > 0; records = s.forward() {
		s.apply(records...)
	}
	if s.r.connecting != 0 {
		t.Errorf("%d connect requests wait though all are answered", s.r.connecting)
	}
	if err := try(); err != nil {
		t.Errorf("all are answered: %v", err)
	}
}

// TestNoRoomSessions: a server whose disk is nearly full begins a bounded number of
// sessions, and goes on to resume those there are.
func TestNoRoomSessions(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	id := s.begin()
	s.r.noRoom.Store(true)
	try := func(session int64) error {
		c := NewClient(s.ids(), "test", jute.ID{Scheme: "ip", ID: "127.0.0.1"}, func() {})
		return s.r.Connect(c, &jute.ConnectRequest{SessionID: session, Passwd: s.r.secret()}, s.ids)
	}
	for i := range noRoomSessionsMax {
		if err := try(0); err != nil {
			t.Fatalf("session %d: %v", i, err)
		}
	}
	if err := try(0); err == nil || !strings.Contains(err.Error(), "the disk is nearly full") {
		t.Errorf("session %d: %v", noRoomSessionsMax+1, err)
	}
	if err := try(id); err != nil {
		t.Errorf("resume a session: %v", err)
	}
	s.r.noRoom.Store(false)
	if err := try(0); err != nil {
		t.Errorf("a new session when there is room again: %v", err)
	}
	s.r.noRoom.Store(true)
	if err := try(0); err != nil {
		t.Errorf("a new session when the disk fills up once more: %v", err)
	}
}

// TestSyncsOfClosedClients: syncs that no quorum answers are forgotten with their
// clients.
func TestSyncsOfClosedClients(t *testing.T) {
	t.Parallel()
	s := newLocalStage(t)
	stays := s.client(nil)
	sync := (&rawClient{t: t}).request(nil, jute.OpSync, func(b []byte) []byte { return jute.AppendString(b, "/") })
	if _, err := s.r.Receive(stays, sync); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		c := s.client(nil)
		if _, err := s.r.Receive(c, sync); err != nil {
			t.Fatal(err)
		}
		s.r.Disconnected(c)
		if n := len(s.r.syncs.waiting); n > 4 {
			t.Fatalf("%d syncs are kept for one client", n)
		}
	}
	s.r.Synced(s.r.Syncs())
	s.want(stays, 1, true)
	if n := len(s.r.syncs.waiting); n != 0 || s.r.syncs.dead != 0 {
		t.Errorf("%d syncs wait, %d of them dead", n, s.r.syncs.dead)
	}
}
