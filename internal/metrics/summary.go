package metrics

import (
	"math"
	"math/bits"
	"sync/atomic"
)

// Level says which statistics a Summary shows.
type Level int

const (
	// Basic shows avg, min, max, cnt and sum.
	Basic Level = iota
	// Advanced shows p50, p95, p99 and p999 as well.
	Advanced
)

// The histogram has exact buckets up to 2*bucketsPerDouble, and above that bucketsPerDouble buckets for each doubling,
// so that a percentile is off by at most 1/32. Values of 2^histogramBits and more share the last bucket: 19 hours in
// microseconds, 64 GiB in bytes.
const (
	bucketBits       = 4
	bucketsPerDouble = 1 << bucketBits
	histogramBits    = 36
	buckets          = (histogramBits - bucketBits + 1) * bucketsPerDouble
)

// Summary summarizes integers observed since the last Reset. Its methods may be called concurrently; none takes a
// lock.
type Summary struct {
	level     Level
	count     atomic.Int64
	sum       atomic.Int64
	min       atomic.Int64
	max       atomic.Int64
	histogram [buckets]atomic.Uint64
}

func newSummary(level Level) *Summary {
	s := &Summary{level: level}
	s.min.Store(math.MaxInt64)
	s.max.Store(math.MinInt64)
	return s
}

// Observe adds one value, in the unit that the metric's name says. Percentiles count a negative value as 0.
func (s *Summary) Observe(v int64) { s.ObserveMany(v, 1) }

// ObserveMany adds one value n times.
func (s *Summary) ObserveMany(v, n int64) {
	s.count.Add(n)
	s.sum.Add(n * v)
	for low := s.min.Load(); v < low && !s.min.CompareAndSwap(low, v); low = s.min.Load() {
	}
	for high := s.max.Load(); v > high && !s.max.CompareAndSwap(high, v); high = s.max.Load() {
	}
	s.histogram[bucketOf(v)].Add(uint64(n))
}

// Reset discards all values. A value observed during the call may be counted in part.
func (s *Summary) Reset() {
	s.count.Store(0)
	s.sum.Store(0)
	s.min.Store(math.MaxInt64)
	s.max.Store(math.MinInt64)
	for i := range s.histogram {
		s.histogram[i].Store(0)
	}
}

// bucketOf returns the bucket of a value: small values have their own, others share one by their highest bits.
func bucketOf(v int64) int {
	if v = max(v, 0); v < bucketsPerDouble {
		return int(v)
	}
	shift := bits.Len64(uint64(v)) - bucketBits - 1
	return min((shift+1)<<bucketBits+int(uint64(v)>>shift)-bucketsPerDouble, buckets-1)
}

// middleOf returns the value in the middle of a bucket.
func middleOf(bucket int) int64 {
	if bucket < bucketsPerDouble {
		return int64(bucket)
	}
	shift := bucket>>bucketBits - 1
	low := int64(bucket&(bucketsPerDouble-1)+bucketsPerDouble) << shift
	return low + (int64(1)<<shift-1)/2
}

// summed holds the numbers of a Summary at one time.
type summed struct {
	avg                float64
	min, max, cnt, sum int64
	histogram          [buckets]uint64
	observed           uint64
}

// read reads the numbers one by one; values observed meanwhile may be included in only some of them.
func (s *Summary) read() *summed {
	r := &summed{cnt: s.count.Load(), sum: s.sum.Load(), min: s.min.Load(), max: s.max.Load()}
	if r.cnt > 0 {
		r.avg = roundHalfUp(float64(r.sum) / float64(r.cnt))
	}
	if r.min == math.MaxInt64 {
		r.min = 0
	}
	if r.max == math.MinInt64 {
		r.max = 0
	}
	for i := range s.histogram {
		r.histogram[i] = s.histogram[i].Load()
		r.observed += r.histogram[i]
	}
	return r
}

// roundHalfUp rounds to four decimals, like Apache's averages.
func roundHalfUp(f float64) float64 {
	const scale = 1e4
	if math.Abs(f) > math.MaxInt64/scale {
		return f
	}
	return math.Copysign(math.Floor(math.Abs(f)*scale+0.5), f) / scale
}

// percentile returns the value that the share q of all values doesn't exceed, 0 without any.
func (r *summed) percentile(q float64) int64 {
	rank := uint64(math.Ceil(q * float64(r.observed)))
	var below uint64
	for i, n := range r.histogram {
		below += n
		if n > 0 && below >= rank {
			if i == buckets-1 {
				return r.max
			}
			return max(r.min, min(middleOf(i), r.max))
		}
	}
	return 0
}

// percentiles are the percentiles of an Advanced summary, by Apache's names.
var percentiles = []struct {
	prefix string
	share  float64
}{{"p50", 0.5}, {"p95", 0.95}, {"p99", 0.99}, {"p999", 0.999}}

// each visits the summary's numbers under the names of Apache's DefaultMetricsProvider.
func (s *Summary) each(name string, visit func(string, Value)) {
	r := s.read()
	visit("avg_"+name, Float(r.avg))
	visit("min_"+name, Int(r.min))
	visit("max_"+name, Int(r.max))
	visit("cnt_"+name, Int(r.cnt))
	visit("sum_"+name, Int(r.sum))
	if s.level == Advanced {
		for _, p := range percentiles {
			visit(p.prefix+"_"+name, Int(r.percentile(p.share)))
		}
	}
}
