package shadow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// A conn is a client's connection to the primary, as the proxy follows it.
type conn struct {
	p                       *Proxy
	generation              int
	fromClient, fromPrimary assembler // each is used by one goroutine
	unreadable              bool      // the client's requests can't be followed; used by the goroutine of fromClient

	// p.mu guards the following fields.
	hello   *jute.ConnectRequest
	greeted bool     // the primary has answered hello
	s       *session // nil until greeted
	after   *conn    // the session's previous connection, until it has ended: this one's requests wait for that
	open    []*exchange
	held    int   // number of its exchanges that the shadow hasn't played
	bytes   int   // memory that they take
	last    int64 // each further reply has at least this zxid, and the reply to a write a higher one
	emitted int64
	events  []jute.WatcherEvent
	off     string // why it is no longer shadowed, "" while it is
	closed  bool
}

// requested inspects bytes that the client has sent, before they are passed on.
func (c *conn) requested(b []byte) {
	if c.unreadable {
		return
	}
	if err := c.fromClient.feed(b, c.request); err != nil {
		c.unreadable = true
		c.p.mu.Lock()
		defer c.p.mu.Unlock()
		c.p.counts.Unreadable++
		c.stop(fmt.Sprintf("its requests can't be parsed: %v", err))
	}
}

// request processes one frame from the client.
func (c *conn) request(frame []byte) error {
	p := c.p
	p.mu.Lock()
	defer p.mu.Unlock()
	d := jute.NewDecoder(frame)
	if c.hello == nil {
		c.hello = &jute.ConnectRequest{}
		c.hello.Decode(d)
		return d.Err()
	}
	var h jute.RequestHeader
	if h.Decode(d); d.Err() != nil {
		return d.Err()
	}
	if c.s != nil {
		c.s.heard = time.Now()
	}
	if c.off == "" && h.Op == jute.OpSASL {
		c.stop("it logs in by SASL, which can't be replayed to another server")
	}
	if c.off != "" {
		p.skipped(h.Op, d.Rest())
		return nil
	}
	if c.closed { // the primary's answers are no longer read
		p.unanswered(h.Op, d.Rest())
		return nil
	}
	p.stamp++
	x := &exchange{c: c, op: h.Op, xid: h.Xid, request: d.Rest(), stamp: p.stamp}
	c.open = append(c.open, x)
	p.waiting[c] = true
	c.hold(x.size(), 1)
	return nil
}

// hold accounts for the memory of exchanges. The caller holds p.mu.
func (c *conn) hold(bytes, exchanges int) {
	c.held += exchanges
	c.bytes += bytes
	c.p.bytes += bytes
	switch {
	case c.off != "":
	case c.held > queuedMax:
		c.stop(fmt.Sprintf("the shadow is %d requests behind", queuedMax))
	case c.bytes > queuedBytesMax:
		c.stop(fmt.Sprintf("the shadow is %d bytes behind", queuedBytesMax))
	case c.p.bytes > queuedBytesAll:
		c.stop(fmt.Sprintf("the shadow is %d bytes behind on all connections", queuedBytesAll))
	}
}

// replied inspects bytes that the primary has sent, before they are passed on.
func (c *conn) replied(b []byte) {
	if c.fromPrimary.limit == 0 {
		return
	}
	if err := c.fromPrimary.feed(b, c.answer); err != nil {
		c.fromPrimary.limit = 0
		c.p.mu.Lock()
		defer c.p.mu.Unlock()
		c.stop(fmt.Sprintf("the primary's replies can't be parsed: %v", err))
	}
}

// answer processes one frame from the primary.
func (c *conn) answer(frame []byte) error {
	p := c.p
	p.mu.Lock()
	defer p.mu.Unlock()
	d := jute.NewDecoder(frame)
	if !c.greeted {
		c.greeted = true
		var a jute.ConnectResponse
		if a.Decode(d); d.Err() != nil {
			return d.Err()
		}
		c.greet(&a)
		return nil
	}
	if c.off != "" || c.closed {
		return nil
	}
	if c.generation != p.generation {
		c.stop("later connections go to another server of the primary")
		return nil
	}
	var h jute.ReplyHeader
	if h.Decode(d); d.Err() != nil {
		return d.Err()
	}
	if h.Xid == jute.XidNotification {
		// Since 3.9 it has the zxid of a write, which may be the client's own: then the write's reply is still to come.
		c.last = max(c.last, h.Zxid-1)
		var e jute.WatcherEvent
		if e.Decode(d); d.Err() != nil {
			return d.Err()
		}
		if c.events = append(c.events, e); len(c.events) > eventsMax {
			c.stop(fmt.Sprintf("%d notifications have come without a reply", eventsMax))
		}
		return nil
	}
	c.last = max(c.last, h.Zxid)
	for _, x := range c.open {
		if x.answered || x.xid != h.Xid {
			continue
		}
		p.stamp++
		x.answered, x.zxid, x.code, x.reply, x.came, x.at = true, h.Zxid, h.Err, d.Rest(), p.stamp, time.Now()
		if x.op != jute.OpAuth { // an auth request is answered out of turn
			x.events, c.events = c.events, nil
		}
		c.hold(len(x.reply), 0)
		c.emit()
		return nil
	}
	return errors.New("a reply without a request")
}

