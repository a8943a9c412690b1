package replica

import (
	"sync"
	"sync/atomic"
	"time"
)

// No lock that others wait for is held for longer than a step. Only requests hold the replica for long, so the longest
// hold shows operators and tests whether the work of every request is bounded (decision 090).

// A hold is a reason for holding the replica.
type hold int

const (
	holdApply hold = iota // the entries that were committed together, with their notifications
	holdReads             // the reads of one batch, or one step of long reads
	holds                 // the number of reasons
)

// holdWindow is the least time (ns) for which a long hold is remembered; the longest is twice that.
const holdWindow = int64(60e9)

// longestHold is the longest time for which the replica was held, in the present window and in the one
// before it. Recording a shorter hold takes two loads.
type longestHold struct {
	window  atomic.Int64 // number of the present window
	longest atomic.Int64 // ns, in it

	mu     sync.Mutex
	before int64 // ns, in the window before the present one
}

// longestHolds are those of all kinds.
type longestHolds struct {
	*outside
	holds [holds]longestHold
}

// note records that the replica was held from begun until end (ns).
func (h *longestHold) note(begun, end int64) {
	if took := end - begun; took > h.longest.Load() || end/holdWindow != h.window.Load() {
		h.mu.Lock()
		h.turn(end)
		h.longest.Store(max(took, h.longest.Load()))
		h.mu.Unlock()
	}
}

// turn begins now's window (ns) if it is a later one; mu is held.
func (h *longestHold) turn(now int64) {
	window := now / holdWindow
	switch passed := window - h.window.Load(); {
	case passed <= 0:
		return
	case passed == 1:
		h.before = h.longest.Load()
	default:
		h.before = 0
	}
	h.longest.Store(0)
	h.window.Store(window)
}

// at returns the longest hold, at now (ns).
func (h *longestHold) at(now int64) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turn(now)
	return max(h.before, h.longest.Load())
}

// LongestHolds returns the longest times, within the last minute or two, for which others waited for the replica while
// it applied entries and while it answered reads.
func (h *longestHolds) LongestHolds() (apply, reads time.Duration) {
	now := h.now()
	return time.Duration(h.holds[holdApply].at(now)), time.Duration(h.holds[holdReads].at(now))
}
