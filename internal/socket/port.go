package socket

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"
)

// TLS says how a Port accepts connections over TLS.
type TLS struct {
	Config *tls.Config
	// Plain takes connections without TLS on the same port, too.
	Plain bool
}

// Text says for the log which connections are taken; t may be nil.
func (t *TLS) Text() string {
	switch {
	case t == nil:
		return "none"
	case t.Plain:
		return "both"
	}
	return "only"
}

// handshakeRecord is the first byte of a TLS connection, and of no HTTP request.
const handshakeRecord = 0x16

// acceptPause is the wait after an accept that failed, which would fail again at once.
const acceptPause = 100 * time.Millisecond

// A Port is a listener whose connections are few, and are TLS or not. The first byte of
// each is read on a goroutine of its own, so that none waits for a caller who is silent.
type Port struct {
	net.Listener
	tls *TLS
	// patience is how long a connection may take to send its first byte.
	patience time.Duration
	room     chan struct{} // one for each connection
	ready    chan net.Conn
	closed   chan struct{}
	once     sync.Once
	wg       sync.WaitGroup
}

// NewPort begins to accept connections of l, with TLS as t says, or without if that is nil. At most most of them are open at
// a time. A connection may take patience to send its first byte.
func NewPort(l net.Listener, t *TLS, patience time.Duration, most int) *Port {
	p := &Port{Listener: l, tls: t, patience: patience, room: make(chan struct{}, most), ready: make(chan net.Conn), closed: make(chan struct{})}
	p.wg.Go(p.acceptAll)
	return p
}

// Accept returns the next connection that has begun to speak.
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
	return p.Listener.Close()
}

// Connections returns how many connections are open.
func (p *Port) Connections() int { return len(p.room) }

// Wait waits for the goroutines of a closed Port.
func (p *Port) Wait() { p.wg.Wait() }

// acceptAll takes connections until the port is closed. One too many is closed at once.
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
		select {
		case p.room <- struct{}{}:
			p.wg.Go(func() { p.begin(&counted{Conn: nc, leave: sync.OnceFunc(func() { <-p.room })}) })
		default:
			nc.Close()
		}
	}
}

// begin hands a connection on once it is known whether it is TLS.
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
		go func() { // a port that is closed waits for nobody
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

// counted is a connection that gives its room back when it is closed.
type counted struct {
	net.Conn
	leave func()
}

// Close closes the connection.
func (c *counted) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
