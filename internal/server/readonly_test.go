package server

import (
	"bytes"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// readOnlyOptions are those of servers that serve read-only soon after they have
// lost their leader.
func readOnlyOptions() Options {
	return Options{Serving: Serving{
		ReadOnlyMode: true, Tick: 100 * time.Millisecond, SessionTimeoutMin: 10 * time.Second, SessionTimeoutMax: time.Minute,
	}, Patience: time.Second,
		FourLetterWords: []string{"isro"}}
}

// hello sends a connect request and returns the answer, or nil if the server
// closes the connection instead.
func hello(t *testing.T, addr string, req jute.ConnectRequest) (*rawClient, *jute.ConnectResponse) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(patience))
	if req.Passwd == nil {
		req.Passwd = make([]byte, jute.PasswdSize)
	}
	req.Timeout = 20_000
	if _, err := conn.Write(jute.AppendFrame(nil, req.Append)); err != nil {
		return nil, nil
	}
	frame, err := jute.ReadFrame(conn, nil, 1<<20)
	if err != nil {
		return nil, nil
	}
	var res jute.ConnectResponse
	res.Decode(jute.NewDecoder(frame))
	return &rawClient{t: t, conn: conn, session: res.SessionID, passwd: bytes.Clone(res.Passwd)}, &res
}

// untilReadOnly waits until a server serves a client that asks for it read-only.
func untilReadOnly(t *testing.T, addr string) *rawClient {
	t.Helper()
	var c *rawClient
	eventually(t, "the server serves read-only", func() (serves bool) {
		var res *jute.ConnectResponse
		c, res = hello(t, addr, jute.ConnectRequest{ReadOnly: true, HasReadOnly: true})
		if serves = res != nil && res.ReadOnly; serves && (res.SessionID == 0 || res.Timeout != 20_000 || !res.HasReadOnly) {
			t.Fatalf("connect response %+v", res)
		}
		return serves
	})
	return c
}

// wordOf asks the server at addr a four-letter word.
func wordOf(t *testing.T, addr, word string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return askConn(t, conn, word)
}

// orphan starts an ensemble with the znode /a, written by a client of the server
// that then loses the two others. It returns the server's place.
func orphan(t *testing.T) (servers []*Server, opts []Options, at int, writer *rawClient) {
	t.Helper()
	servers, opts = threeServers(t, readOnlyOptions())
	at = leader(t, servers)
	writer = connect(t, opts[at].Listen[0], 0, nil)
	if h, _ := writer.call(jute.OpCreate, creating("/a", []byte("data"), 0)); h.Err != jute.OK {
		t.Fatal(h.Err)
	}
	for i, s := range servers {
		if i != at {
			s.Close()
		}
	}
	return servers, opts, at, writer
}

// TestReadOnlyMode takes the quorum from a server: it closes its clients, serves
// those that ask for it read-only, and closes them when there is a quorum again.
func TestReadOnlyMode(t *testing.T) {
	t.Parallel()
	servers, opts, at, writer := orphan(t)
	addr := opts[at].Listen[0]
	c := untilReadOnly(t, addr)
	if !writer.ends() {
		t.Error("a connection from before goes on")
	}
	read := func(c *rawClient) {
		t.Helper()
		if h, body := c.call(jute.OpGetData, reading("/a", true)); h.Err != jute.OK || !bytes.Contains(body, []byte("data")) {
			t.Errorf("read: %v, %q", h.Err, body)
		}
	}
	read(c)
	path := func(b []byte) []byte { return jute.AppendString(b, "/a") }
	for name, call := range map[string]struct {
		op     jute.Op
		record func([]byte) []byte
		want   jute.Code
	}{
		"create":   {jute.OpCreate, creating("/b", nil, 0), jute.ErrNotReadOnly},
		"setData":  {jute.OpSetData, setting("/a", nil), jute.ErrNotReadOnly},
		"multi":    {jute.OpMulti, nil, jute.ErrNotReadOnly},
		"reconfig": {jute.OpReconfig, nil, jute.ErrNotReadOnly},
		"sync":     {jute.OpSync, path, jute.ErrNotReadOnly},
		"ping":     {jute.OpPing, nil, jute.OK},
		"exists":   {jute.OpExists, reading("/a", true), jute.OK},
		"children": {jute.OpGetChildren, reading("/", true), jute.OK},
		"whoAmI":   {jute.OpWhoAmI, nil, jute.OK},
		"auth":     {jute.OpAuth, (&jute.AuthPacket{Scheme: "digest", Auth: []byte("a:b")}).Append, jute.OK},
	} {
		if h, _ := c.call(call.op, call.record); h.Err != call.want {
			t.Errorf("%s: %v, want %v", name, h.Err, call.want)
		}
	}
	// Pipelined: answers keep the order of the requests.
	var stream []byte
	for range 3 {
		stream = c.request(c.request(stream, jute.OpDelete, nil), jute.OpExists, reading("/a", false))
	}
	c.conn.Write(stream)
	for i := range int32(6) {
		if h, _ := c.reply(); h.Xid != c.xid-5+i || (h.Err == jute.OK) != (i%2 == 1) {
			t.Errorf("answer %d: xid %d, %v", i, h.Xid, h.Err)
		}
	}
	readOnlyRefuses(t, servers[at], addr, writer)
	if got := wordOf(t, addr, "isro"); got != "ro" {
		t.Errorf("isro: %q", got)
	}
	if got := wordOf(t, addr, "srvr"); !strings.Contains(got, "\nREAD-ONLY mode; serving only read-only clients\n") ||
		!strings.Contains(got, "\nMode: read-only\n") {
		t.Errorf("srvr: %q", got)
	}
	readOnlySessions(t, addr)
	if n := servers[at].replica.View().LocalSessions; n < 1 {
		t.Errorf("%d local sessions", n)
	}

	other := (at + 1) % 3
	s, err := Open(opts[other])
	if err != nil {
		t.Fatal(err)
	}
	servers[other] = s
	if !c.ends() {
		t.Error("a read-only connection goes on after there is a leader")
	}
	again := connect(t, addr, writer.session, writer.passwd)
	if again.session != writer.session {
		t.Errorf("session %x resumed as %x", writer.session, again.session)
	}
	if h, _ := again.call(jute.OpSetData, setting("/a", []byte("more"))); h.Err != jute.OK {
		t.Errorf("a write after there is a leader: %v", h.Err)
	}
	if got := wordOf(t, addr, "isro"); got != "rw" {
		t.Errorf("isro with a leader: %q", got)
	}
	if _, res := hello(t, addr,
		jute.ConnectRequest{SessionID: c.session, Passwd: c.passwd, ReadOnly: true, HasReadOnly: true}); res == nil ||
		res.SessionID != 0 || res.ReadOnly {
		t.Errorf("a read-only session after there is a leader: %+v", res)
	}
}

