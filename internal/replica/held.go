package replica

import (
	"sync/atomic"

	"github.com/zooid-project/zooid/internal/limit"
)

// The watches of all connections of an address or an identity on this server, and the ephemeral
// znodes of their sessions, are limited as well.
//
// owner.watched is an upper bound of an owner's watches: it grows with each watch set, and doesn't
// shrink when one fires. The watches are counted, and the bound is set to their number, only when
// the bound reaches the limit.

// clientLimits holds the owners that a connection counts toward, and its use of its own limits. Only its reader sets
// the owners.
type clientLimits struct {
	address, identity atomic.Pointer[owner] // nil before they are known
	claimed           atomic.Bool           // any client could claim its identity (auth.Registry.Vouched)
	used              limit.Rates
	watchRate         limit.Rate   // its watches' use of watchTime
	toldLimit         atomic.Int64 // now (ns) when a log line about limits was last written
}

// ownerIn returns the owner that the client counts toward in a scope, or nil.
func (l *clientLimits) ownerIn(s limit.Scope) *owner {
	if s == limit.Identity {
		return l.identity.Load()
	}
	return l.address.Load()
}

// noteWatched adds n watches to the owners of c.
func (l *clientLimits) noteWatched(n int64) {
	for _, s := range limit.Holders {
		if o := l.ownerIn(s); o != nil {
			o.watched.Add(n)
		}
	}
}

// mayHoldWatches reports whether c may have n more watches than it has, by its own limit and those of its
// owners, and logs it if not.
func (l *limiter) mayHoldWatches(c *Client, b *limit.InForce, n int64) bool {
	if most := b.Sets[limit.Connection][limit.Watches]; most > 0 {
		l.watches.mu.Lock()
		held := l.watches.table.SizeOf(c.id)
		l.watches.mu.Unlock()
		if int64(held)+n > most {
			l.exceeded(c, limit.Connection, c.remote, limit.Watches, l.now())
			return false
		}
	}
	for _, s := range limit.Holders {
		most, o := b.Sets[s][limit.Watches], c.limits.ownerIn(s)
		if most == 0 || o == nil || o.watched.Load()+n <= most {
			continue
		}
		w := l.ownersIn(s)
		if o == &w.rest {
			continue // many owners share it
		}
		l.watches.mu.Lock()
		held := w.sum(o, func(c *Client) int { return l.watches.table.SizeOf(c.id) })
		l.watches.mu.Unlock()
		if o.watched.Store(held); held+n > most {
			l.exceeded(c, s, o.name, limit.Watches, l.now())
			return false
		}
	}
	return true
}

// mayHoldEphemerals reports whether the owners of c may have n more ephemeral znodes, and logs it if
// not.
func (l *limiter) mayHoldEphemerals(c *Client, b *limit.InForce, n int64, now int64) bool {
	for _, s := range limit.Holders {
		most, o := b.Sets[s][limit.Ephemerals], c.limits.ownerIn(s)
		w := l.ownersIn(s)
		if most == 0 || o == nil || o == &w.rest || l.sizes.Ephemerals.Load()+n <= most {
			continue
		}
		l.mu.RLock()
		held := w.sum(o, func(c *Client) int { n, _ := l.tree.Sessions().Ephemerals(c.session); return int(n) })
		l.mu.RUnlock()
		if held+n > most {
			l.exceeded(c, s, o.name, limit.Ephemerals, now)
			return false
		}
	}
	return true
}

// ownersIn returns the owners of a scope.
func (l *limiter) ownersIn(s limit.Scope) *owners {
	if s == limit.Identity {
		return &l.identified
	}
	return &l.addresses
}

// sum adds up a number over the connections of an owner.
func (w *owners) sum(o *owner, of func(*Client) int) (n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range o.clients { // any order: a sum
		n += int64(of(c))
	}
	return n
}
