package socket

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// steadyBytesMin is how many bytes of output a client must take within Steady.Timeout. A client that takes
// nothing, or a byte now and then, would hold the memory of its output forever. 16 KiB in 30 s is less than any link
// that still carries a session delivers.
const steadyBytesMin = 16 << 10

// Steady is a connection whose writes continue after their deadline as long as the other end takes steadyBytesMin in
// each timeout: the deadline bounds the time without progress, and not the time for a large reply.
//
// For TLS it is the connection underneath, since a TLS connection can't be used after a write that timed out.
type Steady struct {
	net.Conn
	Timeout time.Duration
	TCP     net.Conn // the accepted connection, whose kernel tells what is delivered

	mark atomic.Uint64
	on   atomic.Bool
}

// Begin makes the deadlines of writes renewable from now on. Only progress after it counts.
func (c *Steady) Begin() {
	delivered, _ := Delivered(c.TCP)
	c.mark.Store(delivered)
	c.on.Store(true)
}

// SetWriteDeadline sets the deadline. Progress counts from now.
func (c *Steady) SetWriteDeadline(t time.Time) error {
	if c.on.Load() {
		c.Begin()
	}
	return c.Conn.SetWriteDeadline(t)
}

// Write writes p, or what the other end takes of it before it is too slow.
func (c *Steady) Write(p []byte) (n int, err error) {
	for {
		m, err := c.Conn.Write(p[n:])
		n += m
		if err == nil || !errors.Is(err, os.ErrDeadlineExceeded) || !c.on.Load() || !c.progressed(m) {
			return n, err
		}
		if err := c.Conn.SetWriteDeadline(time.Now().Add(c.Timeout)); err != nil {
			return n, err
		}
	}
}

// progressed reports whether the other end has taken enough since the last deadline was set; written is how much the
// kernel has taken from this server in the write that timed out.
func (c *Steady) progressed(written int) bool {
	delivered, ok := Delivered(c.TCP)
	if !ok {
		return written >= steadyBytesMin
	}
	return delivered-c.mark.Swap(delivered) >= steadyBytesMin
}

// NetConn returns the underlying connection, as tls.Conn.NetConn does.
func (c *Steady) NetConn() net.Conn { return c.Conn }
