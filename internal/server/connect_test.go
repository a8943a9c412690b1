package server

import (
	"bytes"
	"net"
	"testing"
	"time"

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

// TestWrongPassword: a connect request with a wrong password, on any server,
// leaves a session and its connection alone, and the log too.
func TestWrongPassword(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]Options{
		"global": {},
		"local":  {Serving: Serving{LocalSessions: true}},
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
				for _, passwd := range [][]byte{
					make([]byte, jute.PasswdSize), c.passwd[:jute.PasswdSize-1], {}, bytes.Repeat([]byte{1}, 200),
				} {
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
				c.conn.Close()
				if got := knock(t, opts[at].Listen[0], c.session, c.passwd); got != c.session {
					t.Errorf("the right password gets session %#x", got)
				}
			}
		})
	}
}

// eventually waits until a condition holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if !within(holds) {
		t.Fatalf("it never comes to this: %s", what)
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
