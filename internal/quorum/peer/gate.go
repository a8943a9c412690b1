package peer

import (
	"net"
	"net/netip"
	"sync"

	"github.com/zooid-project/zooid/internal/socket"
)

// Limits of the peer port. A stranger can hold a connection for handshakeTimeout, and makes this server read no more
// than an opening and a proof. If there are too many such connections, one is closed, so that peers still get through:
// as on other ports, the oldest of the network that has the most (socket.Newcomers), or any if no network has more than
// one. Connections from networks where no server has proven itself are closed first. The newest connection is never
// closed.
const (
	// handshakesMax bounds the unproven connections, whose handshake isn't complete.
	handshakesMax = 64
	// handshakesPerHostMax bounds the unproven connections of one IPv4 address or one IPv6 network, which several servers
	// may share.
	handshakesPerHostMax = 16
	// connectionsPerPeerMax bounds the proven connections of one server: one for
	// messages, one that replaces it, one for a snapshot, and a few short ones.
	connectionsPerPeerMax = 8
	// connectionsMax bounds the proven connections of all servers together.
	connectionsMax = 256
	// provenHostsMax bounds the addresses that are remembered because a server has proven itself
	// from there. If there are more, all are forgotten.
	provenHostsMax = 256
	// DescriptorsMax is how many file descriptors the peer port and this server's own
	// connections to peers may use.
	DescriptorsMax = handshakesMax + connectionsMax + 64
)

// gate keeps the accepted connections of the peer port within limits. It is safe for
// concurrent use.
type gate struct {
	mu sync.Mutex
	// conns holds all connections. The unproven ones are also in familiar if a server had proven itself from their network
	// when they came, else in strangers.
	conns               map[net.Conn]*visit
	familiar, strangers socket.Newcomers
	peers               map[uint64]int        // proven connections by server
	hosts               map[netip.Prefix]bool // networks from which a server has proven itself
	proven              int
	shut                bool
}

// visit is one accepted connection.
type visit struct {
	proven bool
	id     uint64 // the peer's id, if proven
	legacy bool   // counts as proven, though the peer has not proven its identity
}

func newGate() gate {
	return gate{conns: map[net.Conn]*visit{}, peers: map[uint64]int{}, hosts: map[netip.Prefix]bool{}}
}

// enter admits a connection to the handshake. If there are too many, it closes one and
// returns that, else nil.
func (g *gate) enter(c net.Conn) (closed net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		c.Close()
		return nil
	}
	g.conns[c] = &visit{}
	host := socket.NetworkOf(c.RemoteAddr())
	if g.hosts[host] {
		g.familiar.Add(c)
	} else {
		g.strangers.Add(c)
	}
	switch {
	case g.strangers.LenOf(host)+g.familiar.LenOf(host) > handshakesPerHostMax:
		if closed = g.strangers.FirstOf(host); closed == nil || closed == c {
			closed = g.familiar.FirstOf(host)
		}
	case g.strangers.Len()+g.familiar.Len() > handshakesMax:
		if closed = g.strangers.FirstOfFew(c); closed == nil {
			closed = g.familiar.FirstOfFew(c)
		}
	default:
		return nil
	}
	closed.Close()
	delete(g.conns, closed)
	g.seen(closed)
	return closed
}

// seen records that a connection is proven or closed.
func (g *gate) seen(c net.Conn) {
	if !g.strangers.Remove(c) {
		g.familiar.Remove(c)
	}
}

// prove marks a connection as one of server id. It returns false if there are too many.
func (g *gate) prove(c net.Conn, id uint64, legacy bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	v := g.conns[c]
	if v == nil || g.peers[id] >= connectionsPerPeerMax || g.proven >= connectionsMax {
		return false
	}
	v.proven, v.id, v.legacy = true, id, legacy
	g.seen(c)
	if !legacy {
		g.note(socket.NetworkOf(c.RemoteAddr()))
	}
	g.peers[id]++
	g.proven++
	return true
}

// know records that a server has proven itself at an address.
func (g *gate) know(remote net.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.note(socket.NetworkOf(remote))
}

func (g *gate) note(host netip.Prefix) {
	if len(g.hosts) >= provenHostsMax {
		clear(g.hosts)
	}
	g.hosts[host] = true
}

// leave forgets a connection.
func (g *gate) leave(c net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	v := g.conns[c]
	delete(g.conns, c)
	g.seen(c)
	if v != nil && v.proven {
		g.proven--
		if g.peers[v.id]--; g.peers[v.id] == 0 {
			delete(g.peers, v.id)
		}
	}
}

// dropLegacy closes the legacy connections.
func (g *gate) dropLegacy() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c, v := range g.conns { // any order: all are closed
		if v.legacy {
			c.Close()
		}
	}
}

// close closes all connections, and makes enter close new ones.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shut = true
	for c := range g.conns { // any order: all are closed
		c.Close()
	}
}
