package replica

import (
	"fmt"

	"github.com/zooid-project/zooid/internal/tree"
)

// Leftovers compares this server's records of connections and sessions with the existing ones, and returns a line for
// each difference, in any order. connected reports whether a connection was accepted and Disconnected hasn't been
// called for it. Leftovers is for tests: they must call it between two calls of other methods.
func (r *Replica) Leftovers(connected func(*Client) bool) (list []string) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	differ := func(what string, kept, are int64) {
		if kept != are {
			list = append(list, fmt.Sprintf("%s: %d are kept, there are %d", what, kept, are))
		}
	}
	var connecting, waiting, beginning, readOnly, count, bytes, unread, replies, frames int64
	live := map[int64]bool{}
	for id, c := range r.clients { // any order: sums
		if !connected(c) {
			list = append(list, fmt.Sprintf("the client %#x of a connection that has ended", id))
		}
		live[id] = true
		connecting += truth(c.arrival.awaited)
		waiting += truth(c.arrival.newcomer == waitsToBegin)
		beginning += truth(c.arrival.newcomer == begins)
		readOnly += truth(c.arrival.unrecorded)
		c.mu.Lock()
		count, bytes = count+int64(c.unanswered.len()), bytes+int64(c.unanswered.bytes)
		unread += int64(c.out.events.waiting + c.out.events.taken)
		replies, frames = replies+c.out.held.Held(), frames+c.input.held.Held()
		c.mu.Unlock()
	}
	differ("connect requests", int64(r.newcomers.connecting), connecting)
	differ("newcomers that wait", int64(r.newcomers.waiting), waiting)
	differ("newcomers that begin", int64(r.newcomers.beginning), beginning)
	differ("read-only sessions", int64(r.readOnlySessions), readOnly)
	left, leftBytes := r.proposals.Left()
	count, bytes = count+left, bytes+leftBytes
	differ("unanswered requests", r.unanswered.count(), count)
	differ("bytes of unanswered requests", r.unanswered.bytes(), bytes)
	differ("bytes of unread notifications", r.unread.bytes.Load(), unread)
	differ("bytes of replies", r.rooms.replies.Used(), replies)
	differ("bytes of unfinished frames", r.rooms.frames.Used(), frames)
	r.watches.mu.Lock()
	if len(live) == 0 {
		differ("watches", int64(r.watches.table.Size()), 0)
	}
	for id := range r.watches.table.Watchers() {
		if !live[id] {
			list = append(list, fmt.Sprintf("the watcher %#x of a connection that has ended", id))
		}
	}
	r.watches.mu.Unlock()
	list = append(list, r.limiter.addresses.leftovers(connected)...)
	list = append(list, r.limiter.identified.leftovers(connected)...)
	list = append(list, r.syncs.leftovers(connected)...)
	return append(list, r.leftoverSessions(connected)...)
}

// Left returns the number and the bytes of writes of ended connections that still count as unanswered, and the bytes
// of requests that count as under way to the leader. It is for tests.
func (r *Replica) Left() (requests, bytes, forwarded int64) {
	requests, bytes = r.proposals.Left()
	return requests, bytes, r.proposals.Forwarded()
}

// leftoverSessions is the part of Leftovers about sessions; mu is held at least for reading.
func (r *Replica) leftoverSessions(connected func(*Client) bool) (list []string) {
	for id, c := range r.hearing.attached { // any order: each by itself
		if !connected(c) || c.session != id {
			list = append(list, fmt.Sprintf("session %s is attached to a connection that has ended or has another one",
				SessionText(id)))
		}
	}
	own := &r.locals
	for id := range own.sessions { // any order: each by itself
		if !r.hearing.local[id] || !own.expiry.Tracks(id) {
			list = append(list, fmt.Sprintf("local session %s doesn't end when it is silent", SessionText(id)))
		}
	}
	if len(r.hearing.local) > len(own.sessions) || own.expiry.Tracked() > len(own.sessions) {
		list = append(list, fmt.Sprintf("of %d local sessions %d are heard and %d expire", len(own.sessions),
			len(r.hearing.local), own.expiry.Tracked()))
	}
	sessions, known := int64(0), int64(0)
	r.tree.Sessions().All(func(s tree.Session) bool {
		sessions++
		known += truth(r.expiry.Tracks(s.ID))
		return true
	})
	counts := map[*owner]int64{}
	count := func(by sessionOwners) {
		for _, o := range [...]*owner{by.address, by.identity} {
			if o != nil {
				counts[o]++
			}
		}
	}
	for id, by := range r.counts.owners { // any order: each by itself
		count(by)
		if _, is := r.tree.Sessions().Get(id); !is && own.sessions[id] == nil {
			list = append(list, fmt.Sprintf("session %s is over and counts", SessionText(id)))
		}
	}
	for _, c := range r.clients { // any order: sums
		count(c.arrival.reserved)
	}
	list = append(list, r.limiter.addresses.leftoverSessions(counts)...)
	list = append(list, r.limiter.identified.leftoverSessions(counts)...)
	if tracked := int64(r.expiry.Tracked()); tracked > known || r.leader.IsLeader && known < sessions {
		list = append(list, fmt.Sprintf("of %d sessions %d expire, with %d others", sessions, known, tracked-known))
	}
	return list
}

// leftovers is the part of Leftovers about one scope.
func (w *owners) leftovers(connected func(*Client) bool) (list []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, o := range w.byName { // any order: each by itself
		for c := range o.clients { // any order: each by itself
			if !connected(c) {
				list = append(list, fmt.Sprintf("%s has a connection that has ended", name))
			}
		}
	}
	return list
}

// leftoverSessions is the part of Leftovers about how many sessions count for each owner.
func (w *owners) leftoverSessions(counts map[*owner]int64) (list []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for name, o := range w.byName { // any order: each by itself
		if n := o.sessions.Load(); n != counts[o] {
			list = append(list, fmt.Sprintf("%s has %d sessions, of which %d are", name, n, counts[o]))
		}
	}
	return list
}

// leftovers is the part of Leftovers about syncs: those of ended connections are dropped in bulk.
func (s *syncs) leftovers(connected func(*Client) bool) (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	gone := 0
	for _, w := range s.waiting {
		gone += int(truth(!connected(w.c)))
	}
	if gone != s.dead || gone > len(s.waiting)/2 {
		list = append(list, fmt.Sprintf("of %d syncs that wait %d are of connections that have ended, and %d are counted",
			len(s.waiting), gone, s.dead))
	}
	return list
}

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
