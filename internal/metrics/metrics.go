// Package metrics keeps a server's metrics: a single Registry feeds mntr, the admin server and Prometheus, under the
// names that ZooKeeper's tools know. Counting costs a few atomic operations at most; nothing blocks.
package metrics

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Registry holds metrics in the order they were registered. Register all of them before sharing the Registry; after
// that its methods may be called concurrently. The zero Registry is empty and ready to use.
type Registry struct {
	metrics []metric
	names   map[string]bool
	begin   []func()
}

// metric is a registered metric with its name.
type metric struct {
	name string
	shape
}

// shape is what every kind of metric implements.
type shape interface {
	each(name string, visit func(string, Value))
	samples(name string, visit func(*Sample))
	reset()
}

// add registers a metric. It panics if the name is already registered.
func (r *Registry) add(name string, s shape) {
	if r.names[name] {
		panic(fmt.Sprintf("metrics: every name is registered once, %s was twice", name))
	}
	if r.names == nil {
		r.names = map[string]bool{}
	}
	r.names[name] = true
	r.metrics = append(r.metrics, metric{name, s})
}

// BeforeEach registers f to be called before each pass over the metrics (Each, Samples), in the caller's goroutine. f
// can look up once what many gauges read.
func (r *Registry) BeforeEach(f func()) { r.begin = append(r.begin, f) }

func (r *Registry) beginPass() {
	for _, f := range r.begin {
		f()
	}
}

// Each visits every number, metrics in order of registration and the keys of a set sorted: a gauge or counter under
// its name, an element of a set as KEY_NAME, a summary as avg_NAME, min_NAME, max_NAME, cnt_NAME, sum_NAME and, if
// Advanced, p50_NAME, p95_NAME, p99_NAME, p999_NAME. Gauge functions run in the caller's goroutine.
func (r *Registry) Each(visit func(name string, value Value)) {
	r.beginPass()
	for _, m := range r.metrics {
		m.each(m.name, visit)
	}
}

// Reset resets counters and summaries, as srst does. Gauges aren't affected.
func (r *Registry) Reset() {
	for _, m := range r.metrics {
		m.reset()
	}
}

// Gauge registers a number that read returns; read must be safe for concurrent use, and fast.
func (r *Registry) Gauge(name string, read func() Value) { r.add(name, gauge(read)) }

// GaugeSet registers numbers by key; read must return a map that nobody else changes.
func (r *Registry) GaugeSet(name string, read func() map[string]Value) { r.add(name, gaugeSet(read)) }

// Counter registers and returns a counter.
func (r *Registry) Counter(name string) *Counter {
	c := &Counter{}
	r.add(name, c)
	return c
}

// CounterSet registers and returns counters by key.
func (r *Registry) CounterSet(name string) *CounterSet {
	s := &CounterSet{keyed[*Counter]{make: func() *Counter { return &Counter{} }}}
	r.add(name, s)
	return s
}

// Summary registers and returns a summary.
func (r *Registry) Summary(name string, level Level) *Summary {
	s := newSummary(level)
	r.add(name, s)
	return s
}

// SummarySet registers and returns summaries by key.
func (r *Registry) SummarySet(name string, level Level) *SummarySet {
	s := &SummarySet{keyed[*Summary]{make: func() *Summary { return newSummary(level) }}}
	r.add(name, s)
	return s
}

// Counter is a counter. Its methods may be called concurrently.
type Counter struct{ n atomic.Int64 }

// Add adds n to the counter.
func (c *Counter) Add(n int64) { c.n.Add(n) }

// Inc adds 1 to the counter.
func (c *Counter) Inc() { c.n.Add(1) }

// Value returns the count since the last Reset.
func (c *Counter) Value() int64 { return c.n.Load() }

// Reset sets the counter to 0.
func (c *Counter) Reset() { c.n.Store(0) }

func (c *Counter) each(name string, visit func(string, Value)) { visit(name, Int(c.Value())) }
func (c *Counter) reset()                                      { c.Reset() }
func (s *Summary) reset()                                      { s.Reset() }

// CounterSet holds a counter for each key.
type CounterSet struct{ keyed[*Counter] }

// SummarySet holds a summary for each key.
type SummarySet struct{ keyed[*Summary] }

// The keys of a set come from clients, as parts of paths. Keys beyond setKeysMax, and those longer than KeyBytesMax,
// are counted under OtherKey: at some 4 KiB per summary, a set takes 5 MiB at most, and output stays bounded.
const (
	setKeysMax  = 1000
	KeyBytesMax = 256
	OtherKey    = "_other"
)

// keyed holds a metric for each key.
type keyed[M shape] struct {
	make func() M
	all  sync.Map // key → M

	mu   sync.Mutex // guards adding keys
	size int
}

// Memory returns roughly the bytes of memory that the summaries take.
func (s *SummarySet) Memory() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return int64(s.size) * int64(unsafe.Sizeof(Summary{})+KeyBytesMax)
}

// With returns the metric of a key, creating it on first use. It takes no lock if the key exists. Callers on a hot
// path with a fixed key should keep the result.
func (k *keyed[M]) With(key string) M {
	if m, ok := k.all.Load(key); ok {
		return m.(M)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if m, ok := k.all.Load(key); ok {
		return m.(M)
	}
	if k.size >= setKeysMax || len(key) > KeyBytesMax {
		m, _ := k.all.LoadOrStore(OtherKey, k.make())
		return m.(M)
	}
	k.size++
	m := k.make()
	k.all.Store(key, m)
	return m
}

// inOrder visits the elements of the set sorted by key.
func (k *keyed[M]) inOrder(visit func(key string, m M)) {
	var keys []string
	k.all.Range(func(key, _ any) bool {
		keys = append(keys, key.(string))
		return true
	})
	slices.Sort(keys)
	for _, key := range keys {
		if m, ok := k.all.Load(key); ok {
			visit(key, m.(M))
		}
	}
}

func (k *keyed[M]) each(name string, visit func(string, Value)) {
	k.inOrder(func(key string, m M) { m.each(key+"_"+name, visit) })
}

// reset keeps the keys: callers may hold what With returned.
func (k *keyed[M]) reset() { k.inOrder(func(_ string, m M) { m.reset() }) }

type gauge func() Value

func (g gauge) each(name string, visit func(string, Value)) { visit(name, g()) }
func (g gauge) reset()                                      {}

type gaugeSet func() map[string]Value

func (g gaugeSet) each(name string, visit func(string, Value)) {
	g.inOrder(func(key string, v Value) { visit(key+"_"+name, v) })
}

func (g gaugeSet) reset() {}

func (g gaugeSet) inOrder(visit func(key string, v Value)) {
	values := g()
	for _, key := range slices.Sorted(maps.Keys(values)) {
		visit(key, values[key])
	}
}
