package server

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/zooid-project/zooid/internal/fourletter"
	"github.com/zooid-project/zooid/internal/quorum/peer"
	"github.com/zooid-project/zooid/internal/runbook"
	"github.com/zooid-project/zooid/internal/serverid"
	"github.com/zooid-project/zooid/internal/socket"
	"github.com/zooid-project/zooid/internal/wordclient"
)

// A port is a listener for clients or for peers.
type port struct {
	net.Listener
	secure bool // for clients over TLS only
}

// clientPorts are the listeners for clients.
type clientPorts struct {
	*engine
	prejoin *prejoin
	accept  func(l net.Listener, secure bool) // accepts clients until l is closed

	mu    sync.Mutex
	ports []port
}

// Addrs returns the addresses on which clients are accepted, those without TLS first.
func (c *clientPorts) Addrs() []net.Addr {
	c.mu.Lock()
	defer c.mu.Unlock()
	var addrs []net.Addr
	for _, l := range c.ports {
		addrs = append(addrs, l.Addr())
	}
	return addrs
}

func (c *clientPorts) listen() error {
	for _, addr := range c.opt.Listen {
		if err := c.listenOn(addr, false); err != nil {
			return err
		}
	}
	for _, addr := range c.opt.Secure.Listen {
		if err := c.listenOn(addr, true); err != nil {
			return err
		}
	}
	return nil
}

func (c *clientPorts) listenOn(addr string, secure bool) error {
	l := c.prejoin.take(addr)
	if l == nil {
		var err error
		if l, err = c.bind(addr, c.opt.BindRetries); err != nil {
			return err
		}
	}
	c.begin(l, secure)
	return nil
}

// begin accepts clients on l, too.
func (c *clientPorts) begin(l net.Listener, secure bool) {
	c.log.Info(acceptingClients[secure], "address", l.Addr().String())
	c.open(port{l, secure}, port{})
}

// acceptingClients is the log message about a client port; the key says whether the port is for TLS.
var acceptingClients = map[bool]string{false: "accepting clients", true: "accepting clients over TLS"}

func (c *clientPorts) bind(addr string, retries int) (net.Listener, error) {
	config := net.ListenConfig{KeepAlive: -1}
	if c.opt.TCPKeepAlive {
		// -1 leaves the value to the system.
		config.KeepAliveConfig = net.KeepAliveConfig{Enable: true, Idle: -1, Interval: -1, Count: -1}
	}
	binder := c.opt.binder(config)
	binder.Retries = retries
	l, err := binder.Listen(addr)
	if err != nil {
		return nil, runbook.Errorf("ZD-1104", "listen for clients on %s: %w (is another server running there?)", addr, err)
	}
	if c.opt.Backlog > 0 {
		socket.SetBacklog(l, c.opt.Backlog)
	}
	return l, nil
}

// addresses returns the addresses at which this server accepts clients, without a host where it listens on all
// interfaces.
func (c *clientPorts) addresses() (a peer.ClientAddresses) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.ports {
		at := &a.Plain
		if p.secure {
			at = &a.Secure
		}
		tcp, ok := p.Addr().(*net.TCPAddr)
		if !ok || *at != "" {
			continue
		}
		host := tcp.IP.String()
		if tcp.IP.IsUnspecified() {
			host = ""
		}
		*at = net.JoinHostPort(host, strconv.Itoa(tcp.Port))
	}
	return a
}

// ensembleAddresses returns the known addresses at which the servers of the ensemble accept clients, without TLS and
// with it, by id.
func (c *clientPorts) ensembleAddresses() (plain, secure map[int64]string) {
	all, host := c.peer.Clients(), "127.0.0.1"
	for _, m := range c.opt.Members {
		if m.ID == c.opt.ID && len(m.Addrs) > 0 {
			host, _, _ = net.SplitHostPort(m.Addrs[0])
		}
	}
	all[c.opt.ID] = c.addresses()
	plain, secure = map[int64]string{}, map[int64]string{}
	note := func(to map[int64]string, id uint64, address string) {
		if port, ok := strings.CutPrefix(address, ":"); ok {
			address = net.JoinHostPort(host, port)
		}
		if address != "" {
			to[serverid.MyID(id)] = address
		}
	}
	for id, a := range all {
		note(plain, id, a.Plain)
		note(secure, id, a.Secure)
	}
	return plain, secure
}

