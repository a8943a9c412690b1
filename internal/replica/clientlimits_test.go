package replica

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/limit"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/jute"
)

// openLimited returns a server with limits, and a client of it.
func openLimited(t *testing.T, scope limit.Scope, text string) (*diskShell, *Client, *pipeline) {
	t.Helper()
	fs := storage.NewMemFS()
	fs.Budget = 64 << 20
	s := openOnDisk(t, fs, 1<<20, 3)
	var sets [limit.Scopes]limit.Set
	var err error
	if sets[scope], err = limit.Parse(scope, text, limit.Set{}); err != nil {
		t.Fatal(err)
	}
	s.rep.limiter.SetLimits(sets)
	return s, s.client(), &pipeline{}
}

// want calls one operation and compares the code.
func (s *diskShell) want(c *Client, e *pipeline, code jute.Code, op jute.Op, record func([]byte) []byte) {
	s.t.Helper()
	if got := s.call(c, e, op, record)[0]; got != code {
		s.t.Errorf("%v: %v, want %v", op, got, code)
	}
}

// TestPathLimits reaches the limits of a path that a server's configuration has, then those
// that znodes have: they come, change and go with these, and the longest path counts.
func TestPathLimits(t *testing.T) {
	t.Parallel()
	s, c, e := openLimited(t, limit.Path, "value=4 depth=3 children=3")
	create := func(path, data string, code jute.Code) {
		t.Helper()
		s.want(c, e, code, jute.OpCreate, creating(path, []byte(data), 0))
	}
	set := func(path, data string, code jute.Code) {
		t.Helper()
		s.want(c, e, code, jute.OpSetData, setting(path, []byte(data)))
	}
	create("/a", "1234", jute.OK)
	create("/a5", "12345", jute.ErrQuotaExceeded)
	set("/a", "12345", jute.ErrQuotaExceeded)
	set("/a", "", jute.OK)
	create("/a/b", "", jute.OK)
	create("/a/b/c", "", jute.OK)
	create("/a/b/c/d", "", jute.ErrQuotaExceeded)
	create("/b", "", jute.OK)
	create("/c", "", jute.ErrQuotaExceeded) // beside /zookeeper
	s.want(c, e, jute.OK, jute.OpDelete, deleting("/b"))
	create("/c", "", jute.OK)

	both := []jute.MultiOp{
		{Op: jute.OpCreate, Path: "/a/x", ACL: jute.WorldACL(jute.PermAll)},
		{Op: jute.OpCreate, Path: "/a/y", ACL: jute.WorldACL(jute.PermAll)},
		{Op: jute.OpCreate, Path: "/a/z", ACL: jute.WorldACL(jute.PermAll)},
	}
	multi := func(ops []jute.MultiOp) func([]byte) []byte {
		return func(b []byte) []byte { return jute.AppendMulti(b, ops) }
	}
	s.want(c, e, jute.ErrQuotaExceeded, jute.OpMulti, multi(both))
	s.want(c, e, jute.OK, jute.OpMulti, multi(both[:2]))

	// In the tree.
	s.rep.limiter.SetLimits([limit.Scopes]limit.Set{})
	if s.rep.limiter.inForce.Load() != nil {
		t.Error("without limits requests are looked at")
	}
	create(limit.Root, "", jute.ErrNoAuth) // not by everybody
	super := asSuper()
	c.ids.Store(&super)
	create(limit.Root, "", jute.OK)
	create(limit.Place{Scope: limit.Path, Path: "/a"}.Znode(), "value=2", jute.OK)
	create(limit.Place{Scope: limit.Path, Path: "/a/b"}.Znode(), "value=3", jute.OK)
	set("/c", "12345", jute.OK)
	set("/a", "123", jute.ErrQuotaExceeded)
	set("/a/x", "123", jute.ErrQuotaExceeded)
	set("/a/b", "123", jute.OK)
	set("/a/b/c", "1234", jute.ErrQuotaExceeded)
	set(limit.Place{Scope: limit.Path, Path: "/a"}.Znode(), "value=5", jute.OK)
	set("/a", "12345", jute.OK)
	set(limit.Place{Scope: limit.Path, Path: "/a"}.Znode(), "value=x", jute.OK) // none counts
	set("/a", "123456", jute.OK)
	s.want(c, e, jute.OK, jute.OpDelete, deleting(limit.Place{Scope: limit.Path, Path: "/a/b"}.Znode()))
	set("/a/b/c", "123456", jute.OK)
	if n := s.rep.meters.exceeded[limit.Path].Value(); n == 0 {
		t.Error("nothing was counted")
	}
}

