package limit

import "sync/atomic"

const (
	// burst is how much of a rate may be used at once: a second's worth.
	burst = int64(1e9)
	// debtMax bounds how long (ns) what was used at once has to be paid off. What is used is
	// known only afterwards, so several users of a rate can exceed it together.
	debtMax = 10 * burst
)

// A Rate is how much of a limit in a second was used. The zero value has used nothing. It is
// safe for concurrent use.
type Rate struct {
	paid atomic.Int64 // the time (ns) at which all that was used is paid for
}

// Use counts n, of which perSecond may be used in a second; 0 is any number. now is the time
// in ns, by a clock that doesn't go back.
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

// Owes returns for how long (ns) nothing more may be used; 0 or less if something may.
func (r *Rate) Owes(now int64) int64 { return r.paid.Load() - now }

// Rested reports whether nothing of a rate was used lately, so that it may be forgotten.
func (r *Rate) Rested(now int64) bool { return r.paid.Load() <= now-burst }
