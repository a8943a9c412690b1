package doctor

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	// clockOff is how far apart clocks may be: beyond it the leader no longer trusts its own.
	clockOff = 10 * time.Second
	// clockApart is more than synchronized clocks are ever apart.
	clockApart = time.Second
)

// A Clock is how far another server's clock is from this machine's.
//
// The server tells its time in its answer to mntr. It read its clock between the question and the arrival of the
// answer. So the offset is its time minus the middle of these two times, uncertain by half of the time between them.
type Clock struct {
	Server      int64  `json:"server"`
	OffsetMs    int64  `json:"offsetMs"`      // above 0 it is ahead of this machine's
	UncertainMs int64  `json:"uncertainMs"`   // the true offset is that close to OffsetMs
	Why         string `json:"why,omitempty"` // why the offset isn't known
}

// atLeast returns how far the clock is certainly off.
func (c *Clock) atLeast() time.Duration {
	return time.Duration(max(max(c.OffsetMs, -c.OffsetMs)-c.UncertainMs, 0)) * time.Millisecond
}

// String returns a line for people.
func (c *Clock) String() string {
	if c.Why != "" {
		return fmt.Sprintf("server %d: unknown, %s", c.Server, c.Why)
	}
	return fmt.Sprintf("server %d: %+d ms, give or take %d ms", c.Server, c.OffsetMs, c.UncertainMs)
}

// clockOf compares a server's clock with this machine's.
func clockOf(id int64, a *answers) Clock {
	c := Clock{Server: id}
	text, told := a.mntr["zk_clock_ms"]
	theirs, err := strconv.ParseInt(text, 10, 64)
	switch {
	case a.err != nil:
		c.Why = "it doesn't answer"
	case len(a.mntr) == 0:
		c.Why = "it doesn't answer the command mntr (4lw.commands.whitelist), or doesn't serve yet"
	case !told || err != nil:
		c.Why = "its version doesn't report it"
	default:
		half := a.after.Sub(a.before) / 2
		c.OffsetMs = theirs - a.before.Add(half).UnixMilli()
		c.UncertainMs = half.Milliseconds() + 1 // times are in whole milliseconds
	}
	return c
}

// clocks reports clocks that are wrong.
func (e *examination) clocks() {
	const do = "run chrony or systemd-timesyncd on every server, and check that its clock is synchronized: chronyc tracking, timedatectl"
	for _, id := range e.asked() {
		ms, err := strconv.ParseInt(e.told[id].mntr["zk_clock_correction_ms"], 10, 64)
		if err == nil && ms != 0 {
			e.fault(do, "server %d leads, and its clock differs from most servers' by %v", id, time.Duration(ms)*time.Millisecond)
		}
	}
	if newest := e.newestFile(); newest.After(e.world.Now().Add(clockOff)) {
		e.fault(do, "a file of the data directory is dated %s, but this machine's clock says %s: the clock has gone back, or was ahead",
			newest.UTC().Format(time.RFC3339), e.world.Now().UTC().Format(time.RFC3339))
	}
	var apart []Clock
	known, ahead := 0, 0
	for _, id := range e.asked() {
		if id == e.cfg.Quorum.MyID {
			continue // it is on this machine
		}
		a := e.told[id]
		c := clockOf(id, &a)
		e.report.Clocks = append(e.report.Clocks, c)
		if c.Why == "" {
			known++
		}
		if c.atLeast() > clockApart {
			apart = append(apart, c)
			if c.OffsetMs > 0 {
				ahead++
			}
		}
	}
	tell := func(off time.Duration, format string, args ...any) {
		if off > clockOff {
			e.fault(do, format, args...)
		} else {
			e.warn(do, format, args...)
		}
	}
	if len(apart) > 1 && len(apart) == known && (ahead == 0 || ahead == known) {
		var all []string
		least := apart[0].atLeast()
		for _, c := range apart {
			all = append(all, c.String())
			least = min(least, c.atLeast())
		}
		tell(least, "this machine's clock differs from all others by %v or more: %s", least, strings.Join(all, "; "))
		return
	}
	for _, c := range apart {
		tell(c.atLeast(), "the clocks of this machine and another differ: %s", c.String())
	}
}
