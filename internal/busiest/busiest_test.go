package busiest

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
	"unsafe"
)

// truth counts keys without limits.
type truth map[string]float64

// held checks what Table promises, and that its heap is one.
func (all truth) held(t *testing.T, table *Table) {
	t.Helper()
	var total float64
	for _, weight := range all {
		total += weight
	}
	near := total * 1e-9 // sums of floating-point numbers
	if math.Abs(table.Total()-total) > near {
		t.Errorf("the total is %v, want %v", table.Total(), total)
	}
	if len(table.counters) > KeysMax || len(table.at) != len(table.counters) || len(table.heap) != len(table.counters) {
		t.Fatalf("%d counters, %d of them found, %d in order, want at most %d", len(table.counters), len(table.at),
			len(table.heap), KeysMax)
	}
	for i, c := range table.counters {
		if table.at[c.key] != i || table.heap[c.place] != i {
			t.Fatalf("%q is at %d and said to be at %d, and at place %d", c.key, i, table.at[c.key], c.place)
		}
		if table.weight(max(c.place-1, 0)/2) > c.weight {
			t.Fatalf("the heap is none at %d", c.place)
		}
		if real := all[c.key]; c.weight < real-near || c.weight-c.over > real+near || c.over > total/KeysMax+near {
			t.Errorf("%q weighs %v, over by %v at most; want %v", c.key, c.weight, c.over, real)
		}
	}
	for key, weight := range all {
		if _, ok := table.at[key]; !ok && weight > total/KeysMax+near {
			t.Errorf("%q weighs %v of %v and isn't counted", key, weight, total)
		}
	}
}

// TestTableKeepsItsPromises: on streams of all kinds, faded or not.
func TestTableKeepsItsPromises(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	few, many := rand.NewZipf(r, 1.1, 1, 5000), rand.NewZipf(r, 1.01, 1, 1<<40)
	for name, next := range map[string]func(i int) (string, float64){
		"few keys":         func(i int) (string, float64) { return fmt.Sprint(i % (KeysMax - 1)), 1 },
		"one key too many": func(i int) (string, float64) { return fmt.Sprint(i % (KeysMax + 1)), 1 },
		"skewed":           func(int) (string, float64) { return fmt.Sprint(few.Uint64()), 1 },
		"skewed, long":     func(int) (string, float64) { return fmt.Sprint(many.Uint64()), float64(1 + r.IntN(1000)) },
		"ever new":         func(i int) (string, float64) { return fmt.Sprint(i), float64(r.IntN(3)) },
	} {
		all, table := truth{}, &Table{}
		for i := range 50_000 {
			key, weight := next(i)
			all[key] += weight
			if table.Add(key, weight); i%7000 == 6999 {
				all.held(t, table)
				table.Fade(0.9)
				for key := range maps.Keys(all) {
					all[key] *= 0.9
				}
			}
		}
		all.held(t, table)
		if t.Failed() {
			t.Fatal(name)
		}
	}
}

