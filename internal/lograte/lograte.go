// Package lograte limits the log lines that clients and peers can cause, so that strangers can't fill a log.
package lograte

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Events caused by clients are worth a line each, but clients can connect, send garbage and leave thousands of times a
// second: their lines would fill the disk and hide everything else. So lines about single clients share a limit. The
// next line that is written says how many were left out.
const (
	// LinesPerSecond is more than people read and little for a disk.
	LinesPerSecond = 10
	// Burst permits the lines that are logged when all clients of a busy server reconnect at once.
	Burst = 200
)

// rate counts lines against a number per second and a number at once.
type rate struct {
	last time.Time // when used was computed; zero before the first line
	used float64   // how much of the burst is used
}

// take reports whether there is room for a line, and uses it.
func (r *rate) take(now time.Time, perSecond, burst float64) bool {
	if d := now.Sub(r.last); d > 0 {
		r.used = max(0, r.used-d.Seconds()*perSecond)
		r.last = now
	}
	if r.used+1 > burst {
		return false
	}
	r.used++
	return true
}

// lineLimit is a limit shared by several handlers.
type lineLimit struct {
	mu      sync.Mutex
	rate    rate
	leftOut int
}

// take reports whether a line may be written now, and how many lines were left out since the last one.
func (l *lineLimit) take(now time.Time) (leftOut int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.rate.take(now, LinesPerSecond, Burst) {
		l.leftOut++
		return 0, false
	}
	leftOut, l.leftOut = l.leftOut, 0
	return leftOut, true
}

// limitedLog is a slog.Handler that drops lines beyond a limit.
type limitedLog struct {
	slog.Handler
	limit *lineLimit
}

// Limit returns a logger that writes to log, within the limit.
func Limit(log *slog.Logger) *slog.Logger {
	return slog.New(&limitedLog{log.Handler(), new(lineLimit)})
}

// Handle writes a line, or counts it as left out.
func (h *limitedLog) Handle(ctx context.Context, r slog.Record) error {
	leftOut, ok := h.limit.take(r.Time)
	if !ok {
		return nil
	}
	if leftOut > 0 {
		r = r.Clone()
		r.AddAttrs(slog.Int("linesLeftOut", leftOut))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs returns a handler with the same limit.
func (h *limitedLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &limitedLog{h.Handler.WithAttrs(attrs), h.limit}
}

// WithGroup returns a handler with the same limit.
func (h *limitedLog) WithGroup(name string) slog.Handler {
	return &limitedLog{h.Handler.WithGroup(name), h.limit}
}
