package server

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/quorum/peer"
	"github.com/zooid-project/zooid/internal/serverid"
	"github.com/zooid-project/zooid/internal/socket"
)

// A reconfig may give a server other addresses. The server listens at the new ones before it stops
// listening at the old ones, and existing connections go on. Client ports follow the membership in
// force. A new peer port is opened as soon as a change that names it is under way, because the
// other servers dial it from then on; the old one is closed when no change is under way. If the
// server can't listen at an address, it logs that, tries again, and goes on with the addresses it
// has.

// Listening is where a membership has a server listen, as "host:port"; "" where the membership
// names no address.
type Listening struct{ Clients, Secure, Peers string }

// A port is a listener for clients or for peers.
type port struct {
	net.Listener
	secure bool // for clients over TLS only
}

// listenRetry is the time between two attempts to listen at an address.
const listenRetry = time.Second

// followListening moves the listeners whenever the membership has changed.
func (s *Server) followListening() {
	defer s.wg.Done()
	retry := time.NewTimer(listenRetry)
	retry.Stop()
	defer retry.Stop()
	told := map[string]string{} // the last error logged, by what was tried
	for {
		select {
		case <-s.closing:
			return
		case <-s.listening:
		case <-retry.C:
		}
		if !s.listenAsNamed(told) {
			retry.Reset(listenRetry)
		}
	}
}

// listenAsNamed listens where the membership names this server, and reports whether nothing is left
// to be done.
func (s *Server) listenAsNamed(told map[string]string) (done bool) {
	done = true
	tell := func(what, address string, err error) {
		if err == nil {
			delete(told, what)
			return
		}
		if done = false; told[what] != err.Error() {
			told[what] = err.Error()
			s.log.Warn("the membership names an address where this server can't listen; it goes on with the one it has, and tries again",
				"for", what, "address", address, "err", err, "code", "ZD-3207")
		}
	}
	text, _ := s.replica.Members()
	named, ok := s.opt.Membership.Listening(text, s.opt.ID)
	asked, asks := s.opt.Membership.Listening(s.replica.StagedMembers(), s.opt.ID)
	current := s.Status().Serving // otherwise the applied membership may be older than one applied before the restart
	if asks {
		tell("peers of the next membership", asked.Peers, s.addPeerPort(asked.Peers))
	}
	if !ok {
		return done
	}
	err := s.addPeerPort(named.Peers)
	tell("peers", named.Peers, err)
	if !current {
		return false
	}
	if err == nil && !s.replica.Changing() {
		s.keepPeerPorts(named.Peers)
	}
	tell("clients", named.Clients, s.moveClients(named.Clients, false))
	tell("clients over TLS", named.Secure, s.moveClients(named.Secure, true))
	s.tellClients()
	return done
}

// tellClients tells the peers where this server takes clients.
func (s *Server) tellClients() {
	if a := s.clientAddresses(); a != s.toldClients {
		s.toldClients = a
		s.peer.AnnounceClients(a)
	}
}

// clientAddresses returns where this server takes clients; without a host where it listens on all of its addresses.
func (s *Server) clientAddresses() (a peer.ClientAddresses) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.ports {
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

// allClientAddresses returns where the servers of the ensemble take clients, without TLS and with it, by id, as far as
// this one knows.
func (s *Server) allClientAddresses() (plain, secure map[int64]string) {
	all, host := s.peer.Clients(), "127.0.0.1"
	for _, m := range s.opt.Members {
		if m.ID == s.opt.ID && len(m.Addrs) > 0 {
			host, _, _ = net.SplitHostPort(m.Addrs[0])
		}
	}
	all[s.opt.ID] = s.clientAddresses()
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

// addPeerPort also listens for peers at addr, unless this server already does.
func (s *Server) addPeerPort(addr string) error {
	if addr == "" || slices.ContainsFunc(s.peerPorts, func(l net.Listener) bool { return covers(l, addr) }) {
		return nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	s.peerPorts = append(s.peerPorts, l)
	s.peer.Accept(l)
	s.log.Info("accepting peers", "address", l.Addr().String())
	return nil
}

// keepPeerPorts stops listening for peers anywhere except at addr.
func (s *Server) keepPeerPorts(addr string) {
	s.peerPorts = slices.DeleteFunc(s.peerPorts, func(l net.Listener) bool {
		if addr == "" || covers(l, addr) {
			return false
		}
		socket.CloseListener(l)
		s.log.Info("no peers are accepted here any more: the membership names another address", "address", l.Addr().String())
		return true
	})
}

// moveClients makes the server listen for clients at addr instead of its current address. If it has
// several addresses, which no membership names, it moves none.
func (s *Server) moveClients(addr string, secure bool) error {
	s.mu.Lock()
	var own []port
	for _, p := range s.ports {
		if p.secure == secure {
			own = append(own, p)
		}
	}
	s.mu.Unlock()
	switch {
	case addr == "" || len(own) > 1 || secure && s.opt.Secure.TLS == nil || len(own) == 1 && isAt(own[0], addr):
		return nil
	case len(own) == 0:
		l, err := s.listenForClients(addr, 0)
		if err != nil {
			return err
		}
		s.log.Info(acceptingClients[secure], "address", l.Addr().String())
		s.acceptOn(port{l, secure}, port{})
		return nil
	}
	old := own[0]
	l, err := s.listenForClients(addr, 0)
	if err != nil && portOf(old.Addr().String()) == portOf(addr) {
		socket.CloseListener(old.Listener) // the old listener is in the way: one of the two is an address of all interfaces
		if l, err = s.listenForClients(addr, 0); err != nil {
			back, lost := s.listenForClients(old.Addr().String(), 0)
			if lost != nil {
				s.forgetPort(old)
				return fmt.Errorf("%w; nor can it go back: %w", err, lost)
			}
			s.replacePort(old, back)
			return err
		}
	}
	if err != nil {
		return err
	}
	s.replacePort(old, l)
	s.log.Info("clients are accepted at another address, as the membership says; connections go on",
		"address", l.Addr().String(), "before", old.Addr().String())
	return nil
}

// replacePort closes old and accepts clients on l instead.
func (s *Server) replacePort(old port, l net.Listener) {
	socket.CloseListener(old.Listener)
	s.acceptOn(port{l, old.secure}, old)
}

// forgetPort removes p, which is closed, from the ports.
func (s *Server) forgetPort(p port) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ports = slices.DeleteFunc(s.ports, func(other port) bool { return other == p })
}

// acceptOn accepts clients on p until Close closes it. p replaces old in the list of ports, if old
// is in it.
func (s *Server) acceptOn(p, old port) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.closing:
		socket.CloseListener(p.Listener)
		return
	default:
	}
	if at := slices.Index(s.ports, old); at >= 0 {
		s.ports[at] = p
	} else {
		s.ports = append(s.ports, p)
	}
	s.wg.Add(1)
	go s.accept(p.Listener, p.secure)
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

// covers reports whether dialing addr reaches l, as far as this server can tell.
func covers(l net.Listener, addr string) bool {
	have, ok := l.Addr().(*net.TCPAddr)
	return isAt(l, addr) || ok && allInterfaces(have.IP) && fmt.Sprint(have.Port) == portOf(addr)
}

func allInterfaces(ip net.IP) bool { return len(ip) == 0 || ip.IsUnspecified() }

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}
