package admin

import (
	"sync"
	"time"
)

// A rate allows an action once in an interval, and only one at a time.
type rate struct {
	interval time.Duration

	mu   sync.Mutex
	busy bool
	last time.Time // when the action last began that counts; zero before the first
}

// begin reports whether the action may begin, as it does now; if so, the caller must call end.
func (r *rate) begin(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy || !r.last.IsZero() && now.Sub(r.last) < r.interval {
		return false
	}
	r.busy = true
	return true
}

// count has the interval begin when the action began, whether it succeeds or not. The caller has begun it.
func (r *rate) count(began time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last = began
}

// end marks the action as finished.
func (r *rate) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.busy = false
}
