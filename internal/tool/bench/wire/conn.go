// Package wire is a client of ZooKeeper's protocol for a load generator: requests are encoded in advance, connections
// read many replies with one system call and write many requests with another, and nothing is allocated per operation.
//
//	conn.go     one session: handshake, frames in, frames out
//	request.go  requests encoded in advance
//	poll_*.go   many connections, read by one goroutine
package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/zooid-project/zooid/jute"
)

const (
	// LoadBuffer is the read buffer of a connection under load. It has space for several hundred replies of the usual
	// size.
	LoadBuffer = 64 << 10
	// IdleBuffer is the read buffer of sessions that only ping or wait for one notification. Ten thousand of them must
	// not use more memory than the server.
	IdleBuffer = 512
	// replySizeMax bounds one reply. The largest valid one is the child list of a
	// directory with a million entries.
	replySizeMax = 128 << 20
	// HandshakeTimeout bounds dialling and the handshake.
	HandshakeTimeout = 10 * time.Second
)

// Session has what a client needs to resume its session.
type Session struct {
	ID      int64
	Passwd  []byte
	Timeout time.Duration // the requested one; after the handshake, the granted one
}

// ErrExpired says that the server no longer knows the session.
var ErrExpired = errors.New("session expired")

// Conn is one connection with its session. It isn't safe for concurrent use, except that one goroutine may send while
// another receives.
type Conn struct {
	Net      net.Conn
	Addr     string
	Session  Session
	Out      []byte // frames not yet written
	Xid      int32  // of the last request
	LastZxid int64  // of the last reply taken by Reply
	Events   int64  // notifications skipped by Reply

	in   []byte // in[r:w] was received and isn't taken yet
	r, w int
}

// Attach returns a Conn on an open connection, without a handshake. The connection is one that a server has accepted,
// or one whose other end doesn't use sessions.
func Attach(n net.Conn, buffer int) *Conn { return &Conn{Net: n, in: make([]byte, buffer)} }

// Dial opens a connection to addr and resumes s, or opens a new session if s has no ID. lastZxid is the last zxid that
// the client has seen. If the server doesn't know the session, the error is ErrExpired.
func Dial(ctx context.Context, addr string, s Session, lastZxid int64, buffer int) (*Conn, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	d, deadline := net.Dialer{KeepAlive: -1}, time.Now().Add(HandshakeTimeout)
	n, err := d.DialContext(bounded{context.Background(), deadline}, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	c := &Conn{Net: n, Addr: addr, Session: s, in: make([]byte, buffer), LastZxid: lastZxid}
	n.SetDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { n.Close() })
	err = c.handshake()
	if err == nil && !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		stop()
		n.Close()
		return nil, fmt.Errorf("open a session on %s: %w", addr, err)
	}
	n.SetDeadline(time.Time{})
	return c, nil
}

// bounded is a context that ends only at a fixed time. If a context can be cancelled, a net.Dialer starts a goroutine
// for each connection attempt, which costs as much as the rest of its work.
type bounded struct {
	context.Context
	by time.Time
}

func (b bounded) Deadline() (time.Time, bool) { return b.by, true }

func (c *Conn) handshake() error {
	passwd := c.Session.Passwd
	if passwd == nil {
		passwd = make([]byte, jute.PasswdSize)
	}
	req := jute.ConnectRequest{LastZxidSeen: c.LastZxid, Timeout: int32(c.Session.Timeout.Milliseconds()),
		SessionID: c.Session.ID, Passwd: passwd, HasReadOnly: true}
	if _, err := c.Net.Write(jute.AppendFrame(nil, req.Append)); err != nil {
		return err
	}
	f, err := c.Frame()
	if err != nil {
		return err
	}
	var resp jute.ConnectResponse
	d := jute.NewDecoder(f)
	resp.Decode(d)
	if d.Err() != nil {
		return d.Err()
	}
	if resp.Timeout <= 0 {
		return ErrExpired
	}
	c.Session = Session{
		ID: resp.SessionID, Passwd: slices.Clone(resp.Passwd), Timeout: time.Duration(resp.Timeout) * time.Millisecond,
	}
	return nil
}

