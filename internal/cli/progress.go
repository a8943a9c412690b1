package cli

import (
	"fmt"
	"io"
	"time"
)

// progressPeriod is how often the line changes: often enough to see that it lives,
// seldom enough to cost nothing.
const progressPeriod = 200 * time.Millisecond

// progress is a line on the terminal that is written over and over. A nil
// *progress shows nothing.
type progress struct {
	w     io.Writer
	what  string
	start time.Time
	last  time.Time // when the line was last written
	count int64
	shown bool
}

// progress returns a line about work that may take long; the caller ends it.
func (o *output) progress(what string) *progress {
	if !o.errTerm || o.json {
		return nil
	}
	now := time.Now()
	return &progress{w: o.errs, what: what, start: now, last: now}
}

// add counts n more steps.
func (p *progress) add(n int64) {
	if p == nil {
		return
	}
	p.count += n
	if now := time.Now(); now.Sub(p.last) >= progressPeriod {
		p.last, p.shown = now, true
		rate := float64(p.count) / now.Sub(p.start).Seconds()
		fmt.Fprintf(p.w, "\r\x1b[K%s: %d znodes, %.0f/s", p.what, p.count, rate)
	}
}

// end wipes the line. It may be called more than once.
func (p *progress) end() {
	if p != nil && p.shown {
		p.shown = false
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
