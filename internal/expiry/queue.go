package expiry

import (
	"cmp"
	"slices"
	"sort"
	"sync"
	"unsafe"
)

// A Queue holds the sessions that end when they are silent. Any goroutine may call its methods.
type Queue struct {
	tick int64 // length of a bucket, and the time between two calls of Due

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

// A moment is a time, and the sum of the stalls (Queue.forgiven) before it.
type moment struct{ at, forgiven int64 }

// A stall excuses a session's silence if it began no later than excusableMs, or that many of the session's
// timeouts, after the session was last heard.
const (
	excusableMs       = 60_000
	excusableTimeouts = 4
)

// BucketsPerTick is how many buckets there are in a tick (tickTime).
const BucketsPerTick = 8

// StallMs is how late a tick comes to a server that counts as stalled: it can't tell a silent client from one it didn't
// listen to.
const StallMs = 1000

// ReportLagMs is how late the leader may learn of a packet from another server's client: reports
// are sent every 100 ms, and take some time. A session ends only after its timeout and this lag
// have passed, so that it never ends too early.
const ReportLagMs = 300

// lifetime is what a Queue knows about one session.
type lifetime struct {
	timeout  int64
	heard    int64 // when the session was last heard, shifted by its share of the stalls
	forgiven int64 // Queue.forgiven up to which the session has received its share
	real     int64 // when the session was last heard
	bucket   int64
}

// New returns a Queue without sessions, at the time now, whose buckets are tick ms long.
func New(tick, now int64) *Queue {
	tick = max(tick, 1)
	return &Queue{tick: tick, sessions: map[int64]*lifetime{}, buckets: map[int64][]int64{}, next: now / tick}
}

// Tick returns the length of a bucket (ms), which is the time between two calls of Due.
func (e *Queue) Tick() int64 { return e.tick }

// Heard records that a session with the given timeout (ms) is alive at now, and starts tracking a
// new one.
func (e *Queue) Heard(session int64, timeout int32, now int64) {
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

// Touch records that a known session was alive at now.
func (e *Queue) Touch(session, now int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if l := e.sessions[session]; l != nil {
		e.settle(l, now)
	}
}

// settle records that l was heard at the time heard, and gives it its share of the stalls.
func (e *Queue) settle(l *lifetime, heard int64) {
	l.heard, l.forgiven, l.real = e.heardOf(l, heard), e.forgiven, max(l.real, heard)
}

// heardOf returns when a session counts as last heard; heard is a time known in addition to l's.
func (e *Queue) heardOf(l *lifetime, heard int64) int64 {
	at := max(e.at(moment{l.heard, l.forgiven}), e.at(e.momentOf(heard)))
	if e.standing-max(l.real, heard) <= max(excusableMs, excusableTimeouts*l.timeout) {
		at = max(at, e.at(e.begun))
	}
	return at
}

// at returns the time of a moment, shifted by the stalls since.
func (e *Queue) at(m moment) int64 { return m.at + e.forgiven - m.forgiven }

// momentOf returns the time at as a moment.
func (e *Queue) momentOf(at int64) moment {
	if i := sort.Search(len(e.stalls), func(i int) bool { return e.stalls[i].at >= at }); i < len(e.stalls) {
		return moment{at, e.stalls[i].forgiven}
	}
	return moment{at, e.forgiven}
}

// Forget stops tracking a session.
func (e *Queue) Forget(session int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.sessions, session)
}

// Reset forgets every session.
func (e *Queue) Reset() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.sessions)
	clear(e.buckets)
}

// bucketOf returns the bucket in which l is examined: the one after its deadline's.
func (e *Queue) bucketOf(l *lifetime) int64 {
	return max((l.heard+l.timeout+ReportLagMs)/e.tick+1, e.next)
}

// Due returns, in ascending order, the sessions whose deadline has passed at now. heardAt returns
// when a session was last heard according to its connection. A session that is due stays tracked,
// and is due again a tick later unless it is forgotten or heard: the request to end it may get lost
// with a leader.
func (e *Queue) Due(now int64, heardAt func(session int64) int64) []int64 {
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
			if l.heard+l.timeout+ReportLagMs <= now {
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
func (e *Queue) forgive(now, ms int64) {
	e.stalls = append(e.stalls, moment{now, e.forgiven})
	e.forgiven += ms
	oldest := now - e.longest - ReportLagMs - StallMs - 2*e.tick
	n, _ := slices.BinarySearchFunc(e.stalls, oldest, func(m moment, at int64) int { return cmp.Compare(m.at, at) })
	e.stalls = slices.Delete(e.stalls, 0, n)
}

// Excuse compensates for ms in which this server did nothing, and reports whether that was so
// long that the sessions get their full timeout again.
func (e *Queue) Excuse(now, ms int64) (long bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case ms > StallMs:
		e.begin(now-ms, now)
		return true
	case ms > 0:
		e.forgive(now, ms)
	}
	return false
}

// Refresh gives the sessions their full timeout again: after an election or a stall of this server,
// silence is not the clients' fault. The election or stall began at since.
func (e *Queue) Refresh(since, now int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.begin(since, now)
}

// begin is Refresh with mu held.
func (e *Queue) begin(since, now int64) { e.begun, e.standing = moment{now, e.forgiven}, since }

// Tracked returns the number of sessions.
func (e *Queue) Tracked() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.sessions)
}

// Tracks reports whether a session is tracked.
func (e *Queue) Tracks(session int64) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.sessions[session] != nil
}

// Ends returns when a session ends if it stays silent. heard is when it was last heard according to its connection.
func (e *Queue) Ends(session int64, timeout int32, heard int64) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if l := e.sessions[session]; l != nil {
		heard = e.heardOf(l, heard)
	}
	return max((heard+int64(timeout))/e.tick+1, e.next) * e.tick
}

// lifetimeBytes is roughly what a session uses: its lifetime, an entry of a Go map of pointers, and an id in a bucket,
// a slice that grows by doubling.
const lifetimeBytes = int64(unsafe.Sizeof(lifetime{})) + 40 + 16

// Memory returns roughly the memory (bytes) that the sessions use.
func (e *Queue) Memory() int64 { return int64(e.Tracked()) * lifetimeBytes }
