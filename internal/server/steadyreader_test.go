package server

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/socket"
	"github.com/zooid-project/zooid/jute"
)

// steadyTimeout is Options.WriteTimeout for a client that reads steadily. On a busy machine it may have to wait
// for a part of that.
const steadyTimeout = time.Second

// slowReader opens a session whose client is about to read a reply of 12 MiB, more than the buffers of both ends hold.
// It returns the client and the reply's size.
func slowReader(t *testing.T, secure bool, timeout time.Duration) (*Server, *rawClient, int) {
	t.Helper()
	const size = 12 << 20
	change := func(o *Options) { o.WriteTimeout, o.MaxFrame = timeout, MaxFrameMax }
	var s *Server
	var c *rawClient
	if secure {
		var addr string
		s, _, addr = openSecure(t, "need", change)
		c = session(t, addr, "client.pem")
	} else {
		var opt Options
		change(&opt)
		s = open(t, opt)
		c = connect(t, s.Addrs()[0].String(), 0, nil)
	}
	if c == nil {
		t.Fatal("no session")
	}
	data := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	if h, _ := c.call(jute.OpCreate, creating("/large", data, 0)); h.Err != jute.OK {
		t.Fatal(h.Err)
	}
	if tcp, ok := socket.Below(c.conn).(*net.TCPConn); !ok {
		t.Fatal("no TCP connection")
	} else if err := tcp.SetReadBuffer(32 << 10); err != nil {
		t.Fatal(err)
	}
	if _, err := c.conn.Write(c.request(nil, jute.OpGetData, reading("/large", false))); err != nil {
		t.Fatal(err)
	}
	return s, c, size
}

// TestSteadyReader: a client that reads a large reply slowly but steadily gets all of it, though that takes many times
// as long as a write may take without progress.
func TestSteadyReader(t *testing.T) {
	t.Parallel()
	for name, secure := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, c, size := slowReader(t, secure, steadyTimeout)
			began, got, part := time.Now(), 0, make([]byte, 128<<10)
			for got < size {
				time.Sleep(50 * time.Millisecond) // at most 2.6 MB/s
				n, err := io.ReadFull(c.conn, part[:min(len(part), size-got)])
				if got += n; err != nil {
					t.Fatalf("after %d of %d bytes and %v: %v", got, size, time.Since(began), err)
				}
			}
			if took := time.Since(began); took < 3*steadyTimeout {
				t.Errorf("it took %v: the test tests nothing", took)
			}
		})
	}
}

// TestTrickle: a client that reads a few bytes now and then loses its connection, as one that reads nothing does.
func TestTrickle(t *testing.T) {
	t.Parallel()
	for name, secure := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, c, _ := slowReader(t, secure, 300*time.Millisecond)
			part := make([]byte, 16)
			eventually(t, "the connection is closed", func() bool {
				c.conn.Read(part)
				return len(s.replica.Connections()) == 0
			})
		})
	}
}
