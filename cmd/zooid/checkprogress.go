//go:build unix

package main

import (
	"fmt"
	"io"
	"time"

	"github.com/zooid-project/zooid/internal/terminal"
)

// checkProgressPeriod is the time between two changes of the line.
const checkProgressPeriod = 200 * time.Millisecond

// checkProgress is a line on a terminal that shows how far a check is. Without a
// terminal it prints nothing.
type checkProgress struct {
	w     io.Writer // nil without a terminal
	start time.Time
	last  time.Time // when the line was last written
}

func newCheckProgress(w io.Writer) *checkProgress {
	p := &checkProgress{}
	if terminal.Is(w) {
		p.w = w
	}
	return p
}

// checking is for Options.Progress.
func (p *checkProgress) checking(done, total int) {
	now := time.Now()
	if p.start.IsZero() {
		p.start = now
	}
	if p.w == nil || now.Sub(p.last) < checkProgressPeriod {
		return
	}
	p.last = now
	rate := float64(done) / max(now.Sub(p.start).Seconds(), 1e-3)
	fmt.Fprintf(p.w, "\r\x1b[Kchecking: %d of %d, %d %%, %.0f/s", done, total, 100*done/max(total, 1), rate)
}

// reading tells which file is being read.
func (p *checkProgress) reading(name string) {
	if p.w != nil {
		fmt.Fprintf(p.w, "\r\x1b[Kreading %s", name)
	}
}

// end wipes the line.
func (p *checkProgress) end() {
	if p.w != nil {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
