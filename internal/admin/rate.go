package admin

import (
	"sync"
	"time"
)

// A rate allows one thing in an interval, and one at a time.
type rate struct {
	interval time.Duration

	mu   sync.Mutex
	busy bool
	last time.Time // when the last one was allowed; zero before the first
}

// begin reports whether one more may begin; the caller calls end if so.
func (r *rate) begin(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy || !r.last.IsZero() && now.Sub(r.last) < r.interval {
		return false
	}
	r.busy, r.last = true, now
	return true
}

// end lets the next one begin.
func (r *rate) end() {
	r.mu.Lock()
	r.busy = false
	r.mu.Unlock()
}
