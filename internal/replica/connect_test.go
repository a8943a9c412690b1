package replica

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

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
	ends := func(heard int64) int64 { return s.r.expiry.Ends(id, 10_000, heard) }
	began := ends(0)
	s.now += 1000
	forwarded := func(passwd []byte) int64 {
		record := tree.AppendRecord(nil,
			&tree.Request{Op: tree.OpAttach, Session: id, Cnx: s.ids(), Body: attachBody(tree.OpAttach, 10_000, passwd)})
		if err := s.r.Forwarded(record); err != nil {
			t.Fatal(err)
		}
		return ends(0)
	}
	if at := forwarded(make([]byte, jute.PasswdSize)); at != began {
		t.Errorf("a wrong password moves the end from %d to %d", began, at)
	}
	if at := forwarded(s.r.secret()); at == began || at != ends(s.now) {
		t.Errorf("the right password: the end moves from %d to %d, want %d", began, at, ends(s.now))
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
		asked[i] = NewClient(s.ids(), "test", jute.ID{Scheme: "ip", ID: "127.0.0.1"}, Woken(func() {}))
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
		c := NewClient(s.ids(), "test", jute.ID{Scheme: "ip", ID: "127.0.0.1"}, Woken(func() {}))
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
	if s.r.newcomers.connecting != 0 {
		t.Errorf("%d connect requests wait though all are answered", s.r.newcomers.connecting)
	}
	if err := try(); err != nil {
		t.Errorf("all are answered: %v", err)
	}
}

// TestNoRoomSessions: a server whose disk is nearly full begins a bounded number of
// sessions in its log, and goes on to resume those there are. Later ones need no room.
func TestNoRoomSessions(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	id := s.begin()
	s.r.room.none.Store(true)
	for range noRoomSessionsMax {
		if c := s.client(nil); c.Established() {
			t.Fatal("a session began without the log")
		}
	}
	for records := s.forward(); len(records) > 0; records = s.forward() {
		s.apply(records...)
	}
	inTable := s.r.tree.Sessions().Count()
	var last *Client
	for range noRoomSessionsMax { // a monitor that opens one after another
		last = s.client(nil)
		if !last.Established() || last.session == 0 {
			t.Fatal("no session for whoever comes to help")
		}
		s.r.Disconnected(last)
	}
	last = s.client(nil)
	c := NewClient(s.ids(), "test", jute.ID{Scheme: "ip", ID: "127.0.0.1"}, Woken(func() {}))
	if err := s.r.Connect(c, &jute.ConnectRequest{SessionID: id, Passwd: s.r.secret()}, s.ids); err != nil {
		t.Errorf("resume a session: %v", err)
	}
	s.apply(s.forward()...)
	if now := s.r.tree.Sessions().Count(); now != inTable {
		t.Errorf("%d sessions in the table, want %d as before", now, inTable)
	}
	s.write(last, "/no", jute.ModePersistent)
	s.want(last, 1, true) // refused
	s.r.room.none.Store(false)
	s.write(last, "/own", jute.ModeEphemeral)
	s.apply(s.forward()...)
	s.want(last, 1, true)
	within, outside := s.r.tree.Sessions().Count(), len(s.r.locals.sessions)
	if s.nodes() != 1 || within != inTable+1 || outside != noRoomSessionsMax {
		t.Errorf("when there is room again, the session's ephemeral znode makes %d znodes, %d sessions in the table, %d outside",
			s.nodes(), within, outside)
	}
	if c := s.client(nil); c.Established() {
		t.Error("there is room again, and a session began without the log")
	}
	s.r.room.none.Store(true)
	if c := s.client(nil); c.Established() {
		t.Error("the disk fills up once more, and the first session began without the log")
	}
	s.r.Space(storage.SpaceState{Level: storage.SpaceRefuse, Waits: true}, false)
	c = NewClient(s.ids(), "test", jute.ID{Scheme: "ip", ID: "127.0.0.1"}, Woken(func() {}))
	if err := s.r.Connect(c, &jute.ConnectRequest{}, s.ids); err == nil {
		t.Error("a member whose log waits for room begins a session, which would be over on another server")
	}
	s.r.Space(storage.SpaceState{Level: storage.SpaceRefuse, Waits: true}, true)
	if c := s.client(nil); !c.Established() {
		t.Error("nothing can enter the log, nobody else serves, and a session waits for the log")
	}
}

