package check

import (
	"fmt"
	"io"
	"time"

	"github.com/zooid-project/zooid/internal/terminal"
)

// progressPeriod is how often the line changes.
const progressPeriod = 200 * time.Millisecond

// progress is a line on a terminal, written over and over, that tells how far a
// check is. It is silent where it isn't a terminal.
type progress struct {
	w     io.Writer // nil if nobody would see it
	start time.Time
	last  time.Time // when the line was last written
}

func newProgress(w io.Writer) *progress {
	p := &progress{}
	if terminal.Is(w) {
		p.w = w
	}
	return p
}

// checking is for Options.Progress.
func (p *progress) checking(done, total int) {
	now := time.Now()
	if p.start.IsZero() {
		p.start = now
	}
	if p.w == nil || now.Sub(p.last) < progressPeriod {
		return
	}
	p.last = now
	rate := float64(done) / max(now.Sub(p.start).Seconds(), 1e-3)
	fmt.Fprintf(p.w, "\r\x1b[Kchecking: %d of %d, %d %%, %.0f/s", done, total, 100*done/max(total, 1), rate)
}

// reading tells which file is being read.
func (p *progress) reading(name string) {
	if p.w != nil {
		fmt.Fprintf(p.w, "\r\x1b[Kreading %s", name)
	}
}

// end wipes the line.
func (p *progress) end() {
	if p.w != nil {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
