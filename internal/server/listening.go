package server

import (
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/zooid-project/zooid/internal/quorum/peer"
	"github.com/zooid-project/zooid/internal/socket"
)

// A reconfig may change a server's addresses. The server listens at the new ones before it stops listening at the old
// ones, and existing connections stay. Client ports follow the membership in force. A new peer port is opened as soon
// as a change that names it is under way, because the other servers dial it from then on; the old one is closed when no
// change is under way. If the server can't listen at an address, it logs that, tries again, and continues with the
// addresses that it has.

// Listening holds the addresses at which a membership has a server listen, as "host:port"; "" where it names none.
type Listening struct{ Clients, Secure, Peers string }

// listenRetry is the time between two attempts to listen at an address.
const listenRetry = time.Second

// memberPorts keeps this server's listeners at the addresses in the membership. follow owns all fields but changed.
type memberPorts struct {
	*engine
	clients *clientPorts
	changed signal // the membership may name other addresses

	peers     []net.Listener
	announced peer.ClientAddresses // last announced to the peers
	told      map[string]string    // the last error logged, by attempted action
}

// follow moves the listeners whenever the membership has changed.
func (m *memberPorts) follow() {
	retry := time.NewTimer(listenRetry)
	retry.Stop()
	defer retry.Stop()
	for {
		select {
		case <-m.closing:
			return
		case <-m.changed:
		case <-retry.C:
		}
		if !m.listenAsNamed() {
			retry.Reset(listenRetry)
		}
	}
}

// listenAsNamed listens at this server's addresses in the membership, and reports whether nothing is left to do.
func (m *memberPorts) listenAsNamed() (done bool) {
	done = true
	tell := func(what, address string, err error) {
		if err == nil {
			delete(m.told, what)
			return
		}
		if done = false; m.told[what] != err.Error() {
			m.told[what] = err.Error()
			m.log.Warn("the membership names an address where this server can't listen; it keeps the one it has, and tries again",
				"for", what, "address", address, "err", err, "code", "ZD-3207")
		}
	}
	text, _ := m.replica.Members()
	named, ok := m.opt.Membership.Listening(text, m.opt.ID)
	asked, asks := m.opt.Membership.Listening(m.replica.StagedMembers(), m.opt.ID)
	current := m.serving() // otherwise the applied membership may be older than one applied before the restart
	if asks {
		tell("peers of the next membership", asked.Peers, m.addPeerPort(asked.Peers))
	}
	if !ok {
		return done
	}
	err := m.addPeerPort(named.Peers)
	tell("peers", named.Peers, err)
	if !current {
		return false
	}
	if err == nil && !m.replica.Changing() {
		m.keepPeerPorts(named.Peers)
	}
	tell("clients", named.Clients, m.clients.move(named.Clients, false))
	tell("clients over TLS", named.Secure, m.clients.move(named.Secure, true))
	m.announce()
	return done
}

// announce sends the peers this server's client addresses.
func (m *memberPorts) announce() {
	if a := m.clients.addresses(); a != m.announced {
		m.announced = a
		m.peer.AnnounceClients(a)
	}
}

// addPeerPort also listens for peers at addr, unless this server already does.
func (m *memberPorts) addPeerPort(addr string) error {
	if addr == "" || slices.ContainsFunc(m.peers, func(l net.Listener) bool { return covers(l, addr) }) {
		return nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	m.peers = append(m.peers, l)
	m.peer.Accept(l)
	m.log.Info("accepting peers", "address", l.Addr().String())
	return nil
}

// keepPeerPorts stops listening for peers anywhere except at addr.
func (m *memberPorts) keepPeerPorts(addr string) {
	m.peers = slices.DeleteFunc(m.peers, func(l net.Listener) bool {
		if addr == "" || covers(l, addr) {
			return false
		}
		socket.CloseListener(l)
		m.log.Info("peers are no longer accepted here: the membership names another address", "address", l.Addr().String())
		return true
	})
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