// TestPathRate: what is faster than the limit of a path gets ThrottledOp; other paths and
// later requests don't.
func TestPathRate(t *testing.T) {
	t.Parallel()
	s, c, e := openLimited(t, limit.Path, "value=1000000")
	super := asSuper()
	c.ids.Store(&super)
	s.want(c, e, jute.OK, jute.OpCreate, creating(limit.Root, nil, 0))
	s.want(c, e, jute.OK, jute.OpCreate, creating("/a", nil, 0))
	s.want(c, e, jute.OK, jute.OpCreate,
		creating(limit.Place{Scope: limit.Path, Path: "/a"}.Znode(), []byte("requests=10"), 0))
	s.now.Add(2e9)
	var reads []func([]byte) []byte
	for range 30 {
		reads = append(reads, reading("/a", false))
	}
	refused := 0
	for _, code := range s.call(c, e, jute.OpGetData, reads...) {
		if code == jute.ErrThrottledOp {
			refused++
		} else if code != jute.OK {
			t.Fatal(code)
		}
	}
	if refused < 15 || refused > 20 {
		t.Errorf("%d of 30 reads at once were refused at a limit of 10 in a second", refused)
	}
	s.want(c, e, jute.OK, jute.OpGetData, reading("/", false))
	s.now.Add(2e9)
	s.want(c, e, jute.OK, jute.OpGetData, reading("/a", false))
}

// TestLimitsOfASession reaches the limits of one connection's watches and ephemeral znodes.
func TestLimitsOfASession(t *testing.T) {
	t.Parallel()
	s, c, e := openLimited(t, limit.Connection, "watches=2 ephemerals=2")
	for i, want := range []jute.Code{jute.OK, jute.OK, jute.ErrQuotaExceeded} {
		s.want(c, e, want, jute.OpCreate, creating(fmt.Sprint("/e", i), nil, jute.ModeEphemeral))
	}
	s.want(c, e, jute.OK, jute.OpCreate, creating("/e2", nil, 0))
	for i, want := range []jute.Code{jute.OK, jute.OK, jute.ErrThrottledOp} {
		s.want(c, e, want, jute.OpGetData, reading(fmt.Sprint("/e", i), true))
	}
	s.want(c, e, jute.ErrThrottledOp, jute.OpExists, reading("/none", true))
	s.want(c, e, jute.OK, jute.OpGetData, reading("/e2", false))
}

// TestEphemeralPathsOfASession: the paths of a session's ephemerals are bounded in bytes, by what its ephemerals have
// now, also within a multi; other sessions and other znodes aren't concerned.
func TestEphemeralPathsOfASession(t *testing.T) {
	t.Parallel()
	s, c, e := openLimited(t, limit.Connection, "ephemerals=100") // and 2 MiB of paths
	parent := "/" + strings.Repeat("p", 400_000)
	s.want(c, e, jute.OK, jute.OpCreate, creating(parent, nil, 0))
	for i, want := range []jute.Code{jute.OK, jute.OK, jute.OK, jute.OK, jute.OK, jute.ErrQuotaExceeded} {
		s.want(c, e, want, jute.OpCreate, creating(fmt.Sprint(parent, "/", i), nil, jute.ModeEphemeral))
	}
	s.want(c, e, jute.OK, jute.OpCreate, creating("/short", nil, jute.ModeEphemeral))
	s.want(c, e, jute.OK, jute.OpCreate, creating(parent+"/kept", nil, 0))
	s.want(c, e, jute.OK, jute.OpDelete, deleting(parent+"/4"))
	var ops []jute.MultiOp
	for i := range 2 {
		ops = append(ops, jute.MultiOp{
			Op: jute.OpCreate, Path: fmt.Sprint(parent, "/m", i), ACL: jute.WorldACL(jute.PermAll), Flags: jute.ModeEphemeral,
		})
	}
	two := func(b []byte) []byte { return jute.AppendMulti(b, ops) }
	s.want(c, e, jute.ErrQuotaExceeded, jute.OpMulti, two)
	s.want(c, e, jute.OK, jute.OpDelete, deleting(parent+"/3"))
	s.want(c, e, jute.OK, jute.OpMulti, two)
	if n, bytes := s.rep.tree.Sessions().Ephemerals(c.session); n != 6 || bytes != 5*int64(len(parent)+2)+2+6 {
		t.Errorf("the session has %d ephemerals with paths of %d bytes", n, bytes)
	}
	s.want(s.client(), &pipeline{}, jute.OK, jute.OpCreate, creating(parent+"/other", nil, jute.ModeEphemeral))
}