// TestSyncsOfClosedClients: syncs that no quorum answers are forgotten with their
// clients.
func TestSyncsOfClosedClients(t *testing.T) {
	t.Parallel()
	s := newLocalStage(t)
	stays := s.client(nil)
	sync := (&pipeline{}).request(nil, jute.OpSync, func(b []byte) []byte { return jute.AppendString(b, "/") })
	if _, err := s.receive(stays, sync); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		c := s.client(nil)
		if _, err := s.receive(c, sync); err != nil {
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

// TestWrongPasswordProlongsNothing: connect requests with a wrong password for a
// session without a connection, local or in the table, don't touch its expiry.
func TestWrongPasswordProlongsNothing(t *testing.T) {
	t.Parallel()
	s := newLocalStage(t)
	local, table := s.client(nil), s.client(nil)
	s.write(table, "/a", jute.ModePersistent)
	s.apply(s.forward()...)
	s.r.Disconnected(local)
	s.r.Disconnected(table)
	ends := func(heard int64) [2]int64 {
		return [2]int64{
			s.r.locals.expiry.Ends(local.session, local.timeout, heard), s.r.expiry.Ends(table.session, table.timeout, heard),
		}
	}
	before := ends(0)
	reported := fmt.Sprint(s.r.hearing.gone)
	s.now += 1000
	for _, session := range []int64{local.session, table.session} {
		for _, passwd := range [][]byte{make([]byte, jute.PasswdSize), {}, bytes.Repeat([]byte{1}, 200)} {
			c := NewClient(s.ids(), "test", jute.ID{Scheme: "ip", ID: "127.0.0.1"}, Woken(func() {}))
			if err := s.r.Connect(c, &jute.ConnectRequest{SessionID: session, Passwd: passwd}, s.ids); err != nil ||
				c.session != 0 {
				t.Fatalf("password % x gets session %#x, %v", passwd, c.session, err)
			}
			s.r.Disconnected(c)
		}
	}
	if after := ends(0); after != before || after == ends(s.now) || fmt.Sprint(s.r.hearing.gone) != reported {
		t.Errorf("a wrong password prolongs a session: it ends at %v, then at %v; reported %s, then %v", before, after,
			reported, s.r.hearing.gone)
	}
	if n := len(s.forward()); n != 0 {
		t.Errorf("%d requests for the log", n)
	}
}

// TestNoLocalSessionWithoutALeader: a server without a leader begins no local session, which
// would be said to be able to write. A client that has one goes on with it.
func TestNoLocalSessionWithoutALeader(t *testing.T) {
	t.Parallel()
	s := newLocalStage(t)
	was := s.client(nil)
	s.r.Lead(quorum.Leadership{Term: s.term + 1})
	c := NewClient(s.ids(), "test", jute.ID{Scheme: "ip", ID: "127.0.0.1"}, Woken(func() {}))
	req := jute.ConnectRequest{Timeout: 10_000, Passwd: make([]byte, jute.PasswdSize)}
	if err := s.r.Connect(c, &req, s.ids); err == nil || !strings.Contains(err.Error(), "no leader") {
		t.Errorf("a new local session is answered %v", err)
	}
	if len(s.r.clients) != 1 || len(s.r.locals.sessions) != 1 {
		t.Errorf("%d clients and %d local sessions, want the one from before", len(s.r.clients), len(s.r.locals.sessions))
	}
	if again := s.client(was); !again.Established() || again.closing {
		t.Error("the local session from before isn't resumed")
	}
	s.lead(3)
	if c := s.client(nil); !c.Established() {
		t.Error("with a leader a new local session is not answered")
	}
}
