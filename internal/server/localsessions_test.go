package server

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// localOptions are those of servers with local sessions.
func localOptions(upgrading bool) Options {
	return Options{
		Serving: Serving{
			LocalSessions: true, LocalSessionsUpgrading: upgrading, SessionTimeoutMin: 100 * time.Millisecond,
			SessionTimeoutMax: time.Minute,
		},
	}
}

// logged returns how many requests in the log a server has applied since its last
// snapshot, of which the tests take none.
func logged(s *Server) int64 {
	return s.replica.View().SinceSnapshot
}

// settled waits until an ensemble has put in the log what it does after its start: the
// highest feature level and the secret of its hashes. logged counts them otherwise.
func settled(t *testing.T, servers []*Server) {
	t.Helper()
	eventually(t, "all servers are at the highest feature level", func() bool {
		for _, s := range servers {
			if v := s.replica.View(); !v.Keyed || v.FeatureLevel != uint32(tree.FeatureLevelMax) {
				return false
			}
		}
		return true
	})
}

// caughtUp writes, so that what servers say to each other when they start is in the
// log before, and waits until every server has applied that.
func caughtUp(t *testing.T, opts []Options) {
	t.Helper()
	for i := range opts {
		c := connect(t, opts[i].Listen[0], 0, nil)
		if i == 0 {
			c.call(jute.OpCreate, creating("/started", nil, 0))
			c.call(jute.OpCloseSession, nil)
			c = connect(t, opts[i].Listen[0], 0, nil)
		}
		defer c.call(jute.OpCloseSession, nil)
		if h, _ := c.call(jute.OpSync, func(b []byte) []byte { return jute.AppendString(b, "/") }); h.Err != jute.OK {
			t.Fatalf("sync: %v", h.Err)
		}
	}
}

// TestLocalSessionReads begins, uses, resumes and closes sessions that only read:
// the log gets no entry, no other server knows them, and after their end this one
// doesn't either.
func TestLocalSessionReads(t *testing.T) {
	t.Parallel()
	servers, opts := threeServers(t, localOptions(false))
	lead := leader(t, servers)
	caughtUp(t, opts)
	settled(t, servers)
	before := logged(servers[lead])
	for at := range servers {
		addr := opts[at].Listen[0]
		for i := range 20 {
			c := connect(t, addr, 0, nil)
			if c.session == 0 || uint64(c.session)>>56 != opts[at].ID {
				t.Fatalf("session %#x", c.session)
			}
			if h, _ := c.call(jute.OpExists, reading("/", true)); h.Err != jute.OK {
				t.Fatal(h.Err)
			}
			if n := servers[at].replica.View().LocalSessions; n < 1 {
				t.Errorf("%d local sessions", n)
			}
			if i%2 == 0 { // resumed while its old connection is there
				old := c
				if c = connect(t, addr, c.session, c.passwd); c.session != old.session || !old.ends() {
					t.Fatalf("session %#x resumed as %#x, or the old connection goes on", old.session, c.session)
				}
			}
			if h, _ := c.call(jute.OpSync, func(b []byte) []byte { return jute.AppendString(b, "/") }); h.Err != jute.OK {
				t.Fatal(h.Err)
			}
			if h, _ := c.call(jute.OpCloseSession, nil); h.Err != jute.OK || !c.ends() {
				t.Fatalf("close: %v, or the connection goes on", h.Err)
			}
		}
	}
	if n := logged(servers[lead]); n != before {
		t.Errorf("the log grew from %d to %d requests", before, n)
	}
	c := connect(t, opts[0].Listen[0], 0, nil)
	for name, again := range map[string]*rawClient{
		"on another server":  connect(t, opts[1].Listen[0], c.session, c.passwd),
		"wrong password":     connect(t, opts[0].Listen[0], c.session, make([]byte, jute.PasswdSize)),
		"an unknown session": connect(t, opts[0].Listen[0], c.session+1, c.passwd),
	} {
		if again.session != 0 {
			t.Errorf("%s: session %#x", name, again.session)
		}
	}
	c = connect(t, opts[0].Listen[0], c.session, c.passwd)
	if h, _ := c.call(jute.OpCloseSession, nil); h.Err != jute.OK {
		t.Fatal(h.Err)
	}
	if again := connect(t, opts[0].Listen[0], c.session, c.passwd); again.session != 0 {
		t.Errorf("a closed session is resumed as %#x", again.session)
	}
}

