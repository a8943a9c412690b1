package busiest

import (
	"math"
	"sync"
	"sync/atomic"
)

// A Kind is one of those that keys are of.
type Kind int

// The kinds.
const (
	Paths Kind = iota
	Sessions
	Identities
	Operations
	Kinds // how many there are
)

const (
	// kept is the share that a second leaves of what was before: after 10.7 s a request counts half.
	kept = 15.0 / 16
	// samplesMax is how many samples a second may bring before fewer are taken. Each costs a few microseconds, so all of
	// them less than a hundredth of a processor. A key with a hundredth of the requests has some 300 samples among those
	// that count, and its rate is right to 6 % (one standard deviation); the half of samplesMax that a steady stream has
	// at the least makes that 8 %.
	samplesMax = 1000
	// runSamples that come faster than samplesMax make the next ones rarer: an idle server that is loaded all at once
	// spends a few milliseconds until there are few enough.
	runSamples = 128
	// everyMax bounds how many requests one sample stands for.
	everyMax = 1 << 16
)

// second is a second in the unit of time.
const second = 1e9

// A Traffic has the tables of a server. Its methods may be called at once from anywhere; its zero value is empty and
// ready. Times are nanoseconds of a clock that never goes back.
type Traffic struct {
	every atomic.Int32 // one of how many requests is a sample, less 1

	mu       sync.Mutex
	faded    int64   // until when
	began    bool    // faded is set
	seconds  float64 // that the weights are of, faded like these
	samples  int     // since faded
	run      int     // samples since runFrom, fewer than runSamples
	runFrom  int64
	requests [Kinds]Table
	bytes    [Kinds]Table
}

// A Sample is a request that was chosen by a Sampler.
type Sample struct {
	Weight     int32  // how many requests it stands for
	Path       string // "" for none
	Session    string
	Identities []string
	Operation  string
	Bytes      int // of request and reply
}

// Add adds a sample at a time. No memory of it is kept.
func (t *Traffic) Add(now int64, s *Sample) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fade(now)
	add := func(k Kind, key string) {
		t.requests[k].Add(key, float64(s.Weight))
		t.bytes[k].Add(key, float64(s.Weight)*float64(s.Bytes))
	}
	if s.Path != "" {
		add(Paths, s.Path)
	}
	add(Sessions, s.Session)
	for _, id := range s.Identities {
		add(Identities, id)
	}
	add(Operations, s.Operation)
	t.samples++
	if t.run++; t.run == runSamples {
		if now-t.runFrom < runSamples*second/samplesMax {
			t.takeEvery(2 * t.takesEvery())
		}
		t.run, t.runFrom = 0, now
	}
}

// fade does what the whole seconds until now do to the weights.
func (t *Traffic) fade(now int64) {
	if !t.began {
		t.began, t.faded = true, now
	}
	n := (now - t.faded) / second
	if n <= 0 {
		return
	}
	t.faded += n * second
	share := math.Pow(kept, float64(n))
	for k := range Kinds {
		t.requests[k].Fade(share)
		t.bytes[k].Fade(share)
	}
	// Each of the seconds has faded by those behind it, itself included: a geometric series.
	t.seconds = t.seconds*share + kept*(1-share)/(1-kept)
	if int64(t.samples) < samplesMax/2*n {
		t.takeEvery(t.takesEvery() >> min(n, 30)) // each second halves it
	}
	t.samples = 0
}

func (t *Traffic) takesEvery() int32        { return t.every.Load() + 1 }
func (t *Traffic) takeEvery(requests int32) { t.every.Store(min(max(requests, 1), everyMax) - 1) }

// A Rate is how busy a key is.
type Rate struct {
	Key       string
	PerSecond float64
	Over      float64 // how much of PerSecond may be other keys'
}

// A Picture is how busy a server is. Rates are means over the last seconds, the latest of which count most.
type Picture struct {
	SampledEvery    int32 // one of so many requests was looked at last
	Requests, Bytes float64
	ByRequests      [Kinds][]Rate // busiest first
	ByBytes         [Kinds][]Rate
}

// Picture returns what is busiest now, n of each kind at most.
func (t *Traffic) Picture(now int64, n int) Picture {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.fade(now)
	seconds := max(t.seconds+float64(now-t.faded)/second, 1)
	p := Picture{SampledEvery: t.takesEvery(), Requests: t.requests[Operations].Total() / seconds, Bytes: t.bytes[Operations].Total() / seconds}
	for k := range Kinds {
		p.ByRequests[k], p.ByBytes[k] = rates(&t.requests[k], n, seconds), rates(&t.bytes[k], n, seconds)
	}
	return p
}

// least is the rate that is shown; what is less was long ago.
const least = 0.01

func rates(t *Table, n int, seconds float64) (all []Rate) {
	for _, e := range t.Top(n) {
		if r := e.Weight / seconds; r >= least {
			all = append(all, Rate{Key: e.Key, PerSecond: r, Over: e.Over / seconds})
		}
	}
	return all
}
