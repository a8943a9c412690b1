package replica

import (
	"cmp"
	"slices"
	"sort"
	"sync"
	"time"
)

// expiry decides which sessions have been silent for too long. There is one expiry for the sessions
// in the table, and one for a server's local sessions. Only the leader uses the former, but every
// server keeps it current to be ready to lead. Times are in ms of a monotonic clock.
//
// Sessions are kept in buckets, as in Apache: a session is examined once, in the bucket after its deadline, and moved
// to a later bucket if it was heard meanwhile. So hearing from a session costs one store and no move between buckets,
// and a session ends between its timeout and its timeout plus one bucket and reportLagMs after it was last heard.
// Apache's buckets are as long as a tick, so many sessions end at once, and their clients come back at once; these are
// an eighth of that.
//
// Time during which this server did nothing doesn't count as silence. Ticks come a little late all
// the time, so instead of adding each delay to each session, expiry keeps the sum of the delays; a
// session's share is what was added since the session was last heard. Repeated stalls must not let sessions live
// forever: a long stall excuses a session only if it began within excusableMs after the session was last heard.
//
// An expiry has its own lock, so that other servers' reports are recorded without Replica.mu.
type expiry struct {
	tick int64 // length of a bucket, and the time between two calls of due

	mu       sync.Mutex
	sessions map[int64]*lifetime
	buckets  map[int64][]int64 // bucket number → session ids, in order of arrival
	next     int64             // the first bucket not examined yet

	forgiven int64    // sum of all stalls, ms
	stalls   []moment // ends of the stalls that some session may not have its share of yet, oldest first
	begun    moment   // excusable sessions count as heard at this moment
	standing int64    // start of the stall that ended at begun
	longest  int64    // longest timeout (ms) of any session so far
}

// A moment is a time, and the sum of the stalls (expiry.forgiven) before it.
type moment struct{ at, forgiven int64 }

// A stall excuses a session's silence if it began no later than excusableMs, or that many of the session's
// timeouts, after the session was last heard.
const (
	excusableMs       = 60_000
	excusableTimeouts = 4
)

// bucketsPerTick is how many buckets there are in a tick (tickTime).
const bucketsPerTick = 8

// ExpireInterval is the time between two calls of Replica.Expire, for servers with these settings.
func (s Serving) ExpireInterval() time.Duration { return max(s.Tick/bucketsPerTick, time.Millisecond) }

// reportLagMs is how late the leader may learn of a packet from another server's client: reports
// are sent every 100 ms, and take some time. A session ends only after its timeout and this lag
// have passed, so that it never ends too early.
const reportLagMs = 300

// lifetime is what expiry knows about one session.
type lifetime struct {
	timeout  int64
	heard    int64 // when the session was last heard, shifted by its share of the stalls
	forgiven int64 // expiry.forgiven up to which the session has received its share
	real     int64 // when the session was last heard
	bucket   int64
}

func newExpiry(tick, now int64) *expiry {
	tick = max(tick, 1)
	return &expiry{tick: tick, sessions: map[int64]*lifetime{}, buckets: map[int64][]int64{}, next: now / tick}
}

// heard records that a session with the given timeout (ms) is alive at now, and starts tracking a
// new one.
func (e *expiry) heard(session int64, timeout int32, now int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	l := e.sessions[session]
	if l == nil {
		l = &lifetime{bucket: -1}
		e.sessions[session] = l
	}
	l.timeout = int64(timeout)
	e.longest = max(e.longest, l.timeout)
	e.settle(l, now)
	if b := e.bucketOf(l); l.bucket < 0 || b < l.bucket {
		// A new session, or one with a shorter timeout than before. Its old entry is skipped when that
		// bucket comes up.
		l.bucket = b
		e.buckets[b] = append(e.buckets[b], session)
	}
}

// touch records that a known session was alive at now.
func (e *expiry) touch(session, now int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if l := e.sessions[session]; l != nil {
		e.settle(l, now)
	}
}

// settle records that l was heard at the time heard, and gives it its share of the stalls.
func (e *expiry) settle(l *lifetime, heard int64) {
	l.heard, l.forgiven, l.real = e.heardOf(l, heard), e.forgiven, max(l.real, heard)
}

// heardOf returns when a session counts as last heard; heard is a time known in addition to l's.
func (e *expiry) heardOf(l *lifetime, heard int64) int64 {
	at := max(e.at(moment{l.heard, l.forgiven}), e.at(e.momentOf(heard)))
	if e.standing-max(l.real, heard) <= max(excusableMs, excusableTimeouts*l.timeout) {
		at = max(at, e.at(e.begun))
	}
	return at
}

// at returns the time of a moment, shifted by the stalls since.
func (e *expiry) at(m moment) int64 { return m.at + e.forgiven - m.forgiven }

// momentOf returns the time at as a moment.
func (e *expiry) momentOf(at int64) moment {
	if i := sort.Search(len(e.stalls), func(i int) bool { return e.stalls[i].at >= at }); i < len(e.stalls) {
		return moment{at, e.stalls[i].forgiven}
	}
	return moment{at, e.forgiven}
}

// forget stops tracking a session.
func (e *expiry) forget(session int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.sessions, session)
}

// reset forgets every session.
func (e *expiry) reset() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.sessions)
	clear(e.buckets)
}

// bucketOf returns the bucket in which l is examined: the one after its deadline's.
func (e *expiry) bucketOf(l *lifetime) int64 {
	return max((l.heard+l.timeout+reportLagMs)/e.tick+1, e.next)
}

// due returns, in ascending order, the sessions whose deadline has passed at now. heardAt returns
// when a session was last heard according to its connection. A session that is due stays tracked,
// and is due again a tick later unless it is forgotten or heard: the request to end it may get lost
// with a leader.
func (e *expiry) due(now int64, heardAt func(session int64) int64) []int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
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

// forgive excludes from every session's silence the last ms before now, in which this server did
// nothing. It also drops the stalls that every session has its share of: each session is examined
// within its timeout.
func (e *expiry) forgive(now, ms int64) {
	e.stalls = append(e.stalls, moment{now, e.forgiven})
	e.forgiven += ms
	oldest := now - e.longest - reportLagMs - stallMs - 2*e.tick
	n, _ := slices.BinarySearchFunc(e.stalls, oldest, func(m moment, at int64) int { return cmp.Compare(m.at, at) })
	e.stalls = slices.Delete(e.stalls, 0, n)
}

// excuse compensates for ms in which this server did nothing, and reports whether that was so
// long that the sessions get their full timeout again.
func (e *expiry) excuse(now, ms int64) (long bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case ms > stallMs:
		e.begin(now-ms, now)
		return true
	case ms > 0:
		e.forgive(now, ms)
	}
	return false
}

// refresh gives the sessions their full timeout again: after an election or a stall of this server,
// silence is not the clients' fault. The election or stall began at since.
func (e *expiry) refresh(since, now int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.begin(since, now)
}

// begin is refresh with mu held.
func (e *expiry) begin(since, now int64) { e.begun, e.standing = moment{now, e.forgiven}, since }

// tracked returns the number of sessions.
func (e *expiry) tracked() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.sessions)
}
