package busiest

import (
	"math"
	"strings"
	"sync"
	"sync/atomic"
)

// A Kind is a kind of keys.
type Kind int

// The kinds.
const (
	Paths Kind = iota
	Sessions
	Identities
	Operations
	Kinds // the number of kinds
)

const (
	// kept is the share of a weight that is left after a second: after 10.7 s a request counts half.
	kept = 15.0 / 16
	// samplesMax is how many samples may come in a second before the sampling rate is lowered. Each costs a few
	// microseconds, so all of them take less than a hundredth of a processor. A key with a hundredth of the requests
	// has some 300 samples among those that still count, so its rate is accurate to 6 % (one standard deviation); a
	// steady stream has at least half of samplesMax, which makes that 8 %.
	samplesMax = 1000
	// runSamples is the number of samples that lowers the sampling rate at once if they come faster than samplesMax: an
	// idle server that suddenly gets busy spends a few milliseconds until the rate is low enough.
	runSamples = 128
	// pendingMax is how many samples are added to the tables at once. On a busy server each table has long left the
	// processor's caches when the next sample comes, and fetching it takes longer than adding the sample.
	pendingMax = 32
	// everyMax bounds the number of requests that a sample stands for.
	everyMax = 1 << 16
)

// second is a second in the unit of time.
const second = 1e9

// A Traffic holds the tables of a server. Its methods may be called concurrently; its zero value is empty and ready to
// use. Times are nanoseconds of a monotonic clock.
type Traffic struct {
	every atomic.Int32 // one request in every+1 is sampled

	mu       sync.Mutex
	faded    int64   // time up to which the weights are faded
	began    bool    // faded is set
	seconds  float64 // the time that the weights cover, faded like the weights
	samples  int     // samples since faded
	run      int     // samples since runFrom, fewer than runSamples
	runFrom  int64
	pending  []Sample // not yet in the tables; fewer than pendingMax
	requests [Kinds]Table
	bytes    [Kinds]Table
}

// A Sample is a request that was chosen by a Sampler.
type Sample struct {
	Weight     int32  // how many requests it stands for
	Path       string // "" for none
	Session    string
	Identities []string // only the first identitiesMax count
	Operation  string
	Bytes      int // size of request and reply
}

// Add adds a sample taken at a time. It retains the sample's strings for a while, but for the path, whose memory the
// caller may use again; nobody may change its Identities.
func (t *Traffic) Add(now int64, s *Sample) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fade(now)
	t.pending = append(t.pending, *s)
	t.pending[len(t.pending)-1].Path = strings.Clone(short(s.Path))
	if len(t.pending) == pendingMax {
		t.settle()
	}
	t.samples++
	if t.run++; t.run == runSamples {
		if now-t.runFrom < runSamples*second/samplesMax {
			t.takeEvery(2 * t.takesEvery())
		}
		t.run, t.runFrom = 0, now
	}
}

// settle adds the pending samples to the tables, one table after the other.
func (t *Traffic) settle() {
	add := func(k Kind, keyOf func(*Sample) string) {
		for i := range t.pending {
			if s := &t.pending[i]; keyOf(s) != "" {
				t.requests[k].Add(keyOf(s), float64(s.Weight))
			}
		}
		for i := range t.pending {
			if s := &t.pending[i]; keyOf(s) != "" {
				t.bytes[k].Add(keyOf(s), float64(s.Weight)*float64(s.Bytes))
			}
		}
	}
	add(Paths, func(s *Sample) string { return s.Path })
	add(Sessions, func(s *Sample) string { return s.Session })
	for n := range identitiesMax {
		add(Identities, func(s *Sample) string {
			if n < len(s.Identities) {
				return s.Identities[n]
			}
			return ""
		})
	}
	add(Operations, func(s *Sample) string { return s.Operation })
	clear(t.pending)
	t.pending = t.pending[:0]
}

// fade fades the weights for the whole seconds that have passed until now.
func (t *Traffic) fade(now int64) {
	if !t.began {
		t.began, t.faded = true, now
	}
	n := (now - t.faded) / second
	if n <= 0 {
		return
	}
	t.settle()
	t.faded += n * second
	share := math.Pow(kept, float64(n))
	for k := range Kinds {
		t.requests[k].Fade(share)
		t.bytes[k].Fade(share)
	}
	// Each of these seconds has faded once for itself and for each later one: a geometric series.
	t.seconds = t.seconds*share + kept*(1-share)/(1-kept)
	if int64(t.samples) < samplesMax/2*n {
		t.takeEvery(t.takesEvery() >> min(n, 30)) // doubles the sampling rate for each second
	}
	t.samples = 0
}

func (t *Traffic) takesEvery() int32        { return t.every.Load() + 1 }
func (t *Traffic) takeEvery(requests int32) { t.every.Store(min(max(requests, 1), everyMax) - 1) }

// A Rate says how busy a key is.
type Rate struct {
	Key       string
	PerSecond float64
	Over      float64 // the part of PerSecond that may belong to other keys
}

// A Picture says how busy a server is. Rates are means over the last seconds, weighted towards the latest.
type Picture struct {
	SampledEvery    int32 // one request in so many was sampled most recently
	Requests, Bytes float64
	ByRequests      [Kinds][]Rate // busiest first
	ByBytes         [Kinds][]Rate
}

// Picture returns what is busiest now, at most n entries of each kind and measure.
func (t *Traffic) Picture(now int64, n int) Picture {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fade(now)
	t.settle()
	seconds := max(t.seconds+float64(now-t.faded)/second, 1)
	p := Picture{
		SampledEvery: t.takesEvery(), Requests: t.requests[Operations].Total() / seconds,
		Bytes: t.bytes[Operations].Total() / seconds,
	}
	for k := range Kinds {
		p.ByRequests[k], p.ByBytes[k] = rates(&t.requests[k], n, seconds), rates(&t.bytes[k], n, seconds)
	}
	return p
}

// least is the lowest rate that is shown; lower ones are remnants of old requests.
const least = 0.01

func rates(t *Table, n int, seconds float64) (all []Rate) {
	for _, e := range t.Top(n) {
		if r := e.Weight / seconds; r >= least {
			all = append(all, Rate{Key: e.Key, PerSecond: r, Over: e.Over / seconds})
		}
	}
	return all
}
