package server

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// ended says whether the server closes a connection that says nothing. The server must have a long SessionlessTimeout,
// or it closes any such connection.
func ended(t *testing.T, c net.Conn) bool {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(patience))
	_, err := c.Read(make([]byte, 1))
	return err == io.EOF || err != nil && strings.Contains(err.Error(), "reset")
}

// TestConnectionsAreLimited opens one connection more than an address, and than
// all addresses together, may have. When one is closed there is room again.
func TestConnectionsAreLimited(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]Options{
		"maxClientCnxns": {MaxClientConnections: 3, SessionlessTimeout: time.Hour},
		"maxCnxns":       {MaxConnections: 3, SessionlessTimeout: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			addr := open(t, opt).Addrs()[0].String()
			var held []*rawClient
			for range 3 {
				held = append(held, connect(t, addr, 0, nil))
			}
			extra, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			defer extra.Close()
			if !ended(t, extra) {
				t.Error("one connection too many goes on")
			}
			if h, _ := held[0].call(jute.OpPing, nil); h.Err != jute.OK {
				t.Errorf("a connection within the limit got %v", h.Err)
			}
			held[2].conn.Close()
			connect(t, addr, 0, nil) // tries until there is room
		})
	}
}

// TestLargeRepliesOfOneTurn pipelines reads whose replies exceed outputPauseBytes
// within one batch of input, and reads all of them.
func TestLargeRepliesOfOneTurn(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	c := connect(t, s.Addrs()[0].String(), 0, nil)
	c.call(jute.OpCreate, creating("/large", make([]byte, 1<<19), 0))
	const n = 40 * (4 << 20) >> 19 // ten times what pauses the reading of requests
	var in []byte
	for range n {
		in = c.request(in, jute.OpGetData, reading("/large", false))
	}
	if _, err := c.conn.Write(in); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if h, body := c.reply(); h.Err != jute.OK || len(body) < 1<<19 {
			t.Fatalf("reply %d of %d: %v, %d bytes", i+1, n, h.Err, len(body))
		}
	}
}

// TestWatchesOfAClientThatLeft: all of them go, which takes several steps.
func TestWatchesOfAClientThatLeft(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	c := connect(t, s.Addrs()[0].String(), 0, nil)
	const n = 5*1024 + 1 // more than are forgotten in a step
	var in []byte
	for i := range n {
		in = c.request(in, jute.OpExists, reading(fmt.Sprint("/watched", i), true))
	}
	if _, err := c.conn.Write(in); err != nil {
		t.Fatal(err)
	}
	for range n {
		c.reply()
	}
	if size := s.replica.View().Watches; size != n {
		t.Fatalf("%d watches, want %d", size, n)
	}
	c.conn.Close()
	for deadline := time.Now().Add(patience); s.replica.View().Watches > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d watches are left", s.replica.View().Watches)
		}
	}
}

// TestWriteTimeout: a client that takes nothing of its output loses its
// connection.
func TestWriteTimeout(t *testing.T) {
	t.Parallel()
	s := open(t, Options{WriteTimeout: 300 * time.Millisecond})
	c := connect(t, s.Addrs()[0].String(), 0, nil)
	c.call(jute.OpCreate, creating("/large", make([]byte, 1<<19), 0))
	var in []byte
	for range 800 { // more than the buffers of both ends hold
		in = c.request(in, jute.OpGetData, reading("/large", false))
	}
	if _, err := c.conn.Write(in); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(patience); len(s.replica.Connections()) > 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the connection is still there")
		}
	}
}

// TestLeftoverOfAWord sends much more behind a four-letter word than is read.
func TestLeftoverOfAWord(t *testing.T) {
	t.Parallel()
	c, err := net.Dial("tcp", open(t, Options{FourLetterWords: []string{"*"}}).Addrs()[0].String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	answer := make([]byte, 4)
	c.Write([]byte("ruok"))
	if _, err := io.ReadFull(c, answer); err != nil || string(answer) != "imok" {
		t.Fatalf("ruok is answered with %q, %v", answer, err)
	}
	for err == nil { // until the server has closed it
		_, err = c.Write(make([]byte, 4<<10))
	}
	if ne, ok := err.(net.Error); ok && ne.Timeout() {
		t.Error("the connection goes on")
	}
}

// TestSizesFollowMemory: the newest part of the log in memory, which is small where nobody lags, and the requests under
// way to the leader follow memory.limit.
func TestSizesFollowMemory(t *testing.T) {
	t.Parallel()
	three := []Member{{}, {}, {}}
	for _, c := range []struct {
		members          []Member
		limit            int64
		cache, forwarded int
	}{
		{nil, 0, 1 << 20, 0}, {three[:1], 1 << 30, 1 << 20, 32 << 20}, {three, 0, 64 << 20, 0},
		{three, 1 << 30, 64 << 20, 32 << 20}, {three, 256 << 20, 32 << 20, 8 << 20}, {three, 96 << 20, 12 << 20, 3 << 20},
		{three, 4 << 20, 1 << 20, 1 << 20},
	} {
		cache, forwarded := cacheSize(Options{Members: c.members, MemoryLimit: c.limit}), partOf(c.limit, 32)
		if cache != c.cache || forwarded != c.forwarded {
			t.Errorf("%d servers with a limit of %d: %d and %d bytes, want %d and %d",
				len(c.members), c.limit, cache, forwarded, c.cache, c.forwarded)
		}
	}
}
