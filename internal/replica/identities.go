package replica

import (
	"slices"
	"sync"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/jute"
)

// expiring holds the clients that have identities with an expiry time. The zero value is empty.
type expiring struct {
	mu      sync.Mutex
	clients map[*Client]map[jute.ID]int64 // when each identity expires, in ns since 1970
}

// note records the identities that c has proved. An identity expires with the last credential
// that proved it, and never if one of them doesn't expire.
func (e *expiring) note(c *Client, proof *auth.Proof) {
	e.mu.Lock()
	defer e.mu.Unlock()
	ends := e.clients[c]
	if proof.Until == 0 {
		for _, id := range proof.Proved {
			delete(ends, id)
		}
		return
	}
	old := c.identities()
	for _, id := range proof.Proved {
		if _, ends := ends[id]; !ends && slices.Contains(old, id) {
			continue
		}
		if ends == nil {
			ends = map[jute.ID]int64{}
		}
		ends[id] = max(ends[id], proof.Until)
	}
	if len(ends) == 0 {
		return
	}
	if e.clients == nil {
		e.clients = map[*Client]map[jute.ID]int64{}
	}
	e.clients[c] = ends
}

// ExpireIdentities closes the connections with an identity that has expired at the time now (ns
// since 1970). Requests they sent earlier are still carried out.
func (r *Replica) ExpireIdentities(now int64) {
	e := &r.expiring
	e.mu.Lock()
	defer e.mu.Unlock()
	for c, ends := range e.clients { // any order: each is closed independently
		over := c.over()
		for _, until := range ends { // any order: one is enough
			if !over && until <= now {
				over = true
				r.meters.identitiesExpired.Inc()
				c.CloseAfter("the credential by which it authenticated has expired")
			}
		}
		if over || len(ends) == 0 {
			delete(e.clients, c)
		}
	}
}

// over reports whether c is closed, or about to be.
func (c *Client) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closing || c.closed
}