// TestLocalSessionWrites: the first write lets the session into the table; it may
// have no ephemeral znode, and can be resumed anywhere then.
func TestLocalSessionWrites(t *testing.T) {
	t.Parallel()
	servers, opts := threeServers(t, localOptions(false))
	lead := leader(t, servers)
	other := (lead + 1) % 3
	c := connect(t, opts[other].Listen[0], 0, nil)
	if h, _ := c.call(jute.OpCreate, creating("/w", nil, 0)); h.Err != jute.OK {
		t.Fatal(h.Err)
	}
	if s, ok := servers[other].replica.Session(c.session); !ok || s.Scope != tree.Local || s.Next != 2 {
		t.Errorf("session in the table: %+v, %t", s, ok)
	}
	if global, local := servers[other].replica.View().GlobalSessions,
		servers[other].replica.View().LocalSessions; global != 0 || local != 1 {
		t.Errorf("%d global sessions, %d local ones", global, local)
	}
	refused := func(c *rawClient) {
		t.Helper()
		if h, _ := c.call(jute.OpCreate,
			creating("/w/e", nil, jute.ModeEphemeral)); h.Err != jute.ErrEphemeralOnLocalSession {
			t.Errorf("an ephemeral: %v", h.Err)
		}
	}
	refused(c)
	again := connect(t, opts[other].Listen[0], c.session, c.passwd)
	refused(again)
	moved := connect(t, opts[lead].Listen[0], c.session, c.passwd)
	if again.session != c.session || moved.session != c.session || !again.ends() {
		t.Fatalf("session %#x resumed as %#x, then as %#x, or the old connection goes on", c.session, again.session,
			moved.session)
	}
	refused(moved)
	if h, _ := moved.call(jute.OpCloseSession, nil); h.Err != jute.OK {
		t.Fatal(h.Err)
	}
	if last := connect(t, opts[other].Listen[0], c.session, c.passwd); last.session != 0 {
		t.Errorf("a closed session is resumed as %#x", last.session)
	}
}

// TestLocalSessionUpgrade: with upgrading the session that asks for an ephemeral
// znode becomes global, also if its first write is that, within a multi or refused.
func TestLocalSessionUpgrade(t *testing.T) {
	t.Parallel()
	servers, opts := threeServers(t, localOptions(true))
	lead := leader(t, servers)
	at := (lead + 1) % 3
	multi := jute.AppendMulti(nil,
		[]jute.MultiOp{{Op: jute.OpCreate, Path: "/m", ACL: jute.WorldACL(jute.PermAll), Flags: jute.ModeEphemeral}})
	for i, ask := range []struct {
		op     jute.Op
		record func([]byte) []byte
		want   jute.Code
		scope  tree.Scope
	}{
		{jute.OpCreate, creating("/e", nil, jute.ModeEphemeral), jute.OK, tree.Global},
		{jute.OpCreate, creating("/no/e", nil, jute.ModeEphemeral), jute.ErrNoNode, tree.Global},
		{jute.OpMulti, func(b []byte) []byte { return append(b, multi...) }, jute.OK, tree.Global},
		{jute.OpCreate, creating("/plain", nil, jute.ModePersistent), jute.OK, tree.LocalUpgrading},
		{jute.OpCreateContainer, creating("/container", nil, jute.ModeContainer), jute.OK, tree.LocalUpgrading},
	} {
		c := connect(t, opts[at].Listen[0], 0, nil)
		h, _ := c.call(ask.op, ask.record)
		s, ok := servers[at].replica.Session(c.session)
		if h.Err != ask.want || !ok || s.Scope != ask.scope {
			t.Errorf("%d: %v, session %+v, %t", i, h.Err, s, ok)
		}
		if again := connect(t, opts[lead].Listen[0], c.session, c.passwd); again.session != c.session {
			t.Errorf("%d: session %#x resumed as %#x", i, c.session, again.session)
		}
	}
}

// TestLocalSessionExpires: a local session that is silent ends by its server's
// clock, one that has written by the leader's, and with it its znodes.
func TestLocalSessionExpires(t *testing.T) {
	t.Parallel()
	const brief = 300 * time.Millisecond
	opt := localOptions(true)
	opt.Tick, opt.Patience = 50*time.Millisecond, time.Minute
	servers, opts := threeServers(t, opt)
	at := (leader(t, servers) + 1) % 3
	addr := opts[at].Listen[0]
	caughtUp(t, opts)
	settled(t, servers)
	before, expired := logged(servers[at]), servers[at].metric("stale_sessions_expired")
	// On a busy machine a session may be over before its client has heard of it.
	var begun int64
	begin := func(timeout time.Duration) (c *rawClient) {
		eventually(t, "a session begins", func() bool {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			begun++
			c = handshakeFor(t, conn, timeout, 0, nil)
			return c != nil
		})
		return c
	}
	reader := begin(brief)
	if !reader.ends() {
		t.Error("a silent connection goes on")
	}
	if n, now := logged(servers[at]), servers[at].metric("stale_sessions_expired"); n != before || now == expired ||
		now > expired+begun {
		t.Errorf("the log grew from %d to %d requests, %d sessions of %d expired", before, n, now-expired, begun)
	}
	gone := begin(brief)
	gone.conn.Close()
	eventually(t, "no local session is left", func() bool { return servers[at].replica.View().LocalSessions == 0 })
	// The writer's session must live until its write, which takes longer than usual on a busy machine.
	var writer *rawClient
	for timeout := brief; ; timeout *= 2 {
		writer = begin(timeout)
		create := writer.request(nil, jute.OpCreate, creating("/e-", nil, jute.ModeEphemeralSequential))
		if _, err := writer.conn.Write(create); err == nil {
			if frame, err := jute.ReadFrame(writer.conn, nil, 1<<20); err == nil {
				var h jute.ReplyHeader
				if h.Decode(jute.NewDecoder(frame)); h.Err != jute.OK {
					t.Fatal(h.Err)
				}
				break
			}
		}
		if timeout > patience {
			t.Fatalf("a session of %v ends before its first write", timeout)
		}
	}
	if !writer.ends() {
		t.Error("the connection of a session that has written goes on")
	}
	if _, ok := servers[at].replica.Session(writer.session); ok {
		t.Error("it is still in the table")
	}
	for _, was := range []*rawClient{reader, gone, writer} {
		if again := connect(t, addr, was.session, was.passwd); again.session != 0 {
			t.Errorf("an expired session is resumed as %#x", again.session)
		}
	}
}

