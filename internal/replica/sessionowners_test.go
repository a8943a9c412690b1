package replica

import (
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/limit"
	"github.com/zooid-project/zooid/internal/serverid"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// limitSessions limits the sessions of each address, and of each identity; 0 is no limit.
func (s *localStage) limitSessions(address, identity int64) {
	var sets [limit.Scopes]limit.Set
	sets[limit.Address][limit.Sessions] = address
	sets[limit.Identity][limit.Sessions] = identity
	s.r.limiter.SetLimits(sets)
}

// ask asks for a session from an address, for a client that a certificate identifies as cn, if that isn't empty.
func (s *localStage) ask(address, cn string) (*Client, error) {
	c := NewClient(s.ids(), "test", jute.ID{Scheme: "ip", ID: address}, Woken(func() {}))
	if cn != "" {
		c.Identify([]jute.ID{c.address, {Scheme: "x509", ID: cn}})
	}
	return c, s.r.Connect(c, &jute.ConnectRequest{Timeout: 10_000, Passwd: make([]byte, jute.PasswdSize)}, s.ids)
}

// begins begins a session.
func (s *localStage) begins(address, cn string) *Client {
	s.t.Helper()
	c, err := s.ask(address, cn)
	if err != nil {
		s.t.Fatalf("a session of %s, %q is refused: %v", address, cn, err)
	}
	s.apply(s.forward()...)
	if !c.Established() {
		s.t.Fatalf("the session of %s, %q has not begun", address, cn)
	}
	c.TakeOutput(nil)
	return c
}

// refuses checks that a session is refused, and in which scope that is counted.
func (s *localStage) refuses(address, cn string, scope limit.Scope) {
	s.t.Helper()
	before := s.r.meters.exceeded[scope].Value()
	c, err := s.ask(address, cn)
	if err == nil || err.Error() != tooManySessions {
		s.t.Fatalf("a session of %s, %q too many: %v", address, cn, err)
	}
	s.r.Disconnected(c)
	if n := s.r.meters.exceeded[scope].Value() - before; n != 1 {
		s.t.Errorf("it was counted %d times as exceeding a limit of the %s", n, scope)
	}
}

// counts checks how many sessions count for an address, and that nothing is left over of others.
func (s *localStage) counts(address string, want int64) {
	s.t.Helper()
	if n := s.r.limiter.addresses.of(address, s.r.now(), nil).sessions.Load(); n != want {
		s.t.Errorf("%d sessions count for %s, want %d", n, address, want)
	}
	for _, left := range s.r.Leftovers(func(c *Client) bool { return s.r.clients[c.id] == c }) {
		s.t.Error(left)
	}
}

// end returns the entry that closes a session, or expires it.
func (s *localStage) end(c *Client, op jute.Op) []byte {
	q := tree.Request{Op: op, Session: c.session, Cnx: c.id, Seq: 1}
	if op == tree.OpExpire {
		q.Body = jute.AppendLong(nil, int64(s.term))
	}
	return tree.AppendRecord(nil, &q)
}

// TestSessionsAreLimited: sessions count for their address until they are over, with or without a connection, also
// those that are only asked for; neither those of other addresses nor of administrators are concerned.
func TestSessionsAreLimited(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	s.limitSessions(3, 0)
	a, b := s.begins("10.0.0.1", ""), s.begins("10.0.0.1", "")
	s.r.Disconnected(a)
	s.r.Disconnected(b)
	asked, err := s.ask("10.0.0.1", "")
	if err != nil {
		t.Fatal(err)
	}
	s.refuses("10.0.0.1", "", limit.Address)
	s.r.Disconnected(asked) // gives up before its request is sent
	s.counts("10.0.0.1", 2)
	third := s.begins("10.0.0.1", "")
	s.refuses("10.0.0.1", "", limit.Address)
	s.begins("10.0.0.2", "")
	super := NewClient(s.ids(), "test", jute.ID{Scheme: "ip", ID: "10.0.0.1"}, Woken(func() {}))
	super.Identify([]jute.ID{super.address, {Scheme: "super", ID: "root"}})
	if err := s.r.Connect(super, &jute.ConnectRequest{Passwd: make([]byte, jute.PasswdSize)}, s.ids); err != nil {
		t.Errorf("an administrator: %v", err)
	}
	s.r.Disconnected(super)

	// A known session is resumed at the limit, and counts once.
	again := s.client(a)
	s.apply(s.forward()...)
	if !again.Established() || again.session != a.session {
		t.Fatal("a known session isn't resumed at the limit")
	}
	s.counts("10.0.0.1", 3)
	s.apply(s.end(b, tree.OpExpire))
	s.counts("10.0.0.1", 2)
	s.apply(s.end(third, jute.OpCloseSession))
	s.counts("10.0.0.1", 1)
	s.begins("10.0.0.1", "")
	s.begins("10.0.0.1", "")
	s.refuses("10.0.0.1", "", limit.Address)

	// A network of 64 bits is one address.
	for _, ip := range []string{"2001:db8:0:1:0:0:0:1", "2001:db8:0:1:0:0:0:2", "2001:db8:0:1:ffff:0:0:3"} {
		s.r.Disconnected(s.begins(ip, ""))
	}
	s.refuses("2001:db8:0:1:5:5:5:5", "", limit.Address)
	s.begins("2001:db8:0:2:5:5:5:5", "")

	// Another limit applies to what there is.
	s.limitSessions(4, 0)
	s.begins("10.0.0.1", "")
	s.refuses("10.0.0.1", "", limit.Address)
	s.limitSessions(1, 0)
	s.refuses("10.0.0.1", "", limit.Address)
	s.limitSessions(0, 0)
	s.begins("10.0.0.1", "")
	s.counts("10.0.0.1", 5)
}

// TestSessionsOfTheGone: a session counts for its address if its client doesn't wait for the answer, though the server
// knows no connection any more when it begins.
func TestSessionsOfTheGone(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	s.limitSessions(2, 0)
	for range 2 {
		c, err := s.ask("10.0.0.1", "")
		if err != nil {
			t.Fatal(err)
		}
		sent := s.forward()
		s.r.Disconnected(c)
		s.apply(sent...)
	}
	s.counts("10.0.0.1", 2)
	s.refuses("10.0.0.1", "", limit.Address)
}

// TestSessionsOfAnIdentity: sessions count for the first identity that is proved on a connection of theirs, before
// they begin or later; at the limit the connection ends, and the session counts for its address alone.
func TestSessionsOfAnIdentity(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	s.limitSessions(0, 2)
	var e pipeline
	login := func(c *Client, user string) error {
		_, err := s.receive(c, e.request(nil, jute.OpAuth, func(b []byte) []byte {
			return (&jute.AuthPacket{Scheme: "digest", Auth: []byte(user + ":x")}).Append(b)
		}))
		return err
	}
	s.begins("10.0.0.1", "CN=a")
	second := s.begins("10.0.0.2", "CN=a")
	s.r.Disconnected(second)
	s.refuses("10.0.0.3", "CN=a", limit.Identity)
	s.begins("10.0.0.3", "CN=b")
	s.apply(s.end(second, tree.OpExpire))
	s.begins("10.0.0.3", "CN=a")
	s.counts("10.0.0.3", 2)

	for range 2 {
		c := s.begins("10.0.0.4", "")
		if err := login(c, "bob"); err != nil {
			t.Fatal(err)
		}
		s.r.Disconnected(c)
	}
	third := s.begins("10.0.0.4", "")
	if err := login(third, "bob"); err != ErrClosing || third.Ending() != tooManySessionsOfIdentity {
		t.Errorf("the third session of an identity that may have two: %v, %q", err, third.Ending())
	}
	s.r.Disconnected(third)
	s.counts("10.0.0.4", 3)
	again := s.client(third)
	s.apply(s.forward()...)
	if err := login(again, "eve"); err != nil {
		t.Errorf("the session with another identity: %v", err)
	}
	if err := login(again, "bob"); err != nil {
		t.Errorf("a further identity of a session that counts for the first: %v", err)
	}
	s.counts("10.0.0.4", 3)
}

// TestSessionsOfOtherServers: each server counts the sessions that begin or are resumed on others, by what their
// entries say; a state that replaces a server's has those that it has, and others when they are resumed.
func TestSessionsOfOtherServers(t *testing.T) {
	t.Parallel()
	s, other := newStage(t, Options{}), newStage(t, Options{})
	other.ids = serverid.NewIDs(2, 2_000_000)
	for _, x := range []*localStage{s, other} {
		x.limitSessions(2, 0)
	}
	both := func(records ...[]byte) {
		s.apply(records...)
		other.apply(records...)
	}
	var begun []*Client
	for range 2 {
		c, err := other.ask("10.0.0.1", "CN=a")
		if err != nil {
			t.Fatal(err)
		}
		both(other.forward()...)
		begun = append(begun, c)
	}
	s.counts("10.0.0.1", 2)
	s.refuses("10.0.0.1", "", limit.Address)
	if n := s.r.limiter.identified.of("x509:CN=a", s.r.now(), nil).sessions.Load(); n != 2 {
		t.Errorf("%d sessions count for an identity that another server has seen, want 2", n)
	}

	moved := s.client(begun[0]) // from another address
	both(s.forward()...)
	if !moved.Established() {
		t.Fatal("a session isn't resumed on another server")
	}
	s.counts("10.0.0.1", 2)
	s.counts("127.0.0.1", 0)
	other.counts("10.0.0.1", 2)

	// A third server takes the others' state, in which nobody is named.
	late := newStage(t, Options{})
	late.limitSessions(2, 0)
	old := late.client(nil)
	late.apply(late.forward()...)
	late.counts("127.0.0.1", 1)
	late.r.become(other.r.tree)
	late.r.Disconnected(old)
	late.counts("127.0.0.1", 0)
	late.counts("10.0.0.1", 0)
	late.index = other.index
	late.client(begun[1])
	late.apply(late.forward()...)
	late.counts("127.0.0.1", 1)
	late.apply(late.end(begun[0], tree.OpExpire)) // that counted for nobody
	late.counts("127.0.0.1", 1)
}

// TestLocalSessionsAreLimited: local sessions count as others do, before and after they enter the table.
func TestLocalSessionsAreLimited(t *testing.T) {
	t.Parallel()
	s := newLocalStage(t)
	s.limitSessions(2, 0)
	a, b := s.client(nil), s.client(nil)
	s.refuses("127.0.0.1", "", limit.Address)
	s.r.Disconnected(a)
	s.refuses("127.0.0.1", "", limit.Address)
	s.write(b, "/b", jute.ModePersistent)
	s.apply(s.forward()...)
	s.counts("127.0.0.1", 2)
	s.now += 11_000
	b.lastHeard.Store(s.now)
	s.r.Expire(s.now, s.now)
	s.counts("127.0.0.1", 1)
	c := s.client(nil)
	if _, err := s.receive(c, new(pipeline).request(nil, jute.OpCloseSession, nil)); err != nil {
		t.Fatal(err)
	}
	s.r.Disconnected(c)
	s.counts("127.0.0.1", 1)
	s.apply(s.end(b, tree.OpExpire))
	s.counts("127.0.0.1", 0)
}

// TestSessionOwnersAreKept: an address whose sessions have no connection isn't forgotten among many others.
func TestSessionOwnersAreKept(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	s.limitSessions(1, 0)
	s.r.Disconnected(s.begins("10.0.0.1", ""))
	for i := range 3 * ownersSweepMin {
		s.now += 10_000
		s.r.limiter.addresses.of(strings.Repeat("x", i), s.r.now(), nil)
	}
	s.refuses("10.0.0.1", "", limit.Address)
	if n := len(s.r.limiter.addresses.byName); n > ownersSweepMin+1 {
		t.Errorf("%d addresses are remembered", n)
	}
	bytes := int64(0)
	for _, o := range s.r.limiter.addresses.byName {
		bytes += o.memory()
	}
	if got := s.r.limiter.addresses.memory(); got != bytes {
		t.Errorf("%d bytes are accounted for addresses, want %d", got, bytes)
	}
}
