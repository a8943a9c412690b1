package peer

import (
	"cmp"
	"net"
	"strconv"
	"strings"

	"github.com/zooid-project/zooid/internal/quorum"
)

// Each server tells its peers its client addresses, so that a tool that asks one server can find all of them: server
// lines in Apache's usual form have no client ports. The addresses serve operators' tools and decide nothing.

// ClientAddresses are the addresses at which a server accepts clients, as "host:port"; "" if it accepts none. A server
// that listens on all of its addresses sends no host, and its peers fill in the host by which they reach it.
type ClientAddresses struct{ Plain, Secure string }

// append appends the note's payload, at most quorum.NoteSizeMax bytes. It leaves out longer addresses.
func (a ClientAddresses) append(b []byte) []byte {
	if text := a.Plain + "\n" + a.Secure; len(text) <= quorum.NoteSizeMax {
		return append(b, text...)
	}
	return b
}

// readClientAddresses reads a note's payload from a peer that is reached at addr. It leaves out anything that isn't an
// address.
func readClientAddresses(payload []byte, addr string) (a ClientAddresses) {
	here, _, _ := net.SplitHostPort(addr)
	plain, secure, _ := strings.Cut(string(payload), "\n")
	for at, text := range map[*string]string{&a.Plain: plain, &a.Secure: secure} {
		host, port, err := net.SplitHostPort(text)
		n, bad := strconv.ParseUint(port, 10, 16)
		if err != nil || bad != nil || n == 0 || strings.ContainsFunc(host, notInHost) {
			continue
		}
		host = cmp.Or(host, here)
		*at = net.JoinHostPort(host, port)
	}
	return a
}

// notInHost reports whether r can't occur in a host name: tools print and parse these lists.
func notInHost(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(",=\"'\\", r) }

// announceClients sets the note of this server's client addresses, and sends it to all connected peers.
func (t *transport) announceClients(a ClientAddresses) {
	t.notes.Lock()
	t.clients = a
	t.notes.Unlock()
	t.announceAll()
}

// heardClients records a peer's client addresses.
func (r *remote) heardClients(payload []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clients = readClientAddresses(payload, r.addr)
}

// AnnounceClients sends this server's client addresses to all peers, now and whenever they connect.
func (p *Peer) AnnounceClients(a ClientAddresses) { p.transport.announceClients(a) }

// Clients returns the client addresses that peers have sent to this server, by id. They stay when the peer's connection
// ends.
func (p *Peer) Clients() map[uint64]ClientAddresses {
	return told(p.transport, func(r *remote) ClientAddresses { return r.clients })
}
