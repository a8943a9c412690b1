package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/zooid-project/zooid/jute"
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
	s.connections.mu.Lock()
	s.connections.descriptorsMax = 2
	s.connections.mu.Unlock()
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
		s.connections.mu.Lock()
		n := len(s.connections.of)
		s.connections.mu.Unlock()
		if n < 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a connection that has ended still counts")
		}
	}
	connect(t, addr, 0, nil)
}

// TestSilentMakeRoom: connections that send nothing keep nobody out when places are short. The oldest makes room, from
// the network that has the most, and those whose connect request was taken stay.
func TestSilentMakeRoom(t *testing.T) {
	t.Parallel()
	s := open(t, Options{SessionlessTimeout: time.Hour})
	addr := s.Addrs()[0].String()
	s.connections.mu.Lock()
	s.connections.descriptorsMax = 4
	s.connections.mu.Unlock()
	count := func(n int) {
		t.Helper()
		eventually(t, fmt.Sprintf("%d connections are counted", n), func() bool { return s.connections.count() == n })
	}
	silent := func(from string) net.Conn {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		before := s.connections.count()
		nc, err := d.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		count(before + 1)
		return nc
	}
	ends := func(nc net.Conn) bool {
		nc.SetDeadline(time.Now().Add(patience))
		_, err := nc.Read(make([]byte, 1))
		return err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
	}
	other, first, second := silent("127.0.0.3"), silent("127.0.0.2"), silent("127.0.0.2")
	one := connect(t, addr, 0, nil)
	two := connect(t, addr, 0, nil)
	if !ends(first) {
		t.Fatal("not the oldest of the address that has the most makes room")
	}
	three := connect(t, addr, 0, nil)
	if !ends(other) { // each of two addresses has one
		t.Fatal("not the oldest makes room")
	}
	four := connect(t, addr, 0, nil)
	if !ends(second) {
		t.Fatal("the last that is silent makes no room")
	}
	count(4)
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if !ends(nc) {
		t.Error("there are more connections than may be")
	}
	for _, c := range []*rawClient{one, two, three, four} {
		if h, _ := c.call(jute.OpPing, func(b []byte) []byte { return b }); h.Err != jute.OK {
			t.Errorf("a client with a session is answered %v", h.Err)
		}
	}
}