// TestMemoryIsBounded: of ten million distinct keys, between which three come again and again, these three are shown
// and nothing else, and the memory is that of a few keys.
func TestMemoryIsBounded(t *testing.T) {
	keys := 10_000_000
	if testing.Short() {
		keys /= 100
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	table := &Table{}
	key := append(make([]byte, 9), strings.Repeat("x", KeyBytesMax)...) // the first bytes count
	for i := range keys {
		binary.BigEndian.PutUint64(key[1:], uint64(i))
		table.Add(unsafe.String(&key[0], len(key)), 1) // its memory isn't kept
		if i%50 == 0 {
			table.Add("/hot", 1)
			table.Add("/warm", 0.5)
			table.Add("/large", 2)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if used := int64(after.HeapAlloc) - int64(before.HeapAlloc); used > 1<<20 {
		t.Errorf("%d distinct keys take %d bytes", keys, used)
	}
	top := table.Top(10)
	if len(top) != 3 || top[0].Key != "/large" || top[1].Key != "/hot" || top[2].Key != "/warm" {
		t.Fatalf("%v", top)
	}
	for i, want := range []float64{float64(keys) / 25, float64(keys) / 50, float64(keys) / 100} {
		if e := top[i]; e.Weight < want || e.Weight-e.Over > want || e.Over > table.Total()/KeysMax {
			t.Errorf("%v, want %v", e, want)
		}
	}
	runtime.KeepAlive(table)
}

// TestKeys: keys that are long, empty or no text, and whose memory is used again.
func TestKeys(t *testing.T) {
	t.Parallel()
	table := &Table{}
	long := strings.Repeat("é", KeyBytesMax)
	for _, key := range []string{
		"", "\xff\xfe", "\x1b[31m", long, long + "more", strings.Repeat("\x80", 2*KeyBytesMax), "x" + long,
	} {
		table.Add(key, 1)
	}
	for _, e := range table.Top(100) {
		if len(e.Key) > KeyBytesMax || len(e.Key) < KeyBytesMax-utf8.UTFMax && len(e.Key) > 20 {
			t.Errorf("a key of %d bytes", len(e.Key))
		}
		if strings.HasPrefix(e.Key, "é") && (e.Weight != 2 || !utf8.ValidString(e.Key)) ||
			strings.HasPrefix(e.Key, "xé") && !utf8.ValidString(e.Key) {
			t.Errorf("%q weighs %v", e.Key, e.Weight)
		}
	}
	if n := len(table.counters); n != 6 {
		t.Errorf("%d keys", n)
	}
}

// run has requests come for some seconds, so many of each key a second; it returns how many of them were looked at in
// the last one.
func run(tr *Traffic, samplers []Sampler, from int64, seconds int, keys ...int) (samples int) {
	for s := range seconds {
		samples = 0
		total := 0
		for _, n := range keys {
			total += n
		}
		done := 0
		for key, n := range keys {
			for range n {
				now := from + int64(s)*second + int64(done)*second/int64(total)
				if w := samplers[done%len(samplers)].Take(tr); w > 0 {
					tr.Add(now, &Sample{
						Weight: w, Path: fmt.Sprintf("/%d", key), Session: "s", Identities: []string{"i"}, Operation: "o", Bytes: 100,
					})
					samples++
				}
				done++
			}
		}
	}
	return samples
}

func samplersFor(n int) []Sampler {
	all := make([]Sampler, n)
	for i := range all {
		all[i] = NewSampler(uint64(i))
	}
	return all
}

// near reports whether a rate is right to a share of it.
func near(rate, want, share float64) bool { return math.Abs(rate-want) <= want*share }

// TestRates: rates are exact while there are few requests, right to a few percent of samples with many, and fade.
func TestRates(t *testing.T) {
	t.Parallel()
	tr := &Traffic{}
	run(tr, samplersFor(3), 5*second, 30, 60, 30, 10)
	p := tr.Picture(35*second, 2)
	if p.SampledEvery != 1 || !near(p.Requests, 100, 0.01) || !near(p.Bytes, 10_000, 0.01) {
		t.Errorf("100 requests a second: %+v", p)
	}
	if top := p.ByRequests[Paths]; len(top) != 2 || top[0].Key != "/0" || !near(top[0].PerSecond, 60, 0.01) ||
		!near(top[1].PerSecond, 30, 0.01) {
		t.Errorf("%v", top)
	}
	// Ten thousand times as many, by another path first.
	samples := run(tr, samplersFor(100), 35*second, 60, 100_000, 300_000, 4_000)
	if p = tr.Picture(95*second, 5); samples > 2*samplesMax || samples < samplesMax/4 {
		t.Errorf("%d samples of %d a second", samples, 404_000)
	}
	top := p.ByRequests[Paths]
	if len(top) != 3 || top[0].Key != "/1" || top[1].Key != "/0" || !near(top[0].PerSecond, 300_000, 0.1) ||
		!near(top[1].PerSecond, 100_000, 0.1) || !near(top[2].PerSecond, 4_000, 0.5) {
		t.Errorf("%v", top)
	}
	if top := p.ByBytes[Sessions]; len(top) != 1 || !near(top[0].PerSecond, 40_400_000, 0.1) {
		t.Errorf("%v", top)
	}
	run(tr, samplersFor(3), 95*second, 600, 2)
	if p = tr.Picture(695*second, 5); len(p.ByRequests[Paths]) != 1 || p.SampledEvery != 1 || !near(p.Requests, 2, 0.01) {
		t.Errorf("after ten minutes of little: %+v", p)
	}
	if p = tr.Picture(10_000*second, 5); len(p.ByRequests[Paths]) != 0 || p.Requests > 1 {
		t.Errorf("hours later: %+v", p)
	}
}

// TestPendingPathsAreCopies: a connection's buffer, in which a path lies, gets the next request while the sample waits
// for its turn.
func TestPendingPathsAreCopies(t *testing.T) {
	t.Parallel()
	tr, buffer := &Traffic{}, []byte("/app")
	tr.Add(0, &Sample{Weight: 1, Path: unsafe.String(&buffer[0], len(buffer)), Operation: "getData"})
	copy(buffer, "/zookeeper")
	if top := tr.Picture(second, 5).ByRequests[Paths]; len(top) != 1 || top[0].Key != "/app" {
		t.Errorf("the path is %v, want /app", top)
	}
}

// TestPendingIsBounded: a sample that isn't in the tables yet holds no more of a long path than counts, and a picture
// shows it all the same.
func TestPendingIsBounded(t *testing.T) {
	t.Parallel()
	tr := &Traffic{}
	for n := range 3 * pendingMax {
		tr.Add(0, &Sample{Weight: 1, Path: "/" + strings.Repeat("x", 1<<20), Session: "s", Operation: "o"})
		if len(tr.pending) >= pendingMax || n%pendingMax == 0 && len(tr.pending[0].Path) > KeyBytesMax {
			t.Fatalf("after %d samples %d wait, the first with %d bytes", n+1, len(tr.pending), len(tr.pending[0].Path))
		}
	}
	tr.Add(0, &Sample{Weight: 1, Path: "/y", Session: "s", Operation: "o"})
	if p := tr.Picture(0, 5); !near(p.Requests, 3*pendingMax+1, 0.01) || len(p.ByRequests[Paths]) != 2 {
		t.Errorf("%+v", p)
	}
}

// TestBurst: a server that was idle isn't slowed down by the first second of full load.
func TestBurst(t *testing.T) {
	t.Parallel()
	tr := &Traffic{}
	if n := run(tr, samplersFor(10), 0, 1, 1_000_000); n > 3*samplesMax {
		t.Errorf("%d samples in the first second", n)
	}
	if p := tr.Picture(second, 1); !near(p.Requests, 1_000_000, 0.2) {
		t.Errorf("%v requests in it", p.Requests)
	}
}

// TestSamplersAreFair: what recurs at a fixed distance, and what connections send that end at once, is chosen as often
// as it comes.
func TestSamplersAreFair(t *testing.T) {
	t.Parallel()
	tr := &Traffic{}
	tr.takeEvery(8)
	const requests = 800_000
	s := NewSampler(7)
	var even float64
	for i := range requests {
		if w := s.Take(tr); i%8 == 0 {
			even += float64(w)
		}
	}
	if !near(even, requests/8, 0.1) {
		t.Errorf("of %d requests every eighth is said to be %v", requests, even)
	}
	var firsts float64
	for i := range requests {
		s := NewSampler(uint64(i))
		firsts += float64(s.Take(tr))
	}
	if !near(firsts, requests, 0.1) {
		t.Errorf("%d first requests are said to be %v", requests, firsts)
	}
	var zero Sampler
	for range 1000 {
		zero.Take(tr)
	}
}

// TestTogether: all may be called at once.
func TestTogether(t *testing.T) {
	t.Parallel()
	tr := &Traffic{}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { run(tr, samplersFor(1), 0, 3, 20_000, 10_000) })
		wg.Go(func() {
			for i := range 100 {
				tr.Picture(int64(i)*second/50, 10)
			}
		})
	}
	wg.Wait()
}

func BenchmarkTake(b *testing.B) {
	tr := &Traffic{}
	tr.takeEvery(256)
	s := NewSampler(1)
	for b.Loop() {
		s.Take(tr)
	}
}

func BenchmarkAdd(b *testing.B) {
	tr := &Traffic{}
	for i := 0; b.Loop(); i++ {
		tr.Add(int64(i)*second/2000,
			&Sample{
				Weight: 1, Path: fmt.Sprintf("/app/%d", i*7919%100_000), Session: "0x1234567812345678", Identities: []string{
					"ip:127.0.0.1",
				}, Operation: "getData", Bytes: 100,
			})
	}
}