// emit hands the answered requests to the player, in the order of the requests. The caller holds p.mu.
func (c *conn) emit() {
	for c.off == "" && c.after == nil && len(c.open) > 0 && c.open[0].answered {
		x := c.open[0]
		c.open = c.open[1:]
		x.zxid = max(x.zxid, c.emitted)
		c.emitted = x.zxid
		if x.s = c.s; x.s.ended {
			c.release(x)
			continue
		}
		c.p.enqueue(x)
	}
	if len(c.open) == 0 {
		delete(c.p.waiting, c)
	}
	c.p.poke() // another connection may wait for this answer
}

// stop ends the shadowing of the connection. The caller holds p.mu.
func (c *conn) stop(why string) {
	switch {
	case c.off != "":
	case c.s != nil && !c.s.ended:
		c.p.end(c.s, why)
	default:
		c.leaveOut(why)
	}
}

// saidMax is how many connections with the same reason for ending are reported individually.
const saidMax = 10

// leaveOut stops following a connection: its remaining requests aren't played. The caller holds p.mu.
func (c *conn) leaveOut(why string) {
	if c.off != "" {
		return
	}
	c.off = why
	reason := reasonOf(why)
	switch c.p.counts.Ended[reason]++; {
	case c.p.counts.Ended[reason] < saidMax:
		c.p.say(fmt.Sprintf("a connection is no longer shadowed: %s", why))
	case c.p.counts.Ended[reason] == saidMax:
		c.p.say(fmt.Sprintf("a connection is no longer shadowed, and from now on such connections are only counted: %s", why))
	}
	for _, x := range c.open {
		c.p.skipped(x.op, x.request)
		c.release(x)
	}
	c.open, c.events = nil, nil
	delete(c.p.waiting, c)
}

// release undoes hold for one exchange. The caller holds p.mu.
func (c *conn) release(x *exchange) {
	c.held--
	c.bytes -= x.size()
	c.p.bytes -= x.size()
}

// linger waits until the primary has answered the requests of a client that has left: the shadow must carry them out
// too.
func (c *conn) linger(ctx context.Context) {
	for end := time.Now().Add(lingerMax); time.Now().Before(end) && ctx.Err() == nil; time.Sleep(lingerStep) {
		c.p.mu.Lock()
		done := c.closed || c.off != "" || len(c.open) == 0 && c.greeted
		c.p.mu.Unlock()
		if done {
			return
		}
	}
}

const lingerStep = 5 * time.Millisecond

// over notes that the connection has ended. Requests without an answer may have been carried out.
func (c *conn) over(byPrimary bool) {
	c.p.mu.Lock()
	defer c.p.mu.Unlock()
	c.overLocked(byPrimary)
}

// overLocked is over for a caller that holds p.mu.
func (c *conn) overLocked(byPrimary bool) {
	p := c.p
	if c.closed {
		return
	}
	if c.after != nil {
		c.after.overLocked(false)
	}
	c.closed = true
	delete(p.conns, c)
	if byPrimary && c.hello != nil && !c.greeted {
		p.turnedAway(c)
	}
	c.emit()
	for _, x := range c.open {
		p.unanswered(x.op, x.request)
		c.release(x)
	}
	c.open = nil
	delete(p.waiting, c)
	s := c.s
	if s == nil || s.ended {
		return
	}
	p.detach(s, c)
	if s.c == c {
		s.attached, s.gone = false, byPrimary
		return
	}
	for next := range p.conns {
		if next.after == c {
			next.after, next.emitted = nil, s.emitted
			next.emit()
		}
	}
}

// unanswered notes a request without an answer, which the primary may have carried out. The caller holds p.mu.
func (p *Proxy) unanswered(op jute.Op, request []byte) {
	if op.IsWrite() {
		p.counts.Unanswered++
	}
	p.doubts.write(op, request, "a write with unknown outcome")
}
