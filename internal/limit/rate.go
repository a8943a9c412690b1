package limit

import "sync/atomic"

const (
	// burst is how much of a rate may be used at once: a second's worth.
	burst = int64(1e9)
	// debtMax bounds how long (ns) it takes to pay off what was used. What is used is only known
	// afterwards, so several users of a rate can exceed it together.
	debtMax = 10 * burst
)

// A Rate records how much of a limit per second has been used. Nothing of the zero value has been
// used. A Rate is safe for concurrent use.
type Rate struct {
	paid atomic.Int64 // the time (ns) at which everything used is paid off
}

// Use records the use of n, of which perSecond may be used in a second; 0 means no limit. now is
// the time in ns, by a clock that doesn't go back.
func (r *Rate) Use(now, n, perSecond int64) {
	if perSecond == 0 || n == 0 {
		return
	}
	cost := debtMax + burst
	if n < perSecond*(cost/burst) {
		cost = int64(float64(n) * (float64(burst) / float64(perSecond)))
	}
	for {
		old := r.paid.Load()
		if r.paid.CompareAndSwap(old, min(max(old, now-burst)+cost, now+debtMax)) {
			return
		}
	}
}

// Owes returns for how long (ns) nothing more may be used; 0 or less means that more may be used
// now.
func (r *Rate) Owes(now int64) int64 { return r.paid.Load() - now }

// Rested reports whether the rate has not been used lately, so that it may be forgotten.
func (r *Rate) Rested(now int64) bool { return r.paid.Load() <= now-burst }