// TestLocalSessionsSurviveTheLeader stops the leader while sessions of another
// server make their first write: none is disconnected, and each write is applied
// once, those of readers too that wrote nothing before.
func TestLocalSessionsSurviveTheLeader(t *testing.T) {
	t.Parallel()
	servers, opts := threeServers(t, localOptions(true))
	lead := leader(t, servers)
	other := (lead + 1) % 3
	const sessions = 120
	var clients []*rawClient
	for range sessions {
		clients = append(clients, connect(t, opts[other].Listen[0], 0, nil))
	}
	if h, _ := clients[0].call(jute.OpCreate, creating("/q", nil, 0)); h.Err != jute.OK {
		t.Fatal(h.Err)
	}
	for i, c := range clients {
		if i == sessions/3 {
			go servers[lead].Close()
		}
		// Two writes each, pipelined: a plain one and one that upgrades.
		b := c.request(nil, jute.OpCreate, creating(fmt.Sprintf("/q/%d-", i), nil, jute.ModePersistentSequential))
		b = c.request(b, jute.OpCreate, creating(fmt.Sprintf("/q/%d-e-", i), nil, jute.ModeEphemeralSequential))
		if _, err := c.conn.Write(b); err != nil {
			t.Fatal(err)
		}
		if i > sessions/3 {
			time.Sleep(2 * time.Millisecond) // some before, some during and some after the election
		}
	}
	for i, c := range clients {
		for range 2 {
			if h, _ := c.reply(); h.Err != jute.OK {
				t.Fatalf("client %d: %v", i, h.Err)
			}
		}
	}
	h, body := clients[0].call(jute.OpGetChildren, reading("/q", false))
	if h.Err != jute.OK {
		t.Fatal(h.Err)
	}
	count := map[string]int{}
	for _, name := range jute.NewDecoder(body).Strings() {
		count[name[:strings.LastIndexByte(name, '-')]]++
	}
	if len(count) != 2*sessions {
		t.Errorf("%d of %d writes were applied", len(count), 2*sessions)
	}
	for name, n := range count {
		if n != 1 {
			t.Errorf("the write of %s was applied %d times", name, n)
		}
	}
}

// TestLocalSessionsAlone: a server alone has none, whatever it is told.
func TestLocalSessionsAlone(t *testing.T) {
	t.Parallel()
	s := open(t, localOptions(false))
	c := connect(t, s.Addrs()[0].String(), 0, nil)
	if h, _ := c.call(jute.OpCreate, creating("/e", nil, jute.ModeEphemeral)); h.Err != jute.OK {
		t.Error(h.Err)
	}
}

// TestLocalSessionDump: dump tells of local sessions and of the others apart.
func TestLocalSessionDump(t *testing.T) {
	t.Parallel()
	opt := localOptions(true)
	opt.FourLetterWords = []string{"*"}
	servers, opts := threeServers(t, opt)
	lead := leader(t, servers)
	other := (lead + 1) % 3
	var local, written, global string
	for i, record := range []func([]byte) []byte{nil, creating("/p", nil, 0), creating("/e", nil, jute.ModeEphemeral)} {
		c := connect(t, opts[other].Listen[0], 0, nil)
		if record != nil {
			if h, _ := c.call(jute.OpCreate, record); h.Err != jute.OK {
				t.Fatal(h.Err)
			}
		}
		*[]*string{&local, &written, &global}[i] = replica.SessionText(c.session)
	}
	caughtUp(t, opts)
	sections := func(at int) (before, after string) {
		dump, _, _ := strings.Cut(wordOf(t, opts[at].Listen[0], "dump"), "ephemeral nodes dump:")
		before, after, ok := strings.Cut(dump, "Global Session")
		if !ok || !strings.HasPrefix(before, "SessionTracker dump:\nLocal Session Sets (") {
			t.Errorf("dump: %q", dump)
		}
		return before, after
	}
	if before, after := sections(other); !strings.Contains(before, local) || !strings.Contains(before, written) ||
		strings.Contains(before, global) ||
		!strings.HasPrefix(after, "s(1):\n"+global+"\t") {
		t.Errorf("on a follower: %q, %q", before, after)
	}
	if before, after := sections(lead); strings.Contains(before+after, local) || strings.Contains(before+after, written) ||
		!strings.HasPrefix(after, " Sets (1)/(1):") {
		t.Errorf("on the leader: %q, %q", before, after)
	}
}