// Fill reads once, as much as has arrived. Frames returned before are no longer valid.
func (c *Conn) Fill() error {
	switch {
	case c.r == c.w:
		c.r, c.w = 0, 0
	case c.r > 0 && len(c.in)-c.w < len(c.in)/4:
		c.w = copy(c.in, c.in[c.r:c.w])
		c.r = 0
	}
	if c.w == len(c.in) {
		c.in = append(c.in, make([]byte, len(c.in))...)
	}
	n, err := c.Net.Read(c.in[c.w:])
	c.w += n
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// Take returns the payload of the next complete frame, or nil if Fill must be called first. The payload is valid until
// the next Fill.
func (c *Conn) Take() ([]byte, error) {
	if c.w-c.r < 4 {
		return nil, nil
	}
	n := int(int32(binary.BigEndian.Uint32(c.in[c.r:])))
	if n < 0 || n > replySizeMax {
		return nil, &jute.FrameSizeError{Size: n, Max: replySizeMax}
	}
	if c.w-c.r < 4+n {
		return nil, nil
	}
	f := c.in[c.r+4 : c.r+4+n]
	c.r += 4 + n
	return f, nil
}

// Frame returns the payload of the next frame. It blocks until the frame has arrived.
func (c *Conn) Frame() ([]byte, error) {
	for {
		if f, err := c.Take(); f != nil || err != nil {
			return f, err
		}
		if err := c.Fill(); err != nil {
			return nil, err
		}
	}
}

// Header splits a frame received after the handshake.
func Header(f []byte) (h jute.ReplyHeader, body []byte, err error) {
	if len(f) < jute.ReplyHeaderSize {
		return h, nil, fmt.Errorf("reply of %d bytes is shorter than its header: %w", len(f), jute.ErrTruncated)
	}
	h.Xid = int32(binary.BigEndian.Uint32(f))
	h.Zxid = int64(binary.BigEndian.Uint64(f[4:]))
	h.Err = jute.Code(binary.BigEndian.Uint32(f[12:]))
	return h, f[jute.ReplyHeaderSize:], nil
}

// Reply blocks until the next reply. It counts and skips notifications.
func (c *Conn) Reply() (jute.ReplyHeader, []byte, error) {
	for {
		f, err := c.Frame()
		if err != nil {
			return jute.ReplyHeader{}, nil, err
		}
		h, body, err := Header(f)
		if err != nil {
			return h, nil, err
		}
		if h.Xid == jute.XidNotification {
			c.Events++
			continue
		}
		c.LastZxid = max(c.LastZxid, h.Zxid)
		return h, body, nil
	}
}

// Queue adds an encoded frame to Out, with the next xid. Flush writes it.
func (c *Conn) Queue(frame []byte) {
	c.Xid = NextXid(c.Xid)
	at := len(c.Out)
	c.Out = append(c.Out, frame...)
	PutXid(c.Out[at:], c.Xid)
}

// Flush writes everything that is queued.
func (c *Conn) Flush() error {
	_, err := c.Net.Write(c.Out)
	c.Out = c.Out[:0]
	return err
}

// Call sends one request and waits for its reply. The error is the reply's jute.Code, or that of the network.
func (c *Conn) Call(op jute.Op, appendRecord func([]byte) []byte) ([]byte, error) {
	c.Queue(Encode(op, appendRecord))
	if err := c.Flush(); err != nil {
		return nil, fmt.Errorf("%s on %s: %w", op, c.Addr, err)
	}
	h, body, err := c.Reply()
	if err != nil {
		return nil, fmt.Errorf("%s on %s: %w", op, c.Addr, err)
	}
	if h.Err != jute.OK {
		return nil, h.Err
	}
	return body, nil
}

// Close ends the session and the connection. It ignores errors, since the session also ends by its timeout.
func (c *Conn) Close() {
	c.Net.SetDeadline(time.Now().Add(time.Second))
	c.Queue(Encode(jute.OpCloseSession, nil))
	if c.Flush() == nil {
		c.Reply()
	}
	c.Net.Close()
}

// Drop resets the connection. The session ends by its timeout.
func (c *Conn) Drop() {
	if t, ok := c.Net.(*net.TCPConn); ok {
		t.SetLinger(0)
	}
	c.Net.Close()
}
