package replica

import (
	"cmp"
	"slices"
	"sync/atomic"
)

// Notifications can't be held back: a client that set watches and doesn't read makes the server
// keep what they fire. One connection is bounded by outputMaxBytes; here is what all of them
// together may leave unread.
const (
	// unreadShare is the part of memory.limit that unread notifications of all clients may
	// take: an eighth. Beyond it the connections with most of them are closed.
	unreadShare = 8
	// unreadMaxDefault is that bound where memory has no limit.
	unreadMaxDefault = 1 << 30
	// unreadKeepPercent of the bound is left when connections have been closed for it.
	unreadKeepPercent = 75
)

// unreadEvents counts the bytes of notifications that clients have not read yet: those in
// their output and in what is being written.
type unreadEvents struct {
	bytes atomic.Int64
	limit atomic.Int64 // memory.limit as the account was last told; 0 for none
}

// max is how many bytes all clients may leave unread until the next look at the account.
// Twice that ends the connection of whoever is to be told more at once.
func (u *unreadEvents) max() int64 {
	if limit := u.limit.Load(); limit > 0 {
		return limit / unreadShare
	}
	return unreadMaxDefault
}

// clientEvents are one client's part of unreadEvents; Client.mu guards them.
type clientEvents struct {
	waiting int           // bytes of notifications in out
	taken   int           // and in the buffer that is being written
	all     *unreadEvents // nil until the client is registered
}

// take notes that all that was taken before is written, and out is taken now.
func (e *clientEvents) take() {
	e.forget(e.taken)
	e.taken, e.waiting = e.waiting, 0
}

// drop notes that neither is kept any more.
func (e *clientEvents) drop() {
	e.forget(e.taken + e.waiting)
	e.taken, e.waiting = 0, 0
}

func (e *clientEvents) forget(n int) {
	if n != 0 && e.all != nil {
		e.all.bytes.Add(-int64(n))
	}
}

// dropUnread closes a connection whose client leaves too many notifications unread; c.mu is
// held. The client's session goes on: it may come back, and is told then what it has missed.
func (r *Replica) dropUnread(c *Client) {
	c.closeLocked("it does not read its notifications, of which all clients together left too many unread (memory.limit)")
	c.out = nil
	c.events.drop()
	r.meters.notificationsRefused.Inc()
	if c.Abort != nil {
		c.Abort()
	}
	if !c.flushing && !c.closed {
		c.flushing = true
		c.Wake()
	}
}

// relieve closes the connections that have most notifications unread, if all clients together
// have more of them than they may.
func (r *Replica) relieve() {
	most := r.unread.max()
	if r.unread.bytes.Load() <= most {
		return
	}
	type share struct {
		c     *Client
		bytes int
	}
	var shares []share
	for _, c := range r.Clients() {
		c.mu.Lock()
		n := c.events.waiting + c.events.taken
		c.mu.Unlock()
		if n > 0 {
			shares = append(shares, share{c, n})
		}
	}
	slices.SortFunc(shares, func(a, b share) int {
		return cmp.Or(cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.c.id, b.c.id))
	})
	for _, s := range shares {
		if r.unread.bytes.Load() <= most/100*unreadKeepPercent {
			return
		}
		s.c.mu.Lock()
		r.dropUnread(s.c)
		s.c.mu.Unlock()
	}
}
