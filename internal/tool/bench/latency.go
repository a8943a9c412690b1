package bench

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const (
	// latencyUnit is the resolution of recorded latencies.
	latencyUnit = time.Microsecond
	// latencyMax is the largest recorded latency; larger ones count as this one.
	latencyMax = 10 * time.Minute
	// latencyDigits keeps every percentile within 0.1 %.
	latencyDigits = 3
)

// latencies is a histogram of durations. It isn't safe for concurrent use: each connection fills its own, and they are
// added up at the end.
type latencies struct{ h *hdrhistogram.Histogram }

func newLatencies() *latencies {
	return &latencies{hdrhistogram.New(int64(latencyUnit), int64(latencyMax), latencyDigits)}
}

// record counts n operations that took d each, at most latencyMax.
func (l *latencies) record(d time.Duration, n int64) {
	if err := l.h.RecordValues(min(max(int64(d), 0), int64(latencyMax)), n); err != nil {
		panic("bench: histogram refuses a value within its bounds: " + err.Error())
	}
}

func (l *latencies) add(o *latencies) { l.h.Merge(o.h) }

func (l *latencies) count() int64 { return l.h.TotalCount() }

// quantileMs returns the latency in milliseconds that a share p (0 to 1) of the operations doesn't exceed, with an
// accuracy of latencyDigits; 0 if there are none.
func (l *latencies) quantileMs(p float64) float64 {
	if l.count() == 0 {
		return 0
	}
	return float64(l.h.ValueAtQuantile(p*100)) / 1e6
}
