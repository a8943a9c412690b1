package replica

import (
	"time"

	"github.com/zooid-project/zooid/internal/metrics"
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

// longestHolds are the longest holds, by reason.
type longestHolds struct {
	*outside
	holds [holds]metrics.Longest
}

// LongestHolds returns the longest times, within the last minute or two, for which others waited for the replica while
// it applied entries and while it answered reads.
func (h *longestHolds) LongestHolds() (apply, reads time.Duration) {
	now := h.now()
	return time.Duration(h.holds[holdApply].At(now)), time.Duration(h.holds[holdReads].At(now))
}