// TestLimitsOfWhatIsHeld reaches the limits of what the connections of one address, or of one
// identity, hold together: watches that have fired, ephemeral znodes that were deleted, and
// connections that have ended don't count.
func TestLimitsOfWhatIsHeld(t *testing.T) {
	t.Parallel()
	for _, scope := range []limit.Scope{limit.Address, limit.Identity} {
		t.Run(scope.String(), func(t *testing.T) {
			t.Parallel()
			s, first, e := openLimited(t, scope, "watches=3 ephemerals=3")
			second, third := s.client(), s.client()
			if scope == limit.Identity {
				for _, c := range []*Client{first, second, third} {
					s.want(c, e, jute.OK, jute.OpAuth, func(b []byte) []byte {
						return (&jute.AuthPacket{Scheme: "digest", Auth: []byte("bob:x")}).Append(b)
					})
				}
			}
			create := func(c *Client, path string, want jute.Code) {
				t.Helper()
				s.want(c, e, want, jute.OpCreate, creating(path, nil, jute.ModeEphemeral))
			}
			watch := func(c *Client, path string, want jute.Code) {
				t.Helper()
				s.want(c, e, want, jute.OpExists, reading(path, true))
			}
			create(first, "/a", jute.OK)
			create(first, "/b", jute.OK)
			create(second, "/c", jute.OK)
			create(second, "/d", jute.ErrQuotaExceeded)
			s.want(first, e, jute.OK, jute.OpDelete, deleting("/a"))
			create(second, "/d", jute.OK)
			create(first, "/e", jute.ErrQuotaExceeded)
			for range 10 { // the same watch is one
				watch(first, "/v", jute.ErrNoNode)
			}
			watch(first, "/w", jute.ErrNoNode)
			watch(third, "/x", jute.ErrNoNode)
			watch(second, "/y", jute.ErrThrottledOp)
			s.want(second, e, jute.OK, jute.OpCreate, creating("/x", nil, 0)) // fires the third's
			watch(second, "/y", jute.ErrNoNode)
			watch(first, "/z", jute.ErrThrottledOp)
			s.rep.Disconnected(second)
			watch(first, "/z", jute.ErrNoNode)
			if n := s.rep.meters.exceeded[scope].Value(); n != 4 {
				t.Errorf("%d times were counted, want 4", n)
			}
		})
	}
}

// TestEphemeralsOfOneAddress: an address may have as many ephemeral znodes as the limit says, however many others have.
func TestEphemeralsOfOneAddress(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	var sets [limit.Scopes]limit.Set
	var err error
	if sets[limit.Address], err = limit.Parse(limit.Address, "ephemerals=2", limit.Set{}); err != nil {
		t.Fatal(err)
	}
	s.r.limiter.SetLimits(sets)
	for _, address := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"} {
		for n := range 3 {
			c := s.from(address)
			s.apply(s.forward()...)
			s.write(c, fmt.Sprintf("/%s-%d", address, n), jute.ModeEphemeral)
			sent := s.forward()
			if s.apply(sent...); len(sent) > 0 != (n < 2) {
				t.Errorf("%s has %d ephemeral znodes, and may create another: %t", address, n, len(sent) > 0)
			}
		}
	}
}

// TestPaced sends more than a limit in a second allows. The connection is held back until it
// is paid off; heartbeats are taken meanwhile, and one request in each pacedMax.
func TestPaced(t *testing.T) {
	t.Parallel()
	for _, scope := range []limit.Scope{limit.Connection, limit.Address} {
		t.Run(scope.String(), func(t *testing.T) {
			s, c, e := openLimited(t, scope, "requests=10")
			s.now.Add(20e9)
			var in []byte
			for range 50 {
				in = e.request(in, jute.OpGetData, reading("/", false))
			}
			s.send(c, in) // a batch is taken whole, and paid for afterwards
			one := e.request(nil, jute.OpGetData, reading("/", false))
			if used, err := s.receive(c, one); err != ErrPaced || used != 0 || c.reader.Pause() <= 0 ||
				c.reader.Pause().Nanoseconds() > pacedMax {
				t.Fatalf("%d bytes were taken, %v, pause %v", used, err, c.reader.Pause())
			}
			ping := e.request(nil, jute.OpPing, func(b []byte) []byte { return b })
			if used, err := s.receive(c, ping); err != nil || used != len(ping) {
				t.Errorf("of a heartbeat %d bytes were taken, %v", used, err)
			}
			two := append(append([]byte(nil), one...), one...)
			s.now.Add(pacedMax)
			if used, err := s.receive(c, two); err != ErrPaced || used != len(one) {
				t.Errorf("after the longest pause %d bytes were taken, not %d of one request: %v", used, len(one), err)
			}
			s.now.Add(10e9)
			if used, err := s.receive(c, two); err != nil || used != len(two) {
				t.Errorf("after all was paid off %d bytes were taken, %v", used, err)
			}
			if n := s.rep.meters.exceeded[scope].Value(); n != 1 {
				t.Errorf("%d times were counted, want 1", n)
			}
		})
	}
}

