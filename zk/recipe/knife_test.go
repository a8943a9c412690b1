package recipe_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/zooid-project/zooid/jute"
	"github.com/zooid-project/zooid/zk"
)

// A cut says where a participant's connection breaks: at its at-th request, counted
// from 1 over all its connections. Handshakes, pings and the registering of watches
// on a new connection don't count.
type cut struct {
	at     int
	after  bool // the server has applied the request, and its reply is lost; else the request is
	expire bool // the session ends before the client can come back
}

// A knife cuts one participant's connection once.
type knife struct {
	cut    cut
	expire func() // ends the participant's session at the server

	mu     sync.Mutex
	seen   int
	lost   int32         // xid of the request whose reply is lost
	fired  bool          // the cut was made
	met    chan struct{} // closed once another holds what this one may have given back
	meet   sync.Once
	gone   chan struct{} // closed once a session to be ended has ended; dials wait for it
	ending bool
	now    zk.Session // the last that a connection was opened for
	late   bool       // it stays away for cutAbsence
	back   bool       // it has done so
}

// cutAbsence is how long a participant stays away after its cut, unless another participant reaches what it has just
// changed before. It is also how long that other one then stays there.
const cutAbsence = 200 * time.Millisecond

func newKnife(c cut) *knife {
	return &knife{cut: c, gone: make(chan struct{}), met: make(chan struct{})}
}

// hasFired reports whether the participant sent as many requests as the cut wants.
func (k *knife) hasFired() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.fired
}

// away reports whether the participant was cut and is still away.
func (k *knife) away() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.fired && !k.back
}

var errCut = errors.New("the connection was cut by the test")

// sends notes a request; it reports whether the connection is cut before it.
func (k *knife) sends(xid int32) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.seen++; k.fired || k.seen != k.cut.at {
		return false
	}
	if k.cut.after {
		k.lost = xid
		return false
	}
	k.fire()
	return true
}

// hears notes a reply; it reports whether the connection is cut before it.
func (k *knife) hears(xid int32) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fired || k.lost == 0 || k.lost != xid {
		return false
	}
	k.fire()
	return true
}

// fire notes that the cut is made. The caller holds k.mu.
func (k *knife) fire() {
	k.fired = true
	if k.cut.expire {
		k.ending = true
		go func() {
			k.expire()
			close(k.gone)
		}()
	}
}

// dial is a zk.Options.Dial.
func (k *knife) dial(ctx context.Context, network, address string) (net.Conn, error) {
	k.mu.Lock()
	ending, late := k.ending, k.fired && !k.late
	k.late = k.late || late
	k.mu.Unlock()
	if late {
		select {
		case <-k.met:
		case <-time.After(cutAbsence):
		}
		k.mu.Lock()
		k.back = true
		k.mu.Unlock()
	}
	if ending {
		select {
		case <-k.gone:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return &cutConn{Conn: conn, k: k}, err
}

// A cutConn is one connection of a participant.
type cutConn struct {
	net.Conn
	k       *knife
	greeted bool   // the connect request was sent; owned by the writer
	opened  bool   // its answer was read; owned by the reader
	in      []byte // read and not handed on; owned by the reader
}

// Write forwards whole frames, which is what the client writes.
func (c *cutConn) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		n := 4 + int(binary.BigEndian.Uint32(rest))
		frame := rest[:n]
		if xid := int32(binary.BigEndian.Uint32(frame[4:])); c.greeted && xid > 0 && c.k.sends(xid) {
			c.Conn.Close()
			return 0, errCut
		}
		if _, err := c.Conn.Write(frame); err != nil {
			return 0, err
		}
		c.greeted = true
		rest = rest[n:]
	}
	return len(b), nil
}

// Read hands on whole frames.
func (c *cutConn) Read(b []byte) (int, error) {
	if len(c.in) == 0 {
		frame, err := jute.ReadFrame(c.Conn, nil, 64<<20)
		if err != nil {
			return 0, err
		}
		if c.opened && c.k.hears(int32(binary.BigEndian.Uint32(frame))) {
			c.Conn.Close()
			return 0, errCut
		}
		if !c.opened {
			c.k.opens(frame)
		}
		c.opened = true
		c.in = append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)
	}
	n := copy(b, c.in)
	c.in = c.in[n:]
	return n, nil
}

// opens notes the session in the answer to a connect request.
func (k *knife) opens(frame []byte) {
	var d jute.Decoder
	var hello jute.ConnectResponse
	d.Reset(frame)
	hello.Decode(&d)
	k.mu.Lock()
	defer k.mu.Unlock()
	if d.Err() == nil && hello.SessionID != 0 {
		k.now = zk.Session{ID: hello.SessionID, Passwd: slices.Clone(hello.Passwd)}
	}
}

// session returns the session to be ended.
func (k *knife) session() zk.Session {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.now
}

// endSession ends a session at the servers as if it had been silent for too long.
func endSession(ctx context.Context, session zk.Session, connect string) error {
	thief, err := zk.Open(ctx, connect, zk.Options{Resume: session})
	if err != nil {
		return err
	}
	return thief.Close()
}