// readOnlyRefuses: whom a read-only server closes without an answer.
func readOnlyRefuses(t *testing.T, s *Server, addr string, writer *rawClient) {
	t.Helper()
	for name, req := range map[string]jute.ConnectRequest{
		"one that does not ask": {HasReadOnly: true},
		"an old client":         {},
		"a global session":      {SessionID: writer.session, Passwd: writer.passwd, ReadOnly: true, HasReadOnly: true},
		"an unknown session":    {SessionID: writer.session + 1, ReadOnly: true, HasReadOnly: true},
		"one that is ahead":     {LastZxidSeen: s.Status().Zxid + 1, ReadOnly: true, HasReadOnly: true},
	} {
		if _, res := hello(t, addr, req); res != nil {
			t.Errorf("%s got %+v", name, res)
		}
	}
}

// readOnlySessions: a read-only session ends with its connection and on demand.
func readOnlySessions(t *testing.T, addr string) {
	t.Helper()
	c := untilReadOnly(t, addr)
	if h, _ := c.call(jute.OpCloseSession, nil); h.Err != jute.OK || !c.ends() {
		t.Errorf("close: %v, or the connection goes on", h.Err)
	}
	gone, res := hello(t, addr,
		jute.ConnectRequest{SessionID: c.session, Passwd: c.passwd, ReadOnly: true, HasReadOnly: true})
	if res == nil || res.SessionID != 0 || res.Timeout != 0 || !gone.ends() {
		t.Errorf("the session of a connection that ended: %+v", res)
	}
}

// TestLocalSessionGoesOnReadOnly takes the quorum from a server with a local
// session, which the server knows all about: its client comes back with it, reads,
// and closes it.
func TestLocalSessionGoesOnReadOnly(t *testing.T) {
	t.Parallel()
	common := readOnlyOptions()
	common.LocalSessions = true
	servers, opts := threeServers(t, common)
	at := leader(t, servers)
	addr := opts[at].Listen[0]
	local := connect(t, addr, 0, nil)
	for i, s := range servers {
		if i != at {
			s.Close()
		}
	}
	untilReadOnly(t, addr)
	if !local.ends() {
		t.Error("a connection from before goes on")
	}
	back := jute.ConnectRequest{SessionID: local.session, Passwd: local.passwd, ReadOnly: true, HasReadOnly: true}
	c, res := hello(t, addr, back)
	if res == nil || !res.ReadOnly || res.SessionID != local.session {
		t.Fatalf("its client comes back: %+v", res)
	}
	if h, _ := c.call(jute.OpExists, reading("/", false)); h.Err != jute.OK {
		t.Errorf("read: %v", h.Err)
	}
	if h, _ := c.call(jute.OpCreate, creating("/b", nil, 0)); h.Err != jute.ErrNotReadOnly {
		t.Errorf("create: %v", h.Err)
	}
	if h, _ := c.call(jute.OpCloseSession, nil); h.Err != jute.OK || !c.ends() {
		t.Errorf("close: %v, or the connection goes on", h.Err)
	}
	if _, res := hello(t, addr, back); res != nil && res.SessionID != 0 {
		t.Errorf("its client comes back after closing it: %+v", res)
	}
}

// TestReadOnlyStart starts a server of an ensemble alone: it serves what it knows.
func TestReadOnlyStart(t *testing.T) {
	t.Parallel()
	servers, opts, at, _ := orphan(t)
	servers[at].Close()
	s, err := Open(opts[at])
	if err != nil {
		t.Fatal(err)
	}
	servers[at] = s
	c := untilReadOnly(t, opts[at].Listen[0])
	if h, _ := c.call(jute.OpExists, reading("/", false)); h.Err != jute.OK {
		t.Error(h.Err)
	}
}

// TestReadOnlyPatience: a server that may serve read-only waits less for a leader.
func TestReadOnlyPatience(t *testing.T) {
	t.Parallel()
	opt := Options{Serving: Serving{ReadOnlyMode: true, Tick: 3 * time.Second}}.withDefaults()
	if opt.Patience != 3*time.Second {
		t.Errorf("patience %v", opt.Patience)
	}
	opt = Options{Serving: Serving{ReadOnlyMode: true, Tick: time.Second}}.withDefaults()
	if opt.Patience != readOnlyPatience {
		t.Errorf("patience %v", opt.Patience)
	}
}
