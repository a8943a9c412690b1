package bench

import (
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"github.com/zooid-project/zooid/internal/tool/terminal"
)

// progressPeriod is how often the line changes: often enough to show that work continues, and rarely enough to cost
// nothing.
const progressPeriod = 500 * time.Millisecond

// progress says on a terminal how far a measurement is. A nil *progress shows nothing.
type progress struct {
	prefix string // set before the work begins

	mu   sync.Mutex
	line *terminal.Progress
	last time.Time // when the line was last written
	ops  int64     // as of last
}

// newProgress returns a progress line on w, nil if w isn't a terminal or quiet is set.
func newProgress(w io.Writer, quiet bool) *progress {
	if quiet || !terminal.Is(w) {
		return nil
	}
	return &progress{line: terminal.ProgressOn(w)}
}

// show shows the progress of the named work: ops operations done in elapsed, out of the total time, or out of count if
// that isn't 0.
func (p *progress) show(name string, ops int64, elapsed, total time.Duration, count int64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	since := time.Since(p.last)
	if since < progressPeriod {
		return
	}
	rate := float64(ops-p.ops) / since.Seconds()
	if p.last.IsZero() || ops < p.ops {
		rate = float64(ops) / max(elapsed.Seconds(), 0.001)
	}
	p.last, p.ops = time.Now(), ops
	text := fmt.Sprintf("%s%s: %s ops, %s/s, %.0f s", p.prefix, name, short(float64(ops)), short(rate), elapsed.Seconds())
	switch {
	case count > 0:
		text += fmt.Sprintf(" (%.0f %%)", 100*float64(ops)/float64(count))
	case total > 0 && total != math.MaxInt64:
		text += fmt.Sprintf(" of %.0f", total.Seconds())
	}
	p.line.Show(text)
}

// note shows a step that has no numbers.
func (p *progress) note(text string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, p.ops = time.Time{}, 0
	p.line.Show(p.prefix + text)
}

// clear erases the line before something else is written to the terminal.
func (p *progress) clear() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.line.End()
}

// short formats a number in about four characters: 950, 1.2k, 43k, 1.3M.
func short(v float64) string {
	switch {
	case v >= 9.95e6:
		return fmt.Sprintf("%.0fM", v/1e6)
	case v >= 999.5e3:
		return fmt.Sprintf("%.1fM", v/1e6)
	case v >= 9950:
		return fmt.Sprintf("%.0fk", v/1e3)
	case v >= 999.5:
		return fmt.Sprintf("%.1fk", v/1e3)
	default:
		return fmt.Sprintf("%.0f", v)
	}
}
