// Package turns shares a server's processors between identities. An identity with many busy
// connections would otherwise get as much more than one with a single connection as it has more
// connections, and every request of others would wait behind a round of all of them.
//
// While more than one identity sends requests, the connections of each take turns: input of fewer
// connections than there are processors is taken at a time, in the order in which it came, and a
// turn for which others of its identity wait is followed by a rest. Nobody waits for an identity
// other than its own, and an identity that is alone waits for nothing.
package turns

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// sharedFor is how long (ns) a server counts as shared after one identity has followed another.
	// An identity that is not heard of for longer costs the others nothing.
	sharedFor = int64(100e6)
	// lookPause is the least time (ns) between two checks of the order of identities, so that
	// processors don't contend for the result.
	lookPause = int64(1e6)
	// restMin is the shortest rest (ns). Shorter ones are put off until they are as long together,
	// because a goroutine that sleeps for less wakes up late.
	restMin = int64(300e3)
	// restMax is the longest rest (ns).
	restMax = int64(1e6)
	// waitMax is how long a turn continues when its connection has to wait for others.
	waitMax = 5 * time.Millisecond
)

// Turns is what a server knows about the identities that share it.
type Turns struct {
	most  int // turns of one identity at a time
	last  atomic.Pointer[Queue]
	look  atomic.Int64 // now (ns) of the next check
	until atomic.Int64 // now (ns) until which the server is shared
}

// New returns the turns of a server with that many processors. All but one of them may work for the
// same identity at a time, if there is more than one.
func New(processors int) *Turns { return &Turns{most: max(1, processors-1)} }

// Note records that the identity with queue q sends a request.
func (t *Turns) Note(q *Queue, now int64) {
	if t.last.Load() != q && now >= t.look.Load() {
		t.look.Store(now + lookPause)
		if t.last.Swap(q) != nil {
			t.until.Store(now + sharedFor)
		}
	}
}

// A Queue has the turns of one identity. The zero value is ready for use.
type Queue struct {
	mu      sync.Mutex
	busy    int // turns under way
	waiting []chan struct{}
	owed    int64 // rest (ns) that was put off
}

// A Turn is a connection's. Its methods are called by the goroutine that reads the connection. The
// zero value is none.
type Turn struct {
	q    *Queue
	late *time.Timer // ends it early (see EndSoon); nil for none
	end  func()      // called by late, once
}

// Begin waits until it is the turn of a connection whose identity has queue q, for at most patience:
// after that the connection goes on without one, as it does at once if the server is not shared. It
// reports whether it waited.
func (t *Turn) Begin(all *Turns, q *Queue, now int64, patience time.Duration) (waited bool) {
	if now >= all.until.Load() {
		return false
	}
	q.mu.Lock()
	if q.busy < all.most {
		q.busy++
		q.mu.Unlock()
		t.q = q
		return false
	}
	mine := make(chan struct{})
	q.waiting = append(q.waiting, mine)
	q.mu.Unlock()
	if q.await(mine, patience) {
		t.q = q
	}
	return true
}

// await waits for a turn, and reports whether it came in time.
func (q *Queue) await(mine chan struct{}, patience time.Duration) bool {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-mine:
		return true
	case <-late.C:
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	i := slices.Index(q.waiting, mine)
	if i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
	}
	return i < 0 // it came just now
}

// Held reports whether it is the connection's turn.
func (t *Turn) Held() bool { return t.q != nil }

// Rest returns how long to rest before End, after a turn that took so long (ns). The turn is held.
func (t *Turn) Rest(took int64) time.Duration {
	t.q.mu.Lock()
	defer t.q.mu.Unlock()
	if len(t.q.waiting) == 0 {
		t.q.owed = 0
		return 0
	}
	rest := min(t.q.owed+took, restMax)
	if t.q.owed = rest; rest < restMin {
		return 0
	}
	t.q.owed = 0
	return time.Duration(rest)
}

// EndSoon says that the connection is about to wait for others. Its turn continues for waitMax,
// so that less is taken from an identity that has too much unanswered, but not forever.
func (t *Turn) EndSoon() {
	if t.q != nil && t.late == nil {
		t.end = sync.OnceFunc(t.q.next)
		t.late = time.AfterFunc(waitMax, t.end)
	}
}

// End ends the turn, if there is one, and begins the next one of its identity.
func (t *Turn) End() {
	switch {
	case t.late != nil:
		t.late.Stop()
		t.end()
	case t.q != nil:
		t.q.next()
	}
	*t = Turn{}
}

// next ends a turn and begins the next one.
func (q *Queue) next() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		q.busy--
		return
	}
	close(q.waiting[0])
	q.waiting = slices.Delete(q.waiting, 0, 1)
}
