package metrics

import (
	"math"
	"math/bits"
	"sync/atomic"
)

// The metrics in this file are Zooid's own. Only Prometheus shows them: the answer of mntr is as long as Apache's.

// The buckets of a Histogram end at powers of two of a second, like those of a native histogram of schema 0. The last
// one has no end.
const (
	histogramBuckets = 26
	// FirstEnd is the exponent of the first end: 2^-20 s, a little less than a microsecond. The last end is 16 s.
	FirstEnd = -20
	second   = 1_000_000_000
)

// A Histogram counts durations in buckets, each twice as wide as the one before. Its methods may be called
// concurrently.
type Histogram struct {
	sum     atomic.Int64 // ns
	buckets [histogramBuckets]atomic.Uint64
}

// Observe counts a duration in ns; a negative one counts as 0.
func (h *Histogram) Observe(ns int64) {
	ns = max(ns, 0)
	h.sum.Add(ns)
	h.buckets[histogramBucket(ns)].Add(1)
}

// histogramBucket returns the first bucket whose end is at least ns.
func histogramBucket(ns int64) int {
	if ns > second<<(FirstEnd+histogramBuckets-2) {
		return histogramBuckets - 1
	}
	ends := (uint64(ns)<<-FirstEnd + second - 1) / second // in 2^FirstEnd s, rounded up
	return bits.Len64(max(ends, 1) - 1)
}

// Buckets returns the number of observed durations, their sum in seconds, and for the end of each bucket, in seconds,
// how many durations weren't longer.
func (h *Histogram) Buckets() (count uint64, sum float64, upTo map[float64]uint64) {
	upTo = make(map[float64]uint64, histogramBuckets-1)
	for i := range h.buckets {
		count += h.buckets[i].Load()
		if i < histogramBuckets-1 {
			upTo[math.Ldexp(1, FirstEnd+i)] = count
		}
	}
	return count, float64(h.sum.Load()) / 1e9, upTo
}

func (h *Histogram) reset() {
	h.sum.Store(0)
	for i := range h.buckets {
		h.buckets[i].Store(0)
	}
}

// A family is a group of metrics with the same name that differ in the value of a label.
type family struct {
	help, label string
	values      []string
	histograms  []*Histogram
	counters    []*Counter
	gauges      func() map[string]float64 // by the label's value
}

func (f *family) each(string, func(string, Value)) {}

func (f *family) reset() {
	for _, h := range f.histograms {
		h.reset()
	}
	for _, c := range f.counters {
		c.Reset()
	}
}

// Histograms registers and returns a histogram of durations for each value of a label.
func (r *Registry) Histograms(name, help, label string, values ...string) []*Histogram {
	all := each[Histogram](values)
	r.add(name, &family{help: help, label: label, values: values, histograms: all})
	return all
}

// Counters registers and returns a counter for each value of a label. The name ends in _total.
func (r *Registry) Counters(name, help, label string, values ...string) []*Counter {
	all := each[Counter](values)
	r.add(name, &family{help: help, label: label, values: values, counters: all})
	return all
}

// each returns a new T for each value of a label.
func each[T any](values []string) (all []*T) {
	for range values {
		all = append(all, new(T))
	}
	return all
}

// Gauges registers numbers by the value of a label; with an empty label, read returns one number under the key "".
// read must be safe for concurrent use, and return a map that nobody else changes.
func (r *Registry) Gauges(name, help, label string, read func() map[string]float64) {
	r.add(name, &family{help: help, label: label, gauges: read})
}
