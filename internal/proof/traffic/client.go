// Package traffic makes histories of running servers: clients send a random mix of requests, or play recipes, and
// record every wire event.
//
// [Client] is a raw client that records everything in a history.Journal. [Load] runs many of them with the random
// [Mix]. [Recipes] runs locks, a queue and a counter, and also checks their own invariants. Every value written is
// unique, so a read identifies its writer. [Dump] records the content of a server at the end. The simulator uses the
// same Mix.
package traffic

import (
	"bufio"
	"cmp"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/jute"
)

// ErrExpired is returned by Client.Connect when the servers say that the session is gone. The next Connect opens a new
// one.
var ErrExpired = errors.New("session expired")

// outstandingMax bounds the unanswered requests of a client. Beyond it Send blocks: a server that stops answering must
// not make a test exhaust the machine's memory.
const outstandingMax = 1000

// A Client sends raw requests over one connection at a time and records each wire event in a Journal. It trusts no
// server. It never uses an xid twice in a session, so that the checker can distinguish requests even across reconnects.
// Several goroutines may use its methods, except Connect.
type Client struct {
	journal *history.Journal
	addrs   []string
	opt     ClientOptions
	next    int // of addrs

	mu      sync.Mutex
	room    *sync.Cond // fewer than outstandingMax are unanswered, or the connection is gone
	conn    net.Conn   // nil while disconnected
	id      int32
	session int64
	passwd  []byte
	timeout time.Duration
	xid     int32
	zxid    int64 // highest seen, including events
	pending []*Call
	lastUse time.Time
	buf     []byte
	watches Watches
	done    chan struct{} // closed when the reader has ended
}

// ClientOptions configure a Client.
type ClientOptions struct {
	Timeout time.Duration // requested session timeout; 0 means 10 s
	// Digest, if not empty, is "user:password", with which the client authenticates on every connection.
	Digest string
	// OnEvent, if set, is called with each notification, on the goroutine that reads. It must not block.
	OnEvent func(jute.WatcherEvent)
}

// A Call is a request that was sent.
type Call struct {
	Op   jute.Op
	Xid  int32
	body []byte

	done chan struct{}
	// The following are set when Wait returns.
	Zxid int64
	Err  jute.Code
	Body []byte
	Lost bool // the connection ended first; the request may have been applied
}

// Wait waits until the call is answered or lost and returns its code, ErrConnectionLoss if it is lost.
func (c *Call) Wait() jute.Code {
	<-c.done
	if c.Lost {
		return jute.ErrConnectionLoss
	}
	return c.Err
}

// NewClient returns a client that hasn't connected yet. It tries addrs in turn.
func NewClient(j *history.Journal, opt ClientOptions, addrs ...string) *Client {
	opt.Timeout = cmp.Or(opt.Timeout, 10*time.Second)
	c := &Client{journal: j, addrs: addrs, opt: opt}
	c.room = sync.NewCond(&c.mu)
	return c
}

// Session returns the id of the session, 0 if there is none.
func (c *Client) Session() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// Connect dials the next address, resumes the session or opens one, authenticates and sets the watches again. It
// returns ErrExpired if the session is gone, and otherwise any error of the network.
func (c *Client) Connect() error {
	addr := c.addrs[c.next%len(c.addrs)]
	c.next++
	conn, err := net.DialTimeout("tcp", addr, c.opt.Timeout)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", addr, err)
	}
	conn.SetDeadline(time.Now().Add(c.opt.Timeout))
	r := bufio.NewReaderSize(conn, 64<<10)
	id := c.journal.NewConn()
	if err = c.handshake(conn, r, id); err != nil {
		conn.Close()
		c.journal.Record(history.Event{Kind: history.KindDisconnect, Conn: id})
		return fmt.Errorf("connect to %s: %w", addr, err)
	}
	conn.SetDeadline(time.Time{})
	c.mu.Lock()
	c.conn, c.id, c.lastUse, c.done = conn, id, time.Now(), make(chan struct{})
	done, timeout := c.done, c.timeout
	c.mu.Unlock()
	go c.readLoop(conn, r, id, timeout, done)
	go c.pingLoop(conn, timeout, done)
	return c.greet()
}

