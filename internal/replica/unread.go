package replica

import (
	"cmp"
	"slices"
	"sync/atomic"
)

// Notifications can't be held back: if a client sets watches and doesn't read, the server has to
// keep the notifications. outputMaxBytes bounds those of one connection; this file bounds the
// unread notifications of all connections together.
const (
	// Unread notifications of all clients may use memory.limit divided by unreadShare: an
	// eighth. Beyond that, the connections with most of them are closed.
	unreadShare = 8
	// unreadMaxDefault is that bound if memory has no limit.
	unreadMaxDefault = 1 << 30
	// unreadKeepPercent is the percentage of the bound down to which connections are closed.
	unreadKeepPercent = 75
)

// unreadEvents counts the bytes of notifications that clients have not read yet: those in their
// output and in the buffers being written.
type unreadEvents struct {
	bytes atomic.Int64
	limit atomic.Int64 // memory.limit as of the last AccountMemory; 0 for none
}

// max returns how many bytes all clients together may leave unread, checked whenever the account is
// added up. At twice that, a connection that is to get more is closed at once.
func (u *unreadEvents) max() int64 {
	if limit := u.limit.Load(); limit > 0 {
		return limit / unreadShare
	}
	return unreadMaxDefault
}

// clientEvents is one client's part of unreadEvents; Client.mu guards it.
type clientEvents struct {
	waiting int           // bytes of notifications in out
	taken   int           // bytes of notifications in the buffer that is being written
	all     *unreadEvents // nil until the client is registered
}

// take records that the output taken before has been written, and that out is taken now.
func (e *clientEvents) take() {
	e.forget(e.taken)
	e.taken, e.waiting = e.waiting, 0
}

// drop records that both out and the buffer being written have been discarded.
func (e *clientEvents) drop() {
	e.forget(e.taken + e.waiting)
	e.taken, e.waiting = 0, 0
}

func (e *clientEvents) forget(n int) {
	if n != 0 && e.all != nil {
		e.all.bytes.Add(-int64(n))
	}
}

// dropUnread closes a connection whose client leaves too many notifications unread. The client's session lives on: when
// the client returns, it gets the notifications that it has missed. c.mu is held.
func (o *outside) dropUnread(c *Client) {
	o.meters.notificationsRefused.Inc()
	c.cut("it does not read its notifications, of which all clients together left too many unread (memory.limit)")
}

// relieve closes the connections that have most notifications unread, if all clients together have
// more unread than allowed.
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
		n := c.out.events.waiting + c.out.events.taken
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
