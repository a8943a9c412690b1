package limit

import "sync/atomic"

const (
	// burst is how much of a rate may be used at once: as much as in a second.
	burst = int64(1e9)
	// debtMax bounds the time (ns) until a used amount is paid off. An amount is only known after its use, so several
	// users of a rate can together exceed it.
	debtMax = 10 * burst
)

// A Rate records the use of a limit per second. The zero value is unused. A Rate is safe for concurrent use.
type Rate struct {
	paid atomic.Int64 // the time (ns) at which all use is paid off
}

// Use records the use of n at the time now (ns), of a clock that doesn't go back. perSecond is the limit; 0 means no
// limit.
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

// Owes returns the time (ns) for which nothing more may be used. 0 or less means that more may be used now.
func (r *Rate) Owes(now int64) int64 { return r.paid.Load() - now }

// Rested reports whether the rate hasn't been used lately, so that it may be forgotten.
func (r *Rate) Rested(now int64) bool { return r.paid.Load() <= now-burst }

// Rates record the use of a limit of requests and of one of bytes.
type Rates struct{ Requests, Bytes Rate }

// Use records the use of both at the time now (ns).
func (u *Rates) Use(now, requests, bytes int64, of *Set) {
	u.Requests.Use(now, requests, of[Requests])
	u.Bytes.Use(now, bytes, of[Bytes])
}

// Owes returns how long (ns) nothing more may be used, and which of the two limits is the reason.
func (u *Rates) Owes(now int64) (int64, Kind) {
	requests, bytes := u.Requests.Owes(now), u.Bytes.Owes(now)
	if bytes > requests {
		return bytes, Bytes
	}
	return requests, Requests
}

// Rested reports whether neither has been used lately.
func (u *Rates) Rested(now int64) bool { return u.Requests.Rested(now) && u.Bytes.Rested(now) }
