package server

import (
	"sync"

	"github.com/zooid-project/zooid/jute"
)

// syncs numbers the sync requests of this server's clients, so that one answer
// of the quorum serves all that were asked before it.
type syncs struct {
	mu      sync.Mutex
	asked   uint64     // number of the last sync asked for
	taken   uint64     // number of the last one the quorum took
	waiting []syncWait // in order of number
}

type syncWait struct {
	n uint64
	c *client
}

// ask numbers a sync of c. The caller holds c.mu until it has queued the sync on
// c too: the answer may come at once.
func (s *syncs) ask(c *client) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	s.waiting = append(s.waiting, syncWait{s.asked, c})
	return s.asked
}

// take returns the number up to which syncs wait and were not taken, or 0.
func (s *syncs) take() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked == s.taken {
		return 0
	}
	s.taken = s.asked
	return s.taken
}

// done removes the syncs up to n.
func (s *syncs) done(n uint64) []syncWait {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := 0
	for i < len(s.waiting) && s.waiting[i].n <= n {
		i++
	}
	ready := append([]syncWait(nil), s.waiting[:i]...)
	s.waiting = append(s.waiting[:0], s.waiting[i:]...)
	return ready
}

// Syncs returns the ticket of the syncs asked for since the last call, or 0.
func (r *replica) Syncs() uint64 { return r.syncs.take() }

// letGo sends the writes that no sync holds any more. A write that is applied
// before a sync ahead of it is ready would overtake it, and the reads between the
// two would show it. c.mu is held.
func (r *replica) letGo(c *client) {
	sent := false
	for i := c.unanswered.head; i < len(c.unanswered.items); i++ {
		q := &c.unanswered.items[i]
		if q.op.code == jute.OpSync && !q.ready {
			break
		}
		if q.held {
			q.held, sent = false, true
			r.outbox.addRecords(q.body)
		}
	}
	if sent {
		r.kick()
	}
}

// Synced says that everything acknowledged before the ticket was given is
// applied here.
func (r *replica) Synced(ticket uint64) {
	now := r.now()
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, w := range r.syncs.done(ticket) {
		c := w.c
		c.mu.Lock()
		if !c.closed && !c.closing {
			for i := c.unanswered.head; i < len(c.unanswered.items); i++ {
				if q := &c.unanswered.items[i]; q.op.code == jute.OpSync && uint64(q.seq) == w.n {
					q.ready = true
					c.syncing.Add(-1)
				}
			}
			r.drain(c, now)
			r.letGo(c)
			if len(c.out) > 0 || c.closing {
				c.queued()
			}
		}
		c.mu.Unlock()
	}
}
