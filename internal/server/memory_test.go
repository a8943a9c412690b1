package server

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// memoryStage is a server with a low ceiling and a client that was there before memory got short.
type memoryStage struct {
	t    *testing.T
	s    *Server
	addr string
	old  *rawClient
}

func newMemoryStage(t *testing.T, limit int64) *memoryStage {
	t.Helper()
	const forEver = 10 * time.Minute // for clients that say nothing, or don't read
	s := open(t, Options{
		MemoryLimit: limit, WriteTimeout: forEver, SessionlessTimeout: forEver, Serving: Serving{
			SessionTimeoutMin: forEver, SessionTimeoutMax: forEver,
		},
	})
	m := &memoryStage{t: t, s: s, addr: s.Addrs()[0].String()}
	m.old = m.connect()
	for _, path := range []string{"/there", "/there/victim"} {
		if h, _ := m.old.call(jute.OpCreate, creating(path, []byte("some data"), 0)); h.Err != jute.OK {
			t.Fatal(h.Err)
		}
	}
	return m
}

func (m *memoryStage) connect() *rawClient {
	return connect(m.t, m.addr, 0, nil)
}

// refuses waits until what would grow is refused, and sees what is there go on.
func (m *memoryStage) refuses(owner string) {
	m.t.Helper()
	m.until(jute.ErrThrottledOp)
	for name, ask := range map[string]func() (jute.ReplyHeader, []byte){
		"a read": func() (jute.ReplyHeader, []byte) { return m.old.call(jute.OpGetData, reading("/there", false)) },
		"a smaller set": func() (jute.ReplyHeader, []byte) {
			return m.old.call(jute.OpSetData, setting("/there", []byte("less")))
		},
		"a heartbeat": func() (jute.ReplyHeader, []byte) { return m.old.call(jute.OpPing, nil) },
		"a sync": func() (jute.ReplyHeader, []byte) {
			return m.old.call(jute.OpSync, func(b []byte) []byte { return jute.AppendString(b, "/") })
		},
		"a read of names": func() (jute.ReplyHeader, []byte) {
			return m.old.call(jute.OpGetChildren, reading("/there", false))
		},
	} {
		if h, _ := ask(); h.Err != jute.OK {
			m.t.Errorf("%s while memory is short for %s: %v", name, owner, h.Err)
		}
	}
	for name, ask := range map[string]func() (jute.ReplyHeader, []byte){
		"a larger set": func() (jute.ReplyHeader, []byte) {
			return m.old.call(jute.OpSetData, setting("/there", make([]byte, 100)))
		},
		"a multi that creates": func() (jute.ReplyHeader, []byte) {
			return m.old.call(jute.OpMulti, func(b []byte) []byte {
				return jute.AppendMulti(b, []jute.MultiOp{{Op: jute.OpCreate, Path: "/multi", ACL: jute.WorldACL(jute.PermAll)}})
			})
		},
		"a watch": func() (jute.ReplyHeader, []byte) { return m.old.call(jute.OpExists, reading("/there", true)) },
	} {
		if h, _ := ask(); h.Err != jute.ErrThrottledOp {
			m.t.Errorf("%s while memory is short for %s: %v", name, owner, h.Err)
		}
	}
	if m.s.replica.View().MemoryRefused == 0 {
		m.t.Error("nothing is counted as refused")
	}
	resumed := connect(m.t, m.addr, m.old.session, m.old.passwd) // what is there goes on, also by a new connection
	m.old.conn.Close()
	m.old = resumed
	if h, _ := m.old.call(jute.OpDelete, deleting("/there/victim")); h.Err != jute.OK {
		m.t.Errorf("a delete while memory is short for %s: %v", owner, h.Err)
	}
}

// resumes waits until service is as ever.
func (m *memoryStage) resumes() {
	m.t.Helper()
	m.until(jute.OK)
	if h, _ := m.old.call(jute.OpExists, reading("/there", true)); h.Err != jute.OK {
		m.t.Errorf("a watch when there is memory again: %v", h.Err)
	}
	m.connect().conn.Close()
}

// fillsBy has n clients send something that takes memory of an owner: some of them are closed for it.
func (m *memoryStage) fillsBy(n int, owner string, send func(c *rawClient) []byte) {
	m.t.Helper()
	var clients []*rawClient
	for range n { // all of them before one sends: while memory is short none may come
		clients = append(clients, m.connect())
	}
	for _, c := range clients {
		if _, err := c.conn.Write(send(c)); err != nil {
			m.t.Fatal(err)
		}
	}
	for end := time.Now().Add(patience); len(m.s.replica.Clients()) == n+1; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			m.t.Fatalf("no connection is closed for its %s; the account: %+v", owner, m.s.replica.View().Memory)
		}
	}
	m.resumes() // while the others are still there
	for _, c := range clients {
		c.conn.Close()
	}
}

