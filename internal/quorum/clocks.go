package quorum

import (
	"encoding/binary"
	"slices"
)

// The leader's clock stamps the entries of the log. If it is wrong by hours, a lifetime
// of minutes would end at once or last for years. So voters regularly report their time
// to the leader. If the clocks of most voters differ from the leader's in the same
// direction, by more than maintained clocks ever differ, the leader's clock is the wrong
// one, and the leader corrects its stamps by the others' clocks.
const (
	// clockTicks is the time between two reports.
	clockTicks = 20
	// clockBoundMs is how far clocks may be apart. It includes the reports' transit time.
	clockBoundMs = 10_000
	// clockAgeTicks is how long a report is valid.
	clockAgeTicks = 10 * clockTicks
	clockSize     = 8
)

// clocks holds what a leader knows about the voters' clocks.
type clocks struct {
	*view
	levels *levels

	told       map[uint64]report
	correction int64
}

type report struct {
	offset int64 // the voter's clock minus this server's, ms
	tick   uint64
}

func (c *clocks) tick() {
	if c.ticks%clockTicks != 0 {
		return
	}
	if lead := c.node.Leader(); !c.node.IsLeader() {
		c.told, c.correction = nil, 0
		if lead != 0 && c.levels.of(lead) >= doubtLevel {
			c.shell.Send(lead, FrameClock, binary.BigEndian.AppendUint64(nil, uint64(c.state.Clock())))
		}
		return
	}
	if by := c.wrongBy(); by != c.correction {
		c.correction = by
		c.state.Correct(by)
	}
}

// heard records a voter's time.
func (c *clocks) heard(e Event) {
	if len(e.Data) != clockSize || !c.node.IsLeader() {
		return
	}
	if c.told == nil {
		c.told = map[uint64]report{}
	}
	c.told[e.From] = report{int64(binary.BigEndian.Uint64(e.Data)) - c.state.Clock(), c.ticks}
}

// wrongBy returns the correction to add to this leader's clock. It is 0 unless most voters
// report that the clock is wrong in the same direction; then it is the smallest offset that
// they report. An earlier correction is kept while it is within the bound of the new one,
// because it would otherwise change with each report.
func (c *clocks) wrongBy() int64 {
	var ahead, behind []int64
	voters := c.conf.GetVoters()
	for _, id := range voters {
		r, ok := c.told[id]
		switch {
		case !ok || id == c.id || c.ticks-r.tick > clockAgeTicks:
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