// move makes the server listen for clients at addr instead of its current address. If the server has several addresses,
// move changes none: a membership names only one.
func (c *clientPorts) move(addr string, secure bool) error {
	c.mu.Lock()
	var own []port
	for _, p := range c.ports {
		if p.secure == secure {
			own = append(own, p)
		}
	}
	c.mu.Unlock()
	switch {
	case addr == "" || len(own) > 1 || secure && c.opt.Secure.TLS == nil || len(own) == 1 && isAt(own[0], addr):
		return nil
	case len(own) == 0:
		l, err := c.bind(addr, 0)
		if err != nil {
			return err
		}
		c.begin(l, secure)
		return nil
	}
	old := own[0]
	l, err := c.bind(addr, 0)
	if err != nil && portOf(old.Addr().String()) == portOf(addr) {
		socket.CloseListener(old.Listener) // the old listener is in the way: one of the two is an address of all interfaces
		if l, err = c.bind(addr, 0); err != nil {
			back, lost := c.bind(old.Addr().String(), 0)
			if lost != nil {
				c.forget(old)
				return fmt.Errorf("%w; nor can it go back: %w", err, lost)
			}
			c.replace(old, back)
			return err
		}
	}
	if err != nil {
		return err
	}
	c.replace(old, l)
	c.log.Info("clients are accepted at another address, as the membership says; connections continue",
		"address", l.Addr().String(), "before", old.Addr().String())
	return nil
}

// replace closes old and accepts clients on l instead.
func (c *clientPorts) replace(old port, l net.Listener) {
	socket.CloseListener(old.Listener)
	c.open(port{l, old.secure}, old)
}

// forget removes p, which is closed, from the ports.
func (c *clientPorts) forget(p port) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ports = slices.DeleteFunc(c.ports, func(other port) bool { return other == p })
}

// open accepts clients on p until Close closes it. p replaces old in the list of ports, if old is in it.
func (c *clientPorts) open(p, old port) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.lifetime.begin(func() { c.accept(p.Listener, p.secure) }) {
		socket.CloseListener(p.Listener)
		return
	}
	if at := slices.Index(c.ports, old); at >= 0 {
		c.ports[at] = p
	} else {
		c.ports = append(c.ports, p)
	}
}

// isAt reports whether l listens at addr. Port 0 is any port.
func isAt(l net.Listener, addr string) bool {
	want, err := net.ResolveTCPAddr("tcp", addr)
	have, ok := l.Addr().(*net.TCPAddr)
	if err != nil || !ok {
		return false
	}
	return want.Port == 0 ||
		want.Port == have.Port && (want.IP.Equal(have.IP) || allInterfaces(want.IP) && allInterfaces(have.IP))
}

// close stops accepting clients. The engine's lifetime is over, or else ports may be opened again.
func (c *clientPorts) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.ports {
		socket.CloseListener(p.Listener)
	}
}

// A clientsFile is wordclient.ClientsFile, where tools find the addresses for clients of all servers.
type clientsFile struct {
	*engine
	ports *clientPorts
	kept  string // what the file says
}

// keep writes wordclient.ClientsFile if what it says has changed. A server that can't write it continues without it.
func (f *clientsFile) keep() {
	plain, secure := f.ports.ensembleAddresses()
	standing := fourletter.Standing{
		Clients: plain, SecureClients: secure, Foreign: foreign(f.peer), SameID: f.peer.SameID(),
	}
	now := standing.KeptLines()
	if now == f.kept || len(f.opt.Members) < 2 {
		return
	}
	f.kept = now
	path := filepath.Join(f.opt.DataDir, wordclient.ClientsFile)
	err := os.WriteFile(path+".new", []byte(now), 0o644) // read by tools of other users, if the directory lets them
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		f.log.Info("the servers' client addresses can't be saved in a file; zooid status gets them by mntr, if permitted",
			"file", path, "err", err)
	}
}

// remove removes the file.
func (f *clientsFile) remove() { _ = os.Remove(filepath.Join(f.opt.DataDir, wordclient.ClientsFile)) }
