package peer

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/zooid-project/zooid/internal/quorum/peer/handshake"
)

// Types of package handshake that a server's configuration uses.
type (
	Secure  = handshake.Secure
	Keyring = handshake.Keyring
	Secret  = handshake.Secret
)

// SecretOf derives a secret from a configured text.
func SecretOf(text string) Secret { return handshake.SecretOf(text) }

// OpenKeyring is handshake.OpenKeyring.
func OpenKeyring(dir string, configured []Secret) (*Keyring, error) {
	return handshake.OpenKeyring(dir, configured)
}

// AllowJoin is handshake.AllowJoin.
func AllowJoin(dir string, id uint64, addr string) (until time.Time, err error) {
	return handshake.AllowJoin(dir, id, addr)
}

// verify returns why a peer that sent h doesn't have that server's certificate, or "" if it does.
// If the server's address isn't known, any server's certificate will do; such a server has to prove
// the secret for every kind of connection except a question.
func (t *transport) verify(c net.Conn, h hello) string {
	over, ok := handshake.TLS(c)
	if !ok || t.secure.Verify == nil {
		return ""
	}
	r := t.remote(h.from)
	if r == nil {
		return t.verifyAt(over, h, nil)
	}
	r.mu.Lock()
	addrs := r.addrs
	r.mu.Unlock()
	return t.verifyAt(over, h, addrs)
}

// verifyAt is verify for a server with addresses addrs, nil if they aren't known.
func (t *transport) verifyAt(over tls.ConnectionState, h hello, addrs []string) string {
	var hosts []string
	for _, addr := range addrs {
		if host, _, err := net.SplitHostPort(addr); err == nil {
			hosts = append(hosts, host)
		}
	}
	ctx, cancel := context.WithTimeout(t.ctx, dialTimeout)
	defer cancel()
	if err := t.secure.Verify(ctx, over, hosts); err != nil {
		return fmt.Sprintf("you call yourself server %d, and your certificate doesn't say so: %v", h.from, err)
	}
	return ""
}
