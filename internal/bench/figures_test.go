package bench

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/bench/wire"
	"github.com/zooid-project/zooid/jute"
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

func TestParseStat(t *testing.T) {
	t.Parallel()
	const line = "42 (a (b) c) S 7 9 42 0 -1 4194560 1000 0 0 0 250 50 0 0 20 0 31 0 12345 987654321 2048 18446744073709551615 1 1"
	st, err := parseStat([]byte(line))
	if err != nil || st != (procStat{7, 9, 3 * time.Second, 2048}) {
		t.Errorf("%+v, %v", st, err)
	}
	for _, bad := range []string{"", "42", "42 (a) S 7", strings.Replace(line, "250", "x", 1)} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

func TestNumberedRequestsAreWholeRequests(t *testing.T) {
	t.Parallel()
	n := wire.NewNumbered("/a/b-", func(p string) []byte { return wire.CreateFrame(p, []byte("xyz")) })
	for _, i := range []uint64{0, 7, 1234567890, 9999999999} {
		b := n.Append([]byte("before"), i)[len("before"):]
		want := wire.CreateFrame(wire.NumberedPath("/a/b-", int(i)), []byte("xyz"))
		if string(b) != string(want) {
			t.Errorf("%d: %q, want %q", i, b, want)
		}
	}
}

// TestMultiErrorSurvivesAnything: the body comes from a server, which may be a
// broken one.
func TestMultiErrorSurvivesAnything(t *testing.T) {
	t.Parallel()
	ok := []jute.MultiResult{{Op: jute.OpCreate, Path: "/a"}, {Op: jute.OpSetData}, {Op: jute.OpDelete}, {Op: jute.OpGetData, Data: []byte("x")},
		{Op: jute.OpGetChildren, Children: []string{"a", "b"}}, {Op: jute.OpCreate2, Path: "/b"}, {Op: jute.OpError, Err: jute.OK}}
	var body []byte
	for i := range ok {
		body = ok[i].Append(body)
	}
	bad := jute.MultiResult{Op: jute.OpError, Err: jute.ErrNotEmpty}
	if code := wire.MultiError(jute.AppendMultiEnd(body)); code != jute.OK {
		t.Errorf("all well: %v", code)
	}
	if code := wire.MultiError(jute.AppendMultiEnd(bad.Append(body))); code != jute.ErrNotEmpty {
		t.Errorf("one failed: %v", code)
	}
	for i := range body {
		if code := wire.MultiError(body[:i]); code != jute.ErrMarshallingError {
			t.Fatalf("cut to %d bytes: %v", i, code)
		}
	}
}

func FuzzMultiError(f *testing.F) {
	r := jute.MultiResult{Op: jute.OpGetChildren, Children: []string{"a"}}
	f.Add(jute.AppendMultiEnd(r.Append(nil)))
	f.Fuzz(func(_ *testing.T, b []byte) { wire.MultiError(b) })
}

func TestOthersShareOfTheMachine(t *testing.T) {
	t.Parallel()
	busy, idle := parseMachineTime([]byte("cpu  100 20 30 1000 50 7 8 5 3 0"))
	if busy != 155*clockTick || idle != 1050*clockTick {
		t.Errorf("busy %v, idle %v", busy, idle)
	}
	for _, bad := range []string{"", "cpu 1 2 3", "cpu 1 2 x 4 5 6 7 8"} {
		if busy, idle := parseMachineTime([]byte(bad)); busy != 0 || idle != 0 {
			t.Errorf("%q: busy %v, idle %v", bad, busy, idle)
		}
	}
	for _, tt := range []struct {
		c    cost
		want float64
	}{
		{cost{}, 0},
		{cost{server: 3, client: 2, machine: 6, idle: 4}, 10},
		{cost{server: 3, client: 4, machine: 6, idle: 4}, 0}, // within the clock's tick
	} {
		if got := tt.c.others(); got != tt.want {
			t.Errorf("%+v: %v %%, want %v", tt.c, got, tt.want)
		}
	}
}
