package replica

import (
	"slices"

	"github.com/zooid-project/zooid/internal/invariant"
	"github.com/zooid-project/zooid/jute"
)

// syncs numbers the sync requests of this server's clients, and the connect requests that need a
// sync, so that one answer from the quorum serves all syncs requested before it.
type syncs struct {
	mu      partLock
	asked   uint64     // number of the last sync requested
	taken   uint64     // number of the last sync that the quorum took
	waiting []syncWait // in order of number
	dead    int        // how many of waiting belong to clients that are gone
}

type syncWait struct {
	n       uint64
	c       *Client
	connect bool // the sync is for c's connect request
}

// clientSyncs are the syncs of one client; syncs.mu guards it.
type clientSyncs struct {
	waits int  // number of entries in syncs.waiting
	gone  bool // the client is gone, so those entries are void
}

// ask numbers a sync of c. For a sync request, the caller holds c.mu until it has also queued the
// request on c: the answer may come at once.
func (s *syncs) ask(c *Client, connect bool) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	s.waiting = append(s.waiting, syncWait{s.asked, c, connect})
	c.syncs.waits++
	return s.asked
}

// forget drops the syncs of a client that is gone: without a quorum they would wait on, and keep the client in memory.
// Dropping each at once would take time proportional to the number of waiting syncs, so they are dropped in bulk.
func (s *syncs) forget(c *Client) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.syncs.gone = true
	if s.dead += c.syncs.waits; s.dead > len(s.waiting)/2 {
		s.waiting = slices.DeleteFunc(s.waiting, func(w syncWait) bool { return w.c.syncs.gone })
		s.dead = 0
		if len(s.waiting) == 0 {
			s.waiting = nil
		}
	}
}

// take returns the number of the last waiting sync that the quorum has not taken yet, or 0 if there are none.
func (s *syncs) take() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked == s.taken {
		return 0
	}
	s.taken = s.asked
	return s.taken
}

// done removes the syncs up to n and returns those whose clients still exist.
func (s *syncs) done(n uint64) []syncWait {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := 0
	var ready []syncWait
	for ; i < len(s.waiting) && s.waiting[i].n <= n; i++ {
		w := s.waiting[i]
		if w.c.syncs.waits--; w.c.syncs.gone {
			s.dead--
			continue
		}
		ready = append(ready, w)
	}
	s.waiting = slices.Delete(s.waiting, 0, i)
	return ready
}

// Syncs returns the ticket of the syncs requested since the last call, or 0 if there are none.
func (r *Replica) Syncs() uint64 { return r.syncs.take() }

// letGo sends the writes that no earlier request holds back any more. A write applied before an earlier sync is ready
// would overtake the sync, and the reads between the two would see it. c.mu is held.
func (r *Replica) letGo(c *Client) {
	c.mu.Held()
	if c.steps.due {
		return // reads ahead of the writes must be answered first; readMore calls letGo again
	}
	sent := false
	for i := c.unanswered.head; i < len(c.unanswered.items); i++ {
		q := &c.unanswered.items[i]
		if q.isSync() && !q.ready || q.long {
			break
		}
		if q.held {
			q.held, sent = false, true
			r.proposals.AddRecords(q.body)
		}
		if q.code() == jute.OpReconfig {
			break
		}
	}
	if sent {
		c.stirred = r.now()
		r.kick()
	}
	if invariant.Checked {
		c.checkAhead()
	}
}

// Synced records that everything acknowledged before the ticket was issued has been applied here.
func (r *Replica) Synced(ticket uint64) {
	ready := r.syncs.done(ticket)
	connects := 0
	r.mu.RLock()
	now := r.now() // an Apply may have had it for long
	for _, w := range ready {
		if w.connect {
			connects++
		} else {
			r.syncReady(w, now)
		}
	}
	r.mu.RUnlock()
	r.unanswered.wake()
	if connects > 0 {
		r.resumeAll(ready)
	}
}

// syncReady answers a sync and the requests that waited behind it; mu is held at least for reading.
func (r *Replica) syncReady(w syncWait, now int64) {
	c := w.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.closing {
		return
	}
	for i := c.unanswered.head; i < len(c.unanswered.items); i++ {
		if q := &c.unanswered.items[i]; q.isSync() && uint64(q.seq) == w.n {
			q.ready = true
			c.ahead.syncs.Add(-1)
		}
	}
	r.drain(c, now)
	r.freshness.withhold(c, now) // the answer may come late: this process may have been suspended
	r.letGo(c)
	if len(c.out.frames) > 0 || c.closing || c.steps.due {
		c.queued()
	}
}

// resumeAll resumes the sessions of those waits that are for connect requests.
func (r *Replica) resumeAll(waits []syncWait) {
	r.mu.Lock()
	for _, w := range waits {
		if w.connect && w.c.arrival.awaited && w.c.Ending() == "" {
			r.resume(w.c, true)
			r.touch(w.c)
		}
	}
	pushed := r.flush(r.now())
	r.mu.Unlock()
	if pushed != nil {
		pushed.Socket.Push()
	}
}
