package peer

import (
	"net"
	"strconv"
	"strings"

	"github.com/zooid-project/zooid/internal/quorum"
)

// Each server tells its peers where it takes clients, so that whoever asks one server can go on to ask all: server
// lines in Apache's usual form have no client ports. It serves operators' tools and decides nothing.

// ClientAddresses are where a server takes clients, as "host:port"; "" where it takes none. A server that listens on
// all of its addresses tells no host, and its peers put that in by which they reach it.
type ClientAddresses struct{ Plain, Secure string }

// append appends the note's payload, at most quorum.NoteSizeMax bytes: addresses that are longer are left out.
func (a ClientAddresses) append(b []byte) []byte {
	if text := a.Plain + "\n" + a.Secure; len(text) <= quorum.NoteSizeMax {
		return append(b, text...)
	}
	return b
}

// readClientAddresses reads a note's payload from a peer that is reached at addr. What is no address is left out.
func readClientAddresses(payload []byte, addr string) (a ClientAddresses) {
	here, _, _ := net.SplitHostPort(addr)
	plain, secure, _ := strings.Cut(string(payload), "\n")
	for at, text := range map[*string]string{&a.Plain: plain, &a.Secure: secure} {
		host, port, err := net.SplitHostPort(text)
		n, bad := strconv.ParseUint(port, 10, 16)
		if err != nil || bad != nil || n == 0 || strings.ContainsFunc(host, notInHost) {
			continue
		}
		if host == "" {
			host = here
		}
		*at = net.JoinHostPort(host, port)
	}
	return a
}

// notInHost reports whether no host has r in its name: tools print and parse these lists.
func notInHost(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(",=\"'\\", r) }

// announceClients sets the note of this server's client addresses, and sends it to all connected peers.
func (t *transport) announceClients(a ClientAddresses) {
	t.notes.Lock()
	t.clients = a
	t.notes.Unlock()
	t.announceAll()
}

// heardClients notes where a peer takes clients.
func (r *remote) heardClients(payload []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.clients = readClientAddresses(payload, r.addr)
}

// AnnounceClients tells all peers where this server takes clients, now and whenever they connect.
func (p *Peer) AnnounceClients(a ClientAddresses) { p.transport.announceClients(a) }

// Clients returns where the peers take clients that have told this server, by id. What a peer has told stays when its
// connection ends.
func (p *Peer) Clients() map[uint64]ClientAddresses {
	return told(p.transport, func(r *remote) ClientAddresses { return r.clients })
}
