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
	last time.Time // when the action was last allowed; zero before the first
}

// begin reports whether the action may begin; if so, the caller must call end.
func (r *rate) begin(now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.busy || !r.last.IsZero() && now.Sub(r.last) < r.interval {
		return false
	}
	r.busy, r.last = true, now
	return true
}

// end marks the action as finished.
func (r *rate) end() {
	r.mu.Lock()
	r.busy = false
	r.mu.Unlock()
}