func (c *Client) handshake(conn net.Conn, r *bufio.Reader, id int32) error {
	q := jute.ConnectRequest{
		LastZxidSeen: c.zxid, Timeout: int32(c.opt.Timeout.Milliseconds()), SessionID: c.session, Passwd: c.passwd,
		HasReadOnly: true,
	}
	if q.Passwd == nil {
		q.Passwd = make([]byte, jute.PasswdSize)
	}
	b := jute.AppendFrame(nil, q.Append)
	c.journal.Record(history.Event{
		Kind: history.KindConnect, Conn: id, Zxid: q.LastZxidSeen, Session: q.SessionID, Num: q.Timeout,
	})
	if _, err := conn.Write(b); err != nil {
		return err
	}
	frame, err := jute.ReadFrame(r, nil, jute.MaxBufferDefault)
	if err != nil {
		return err
	}
	var a jute.ConnectResponse
	d := jute.NewDecoder(frame)
	a.Decode(d)
	if d.Err() != nil {
		return d.Err()
	}
	c.journal.Record(history.Event{Kind: history.KindConnected, Conn: id, Session: a.SessionID, Num: a.Timeout})
	if a.Timeout <= 0 {
		c.mu.Lock()
		c.session, c.passwd, c.zxid, c.xid, c.watches = 0, nil, 0, 0, Watches{}
		c.mu.Unlock()
		return ErrExpired
	}
	c.mu.Lock()
	c.session, c.passwd, c.timeout = a.SessionID, a.Passwd, time.Duration(a.Timeout)*time.Millisecond
	c.mu.Unlock()
	return nil
}

// greet sends the first requests of a new connection.
func (c *Client) greet() error {
	if c.opt.Digest != "" {
		p := jute.AuthPacket{Scheme: "digest", Auth: []byte(c.opt.Digest)}
		call, err := c.send(jute.OpAuth, jute.XidAuth, p.Append(nil))
		if err != nil {
			return err
		}
		if code := call.Wait(); code != jute.OK {
			return fmt.Errorf("authenticate as %q: %w", c.opt.Digest, code)
		}
		id := DigestID(c.opt.Digest)
		c.journal.Record(history.Event{Kind: history.KindIdentity, Conn: c.id, Body: id.Append(nil)})
	}
	c.mu.Lock()
	op, body := c.watches.Request(c.zxid)
	c.mu.Unlock()
	if body == nil {
		return nil
	}
	_, err := c.Send(op, body)
	return err
}

// Send sends a request without waiting for its reply. It fails only if there is no connection. It blocks while too many
// requests are unanswered.
func (c *Client) Send(op jute.Op, body []byte) (*Call, error) { return c.send(op, 0, body) }

// send sends a request with xid, or with the next one if xid is 0.
func (c *Client) send(op jute.Op, xid int32, body []byte) (*Call, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.conn != nil && len(c.pending) >= outstandingMax {
		c.room.Wait()
	}
	if c.conn == nil {
		return nil, fmt.Errorf("send %s: not connected: %w", op, jute.ErrConnectionLoss)
	}
	if xid == 0 {
		c.xid++
		xid = c.xid
	}
	call := &Call{Op: op, Xid: xid, body: body, done: make(chan struct{})}
	c.buf = jute.AppendRequest(c.buf[:0], xid, op, jute.Encoded(body))
	c.pending = append(c.pending, call)
	c.lastUse = time.Now()
	c.journal.Record(history.Event{Kind: history.KindRequest, Conn: c.id, Xid: xid, Num: int32(op), Body: body})
	if _, err := c.conn.Write(c.buf); err != nil {
		c.conn.Close() // the reader notices and ends the connection's calls
	}
	return call, nil
}

