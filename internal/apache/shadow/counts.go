package shadow

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// An OpCount counts the requests of one operation or, under "watch", the notifications.
type OpCount struct {
	Played    int `json:"played"`
	Different int `json:"different"`
	Unsure    int `json:"unsure"`
}

// Counts say what a Proxy has done so far.
type Counts struct {
	Connections int // of clients, except those passed on without inspection
	PassedOn    int // four-letter words and TLS
	Refused     int // beyond connectionsMax
	Unreachable int // the primary couldn't be reached
	Unreadable  int // connections whose requests can't be followed, so that their writes are unknown
	Sessions    int
	Resumed     int
	Expired     int
	Unplayed    int // writes that the shadow didn't get
	Unanswered  int // writes that the primary didn't answer, so that their outcome isn't known
	Reconfigs   int
	Queued      int // exchanges that haven't been played yet
	Ended       map[string]int
	Ops         map[string]*OpCount
}

func newCounts() Counts {
	return Counts{Ended: map[string]int{}, Ops: map[string]*OpCount{}}
}

func (c *Counts) op(name string) *OpCount {
	if c.Ops[name] == nil {
		if strings.HasPrefix(name, "op(") { // there are 2³² of these
			name = "unknown"
		}
		if c.Ops[name] == nil {
			c.Ops[name] = &OpCount{}
		}
	}
	return c.Ops[name]
}

// Counts returns the counts so far.
func (p *Proxy) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.counts
	c.Ended = maps.Clone(c.Ended)
	c.Ops = map[string]*OpCount{}
	for name, o := range p.counts.Ops {
		one := *o
		c.Ops[name] = &one
	}
	c.Queued = max(c.Queued, p.queued())
	return c
}

// queued returns how many exchanges haven't been played. The caller holds p.mu.
func (p *Proxy) queued() int {
	n := len(p.queue) + p.flying
	for c := range p.waiting {
		n += len(c.open)
	}
	return n
}

// Sum returns the total over all operations.
func (c *Counts) Sum() (sum OpCount) {
	for _, o := range c.Ops {
		sum.Played += o.Played
		sum.Different += o.Different
		sum.Unsure += o.Unsure
	}
	return sum
}

// Whole reports whether every request was played, and no result is unsure.
func (c *Counts) Whole() bool {
	return c.Sum().Unsure+len(c.Ended)+c.Unplayed+c.Unanswered+c.Refused+c.Unreadable+c.Queued == 0
}

// String returns the counts as lines.
func (c *Counts) String() string {
	var b strings.Builder
	sum := c.Sum()
	fmt.Fprintf(&b, "%d connections, %d sessions, %d resumed, %d expired; %d replies and notifications compared: %d different, %d unsure\n",
		c.Connections, c.Sessions, c.Resumed, c.Expired, sum.Played, sum.Different, sum.Unsure)
	for _, name := range slices.Sorted(maps.Keys(c.Ops)) {
		o := c.Ops[name]
		fmt.Fprintf(&b, "  %-22s %8d compared %8d different %8d unsure\n", name, o.Played, o.Different, o.Unsure)
	}
	for _, why := range slices.Sorted(maps.Keys(c.Ended)) {
		fmt.Fprintf(&b, "  %d connections not shadowed to their end: %s\n", c.Ended[why], why)
	}
	for _, row := range []struct {
		n    int
		what string
	}{
		{c.Unplayed, "writes not replayed to the shadow"},
		{c.Unanswered, "writes with unknown outcome, since the primary didn't answer"},
		{c.PassedOn, "connections passed on unexamined: four-letter words, TLS"},
		{c.Refused, "connections refused because of the limit"},
		{c.Unreadable, "connections whose requests couldn't be parsed: their writes are unknown"},
		{c.Queued, "requests not replayed yet"},
	} {
		if row.n > 0 {
			fmt.Fprintf(&b, "  %d %s\n", row.n, row.what)
		}
	}
	return b.String()
}

// reasonOf returns the common part of a reason, without the details of one connection.
func reasonOf(why string) string {
	reason, _, _ := strings.Cut(why, ": ")
	return reason
}

// told counts and reports a difference. The caller must not hold p.mu.
func (p *Proxy) told(d *Difference) {
	p.mu.Lock()
	o := p.counts.op(d.Op)
	if d.Op == "connect" {
		o.Played++
	}
	if d.Doubt != "" {
		o.Unsure++
	} else {
		o.Different++
	}
	p.mu.Unlock()
	p.telling.Lock()
	defer p.telling.Unlock()
	p.o.Tell(d)
}
