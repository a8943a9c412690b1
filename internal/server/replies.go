package server

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/socket"
)

// replies writes the replica's output to clients.
type replies struct {
	*engine
	slow      slowStages
	flushPool flushPool
	sends     atomic.Uint64 // number of writes to clients
}

// flushOwn writes waiting output on the reader's goroutine, unless another goroutine is flushing,
// and reports whether the connection must end.
func (r *replies) flushOwn(nc net.Conn, c *replica.Client) bool {
	begun, ended := c.BeginFlush()
	if begun {
		return r.flush(nc, c)
	}
	return ended
}

// flushLast writes waiting output before the reader ends the connection because of err, which it returns. If another
// goroutine is flushing, flushLast waits for that.
func (r *replies) flushLast(nc net.Conn, c *replica.Client, err error) error {
	if !r.flushOwn(nc, c) {
		c.AwaitFlush()
	}
	return err
}

// flush writes a client's output until none is left, and reports whether it ended the connection.
func (r *replies) flush(nc net.Conn, c *replica.Client) bool {
	return r.flushFrom(nc, c, r.tryOutput(c))
}

// pushTo flushes as far as possible without blocking or taking long, and leaves the rest to a new goroutine.
func (r *replies) pushTo(nc net.Conn, c *replica.Client) {
	if left := r.tryOutput(c); left.Out != nil || left.Last || left.Long {
		go r.flushFrom(nc, c, left)
	}
}

// One in sendEvery writes to clients is timed: reading the clock twice would add a few percent
// to the cost of a short write.
const sendEvery = 16

// tryOutput calls c.TryOutput, and times some of the calls.
func (r *replies) tryOutput(c *replica.Client) (left replica.Unsent) {
	defer r.delivered(c)
	if r.sends.Add(1)%sendEvery != 0 {
		return c.TryOutput()
	}
	begun := r.now()
	left = c.TryOutput()
	r.meters.Stages.Send.Observe(r.now() - begun)
	return left
}

// delivered records how long the delivery of events took; output not yet written counts as delivered.
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
	conn := socket.Steady{Conn: nc, TCP: nc, Timeout: r.opt.WriteTimeout}
	if _, secure := nc.(*tls.Conn); !secure && out != nil {
		conn.Begin()
	}
	for {
		if last {
			nc.SetReadDeadline(time.Now()) // wakes the reader, which ends the connection, also if EndOutput takes long
			socket.EndOutput(nc)
			return true
		}
		if out == nil {
			return false
		}
		now := time.Now()
		if c.WriteBy.Sub(now) < r.opt.WriteTimeout/2 {
			// Not for every write: with thousands of connections, setting timers would cost as much as the writes they guard.
			c.WriteBy = now.Add(r.opt.WriteTimeout)
			conn.SetWriteDeadline(c.WriteBy)
		}
		if _, err := conn.Write(out[sent:]); err != nil {
			c.CloseAfter("writing to it failed: " + err.Error())
			nc.Close()
			c.Lost()
			return true
		}
		r.slow.wrote(c, len(out)-sent, time.Since(now))
		out, last = c.TakeOutput(out)
		sent = 0
	}
}

// A clientSocket is the connection below a client, as the replica sees it.
type clientSocket struct {
	out   *replies
	nc    net.Conn
	c     *replica.Client
	acked func() bool      // nil if that can't be determined
	try   func([]byte) int // nil if writes may block, as those of TLS do

	shown []*x509.Certificate // that the client has presented
}

// Wake makes another goroutine flush.
func (k *clientSocket) Wake() {
	if k.try != nil {
		k.out.flushPool.add(k)
	} else {
		go k.out.flush(k.nc, k.c)
	}
}

func (k *clientSocket) Try(out []byte) int {
	if k.try == nil {
		return 0
	}
	return k.try(out)
}

func (k *clientSocket) Tries() bool               { return k.try != nil }
func (k *clientSocket) Push()                     { k.out.pushTo(k.nc, k.c) }
func (k *clientSocket) Rest(d time.Duration)      { k.out.pause(d) }
func (k *clientSocket) Abort()                    { go socket.Below(k.nc).Close() }
func (k *clientSocket) Delivered() (uint64, bool) { return socket.Delivered(socket.Below(k.nc)) }
func (k *clientSocket) Acked() bool               { return k.acked == nil || k.acked() }

// A flushPool writes to the connections that got output, as far as possible without blocking, on at most as many
// goroutines as there are processors. With one goroutine for each connection, an event with 500 watchers cost a sixth
// more.
type flushPool struct {
	mu      sync.Mutex
	waiting []*clientSocket // first in, first out; those before next are done
	next    int
	running int
}

// add queues a client that Tries, and whose flushing was set.
func (p *flushPool) add(c *clientSocket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next > 0 && len(p.waiting) == cap(p.waiting) {
		p.waiting, p.next = p.waiting[:copy(p.waiting, p.waiting[p.next:])], 0
	}
	p.waiting = append(p.waiting, c)
	if p.running < runtime.GOMAXPROCS(0) {
		p.running++
		go p.run()
	}
}

func (p *flushPool) run() {
	for c := p.take(); c != nil; c = p.take() {
		c.Push()
	}
}

// take removes the client that has waited longest. If none waits, it returns nil and counts the
// calling goroutine as ended.
func (p *flushPool) take() *clientSocket {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == len(p.waiting) {
		p.waiting, p.next = p.waiting[:0], 0
		p.running--
		return nil
	}
	c := p.waiting[p.next]
	p.waiting[p.next] = nil
	p.next++
	return c
}