// Do sends a request and waits for its reply.
func (c *Client) Do(op jute.Op, body []byte) (*Call, error) {
	call, err := c.Send(op, body)
	if err != nil {
		return nil, err
	}
	if code := call.Wait(); call.Lost {
		return call, fmt.Errorf("%s: the connection ended before the reply: %w", op, code)
	}
	return call, nil
}

// Drop ends the connection abruptly, as a network failure would.
func (c *Client) Drop() {
	c.mu.Lock()
	conn, done := c.conn, c.done
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	c.mu.Unlock()
	if conn != nil {
		conn.Close()
		<-done
	}
}

// Close closes the session and the connection. A client without a connection only forgets its session, which then
// expires.
func (c *Client) Close() error {
	_, err := c.Do(jute.OpCloseSession, nil)
	c.Drop()
	c.mu.Lock()
	c.session, c.passwd, c.zxid, c.xid, c.watches = 0, nil, 0, 0, Watches{}
	c.mu.Unlock()
	return err
}

func (c *Client) readLoop(conn net.Conn, r *bufio.Reader, id int32, timeout time.Duration, done chan struct{}) {
	for {
		conn.SetReadDeadline(time.Now().Add(timeout))
		frame, err := jute.ReadFrame(r, nil, 16<<20)
		if err == nil && len(frame) < jute.ReplyHeaderSize {
			err = jute.ErrTruncated
		}
		if err != nil {
			break
		}
		c.received(id, frame)
	}
	conn.Close()
	c.mu.Lock()
	c.journal.Record(history.Event{Kind: history.KindDisconnect, Conn: id})
	lost := c.pending
	c.conn, c.pending = nil, nil
	c.room.Broadcast()
	c.mu.Unlock()
	for _, call := range lost {
		call.Lost = true
		close(call.done)
	}
	close(done)
}

// received records a frame and passes it on.
func (c *Client) received(id int32, frame []byte) {
	var h jute.ReplyHeader
	d := jute.NewDecoder(frame)
	h.Decode(d)
	body := frame[jute.ReplyHeaderSize:]
	c.mu.Lock()
	c.zxid = max(c.zxid, h.Zxid)
	if h.Xid == jute.XidNotification {
		c.journal.Record(history.Event{Kind: history.KindNotification, Conn: id, Zxid: h.Zxid, Body: body})
		var w jute.WatcherEvent
		w.Decode(d)
		c.watches.Fired(&w)
		c.mu.Unlock()
		if c.opt.OnEvent != nil {
			c.opt.OnEvent(w)
		}
		return
	}
	c.journal.Record(history.Event{
		Kind: history.KindReply, Conn: id, Xid: h.Xid, Zxid: h.Zxid, Num: int32(h.Err), Body: body,
	})
	call := c.take(h.Xid)
	if call == nil {
		c.mu.Unlock()
		return // the checker will report it
	}
	call.Zxid, call.Err, call.Body = h.Zxid, h.Err, body
	c.watches.Answered(call.Op, call.body, call.Err)
	c.room.Signal()
	c.mu.Unlock()
	close(call.done)
}

// take removes the call with xid from the unanswered ones and returns it.
func (c *Client) take(xid int32) *Call {
	for i, call := range c.pending {
		if call.Xid == xid {
			c.pending = append(c.pending[:i:i], c.pending[i+1:]...)
			return call
		}
	}
	return nil
}

// pingLoop keeps an idle session alive.
func (c *Client) pingLoop(conn net.Conn, timeout time.Duration, done chan struct{}) {
	tick := time.NewTicker(max(timeout/6, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
			c.mu.Lock()
			idle := c.conn == conn && time.Since(c.lastUse) > timeout/4
			c.mu.Unlock()
			if idle {
				c.send(jute.OpPing, jute.XidPing, nil)
			}
		}
	}
}

// DigestID returns the identity that a digest authentication with "user:password" grants, with the default algorithm.
func DigestID(userPassword string) jute.ID {
	user, _, _ := strings.Cut(userPassword, ":")
	sum := sha1.Sum([]byte(userPassword))
	return jute.ID{Scheme: "digest", ID: user + ":" + base64.StdEncoding.EncodeToString(sum[:])}
}
