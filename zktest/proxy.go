package zktest

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// A Proxy forwards TCP connections to a server. Its methods may be called from any goroutine.
type Proxy struct {
	listener net.Listener
	target   func() string
	wg       sync.WaitGroup

	mu     sync.Mutex
	refuse bool
	conns  map[net.Conn]struct{} // both ends of every pair
}

// NewProxy listens on a loopback port until the test ends. If it can't, it ends the test by t.Fatal, so call it from
// the test's goroutine. The proxy calls target for the server's address, "host:port", at each connection, from several
// goroutines. If target returns "", or the server can't be reached within 5 s, the proxy closes the connection.
func NewProxy(t testing.TB, target func() string) *Proxy {
	t.Helper()
	return newProxy(t, target)
}

func newProxy(t host, target func() string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("zktest: listen for the proxy: %v", err)
	}
	p := &Proxy{listener: l, target: target, conns: map[net.Conn]struct{}{}}
	p.wg.Add(1)
	go p.accept()
	t.Cleanup(func() {
		l.Close()
		p.Refuse(true)
		p.wg.Wait()
	})
	return p
}

// Address returns the address for clients, "host:port".
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Cut closes every connection. Data in transit are lost. Clients may connect again at once.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		conn.Close()
	}
}

// Refuse(true) closes every connection, and each new one until Refuse(false).
func (p *Proxy) Refuse(on bool) {
	p.mu.Lock()
	p.refuse = on
	p.mu.Unlock()
	if on {
		p.Cut()
	}
}

func (p *Proxy) accept() {
	defer p.wg.Done()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Add(1)
		go p.serve(client)
	}
}

// dialTimeout bounds the wait for a server on the same machine.
const dialTimeout = 5 * time.Second

// serve forwards between client and server until either ends.
func (p *Proxy) serve(client net.Conn) {
	defer p.wg.Done()
	defer client.Close()
	if !p.keep(client) {
		return
	}
	defer p.drop(client)
	address := p.target()
	if address == "" {
		return
	}
	server, err := net.DialTimeout("tcp", address, dialTimeout)
	if err != nil {
		return
	}
	defer server.Close()
	if !p.keep(server) {
		return
	}
	defer p.drop(server)
	var back sync.WaitGroup
	back.Go(func() {
		io.Copy(client, server)
		client.Close()
	})
	io.Copy(server, client)
	server.Close()
	back.Wait()
}

// keep registers a connection for Cut. It returns false if connections are refused.
func (p *Proxy) keep(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuse {
		return false
	}
	p.conns[conn] = struct{}{}
	return true
}

func (p *Proxy) drop(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, conn)
}
