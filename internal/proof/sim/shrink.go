package sim

import (
	"slices"
	"time"
)

// Shrink runs ever simpler plans and returns the result of the smallest that still
// fails, within the patience: fewer faults, then fewer clients, then fewer requests,
// then a simpler world. The result's faults are the ones to examine.
func Shrink(p Plan, patience time.Duration) *Result {
	end := time.Now().Add(patience)
	best := Run(p)
	if best.OK() {
		return best
	}
	try := func(q Plan) bool {
		if time.Now().After(end) {
			return false
		}
		if r := Run(q); !r.OK() {
			best = r
			return true
		}
		return false
	}
	// Nothing after the failure matters, except if it was found at the end.
	if at := best.Simulated + second; at < best.Plan.End {
		q := best.Plan
		q.End = at
		q.Faults = slices.DeleteFunc(slices.Clone(q.Faults), func(f Fault) bool { return f.At > at })
		try(q)
	}
	shrinkFaults(&best, try)
	for n := best.Plan.Clients - 1; n > 0; n-- {
		q := best.Plan
		q.Clients = n
		try(q)
	}
	for n := 1; n < best.Plan.Requests && n < 1<<12; n *= 2 {
		q := best.Plan
		if q.Requests = n; try(q) {
			break
		}
	}
	for _, simpler := range []func(*Plan){
		func(q *Plan) { q.Pieces, q.HalfOpen = 0, 0 },
		func(q *Plan) { q.Quits = 0 },
		func(q *Plan) { q.Jitter = 0 },
		func(q *Plan) { q.TTL = false },
		func(q *Plan) { q.Twin = false },
		func(q *Plan) { q.Local, q.Upgrading = false, false },
		func(q *Plan) { q.Midway = false },
		func(q *Plan) { q.Old = nil },
		func(q *Plan) { q.TwoDirs = false },
		func(q *Plan) { q.SnapCount = 1000 },
		func(q *Plan) { q.SegmentSize = 64 << 10 },
		func(q *Plan) { q.Drift = slices.Repeat([]float64{1}, q.Servers+q.Spare) },
	} {
		q := best.Plan
		simpler(&q)
		try(q)
	}
	shrinkFaults(&best, try)
	return best
}

// shrinkFaults is delta debugging: it removes ever smaller parts of the list.
func shrinkFaults(best **Result, try func(Plan) bool) {
	for size := (len((*best).Plan.Faults) + 1) / 2; size > 0; {
		shrunk := false
		for from := 0; from < len((*best).Plan.Faults); {
			q := (*best).Plan
			q.Faults = slices.Delete(slices.Clone(q.Faults), from, min(from+size, len(q.Faults)))
			if try(q) {
				shrunk = true
			} else {
				from += size
			}
		}
		if !shrunk || size > 1 {
			size /= 2
		}
	}
}
