package peer

import (
	"maps"
	"net"
	"slices"
	"time"

	"github.com/zooid-project/zooid/internal/quorum/peer/handshake"
)

// Recheck checks again the certificates that peers have presented (Secure.Check), and closes the
// connections of those that are no longer accepted. Their next handshake fails too, because it uses
// the current stores. Recheck doesn't block on peers.
func (p *Peer) Recheck() { p.transport.recheck() }

func (t *transport) recheck() {
	if t.secure.Check == nil {
		return
	}
	t.mu.Lock()
	heard := maps.Clone(t.reading)
	remotes := slices.Collect(maps.Values(t.remotes)) // any order: each is independent
	t.mu.Unlock()
	for id, r := range heard { // any order: each is independent
		select {
		case <-r.done:
		default:
			t.recheckConn(id, r.conn, false)
		}
	}
	for _, r := range remotes {
		r.mu.Lock()
		c, up := r.conn, r.up
		r.mu.Unlock()
		if up {
			t.recheckConn(r.id, c, true)
		}
	}
}

// recheckConn checks the certificates of one connection to or from a peer.
func (t *transport) recheckConn(id uint64, c net.Conn, dialled bool) {
	over, ok := handshake.TLS(c)
	if !ok || t.ctx.Err() != nil {
		return
	}
	if err := t.secure.Check(over.PeerCertificates, dialled); err != nil {
		if t.logRate.Due("recheck"+err.Error(), time.Now()) {
			t.log.Warn("a peer's certificate is no longer accepted; its connection is closed", "peer", id, "err", err)
		}
		c.Close()
	}
}
