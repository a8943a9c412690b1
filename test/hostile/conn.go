package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// replyMax bounds a single reply that an attacker reads.
const replyMax = 256 << 20

// A conn is a client connection of an attacker: it trusts no server and keeps no rules.
type conn struct {
	f       *field
	nc      net.Conn
	r       *bufio.Reader
	in      []byte
	xid     int32
	session int64
	passwd  []byte
	unpaced bool // its requests don't reach the log
}

// open connects without sending anything.
func (f *field) open(addr string) (*conn, error) {
	nc, err := f.dial(addr)
	if err != nil {
		return nil, err
	}
	return newConn(f, nc), nil
}

func newConn(f *field, nc net.Conn) *conn {
	return &conn{f: f, nc: nc, r: bufio.NewReaderSize(nc, 32<<10)}
}

// connect opens a session with a timeout of ms.
func (f *field) connect(addr string, ms int32) (*conn, error) {
	return f.resume(addr, newSession(ms))
}

// resume connects with the given connect request.
func (f *field) resume(addr string, q jute.ConnectRequest) (*conn, error) {
	c, err := f.open(addr)
	if err != nil {
		return nil, err
	}
	if err = c.write(jute.AppendFrame(nil, q.Append)); err == nil {
		err = c.connected()
	}
	if err != nil {
		c.close()
		f.counts.refused.Add(1)
		f.sleep(redialPause)
		return nil, err
	}
	return c, nil
}

var errRefused = errors.New("the server refuses the session")

// connected reads the answer to a connect request.
func (c *conn) connected() error {
	c.nc.SetReadDeadline(time.Now().Add(4 * c.f.patience))
	b, err := jute.ReadFrame(c.r, c.in, replyMax)
	if err != nil {
		return err
	}
	c.in = b
	d := jute.NewDecoder(b)
	var r jute.ConnectResponse
	r.Decode(d)
	if d.Err() != nil {
		return d.Err()
	}
	if r.Timeout == 0 {
		return fmt.Errorf("session %#x: %w", r.SessionID, errRefused)
	}
	c.session, c.passwd = r.SessionID, append([]byte(nil), r.Passwd...)
	return nil
}

func (c *conn) close() { c.nc.Close() }

// write sends bytes unchanged.
func (c *conn) write(b []byte) error {
	if c.unpaced {
		c.f.counts.bytes.Add(int64(len(b)))
	} else {
		c.f.pace(len(b))
	}
	c.nc.SetWriteDeadline(time.Now().Add(sendPatience))
	_, err := c.nc.Write(b)
	return err
}

// send sends a request.
func (c *conn) send(op jute.Op, record []byte) error {
	return c.write(c.appendRequest(make([]byte, 0, len(record)+16), op, record))
}

// appendRequest appends a request as a frame.
func (c *conn) appendRequest(b []byte, op jute.Op, record []byte) []byte {
	c.xid++
	xid := c.xid
	switch op { // as clients do
	case jute.OpPing:
		xid = -2
	case jute.OpAuth:
		xid = -4
	case jute.OpSetWatches, jute.OpSetWatches2:
		xid = -8
	}
	c.f.counts.requests.Add(1)
	return jute.AppendRequest(b, xid, op, jute.Encoded(record))
}

// receive reads one reply or notification.
func (c *conn) receive(patience time.Duration) (jute.ReplyHeader, []byte, error) {
	c.nc.SetReadDeadline(time.Now().Add(patience))
	var h jute.ReplyHeader
	b, err := jute.ReadFrame(c.r, c.in, replyMax)
	if err != nil {
		return h, nil, err
	}
	c.in = b
	d := jute.NewDecoder(b)
	h.Decode(d)
	c.f.counts.replies.Add(1)
	if h.Err != jute.OK {
		c.f.counts.errors.Add(1)
	}
	return h, b[len(b)-d.Remaining():], d.Err()
}

// call sends a request and waits for its reply, skipping notifications.
func (c *conn) call(op jute.Op, record []byte) (jute.Code, []byte, error) {
	if err := c.send(op, record); err != nil {
		return 0, nil, err
	}
	xid := c.xid
	for {
		h, body, err := c.receive(30 * time.Second)
		if err != nil {
			return 0, nil, err
		}
		if h.Xid == xid || h.Xid < -1 {
			return h.Err, body, nil
		}
	}
}

// drain reads until the connection ends, so that the server goes on reading.
// The returned function closes the connection and waits for that.
func (c *conn) drain() (end func()) {
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			if _, _, err := c.receive(time.Minute); err != nil {
				return
			}
		}
	})
	return func() {
		c.close()
		wg.Wait()
	}
}

// The records of common requests.

func setRecord(path, data string) []byte {
	return (&jute.SetDataRequest{Path: path, Data: []byte(data), Version: -1}).Append(nil)
}

func readRecord(path string) []byte { return (&jute.PathWatchRequest{Path: path}).Append(nil) }

func authRecord(user string) []byte {
	return (&jute.AuthPacket{Scheme: "digest", Auth: []byte(user)}).Append(nil)
}

// newSession returns a connect request for a new session.
func newSession(ms int32) jute.ConnectRequest {
	return jute.ConnectRequest{Timeout: ms, Passwd: make([]byte, jute.PasswdSize), HasReadOnly: true}
}

// create creates a znode; it is no error if that exists.
func (c *conn) create(path string, data []byte, mode jute.CreateMode) error {
	q := jute.CreateRequest{Path: path, Data: data, ACL: jute.WorldACL(jute.PermAll), Flags: mode}
	code, _, err := c.call(jute.OpCreate, q.Append(nil))
	if err == nil && code != jute.OK && code != jute.ErrNodeExists {
		err = code
	}
	return err
}
