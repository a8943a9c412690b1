package server

import (
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"

	"github.com/zooid-project/zooid/internal/replica"
)

// replies writes to clients what the replica has for them.
type replies struct {
	*engine
	slow      slowStages
	flushPool flushPool
	sends     atomic.Uint64 // number of writes to clients
}

// flushOwn writes waiting output on the reader's goroutine, unless another goroutine is flushing,
// and reports whether the connection is to end.
func (r *replies) flushOwn(nc net.Conn, c *replica.Client) bool {
	begun, ended := c.BeginFlush()
	if begun {
		return r.flush(nc, c)
	}
	return ended
}

// flushLast writes waiting output before the reader gives up the connection; if another goroutine
// is flushing, it waits for that.
func (r *replies) flushLast(nc net.Conn, c *replica.Client) {
	if !r.flushOwn(nc, c) {
		c.AwaitFlush()
	}
}

// flush writes a client's output until none is left, and reports whether it closed the connection.
func (r *replies) flush(nc net.Conn, c *replica.Client) bool {
	return r.flushFrom(nc, c, r.tryOutput(c))
}

// pushTo flushes as far as that can't block or take long, and leaves the rest to a new goroutine.
func (r *replies) pushTo(nc net.Conn, c *replica.Client) {
	if left := r.tryOutput(c); left.Out != nil || left.Last || left.Long {
		go r.flushFrom(nc, c, left)
	}
}

// sendEvery says that one in sendEvery writes to clients is timed: reading the clock twice would
// add a few percent to the cost of a short write.
const sendEvery = 16

// tryOutput calls c.TryOutput, and times some of the calls.
func (r *replies) tryOutput(c *replica.Client) (left replica.Unsent) {
	if r.sends.Add(1)%sendEvery != 0 {
		left = c.TryOutput()
		r.delivered(c)
		return left
	}
	begun := r.now()
	left = c.TryOutput()
	r.meters.Stages.Send.Observe(r.now() - begun)
	r.delivered(c)
	return left
}

// delivered records how long the delivery of events took; output not yet written counts as
// delivered.
func (r *replies) delivered(c *replica.Client) {
	if at := c.Told(); at != 0 {
		r.meters.Stages.Watch.Observe(r.now() - at)
	}
}

// flushFrom continues the flush where tryOutput left it.
func (r *replies) flushFrom(nc net.Conn, c *replica.Client, left replica.Unsent) bool {
	out, sent, last := left.Out, left.Sent, left.Last
	if left.Long {
		out, last = c.TakeOutput(nil)
	}
	conn := steadyConn{Conn: nc, tcp: nc, timeout: r.opt.WriteTimeout}
	if _, secure := nc.(*tls.Conn); !secure && out != nil {
		conn.begin()
	}
	for {
		if last {
			nc.Close()
			return true
		}
		if out == nil {
			return false
		}
		now := time.Now()
		if c.WriteBy.Sub(now) < r.opt.WriteTimeout/2 {
			// Not for every write: with thousands of connections, setting timers would cost as much as the
			// writes they guard.
			c.WriteBy = now.Add(r.opt.WriteTimeout)
			conn.SetWriteDeadline(c.WriteBy)
		}
		if _, err := conn.Write(out[sent:]); err != nil {
			c.CloseAfter("writing to it failed: " + err.Error())
			nc.Close()
			c.Lost()
			return true
		}
		r.slow.wrote(c, len(out)-sent, now)
		out, last = c.TakeOutput(out)
		sent = 0
	}
}
