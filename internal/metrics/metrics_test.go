package metrics

import (
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the transcripts in testdata anew")

// filled returns a registry with every kind of metric in it.
func filled() *Registry {
	r := &Registry{}
	r.Gauge("znode_count", func() Value { return Int(5) })
	r.Gauge("avg_latency", func() Value { return Float(0.7143) })
	r.GaugeSet("quota_count_limit_per_namespace", func() map[string]Value {
		return map[string]Value{"b": Int(2), "a": Int(1), `q"\` + "\n\xff": Int(3)}
	})
	r.Counter("op_count_create").Add(7)
	r.Counter("op_count_total").Add(9)
	errors := r.CounterSet("quota_exceeded_error_per_namespace")
	errors.With("z").Inc()
	errors.With("app").Add(3)
	fsync := r.Summary("fsynctime", Basic)
	for _, v := range []int64{1, 2, 2, 4, 5, 0, 6} {
		fsync.Observe(v)
	}
	read := r.Summary("readlatency", Advanced)
	for v := int64(1); v <= 1000; v++ {
		read.Observe(v)
	}
	r.Summary("updatelatency", Advanced)
	r.SummarySet("write_per_namespace", Basic).With("app").Observe(100)
	r.SummarySet("ack_latency", Advanced).With("3").Observe(12)
	return r
}

// dump is what Each visits, a line for each number.
func dump(r *Registry) string {
	var b strings.Builder
	r.Each(func(name string, v Value) { fmt.Fprintf(&b, "%q\t%s\n", name, v) })
	return b.String()
}

func TestOutputs(t *testing.T) {
	t.Parallel()
	r := filled()
	after := filled()
	after.Reset()
	for file, got := range map[string]string{
		"each.txt":       dump(r),
		"each_reset.txt": dump(after),
	} {
		path := "testdata/" + file
		if *rewrite {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s differs (run with -rewrite and read the diff):\n%s", path, got)
		}
	}
}

func TestPercentilesAreWithinOneThirtySecond(t *testing.T) {
	t.Parallel()
	var values []int64
	s := newSummary(Advanced)
	for v := int64(0); v < 1<<34; v = v*17/16 + 1 {
		values = append(values, v)
		s.Observe(v)
	}
	r := s.read()
	for q := 0.001; q < 1; q += 0.001 {
		exact := values[int(math.Ceil(q*float64(len(values))))-1]
		got := r.percentile(q)
		if off := math.Abs(float64(got - exact)); off > float64(exact)/32+0.5 {
			t.Errorf("p%g is %d, exactly %d", 100*q, got, exact)
		}
	}
}

func TestBucketsAreInOrderAndHoldTheirMiddle(t *testing.T) {
	t.Parallel()
	for b := range buckets {
		if got := bucketOf(middleOf(b)); got != b {
			t.Fatalf("the middle of bucket %d, %d, is in bucket %d", b, middleOf(b), got)
		}
	}
	for _, v := range []int64{math.MinInt64, -1, 0, 1 << histogramBits, math.MaxInt64} {
		if b := bucketOf(v); b < 0 || b >= buckets {
			t.Errorf("%d is in bucket %d", v, b)
		}
	}
}

func TestSummaryOfExtremesStaysInRange(t *testing.T) {
	t.Parallel()
	r := &Registry{}
	s := r.Summary("s", Advanced)
	s.Observe(-5)
	s.Observe(math.MaxInt64 / 2)
	got := dump(r)
	for _, want := range []string{
		`"min_s"	-5`, `"max_s"	4611686018427387903`, `"p999_s"	4611686018427387903`, `"cnt_s"	2`,
	} {
		if !strings.Contains(got, want+"\n") {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

func TestEverythingIsCountedOnceFromManyGoroutines(t *testing.T) {
	t.Parallel()
	const goroutines, each = 8, 2000
	r := &Registry{}
	c, set := r.Counter("c"), r.CounterSet("set")
	s, sums := r.Summary("s", Advanced), r.SummarySet("sums", Basic)
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := range int64(each) {
				c.Inc()
				s.Observe(i)
				set.With(strconv.FormatInt(i%5, 10)).Add(2)
				sums.With(strconv.Itoa(g % 3)).Observe(i)
				if i%500 == 0 {
					r.Each(func(string, Value) {})
				}
			}
		})
	}
	wg.Wait()
	if c.Value() != goroutines*each {
		t.Errorf("counter: %d", c.Value())
	}
	if got := s.read(); got.cnt != goroutines*each || got.min != 0 || got.max != each-1 ||
		got.sum != goroutines*each*(each-1)/2 ||
		got.observed != goroutines*each {
		t.Errorf("summary: cnt %d min %d max %d sum %d in histogram %d", got.cnt, got.min, got.max, got.sum, got.observed)
	}
	for i := range 5 {
		if got := set.With(strconv.Itoa(i)).Value(); got != 2*goroutines*each/5 {
			t.Errorf("counter of key %d: %d", i, got)
		}
	}
	if got := sums.With("0").read().cnt; got != 3*each {
		t.Errorf("summary of key 0: %d", got)
	}
}

func TestSetsAreBounded(t *testing.T) {
	t.Parallel()
	r := &Registry{}
	set := r.CounterSet("set")
	for i := range setKeysMax + 50 {
		set.With(fmt.Sprintf("%05d", i)).Inc()
	}
	var names []string
	r.Each(func(name string, _ Value) { names = append(names, name) })
	if len(names) != setKeysMax+1 || !slices.IsSorted(names) {
		t.Errorf("%d keys, sorted: %v", len(names), slices.IsSorted(names))
	}
	if got := set.With("yet another").Value(); got != 50 {
		t.Errorf("%d counted under the last key, want 50", got)
	}
	sums := r.SummarySet("sums", Basic)
	for i := range setKeysMax + 50 {
		sums.With(fmt.Sprint(i))
	}
	if n := sums.Memory(); n < setKeysMax<<11 || n > setKeysMax<<13 {
		t.Errorf("%d summaries take %d bytes", setKeysMax, n)
	}
}

// TestLongKeysAreBounded: a client that names znodes of a megabyte doesn't have their names kept.
func TestLongKeysAreBounded(t *testing.T) {
	t.Parallel()
	r := &Registry{}
	set := r.SummarySet("set", Basic)
	longest := strings.Repeat("k", KeyBytesMax)
	set.With(longest).Observe(1)
	for i := range 3 {
		set.With(strconv.Itoa(i) + longest).Observe(2)
	}
	bytes := 0
	r.Each(func(name string, _ Value) { bytes = max(bytes, len(name)) })
	if bytes > KeyBytesMax+len("avg_")+len("_set") {
		t.Errorf("a name of %d bytes is shown", bytes)
	}
	if got := set.With(longest).read().cnt; got != 1 {
		t.Errorf("%d counted under the longest key, want 1", got)
	}
	if got := set.With(OtherKey).read().cnt; got != 3 {
		t.Errorf("%d counted under %s, want 3", got, OtherKey)
	}
}

// TestBeforeEach: gauges that share what a pass looks up look it up once, in mntr's passes and in Prometheus's.
func TestBeforeEach(t *testing.T) {
	t.Parallel()
	r := &Registry{}
	looked := int64(0)
	r.BeforeEach(func() { looked++ })
	for _, name := range []string{"a", "b", "c"} {
		r.Gauge(name, func() Value { return Int(looked) })
	}
	for pass := int64(1); pass <= 2; pass++ {
		r.Each(func(name string, v Value) {
			if v != Int(2*pass-1) {
				t.Errorf("%s is %s in pass %d", name, v, pass)
			}
		})
		r.Samples(func(s *Sample) {
			if s.Number != float64(2*pass) {
				t.Errorf("%s is %v in pass %d", s.Name, s.Number, pass)
			}
		})
	}
}

func TestANameIsRegisteredOnce(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("a second metric of a name was taken")
		}
	}()
	r := &Registry{}
	r.Counter("c")
	r.Summary("c", Basic)
}

func BenchmarkObserve(b *testing.B) {
	s := newSummary(Advanced)
	for i := range b.N {
		s.Observe(int64(i & 1023))
	}
}