// TestIdentityLimits: an identity has one connection too many, and its rate is shared by its
// connections; the superuser and others aren't concerned.
func TestIdentityLimits(t *testing.T) {
	t.Parallel()
	s, c, e := openLimited(t, limit.Identity, "connections=2 requests=10")
	login := func(c *Client, user string) error {
		_, err := s.receive(c, e.request(nil, jute.OpAuth, func(b []byte) []byte {
			return (&jute.AuthPacket{Scheme: "digest", Auth: []byte(user + ":x")}).Append(b)
		}))
		return err
	}
	second, third := s.client(), s.client()
	for _, c := range []*Client{c, second} {
		if err := login(c, "bob"); err != nil {
			t.Fatal(err)
		}
	}
	if err := login(third, "bob"); err != ErrClosing || !strings.Contains(third.Ending(), "limits.identity") {
		t.Errorf("the third connection of an identity that may have two: %v, %q", err, third.Ending())
	}
	s.rep.Disconnected(third)
	fourth := s.client()
	if err := login(fourth, "eve"); err != nil {
		t.Error(err)
	}
	var in []byte
	for range 50 {
		in = e.request(in, jute.OpGetData, reading("/", false))
	}
	s.now.Add(20e9)
	s.send(c, in)
	one := e.request(nil, jute.OpGetData, reading("/", false))
	if _, err := s.receive(second, one); err != ErrPaced {
		t.Errorf("another connection of an identity that is too fast: %v", err)
	}
	if _, err := s.receive(fourth, one); err != nil {
		t.Errorf("a connection of another identity: %v", err)
	}
	s.rep.Disconnected(second)
	fifth := s.client()
	if err := login(fifth, "bob"); err != nil {
		t.Errorf("a connection in the place of one that ended: %v", err)
	}
}

// TestConnectRate: an address begins connections faster than it may; others don't.
func TestConnectRate(t *testing.T) {
	t.Parallel()
	s, _, _ := openLimited(t, limit.Address, "connects=10")
	s.now.Add(20e9)
	if free := newStage(t, Options{}); !free.r.limiter.MayConnect(jute.ID{Scheme: "ip", ID: "10.0.0.1"}) {
		t.Error("without a limit an address may not connect")
	}
	from := func(ip string) (n int) {
		for range 50 {
			if s.rep.limiter.MayConnect(jute.ID{Scheme: "ip", ID: ip}) {
				n++
			}
		}
		return n
	}
	if n := from("10.0.0.1"); n < 10 || n > 12 {
		t.Errorf("%d connections were let in at once, want 10 or so", n)
	}
	if n := from("2001:db8::1"); n < 10 || n > 12 {
		t.Errorf("%d connections of another address were let in", n)
	}
	s.now.Add(1e9)
	if n := from("10.0.0.1"); n < 9 || n > 12 {
		t.Errorf("a second later %d connections were let in", n)
	}
}

// TestOwnersAreBounded: addresses that used something lately are remembered up to a number;
// the rest share one set of rates. Those at rest are forgotten.
func TestOwnersAreBounded(t *testing.T) {
	t.Parallel()
	var w owners
	now := int64(100e9)
	for i := range 3 * ownersRestingMax {
		w.of(fmt.Sprint(i), now, nil).connects.Use(now, 1, 1)
	}
	if n := len(w.byName); n > 2*ownersRestingMax {
		t.Errorf("%d addresses are remembered", n)
	}
	if w.rest.connects.Owes(now) <= 0 {
		t.Error("nobody shares what there is no room for")
	}
	now += 60e9
	if w.join("another", now, new(Client)); len(w.byName) > 1 {
		t.Errorf("%d addresses at rest are remembered", len(w.byName))
	}
}

// TestTooManyLimits writes more limits than are read: none is in force.
func TestTooManyLimits(t *testing.T) {
	t.Parallel()
	s, c, e := openLimited(t, limit.Path, "value=1000000")
	super := asSuper()
	c.ids.Store(&super)
	s.want(c, e, jute.OK, jute.OpCreate, creating(limit.Root, nil, 0))
	var ops []jute.MultiOp
	for i := range limitsMax {
		ops = append(ops,
			jute.MultiOp{
				Op: jute.OpCreate, Path: limit.Place{Scope: limit.Path, Path: fmt.Sprint("/", i)}.Znode(), Data: []byte("value=1"),
				ACL: jute.WorldACL(jute.PermAll),
			})
	}
	s.want(c, e, jute.OK, jute.OpMulti, func(b []byte) []byte { return jute.AppendMulti(b, ops) })
	s.want(c, e, jute.ErrQuotaExceeded, jute.OpCreate, creating("/7", []byte("12"), 0))
	s.want(c, e, jute.OK, jute.OpCreate, creating(limit.Root+"/identity", nil, 0))
	s.want(c, e, jute.OK, jute.OpCreate, creating("/7", []byte("12"), 0))
}
