package server

import (
	"net"
	"testing"
	"time"
)

// TestConnectionsByDescriptors: clients leave room for the log and for peers.
func TestConnectionsByDescriptors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		openFiles int64
		peers     bool
		want      int
	}{{0, true, 0}, {1024, false, 928}, {1024, true, 544}, {256, true, 64}, {1 << 20, true, 1<<20 - 480}} {
		if n := connectionsByDescriptors(c.openFiles, c.peers); n != c.want {
			t.Errorf("%d open files, peers %v: %d connections, want %d", c.openFiles, c.peers, n, c.want)
		}
	}
}

// TestTooManyConnections: beyond what the limit of open files allows a client is turned
// away, and let in again once another has left.
func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	addr := s.Addrs()[0].String()
	s.mu.Lock()
	s.descriptorsMax = 2
	s.mu.Unlock()
	first := connect(t, addr, 0, nil)
	connect(t, addr, 0, nil)
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(patience))
	if n, err := nc.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("one too many is answered: %d bytes, %v", n, err)
	}
	first.conn.Close()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		s.mu.Lock()
		n := len(s.conns)
		s.mu.Unlock()
		if n < 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a connection that has ended still counts")
		}
	}
	connect(t, addr, 0, nil)
}
