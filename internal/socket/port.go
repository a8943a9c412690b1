package socket

import (
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// TLS says how a Port accepts connections over TLS.
type TLS struct {
	Config *tls.Config
	// Plain also accepts connections without TLS on the same port.
	Plain bool
}

// Text describes for the log which connections are accepted; t may be nil.
func (t *TLS) Text() string {
	switch {
	case t == nil:
		return "none"
	case t.Plain:
		return "both"
	}
	return "only"
}

// handshakeRecord is the first byte of a TLS connection, which no HTTP request starts with.
const handshakeRecord = 0x16

// A Port is a listener for few connections, with or without TLS. It reads the first byte of each connection on a
// separate goroutine, so that a silent client doesn't delay others.
type Port struct {
	net.Listener
	tls *TLS
	// patience is how long a connection may take to send its first byte.
	patience time.Duration
	ready    chan net.Conn
	closed   chan struct{}
	once     sync.Once
	wg       sync.WaitGroup

	most int

	mu        sync.Mutex
	open      map[*counted]bool
	newcomers Newcomers // all that haven't been kept
}

// NewPort starts accepting connections from l, with TLS as t says; a nil t means no TLS. At most most of them are open
// at a time. One more takes the place of one that nobody has vouched for (Keep, Newcomers), so that nobody can keep the
// others out. A connection may take patience to send its first byte.
func NewPort(l net.Listener, t *TLS, patience time.Duration, most int) *Port {
	p := &Port{
		Listener: l, tls: t, patience: patience, most: most, open: map[*counted]bool{}, ready: make(chan net.Conn),
		closed: make(chan struct{}),
	}
	p.wg.Go(p.acceptAll)
	return p
}

// Accept returns the next connection that has sent its first byte.
func (p *Port) Accept() (net.Conn, error) {
	select {
	case nc := <-p.ready:
		return nc, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close stops accepting.
func (p *Port) Close() error {
	p.once.Do(func() { close(p.closed) })
	return CloseListener(p.Listener)
}

// Connections returns how many connections are open.
func (p *Port) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open)
}

// Wait waits for the goroutines of a closed Port.
func (p *Port) Wait() { p.wg.Wait() }

// acceptAll accepts connections until the port is closed.
func (p *Port) acceptAll() {
	for nc := range Accepted(p.Listener, p.closed, nil) {
		c := &counted{Conn: nc, port: p}
		if !p.enter(c) {
			nc.Close()
			continue
		}
		p.wg.Go(func() { p.begin(c) })
	}
}

// enter counts a connection. If there are too many it closes a newcomer, and reports false if there is none.
func (p *Port) enter(c *counted) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.open) >= p.most {
		first, ok := p.newcomers.First().(*counted)
		if !ok {
			return false
		}
		p.drop(first)
		first.Conn.Close()
	}
	p.open[c] = true
	p.newcomers.Add(c)
	return true
}

// drop removes a connection unless it is already removed. The caller holds mu.
func (p *Port) drop(c *counted) {
	delete(p.open, c)
	p.newcomers.Remove(c)
}

// Keep notes that whoever uses a connection that Accept has returned, or one on top of it, has proved who he is: it
// isn't closed any more so that others get in.
func (p *Port) Keep(nc net.Conn) {
	if c, ok := Below(nc).(*counted); ok {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.newcomers.Remove(c)
	}
}

// begin passes a connection on to Accept once it is known whether it uses TLS.
func (p *Port) begin(nc net.Conn) {
	conn := nc
	switch {
	case p.tls == nil:
	case !p.tls.Plain:
		conn = tls.Server(nc, p.tls.Config)
	default:
		first := make([]byte, 1)
		nc.SetReadDeadline(time.Now().Add(p.patience))
		stop := make(chan struct{})
		go func() { // interrupts the read when the port is closed
			select {
			case <-p.closed:
				nc.Close()
			case <-stop:
			}
		}()
		_, err := nc.Read(first)
		close(stop)
		if err != nil {
			nc.Close()
			return
		}
		nc.SetReadDeadline(time.Time{})
		conn = Replay(nc, first)
		if first[0] == handshakeRecord {
			conn = tls.Server(conn, p.tls.Config)
		}
	}
	select {
	case p.ready <- conn:
	case <-p.closed:
		nc.Close()
	}
}

// counted is a connection that is removed from its port when it is closed.
type counted struct {
	net.Conn
	port *Port
}

// Close closes the connection.
func (c *counted) Close() error {
	defer func() {
		c.port.mu.Lock()
		defer c.port.mu.Unlock()
		c.port.drop(c)
	}()
	return c.Conn.Close()
}