// until creates znodes until the code is want.
func (m *memoryStage) until(want jute.Code) {
	m.t.Helper()
	var h jute.ReplyHeader
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if h, _ = m.old.call(jute.OpCreate, creating(fmt.Sprintf("/try%d", time.Now().UnixNano()), nil, 0)); h.Err == want {
			return
		}
	}
	m.t.Fatalf("creates get %v all the time, want %v; the account: %+v", h.Err, want, m.s.replica.View().Memory)
}

func deleting(path string) func([]byte) []byte {
	return func(b []byte) []byte { return (&jute.PathVersionRequest{Path: path, Version: -1}).Append(b) }
}

// TestMemoryLimit fills each owner of memory until the server refuses what would grow, sees what is there go on, and
// empties it: service resumes.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	t.Run("tree", func(t *testing.T) {
		t.Parallel()
		m := newMemoryStage(t, 8<<20)
		var paths []string
		for i := 0; ; i++ {
			path := fmt.Sprintf("/large%04d", i)
			if h, _ := m.old.call(jute.OpCreate, creating(path, make([]byte, 20_000), 0)); h.Err != jute.OK {
				break
			}
			if paths = append(paths, path); len(paths) > 20_000 { // the account is added up once a second
				t.Fatal("400 MB are in the tree of a server that may use 8 MiB")
			}
		}
		m.refuses("the tree")
		for _, path := range paths {
			if h, _ := m.old.call(jute.OpDelete, deleting(path)); h.Err != jute.OK {
				t.Fatal(h.Err)
			}
		}
		m.resumes()
	})
	t.Run("watches", func(t *testing.T) {
		t.Parallel()
		m := newMemoryStage(t, 8<<20)
		watcher := m.connect()
		for i, long := 0, strings.Repeat("x", 2000); ; i++ {
			if h, _ := watcher.call(jute.OpExists, reading(fmt.Sprintf("/%s%d", long, i), true)); h.Err == jute.ErrThrottledOp {
				break
			}
			if i > 200_000 {
				t.Fatal("watches of 400 MB are left on a server that may use 8 MiB")
			}
		}
		m.refuses("watches")
		watcher.conn.Close()
		m.resumes()
	})
	t.Run("input", func(t *testing.T) {
		t.Parallel()
		m := newMemoryStage(t, 8<<20)
		// Half frames: their buffers grow to a power of two.
		m.fillsBy(9, "input", func(c *rawClient) []byte {
			return c.request(nil, jute.OpSetData, setting("/there", make([]byte, 1_000_000)))[:700_000]
		})
	})
	t.Run("output", func(t *testing.T) {
		t.Parallel()
		m := newMemoryStage(t, 8<<20)
		if h, _ := m.old.call(jute.OpCreate, creating("/big", make([]byte, 900_000), 0)); h.Err != jute.OK {
			t.Fatal(h.Err)
		}
		m.fillsBy(9, "output", func(c *rawClient) (stream []byte) { // they don't read
			for range 60 {
				stream = c.request(stream, jute.OpGetData, reading("/big", false))
			}
			return stream
		})
	})
	t.Run("sessions", func(t *testing.T) {
		t.Parallel()
		m := newMemoryStage(t, 4<<20)
		var clients []*rawClient
		for { // up to the step that refuses those of the costliest address
			conn, err := net.Dial("tcp", m.addr)
			if err != nil {
				t.Fatal(err)
			}
			c := handshake(t, conn, 0, nil)
			if c == nil {
				conn.Close()
				break
			}
			if clients = append(clients, c); len(clients) > 10_000 {
				t.Fatal("10,000 connections on a server that may use 4 MiB")
			}
		}
		if m.s.replica.View().MemoryRefused == 0 {
			t.Errorf("after %d connections one was refused, and not for lack of memory", len(clients))
		}
		if h, _ := m.old.call(jute.OpExists, reading("/there", false)); h.Err != jute.OK {
			t.Errorf("a read while sessions are refused: %v", h.Err)
		}
		for _, c := range clients {
			c.conn.Close()
		}
		m.resumes()
	})
}
