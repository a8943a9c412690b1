package replica

import (
	"cmp"
	"slices"
	"sort"
)

// expiry decides which sessions have been silent for too long. There is one for
// the sessions in the table, which only the leader uses, but every server keeps
// current, so that it is ready to lead; and one for a server's local sessions.
// Times are ms of a monotonic clock.
//
// Sessions are kept in buckets of one tick, as in Apache: a session is looked at
// once in the tick after its deadline, and put in a later bucket if it was heard
// meanwhile. So being heard costs one store and no bucket changes, and a session
// ends between its timeout and its timeout plus one tick and reportLagMs after it
// was last heard.
//
// Time in which this server did nothing is no session's silence. Ticks come a little late
// all the time, so that is not added to each session: it is summed up, and a session's part
// is what was added since it was last heard.
//
// It is not safe for concurrent use; Replica.mu guards it.
type expiry struct {
	tick     int64
	sessions map[int64]*lifetime
	buckets  map[int64][]int64 // bucket number → session ids, in order of arrival
	next     int64             // the first bucket not looked at yet

	forgiven int64    // ms of all stalls
	stalls   []moment // ends of those that a session may not have had its part of, oldest first
	begun    moment   // all sessions count as heard then
	longest  int64    // timeout (ms) of any session so far
}

// A moment is a time, and what was forgiven before it.
type moment struct{ at, forgiven int64 }

// reportLagMs is how much later than their client's last packet sessions of other
// servers may be reported: every 100 ms, and on the way. So much more than its
// timeout must pass before a session ends, or it would end too early.
const reportLagMs = 300

// lifetime is what expiry knows of a session.
type lifetime struct {
	timeout  int64
	heard    int64 // with its part of forgiven
	forgiven int64 // expiry.forgiven, of which it had its part
	bucket   int64
}

func newExpiry(tick, now int64) expiry {
	tick = max(tick, 1)
	return expiry{tick: tick, sessions: map[int64]*lifetime{}, buckets: map[int64][]int64{}, next: now / tick}
}

// heard notes that a session of that timeout (ms) is alive at now, and begins to
// watch it if it is new.
func (e *expiry) heard(session int64, timeout int32, now int64) {
	l := e.sessions[session]
	if l == nil {
		l = &lifetime{bucket: -1}
		e.sessions[session] = l
	}
	l.timeout = int64(timeout)
	e.longest = max(e.longest, l.timeout)
	e.settle(l, now)
	if b := e.bucketOf(l); l.bucket < 0 || b < l.bucket {
		// A new session, or one with a shorter timeout than before: its old place
		// is passed over when its bucket comes.
		l.bucket = b
		e.buckets[b] = append(e.buckets[b], session)
	}
}

// touch notes that a known session was alive at now.
func (e *expiry) touch(session, now int64) {
	if l := e.sessions[session]; l != nil {
		e.settle(l, now)
	}
}

// settle notes that l was heard at a time, and gives it its part of the stalls.
func (e *expiry) settle(l *lifetime, heard int64) {
	l.heard, l.forgiven = e.heardOf(l, heard), e.forgiven
}

// heardOf returns when a session counts as last heard; heard is what is known beside l.
func (e *expiry) heardOf(l *lifetime, heard int64) int64 {
	since := func(m moment) int64 { return m.at + e.forgiven - m.forgiven }
	return max(since(moment{l.heard, l.forgiven}), since(e.momentOf(heard)), since(e.begun))
}

// momentOf returns a time with what was forgiven before it.
func (e *expiry) momentOf(at int64) moment {
	if i := sort.Search(len(e.stalls), func(i int) bool { return e.stalls[i].at >= at }); i < len(e.stalls) {
		return moment{at, e.stalls[i].forgiven}
	}
	return moment{at, e.forgiven}
}

// forget ends the watch over a session.
func (e *expiry) forget(session int64) { delete(e.sessions, session) }

// reset forgets every session.
func (e *expiry) reset() {
	clear(e.sessions)
	clear(e.buckets)
}

// bucketOf returns the bucket in which l is to be looked at: the one after its
// deadline's.
func (e *expiry) bucketOf(l *lifetime) int64 {
	return max((l.heard+l.timeout+reportLagMs)/e.tick+1, e.next)
}

// due returns, in ascending order, the sessions whose deadline has passed at
// now. heardAt gives what is known elsewhere of when a session was last heard.
// A session that is due stays, and is due again a tick later unless it is
// forgotten or heard: the request to end it may get lost with a leader.
func (e *expiry) due(now int64, heardAt func(session int64) int64) []int64 {
	var dead []int64
	first := e.next
	e.next = max(e.next, now/e.tick+1)
	for b := first; b < e.next; b++ {
		if len(e.buckets) == 0 {
			break
		}
		for _, id := range e.buckets[b] {
			l := e.sessions[id]
			if l == nil || l.bucket != b {
				continue
			}
			e.settle(l, heardAt(id))
			if l.heard+l.timeout+reportLagMs <= now {
				dead = append(dead, id)
			}
			l.bucket = e.bucketOf(l)
			e.buckets[l.bucket] = append(e.buckets[l.bucket], id)
		}
		delete(e.buckets, b)
	}
	slices.Sort(dead)
	return dead
}

// forgive takes ms up to now in which this server did nothing off every session's
// silence, and forgets the stalls that every session has had its part of: each is looked
// at within its timeout.
func (e *expiry) forgive(now, ms int64) {
	e.stalls = append(e.stalls, moment{now, e.forgiven})
	e.forgiven += ms
	oldest := now - e.longest - reportLagMs - stallMs - 2*e.tick
	n, _ := slices.BinarySearchFunc(e.stalls, oldest, func(m moment, at int64) int { return cmp.Compare(m.at, at) })
	e.stalls = slices.Delete(e.stalls, 0, n)
}

// excuse makes good for the ms for which this server did nothing, and reports
// whether that was so long that all begin anew.
func (e *expiry) excuse(now, ms int64) (long bool) {
	switch {
	case ms > stallMs:
		e.refresh(now)
		return true
	case ms > 0:
		e.forgive(now, ms)
	}
	return false
}

// refresh gives every session its full timeout again: after an election, and
// after a stall of this server, nobody may be blamed for silence.
func (e *expiry) refresh(now int64) { e.begun = moment{now, e.forgiven} }
