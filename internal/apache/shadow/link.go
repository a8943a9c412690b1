package shadow

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// patience is how long the shadow may take to connect, to accept a write, or to reply.
const patience = 10 * time.Second

// errShadowSilent says that the shadow didn't answer in time.
var errShadowSilent = fmt.Errorf("the shadow hasn't answered for %v", patience)

// A call is a request to the shadow.
type call struct {
	xid  int32
	keep bool // a ping to keep the session alive, for which no client waits
	done chan struct{}

	// The following fields are set when done is closed.
	header jute.ReplyHeader
	body   []byte
	events []jute.WatcherEvent // events that came before the reply
	err    error
}

// A link is a connection to the shadow, with a session.
type link struct {
	conn    net.Conn
	timeout time.Duration // the session's
	ended   chan struct{} // closed when the reader has ended

	writing sync.Mutex // held while a request is written; taken before mu

	mu      sync.Mutex
	xid     int32
	pending []*call
	events  []jute.WatcherEvent
	lastUse time.Time
	err     error // why the link has ended
}

// errExpired says that the shadow no longer knows the session.
var errExpired = errors.New("the shadow's session has expired")

// openLink opens a session at the shadow, or resumes it if q names one.
func openLink(ctx context.Context, dial func(context.Context) (net.Conn, error),
	q jute.ConnectRequest) (*link, jute.ConnectResponse, error) {
	var a jute.ConnectResponse
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	nc, err := dial(ctx)
	if err != nil {
		return nil, a, err
	}
	nc.SetDeadline(time.Now().Add(patience))
	r := bufio.NewReader(nc)
	if _, err = nc.Write(jute.AppendFrame(nil, q.Append)); err == nil {
		var frame []byte
		if frame, err = jute.ReadFrame(r, nil, jute.ConnectRequestSizeMax); err == nil {
			d := jute.NewDecoder(frame)
			a.Decode(d)
			err = d.Err()
		}
	}
	if err == nil && a.Timeout <= 0 {
		err = errExpired
	}
	if err != nil {
		nc.Close()
		return nil, a, err
	}
	nc.SetDeadline(time.Time{})
	l := &link{
		conn: nc, timeout: time.Duration(a.Timeout) * time.Millisecond, ended: make(chan struct{}), lastUse: time.Now(),
	}
	go l.read(r)
	go l.keepAlive()
	return l, a, nil
}

// send sends a request. The reply, or the error, is in the call when done is closed.
func (l *link) send(op jute.Op, record []byte, keep bool) *call {
	l.writing.Lock()
	defer l.writing.Unlock()
	x := &call{keep: keep, done: make(chan struct{})}
	if !l.expect(x, op) {
		return x
	}
	l.conn.SetWriteDeadline(time.Now().Add(patience))
	if _, err := l.conn.Write(jute.AppendRequest(nil, x.xid, op, jute.Encoded(record))); err != nil {
		l.conn.Close() // makes the reader end the calls
	}
	return x
}

// expect gives a call its xid and adds it to the pending ones; it returns false if the link has ended.
func (l *link) expect(x *call, op jute.Op) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch op {
	case jute.OpPing:
		x.xid = jute.XidPing
	case jute.OpAuth:
		x.xid = jute.XidAuth
	case jute.OpSetWatches, jute.OpSetWatches2:
		x.xid = jute.XidSetWatches
	default:
		l.xid = max(l.xid+1, 1)
		x.xid = l.xid
	}
	if l.err != nil {
		x.err = l.err
		close(x.done)
		return false
	}
	l.pending = append(l.pending, x)
	l.lastUse = time.Now()
	return true
}

func (l *link) read(r *bufio.Reader) {
	defer close(l.ended)
	for {
		frame, err := jute.ReadFrame(r, nil, replyMax)
		if err == nil {
			err = l.received(frame)
		}
		if err == nil {
			continue
		}
		l.conn.Close()
		l.mu.Lock()
		l.err = fmt.Errorf("the shadow's connection has ended: %w", err)
		for _, x := range l.pending {
			x.err = l.err
			close(x.done)
		}
		l.pending = nil
		l.mu.Unlock()
		return
	}
}

func (l *link) received(frame []byte) error {
	var h jute.ReplyHeader
	d := jute.NewDecoder(frame)
	h.Decode(d)
	if d.Err() != nil {
		return d.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if h.Xid == jute.XidNotification {
		var e jute.WatcherEvent
		if e.Decode(d); d.Err() != nil {
			return d.Err()
		}
		if l.events = append(l.events, e); len(l.events) > eventsMax {
			return fmt.Errorf("more than %d notifications without a reply", eventsMax)
		}
		return nil
	}
	for i, x := range l.pending {
		if x.xid != h.Xid {
			continue
		}
		l.pending = append(l.pending[:i:i], l.pending[i+1:]...)
		x.header, x.body = h, d.Rest()
		if !x.keep && x.xid != jute.XidAuth {
			x.events, l.events = l.events, nil
		}
		close(x.done)
		return nil
	}
	return fmt.Errorf("a reply with xid %d, which belongs to no request", h.Xid)
}

// keepAlive pings when nothing else is sent.
func (l *link) keepAlive() {
	tick := time.NewTicker(max(l.timeout/6, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-l.ended:
			return
		case <-tick.C:
			l.mu.Lock()
			idle := time.Since(l.lastUse) > l.timeout/4
			l.mu.Unlock()
			if idle {
				l.send(jute.OpPing, nil, true)
			}
		}
	}
}

// wait waits for a call to finish.
func (l *link) wait(ctx context.Context, x *call) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-x.done:
		return x.err
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return errShadowSilent
	}
}

// drop closes the connection but not the session.
func (l *link) drop() { l.conn.Close() }

// finish closes the session if the shadow still answers, without waiting for long.
func (l *link) finish() {
	x := l.send(jute.OpCloseSession, nil, false)
	select {
	case <-x.done:
	case <-time.After(time.Second):
	}
	l.drop()
}
