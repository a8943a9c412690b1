package metrics

import (
	"math"
	"testing"
)

// TestHistogramBuckets: a duration counts in the first bucket whose end it doesn't exceed, and in all after it; what is
// longer than the last end counts in none but the total.
func TestHistogramBuckets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ns   int64
		ends float64 // of its bucket, in seconds; 0 for none
	}{
		{-5, 1. / (1 << 20)}, {0, 1. / (1 << 20)}, {953, 1. / (1 << 20)}, {954, 1. / (1 << 19)}, {1907, 1. / (1 << 19)},
		{1908, 1. / (1 << 18)},
		{976_562, 1. / 1024}, {976_563, 1. / 512}, {500_000_000, 0.5}, {500_000_001, 1}, {1_000_000_000, 1},
		{1_000_000_001, 2},
		{16_000_000_000, 16}, {16_000_000_001, 0}, {math.MaxInt64, 0},
	} {
		var h Histogram
		h.Observe(c.ns)
		count, sum, upTo := h.Buckets()
		if count != 1 || sum != float64(max(c.ns, 0))/1e9 {
			t.Errorf("%d ns: counted %d times, sum %v", c.ns, count, sum)
		}
		for end, n := range upTo {
			if want := c.ends != 0 && end >= c.ends; (n == 1) != want {
				t.Errorf("%d ns: bucket up to %v s has %d", c.ns, end, n)
			}
		}
	}
}

// TestFamilies: metrics of one name with a label are no part of mntr, and begin anew with Reset, but the gauges.
func TestFamilies(t *testing.T) {
	t.Parallel()
	r := &Registry{}
	h := r.Histograms("h", "help", "stage", "a", "b")
	c := r.Counters("c_total", "help", "how", "x", "y")
	r.Gauges("g", "help", "peer", func() map[string]float64 { return map[string]float64{"2": 7} })
	h[1].Observe(5)
	c[0].Add(3)
	seen := func() map[string]float64 {
		all := map[string]float64{}
		r.Samples(func(s *Sample) { all[s.Name+" "+s.Label+"="+s.Value] = s.Number + float64(s.Count) })
		return all
	}
	want := map[string]float64{"h stage=a": 0, "h stage=b": 1, "c_total how=x": 3, "c_total how=y": 0, "g peer=2": 7}
	for key, n := range seen() {
		if want[key] != n {
			t.Errorf("%s is %v, want %v", key, n, want[key])
		}
	}
	if len(seen()) != len(want) {
		t.Errorf("%d samples, want %d", len(seen()), len(want))
	}
	r.Each(func(name string, _ Value) { t.Errorf("mntr would show %s", name) })
	r.Reset()
	for key, n := range seen() {
		if n != 0 && key != "g peer=2" {
			t.Errorf("after Reset %s is %v", key, n)
		}
	}
}
