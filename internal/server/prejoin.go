package server

import (
	"crypto/tls"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zooid-project/zooid/internal/fourletter"
	"github.com/zooid-project/zooid/internal/socket"
)

// A server with an empty data directory waits until it has met its peers, which may take long. It
// has nothing to serve, but its ports are open: a four-letter word, over TLS or not, shows that it runs and doesn't
// serve, and a client is turned away at once and tries the next server.

// prejoin holds the client ports of a server that has not joined its ensemble yet.
type prejoin struct {
	acceptor  *acceptor
	listeners map[string]net.Listener // by configured address
	stopped   chan struct{}
	wg        sync.WaitGroup
	waits     atomic.Pointer[string] // what the server waits for
}

// openPrejoin opens the client ports; connections are turned away until end.
func openPrejoin(ports *clientPorts, a *acceptor) (*prejoin, error) {
	p := &prejoin{acceptor: a, listeners: map[string]net.Listener{}, stopped: make(chan struct{})}
	p.waits.Store(new(string))
	for _, addr := range slices.Concat(a.opt.Listen, a.opt.Secure.Listen) {
		l, err := ports.bind(addr, a.opt.BindRetries)
		if err != nil {
			p.end()
			p.close()
			return nil, err
		}
		p.listeners[addr] = l
		secure := !slices.Contains(a.opt.Listen, addr)
		p.wg.Go(func() { p.turnAwayAll(l, secure) })
	}
	return p, nil
}

// end stops turning connections away; the ports stay open.
func (p *prejoin) end() {
	close(p.stopped)
	p.setDeadlines(time.Now())
	p.wg.Wait()
	p.setDeadlines(time.Time{})
}

func (p *prejoin) setDeadlines(t time.Time) {
	for _, l := range p.listeners { // in any order
		if d, ok := l.(interface{ SetDeadline(time.Time) error }); ok {
			d.SetDeadline(t)
		}
	}
}

// take returns the listener on addr that openPrejoin opened, or nil. The caller then owns it.
func (p *prejoin) take(addr string) net.Listener {
	if p == nil {
		return nil
	}
	l := p.listeners[addr]
	delete(p.listeners, addr)
	return l
}

// close closes the listeners that weren't taken.
func (p *prejoin) close() {
	if p == nil {
		return
	}
	for _, l := range p.listeners { // in any order
		socket.CloseListener(l)
	}
	clear(p.listeners)
}

func (p *prejoin) turnAwayAll(l net.Listener, secure bool) {
	var open sync.WaitGroup
	defer open.Wait()
	for nc := range socket.Accepted(l, p.stopped, nil) {
		select {
		case <-p.stopped:
			nc.Close()
			return
		default:
		}
		if why := p.acceptor.admit(nc); why != "" {
			nc.Close()
			continue
		}
		open.Go(func() {
			defer p.acceptor.connections.forget(nc)
			defer nc.Close()
			p.acceptor.turnAway(nc, secure, *p.waits.Load())
		})
	}
}

// turnAwayPatience is how long a connection may take to send a four-letter word; end waits for it.
const turnAwayPatience = time.Second

// turnAway answers a four-letter word, and nothing else. secure says that the connection begins with a TLS handshake;
// waits is what the server waits for.
func (a *acceptor) turnAway(nc net.Conn, secure bool, waits string) {
	deadline := time.Now().Add(turnAwayPatience)
	nc.SetDeadline(deadline)
	conn := nc
	var head []byte
	var err error
	if !secure {
		head, err = readTo(nc, make([]byte, 0, frameHead), frameHead)
		secure = err == nil && a.opt.Secure.Unify && head[0] == tlsHandshakeRecord
	}
	if secure && !a.opt.Secure.DropEarly {
		h := a.handshakes.begin(nc)
		defer a.handshakes.end(h)
		nc.SetDeadline(deadline) // not the later one of begin
		conn = tls.Server(socket.Replay(nc, head), a.opt.Secure.TLS)
		if err = h.err; err == nil {
			head, err = readTo(conn, make([]byte, 0, frameHead), frameHead)
		}
	}
	if err != nil || !fourletter.Is(string(head)) {
		return
	}
	ask := fourletter.Ask{Word: string(head), Remote: javaSocket(nc.RemoteAddr().String()), Rest: conn, Waits: waits}
	if a.words.Answer(a.reports, ask, func(text []byte) error { _, err := conn.Write(text); return err }) == nil {
		socket.Linger(conn, wordLinger)
	}
}

// isOwn reports whether a connection that this server has made leads to one of these ports.
func (p *prejoin) isOwn(c net.Conn) bool {
	from, fromTCP := c.LocalAddr().(*net.TCPAddr)
	to, toTCP := c.RemoteAddr().(*net.TCPAddr)
	if !fromTCP || !toTCP {
		return false
	}
	here := from.IP.Equal(to.IP) || from.IP.IsLoopback() && to.IP.IsLoopback()
	for _, l := range p.listeners { // in any order
		at, ok := l.Addr().(*net.TCPAddr)
		if ok && at.Port == to.Port && (at.IP.Equal(to.IP) || here && allInterfaces(at.IP)) {
			return true
		}
	}
	return false
}
