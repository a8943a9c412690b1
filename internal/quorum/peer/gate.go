package peer

import (
	"cmp"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"

	"github.com/zooid-project/zooid/internal/socket"
)

// Limits of the peer port. A stranger can hold a connection for handshakeTimeout, and
// makes this server read no more than an opening and a proof. If there are too many such
// connections, one is closed, so that peers still get through: the oldest of the IPv4 address or IPv6 network that
// has the most, or any one if all have one, and of one from which no server has ever proven itself if there is one.
// It is never the one that has just come.
const (
	// handshakesMax bounds the unproven connections, whose handshake isn't complete.
	handshakesMax = 64
	// handshakesPerHostMax bounds the unproven connections of one IPv4 address, or of an IPv6 network, which several
	// servers may share.
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
	mu     sync.Mutex
	conns  map[net.Conn]*visit
	peers  map[uint64]int        // proven connections by server
	hosts  map[netip.Prefix]bool // networks from which a server has proven itself
	proven int
	serial uint64
	shut   bool
}

// visit is one accepted connection.
type visit struct {
	host   netip.Prefix // socket.NetworkOf
	serial uint64       // the oldest connection has the lowest
	proven bool
	id     uint64 // the peer's id, if proven
	legacy bool   // counts as proven, though the peer has not proven its identity
}

func newGate() gate {
	return gate{conns: map[net.Conn]*visit{}, peers: map[uint64]int{}, hosts: map[netip.Prefix]bool{}}
}

// enter admits a connection to the handshake. If there are too many, it closes one and
// returns it, else nil.
func (g *gate) enter(c net.Conn) (closed net.Conn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		c.Close()
		return nil
	}
	g.serial++
	v := &visit{host: socket.NetworkOf(c.RemoteAddr()), serial: g.serial}
	g.conns[c] = v
	count, waiting := map[netip.Prefix]int{}, 0
	for _, w := range g.conns { // any order: they are counted
		if !w.proven {
			count[w.host]++
			waiting++
		}
	}
	switch {
	case count[v.host] > handshakesPerHostMax:
		closed = g.first(c, func(w *visit) bool { return w.host == v.host }, count)
	case waiting > handshakesMax:
		closed = g.first(c, func(*visit) bool { return true }, count)
	default:
		return nil
	}
	closed.Close()
	delete(g.conns, closed)
	return closed
}

// first returns the unproven connection that is closed first, of those which may be and aren't newest. count holds the
// unproven connections of each address. If many addresses have a connection each, whose makers come again at once, the
// oldest would be that of a server on a slow network, each time: any one goes then.
func (g *gate) first(newest net.Conn, may func(*visit) bool, count map[netip.Prefix]int) (closed net.Conn) {
	var worst *visit
	equals := 0
	for c, w := range g.conns { // any order: worse is a total order, but for equals
		if w.proven || c == newest || !may(w) {
			continue
		}
		order := 1
		if worst != nil {
			order = g.worse(w, worst, count)
		}
		switch {
		case order > 0:
			closed, worst, equals = c, w, 1
		case order == 0:
			if equals++; rand.IntN(equals) == 0 {
				closed, worst = c, w
			}
		}
	}
	return closed
}

// worse returns a number above 0 if a is closed before b, one below 0 if b is closed before a, and 0 if either may be.
func (g *gate) worse(a, b *visit, count map[netip.Prefix]int) int {
	switch {
	case g.hosts[a.host] != g.hosts[b.host] && g.hosts[b.host]:
		return 1
	case g.hosts[a.host] != g.hosts[b.host]:
		return -1
	case count[a.host] == 1 && count[b.host] == 1:
		return 0
	}
	return cmp.Or(cmp.Compare(count[a.host], count[b.host]), cmp.Compare(b.serial, a.serial))
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
	if !legacy {
		g.note(v.host)
	}
	g.peers[id]++
	g.proven++
	return true
}

// know notes that a server has proven itself at an address.
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
