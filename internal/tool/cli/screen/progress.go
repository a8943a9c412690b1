package screen

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/zooid-project/zooid/zk"
)

// Progress reports on long work: by a line on the terminal that is rewritten, and by
// results that are printed as they come rather than at the end. A nil *Progress does
// nothing.
type Progress struct {
	o     *Output
	what  string
	start time.Time
	last  time.Time // when the line was last written
	count int64
	total atomic.Int64                         // 0 while it isn't known
	ask   func(context.Context) (int64, error) // for the total, once; nil if it can't be known
	ctx   context.Context                      // of ask
	done  context.CancelFunc
}

// Progress returns a progress line for work that may take long; the caller ends it. It
// returns nil for work that is part of other work.
func (o *Output) Progress(what string) *Progress {
	if o.line != nil {
		return nil
	}
	now := time.Now()
	o.line = &Progress{o: o, what: what, start: now, last: now}
	return o.line
}

// Of sets the number of steps.
func (p *Progress) Of(total int) *Progress {
	if p != nil {
		p.total.Store(int64(total))
	}
	return p
}

// OfTree makes a server count the steps, which are the znodes from root down, once the
// line is shown for the first time.
func (p *Progress) OfTree(ctx context.Context, c *zk.Client, root string) *Progress {
	if p != nil {
		p.ctx, p.done = context.WithCancel(ctx)
		p.ask = func(ctx context.Context) (int64, error) {
			n, err := c.AllChildrenNumber(ctx, root)
			return int64(n) + 1, err
		}
	}
	return p
}

// Add counts n more steps.
func (p *Progress) Add(n int64) {
	if p == nil {
		return
	}
	p.count += n
	now := time.Now()
	if now.Sub(p.last) < p.o.Period {
		return
	}
	p.last = now
	p.o.W.Flush()
	if !p.o.ErrTerm || p.o.JSON {
		return
	}
	if p.ask != nil {
		go func(ask func(context.Context) (int64, error), ctx context.Context) {
			if n, err := ask(ctx); err == nil { // older servers can't tell
				p.total.Store(n)
			}
		}(p.ask, p.ctx)
		p.ask = nil
	}
	p.o.shown.Show(cut(p.text(now.Sub(p.start)), p.o.width()-1))
}

// text returns the line after the time spent.
func (p *Progress) text(spent time.Duration) string {
	rate := float64(p.count) / max(spent.Seconds(), 1e-3)
	total := p.total.Load()
	if total < p.count { // unknown, or others create znodes meanwhile
		return fmt.Sprintf("%s: %d znodes, %.0f/s", p.what, p.count, rate)
	}
	left := time.Duration(float64(total-p.count) / rate * float64(time.Second)).Round(time.Second)
	return fmt.Sprintf("%s: %d of %d znodes, %d %%, %.0f/s, %v left", p.what, p.count, total, 100*p.count/total, rate,
		left)
}

// cut returns the end of a line that is too long for the terminal: a line that wraps
// can't be overwritten, and the numbers are at its end.
func cut(line string, width int) string {
	if r := []rune(line); len(r) > width {
		return string(r[len(r)-max(width, 0):])
	}
	return line
}

// End wipes the line. It may be called more than once.
func (p *Progress) End() {
	if p == nil || p.o.line != p {
		return
	}
	if p.done != nil {
		p.done()
	}
	p.o.shown.End()
	p.o.line = nil
}
