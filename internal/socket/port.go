package socket

import (
	"crypto/tls"
	"errors"
	"net"
	"net/netip"
	"slices"
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

// acceptPause is the wait after a failed accept, since the next one would fail too.
const acceptPause = 100 * time.Millisecond

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

	mu    sync.Mutex
	most  int
	open  []*counted           // the oldest first
	hosts map[netip.Prefix]int // number of open connections by host
}

// NewPort starts accepting connections from l, with TLS as t says; a nil t means no TLS. At most most of them are open
// at a time. One more replaces the oldest connection of the host that has the most, so that no host can keep the
// others out. A connection may take patience to send its first byte.
func NewPort(l net.Listener, t *TLS, patience time.Duration, most int) *Port {
	p := &Port{
		Listener: l, tls: t, patience: patience, most: most, hosts: map[netip.Prefix]int{}, ready: make(chan net.Conn),
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
	for {
		nc, err := p.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			select {
			case <-p.closed:
				return
			case <-time.After(acceptPause):
				continue
			}
		}
		c := &counted{Conn: nc, port: p, host: hostOf(nc)}
		if closed := p.enter(c); closed != nil {
			closed.Conn.Close()
			if closed == c {
				continue
			}
		}
		p.wg.Go(func() { p.begin(c) })
	}
}

// enter counts a connection, and returns the one to close if there are too many: the oldest of the host that has the
// most, or c itself if its own host would have the most.
func (p *Port) enter(c *counted) (closed *counted) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.open) >= p.most {
		crowded, mine := c.host, p.hosts[c.host]+1
		for _, other := range p.open { // finds the oldest connection of such a host
			if n := p.hosts[other.host]; n > mine {
				crowded, mine = other.host, n
			}
		}
		if crowded == c.host {
			return c
		}
		closed = p.open[slices.IndexFunc(p.open, func(o *counted) bool { return o.host == crowded })]
		p.drop(closed)
	}
	p.open = append(p.open, c)
	p.hosts[c.host]++
	return closed
}

// drop removes a connection unless it is already removed. The caller holds mu.
func (p *Port) drop(c *counted) {
	i := slices.Index(p.open, c)
	if i < 0 {
		return
	}
	p.open = slices.Delete(p.open, i, i+1)
	if p.hosts[c.host]--; p.hosts[c.host] == 0 {
		delete(p.hosts, c.host)
	}
}

// hostOf returns where a connection comes from: an IPv4 address, or the first 64 bits of an IPv6 address, which
// identify the network, since a host may use all addresses in it.
func hostOf(nc net.Conn) netip.Prefix {
	remote, err := netip.ParseAddrPort(nc.RemoteAddr().String())
	if err != nil {
		return netip.Prefix{} // all such connections count as one host
	}
	addr, bits := remote.Addr().Unmap(), 32
	if addr.Is6() {
		bits = 64
	}
	host, _ := addr.Prefix(bits) // never fails: an address has at least these bits
	return host
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
	host netip.Prefix
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
