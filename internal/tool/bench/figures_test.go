package bench

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestQuantilesMatchSortedLatencies compares the histogram with the naive way.
func TestQuantilesMatchSortedLatencies(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 10, 1000, 20000} {
		a, b := newLatencies(), newLatencies()
		var all []time.Duration
		for i := range n {
			d := time.Duration(float64(10*time.Microsecond) * (1 + rng.ExpFloat64()*1000))
			all = append(all, d)
			if i%2 == 0 {
				a.record(d, 1)
			} else {
				b.record(d, 1)
			}
		}
		a.add(b)
		if a.count() != int64(n) {
			t.Fatalf("%d recorded, %d counted", n, a.count())
		}
		slices.Sort(all)
		for _, p := range []float64{.5, .9, .99, .999, 1} {
			at := min(max(int(p*float64(n)+0.5)-1, 0), n-1)
			want := float64(all[at]) / 1e6
			got := a.quantileMs(p)
			if p < 1 && n <= 10 { // so few have no such percentile; only the ends are sure
				want = min(max(got, float64(all[0])/1e6*0.998), float64(all[n-1])/1e6*1.002)
			}
			if got < want*0.998-0.001 || got > want*1.002+0.001 {
				t.Errorf("%d latencies: quantile %v is %v ms, sorted %v", n, p, got, want)
			}
		}
	}
}

func TestLatenciesOutsideTheRangeAreKept(t *testing.T) {
	t.Parallel()
	l := newLatencies()
	l.record(-time.Second, 1)
	l.record(time.Hour, 3)
	if l.count() != 4 || l.quantileMs(0.1) > 0.001 || !within(l.quantileMs(1), 600_000) {
		t.Errorf("count %d, low %v, high %v", l.count(), l.quantileMs(0.1), l.quantileMs(1))
	}
	if newLatencies().quantileMs(.5) != 0 {
		t.Error("the quantile of nothing isn't 0")
	}
}

func TestSpread(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		values []float64
		want   string
	}{
		{nil, "–"},
		{[]float64{2}, "2.00x"},
		{[]float64{3, 1, 2}, "2.00x (1.00–3.00)"},
		{[]float64{4, 1, 2, 3}, "2.50x (1.00–4.00)"},
		{[]float64{0.001, 0.002, 1234}, "0.002x (0.001–1234)"},
	} {
		if got := newSpread(tt.values).text(ratioNumber, "x"); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.values, got, tt.want)
		}
	}
}

func TestRatiosPairRounds(t *testing.T) {
	t.Parallel()
	o := outcome{results: [][]result{
		{{PerSec: 100}, {PerSec: 30}, {PerSec: 500, Failed: "x"}, {PerSec: 8}},
		{{PerSec: 50}, {PerSec: 10}, {PerSec: 1}, {}},
	}}
	if got := o.ratios(0, 1, "ops_per_s"); !slices.Equal(got, []float64{2, 3}) {
		t.Errorf("%v", got)
	}
	if got := o.values(0, "ops_per_s"); !slices.Equal(got, []float64{100, 30, 8}) {
		t.Errorf("%v", got)
	}
}

func TestLongestGap(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		acks []time.Duration
		want time.Duration
	}{
		{nil, 100}, {[]time.Duration{10, 20, 50, 90}, 40}, {[]time.Duration{60, 65}, 35}, {[]time.Duration{99, 101}, 2},
	} {
		slices.Sort(tt.acks)
		if got := longestGap(tt.acks, 100); got != tt.want {
			t.Errorf("%v: %d, want %d", tt.acks, got, tt.want)
		}
	}
}
