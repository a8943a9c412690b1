package replica

import (
	"slices"

	"github.com/zooid-project/zooid/internal/auth"
)

// logins judge the credentials of clients.
type logins struct {
	*outside
	*state
	stats    *stats
	throttle auth.Throttle // of failed logins
	expiring expiring      // identities that expire
}

// Prove adds the identities that a credential has proved to the client's. The reader calls it,
// or, before the reader begins, the goroutine that accepts the connection.
func (c *Client) Prove(proof *auth.Proof) {
	grants := auth.Granted(c.Grants(), proof.Grants)
	c.grants.Store(&grants) // before its identities are in use
	c.ids.Store(&proof.IDs)
}

// Grants returns the sources of the client's identities. The caller must not modify them.
func (c *Client) Grants() []auth.Grant { return *c.grants.Load() }

const supersReplaced = "the superusers were replaced while it authenticated; it tries again"

// proved adds the identities that a credential has proved, and reports whether the client may stay. It may not if the
// superusers were replaced meanwhile and the credential would prove less now: the recheck after the replacement may
// have come too early to see this client.
func (l *logins) proved(c *Client, proof *auth.Proof) bool {
	c.Prove(proof)
	l.expiring.note(c)
	if _, gone := l.auth.Withdrawn(proof.Grants); gone {
		c.CloseAfter(supersReplaced)
		return false
	}
	return true
}

// expiring holds the clients that have credentials with an expiry time. The zero value is empty.
type expiring struct {
	mu      expiringLock
	clients map[*Client]struct{}
}

// note adds c if one of its credentials expires.
func (e *expiring) note(c *Client) {
	if !slices.ContainsFunc(c.Grants(), func(g auth.Grant) bool { return g.Until != 0 }) {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.clients == nil {
		e.clients = map[*Client]struct{}{}
	}
	e.clients[c] = struct{}{}
}

// ExpireIdentities closes the connections with an identity that has expired at now (ns since
// 1970). Earlier requests are still executed.
func (l *logins) ExpireIdentities(now int64) {
	e := &l.expiring
	e.mu.Lock()
	defer e.mu.Unlock()
	for c := range e.clients { // any order: each is closed independently
		over := c.over()
		if _, expired := l.auth.Expired(c.Grants(), now); !over && expired {
			over = true
			l.meters.identitiesExpired.Inc()
			c.CloseAfter("the credential by which it authenticated has expired")
		}
		if over {
			delete(e.clients, c)
		}
	}
}

// over reports whether c is closed or closing.
func (c *Client) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closing || c.closed
}
