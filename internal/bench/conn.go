package bench

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
	// loadBuffer is the read buffer of a connection under load: several hundred
	// replies of the usual size in one system call.
	loadBuffer = 64 << 10
	// idleBuffer serves sessions that only ping or wait for one notification;
	// ten thousand of them must not outweigh the server.
	idleBuffer = 512
	// replySizeMax bounds one reply. The largest honest one is the child list of
	// a directory with a million entries.
	replySizeMax = 128 << 20
	// handshakeTimeout bounds dialling and the handshake.
	handshakeTimeout = 10 * time.Second
)

// session is what a client needs to come back to its session.
type session struct {
	ID      int64
	Passwd  []byte
	Timeout time.Duration // wanted; after the handshake, granted
}

// errExpired says that the server no longer knows the session.
var errExpired = errors.New("session expired")

// conn is one connection with its session. It isn't safe for concurrent use,
// but one goroutine may send while another receives.
type conn struct {
	net      net.Conn
	addr     string
	session  session
	in       []byte // in[r:w] is received and not yet taken
	r, w     int
	out      []byte // frames not yet written
	xid      int32
	lastZxid int64 // of the last reply taken by reply
	events   int64 // notifications skipped by reply
}

// dial opens a connection to addr and attaches it to s, or opens a new session
// if s has no ID. lastZxid is what the client has seen. A session the server
// doesn't know gives errExpired.
func dial(ctx context.Context, addr string, s session, lastZxid int64, buffer int) (*conn, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	d, deadline := net.Dialer{KeepAlive: -1}, time.Now().Add(handshakeTimeout)
	n, err := d.DialContext(bounded{context.Background(), deadline}, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	c := &conn{net: n, addr: addr, session: s, in: make([]byte, buffer), lastZxid: lastZxid}
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

// bounded is a context that ends at a time and not before. With one that can be
// cancelled a net.Dialer has a goroutine watch over each connection being made,
// which costs as much as the rest of its own work.
type bounded struct {
	context.Context
	by time.Time
}

func (b bounded) Deadline() (time.Time, bool) { return b.by, true }

func (c *conn) handshake() error {
	passwd := c.session.Passwd
	if passwd == nil {
		passwd = make([]byte, jute.PasswdSize)
	}
	req := jute.ConnectRequest{LastZxidSeen: c.lastZxid, Timeout: int32(c.session.Timeout.Milliseconds()),
		SessionID: c.session.ID, Passwd: passwd, HasReadOnly: true}
	b, start := jute.BeginFrame(nil)
	if _, err := c.net.Write(jute.EndFrame(req.Append(b), start)); err != nil {
		return err
	}
	f, err := c.frame()
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
		return errExpired
	}
	c.session = session{ID: resp.SessionID, Passwd: slices.Clone(resp.Passwd), Timeout: time.Duration(resp.Timeout) * time.Millisecond}
	return nil
}

// fill reads once from the network, whatever has arrived. The frames handed out
// before are no longer valid.
func (c *conn) fill() error {
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
	n, err := c.net.Read(c.in[c.w:])
	c.w += n
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// take returns the payload of the next whole frame received, or nil if more
// must be read first. It is valid until the next fill.
func (c *conn) take() ([]byte, error) {
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

// frame blocks until a whole frame is there.
func (c *conn) frame() ([]byte, error) {
	for {
		if f, err := c.take(); f != nil || err != nil {
			return f, err
		}
		if err := c.fill(); err != nil {
			return nil, err
		}
	}
}

// header splits a frame that follows the handshake.
func header(f []byte) (h jute.ReplyHeader, body []byte, err error) {
	if len(f) < jute.ReplyHeaderSize {
		return h, nil, fmt.Errorf("reply of %d bytes is shorter than its header: %w", len(f), jute.ErrTruncated)
	}
	h.Xid = int32(binary.BigEndian.Uint32(f))
	h.Zxid = int64(binary.BigEndian.Uint64(f[4:]))
	h.Err = jute.Code(binary.BigEndian.Uint32(f[12:]))
	return h, f[jute.ReplyHeaderSize:], nil
}

// reply blocks until the next reply, counting and skipping notifications.
func (c *conn) reply() (jute.ReplyHeader, []byte, error) {
	for {
		f, err := c.frame()
		if err != nil {
			return jute.ReplyHeader{}, nil, err
		}
		h, body, err := header(f)
		if err != nil {
			return h, nil, err
		}
		if h.Xid == jute.XidNotification {
			c.events++
			continue
		}
		c.lastZxid = max(c.lastZxid, h.Zxid)
		return h, body, nil
	}
}

// queue appends a frame made in advance to what flush will write, giving it the
// next xid.
func (c *conn) queue(frame []byte) {
	c.xid = nextXid(c.xid)
	at := len(c.out)
	c.out = append(c.out, frame...)
	putXid(c.out[at:], c.xid)
}

// flush writes what is queued.
func (c *conn) flush() error {
	_, err := c.net.Write(c.out)
	c.out = c.out[:0]
	return err
}

// call sends one request and waits for its reply. The error is the reply's
// jute.Code, or that of the network.
func (c *conn) call(op jute.Op, appendRecord func([]byte) []byte) ([]byte, error) {
	c.queue(encode(op, appendRecord))
	if err := c.flush(); err != nil {
		return nil, fmt.Errorf("%s on %s: %w", op, c.addr, err)
	}
	h, body, err := c.reply()
	if err != nil {
		return nil, fmt.Errorf("%s on %s: %w", op, c.addr, err)
	}
	if h.Err != jute.OK {
		return nil, h.Err
	}
	return body, nil
}

// close ends the session and the connection. Errors don't matter any more: the
// session ends by its timeout at the latest.
func (c *conn) close() {
	c.net.SetDeadline(time.Now().Add(time.Second))
	c.queue(encode(jute.OpCloseSession, nil))
	if c.flush() == nil {
		c.reply()
	}
	c.net.Close()
}

// drop cuts the connection with a reset, leaving the session to its timeout.
func (c *conn) drop() {
	if t, ok := c.net.(*net.TCPConn); ok {
		t.SetLinger(0)
	}
	c.net.Close()
}
