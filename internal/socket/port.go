package socket

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"sync"
	"time"
)

// TLS configures how a Port accepts connections over TLS.
type TLS struct {
	Config *tls.Config
	// Plain also accepts connections without TLS on the same port.
	Plain bool
	// Check, if not nil, checks again the certificates that a client has shown in its handshake.
	Check func(shown []*x509.Certificate) error
}

// Text describes which connections are accepted, for the log. t may be nil.
func (t *TLS) Text() string {
	switch {
	case t == nil:
		return "none"
	case t.Plain:
		return "both"
	}
	return "only"
}

// handshakeRecord is the first byte of a TLS connection. No HTTP request starts with it.
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
	newcomers Newcomers // all connections without Keep
}

// NewPort starts to accept connections from l, with TLS by t; a nil t means no TLS. No more than most connections are
// open at a time. A further one replaces a newcomer, a connection for which Keep wasn't called (see Newcomers), so that
// strangers can't keep others out. patience is the time that a connection may take to send its first byte.
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

// Connections returns the number of open connections.
func (p *Port) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.open)
}

// Checked returns next, for requests of callers without a certificate, or with one that is still accepted. A connection
// may last as long as its caller keeps asking, and its certificate may be revoked meanwhile.
func (p *Port) Checked(next http.Handler) http.Handler {
	if p.tls == nil || p.tls.Check == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
			if err := p.tls.Check(r.TLS.PeerCertificates); err != nil {
				w.Header().Set("Connection", "close")
				http.Error(w, "the caller's certificate is no longer accepted: "+err.Error(), http.StatusForbidden)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
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

// enter counts a connection. If there are too many, it closes a newcomer. It returns false if there is no newcomer.
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

// drop removes a connection if it is still counted. The caller holds mu.
func (p *Port) drop(c *counted) {
	delete(p.open, c)
	p.newcomers.Remove(c)
}

// Keep records that the user of nc has authenticated, so that nc isn't closed to make room for others. nc is a
// connection that Accept has returned, or one on top of it.
func (p *Port) Keep(nc net.Conn) {
	if c, ok := Below(nc).(*counted); ok {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.newcomers.Remove(c)
	}
}

// begin passes a connection to Accept once it is known whether it uses TLS.
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
