package server

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/memory"
	"github.com/zooid-project/zooid/jute"
)

// most follows the memory account until the test ends, and returns the most that it showed for something.
func (m *memoryStage) most(of func(*memory.Use) int64) func() int64 {
	var most atomic.Int64
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			u, _ := m.s.memory.look()
			most.Store(max(most.Load(), of(&u)))
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
			}
		}
	}()
	return func() int64 { close(stop); <-stopped; return most.Load() }
}

// from opens a session from another address of this machine.
func (m *memoryStage) from(host string) *rawClient {
	m.t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}
	conn, err := d.Dial("tcp", m.addr)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { conn.Close() })
	c := handshake(m.t, conn, 0, nil)
	if c == nil {
		m.t.Fatal("no session")
	}
	return c
}

// TestRoomForReplies: many connections of one address ask for a large list and don't read it. Their replies never take
// more than the room for them, and a client of another address gets the same list.
func TestRoomForReplies(t *testing.T) {
	t.Parallel()
	const limit, names, nameBytes, greedy = 128 << 20, 120, 100_000, 40
	m := newMemoryStage(t, limit)
	for i := range names {
		path := fmt.Sprintf("/there/%d%s", i, strings.Repeat("x", nameBytes))
		if h, _ := m.old.call(jute.OpCreate, creating(path, nil, 0)); h.Err != jute.OK {
			t.Fatal(h.Err)
		}
	}
	honest := m.from("127.0.0.2")
	most := m.most(func(u *memory.Use) int64 { return u.Output })
	for range greedy {
		c := m.connect()
		c.conn.(*net.TCPConn).SetReadBuffer(4 << 10)
		if _, err := c.conn.Write(c.request(nil, jute.OpGetChildren, reading("/there", false))); err != nil {
			t.Fatal(err)
		}
	}
	honest.conn.Write(honest.request(nil, jute.OpGetChildren, reading("/there", false)))
	honest.conn.SetReadDeadline(time.Now().Add(patience))
	var size [4]byte // the client of these tests doesn't take frames as large as this one
	if _, err := io.ReadFull(honest.conn, size[:]); err != nil {
		t.Fatal(err)
	}
	n := int64(binary.BigEndian.Uint32(size[:]))
	if got, err := io.CopyN(io.Discard, honest.conn, n); n < names*nameBytes || err != nil {
		t.Errorf("the honest client got %d of %d bytes: %v", got, n, err)
	}
	if n, bound := most(), int64(limit/unreadShareOfLimit/2+names*nameBytes*2); n > bound {
		t.Errorf("replies took %d bytes, the bound is %d", n, bound)
	}
}

// unreadShareOfLimit is the part of memory.limit that all replies together may take.
const unreadShareOfLimit = 8

// TestRoomForFrames: many connections of one address send a large request but for its end, and then a byte now and
// then. Their requests never take more than the room for them, and another client's large request is answered.
func TestRoomForFrames(t *testing.T) {
	t.Parallel()
	const limit, size, greedy = 32 << 20, 900_000, 60
	m := newMemoryStage(t, limit)
	honest := m.from("127.0.0.2")
	most := m.most(func(u *memory.Use) int64 { return u.Input })
	ended := make(chan struct{})
	defer close(ended)
	for range greedy {
		c := m.connect()
		frame := c.request(nil, jute.OpSetData, setting("/there", make([]byte, size)))
		go func() {
			c.conn.Write(frame[:len(frame)-500])
			for i := range 500 {
				select {
				case <-ended:
					return
				case <-time.After(time.Second):
				}
				c.conn.Write(frame[len(frame)-500+i:][:1])
			}
		}()
	}
	for range 5 {
		if h, _ := honest.call(jute.OpSetData, setting("/there", make([]byte, size))); h.Err != jute.OK {
			t.Errorf("the honest client is answered %v", h.Err)
		}
	}
	m.connect().conn.Close() // newcomers get in
	const each = 16 << 10    // what a connection takes without room, and its goroutine
	if n, bound := most(), int64(limit/unreadShareOfLimit+size+(greedy+5)*each); n > bound {
		t.Errorf("requests took %d bytes, the bound is %d", n, bound)
	}
}

// TestRoomForManyFrames: frames of all sizes from many connections go through a room that none of the largest fits
// twice.
func TestRoomForManyFrames(t *testing.T) {
	t.Parallel()
	m := newMemoryStage(t, 16<<20)
	answers := make(chan error, 24)
	for i := range cap(answers) {
		c := m.connect()
		go func() {
			for n := range 8 {
				data := make([]byte, 1+(i*n*40_000)%1_000_000)
				if h, _ := c.call(jute.OpExists, reading("/there"+strings.Repeat("y", len(data)), false)); h.Err != jute.ErrNoNode {
					answers <- fmt.Errorf("connection %d: %v", i, h.Err)
					return
				}
			}
			answers <- nil
		}()
	}
	for range cap(answers) {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
}
