package quorum

import (
	"encoding/binary"
	"slices"
)

// The leader's clock stamps what is agreed on, and one that is wrong by hours would
// end what is to live for minutes, or keep it for years. So voters tell the leader
// their time now and then. If most voters' clocks are further from the leader's than
// any two are that somebody looks after, and to the same side, it is the leader's that
// is wrong: it stamps by the others'.
const (
	// clockTicks is the time between two reports.
	clockTicks = 20
	// clockBoundMs is how far clocks may be apart. Reports are late by their way.
	clockBoundMs = 10_000
	// clockAgeTicks is how long a report counts.
	clockAgeTicks = 10 * clockTicks
	clockSize     = 8
)

// clocks is what a leader knows of the voters' clocks.
type clocks struct {
	told       map[uint64]report
	correction int64
}

type report struct {
	offset int64 // of the voter's clock from this server's, ms
	tick   uint64
}

func (c *clocks) tick(l *Loop) {
	if l.ticks%clockTicks != 0 {
		return
	}
	if lead := l.node.Leader(); !l.node.IsLeader() {
		c.told, c.correction = nil, 0
		if lead != 0 && l.levels.of(lead) >= doubtLevel {
			l.o.Shell.Send(lead, FrameClock, binary.BigEndian.AppendUint64(nil, uint64(l.o.State.Clock())))
		}
		return
	}
	if by := c.wrongBy(l); by != c.correction {
		c.correction = by
		l.o.State.Correct(by)
	}
}

// heard takes a voter's time.
func (c *clocks) heard(l *Loop, e Event) {
	if len(e.Data) != clockSize || !l.node.IsLeader() {
		return
	}
	if c.told == nil {
		c.told = map[uint64]report{}
	}
	c.told[e.From] = report{int64(binary.BigEndian.Uint64(e.Data)) - l.o.State.Clock(), l.ticks}
}

// wrongBy returns what has to be added to this leader's clock: 0 unless most voters say
// that it is wrong, and then what the least of them says. A former correction stays
// while it is right within the bound, or it would change with each report.
func (c *clocks) wrongBy(l *Loop) int64 {
	var ahead, behind []int64
	voters := l.conf.GetVoters()
	for _, id := range voters {
		r, ok := c.told[id]
		switch {
		case !ok || id == l.o.ID || l.ticks-r.tick > clockAgeTicks:
		case r.offset > clockBoundMs:
			ahead = append(ahead, r.offset)
		case r.offset < -clockBoundMs:
			behind = append(behind, r.offset)
		}
	}
	by := int64(0)
	switch {
	case len(ahead) > len(voters)/2:
		by = slices.Min(ahead)
	case len(behind) > len(voters)/2:
		by = slices.Max(behind)
	}
	if d := by - c.correction; by != 0 && c.correction != 0 && d < clockBoundMs && d > -clockBoundMs {
		return c.correction
	}
	return by
}
