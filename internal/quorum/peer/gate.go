package peer

import (
	"net"
	"sync"
)

// Limits of the peer port. A stranger can hold a connection for handshakeTimeout, and
// makes this server read no more than an opening and a proof. If there are too many such
// connections, the oldest one of the address that has the most is closed, so that peers
// still get through.
const (
	// handshakesMax bounds the unproven connections, whose handshake isn't complete.
	handshakesMax = 64
	// handshakesPerHostMax bounds the unproven connections of one address, which several
	// servers may share.
	handshakesPerHostMax = 16
	// connectionsPerPeerMax bounds the proven connections of one server: one for
	// messages, one that replaces it, one for a snapshot, and a few short ones.
	connectionsPerPeerMax = 8
	// connectionsMax bounds the proven connections of all servers together.
	connectionsMax = 256
	// DescriptorsMax is how many file descriptors the peer port and this server's own
	// connections to peers may use.
	DescriptorsMax = handshakesMax + connectionsMax + 64
)

// gate keeps the accepted connections of the peer port within limits. It is safe for
// concurrent use.
type gate struct {
	mu     sync.Mutex
	conns  map[net.Conn]*visit
	peers  map[uint64]int // proven connections by server
	proven int
	serial uint64
	shut   bool
}

// visit is one accepted connection.
type visit struct {
	host   string
	serial uint64 // the oldest connection has the lowest
	proven bool
	id     uint64 // the peer's id, if proven
	legacy bool   // counts as proven, though the peer has not proven its identity
}

func newGate() gate { return gate{conns: map[net.Conn]*visit{}, peers: map[uint64]int{}} }

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
	v := &visit{host: hostOf(c), serial: g.serial}
	g.conns[c] = v
	hosts, waiting := map[string]int{}, 0
	for _, w := range g.conns { // any order: they are counted
		if !w.proven {
			hosts[w.host]++
			waiting++
		}
	}
	crowded := v.host
	if hosts[crowded] <= handshakesPerHostMax {
		if waiting <= handshakesMax {
			return nil
		}
		for host, n := range hosts { // any order: one of those that have the most
			if n > hosts[crowded] {
				crowded = host
			}
		}
	}
	var oldest *visit
	for other, w := range g.conns { // any order: the least serial is one
		if !w.proven && w.host == crowded && (oldest == nil || w.serial < oldest.serial) {
			closed, oldest = other, w
		}
	}
	closed.Close()
	delete(g.conns, closed)
	return closed
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
	g.peers[id]++
	g.proven++
	return true
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
