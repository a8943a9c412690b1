package quorum

import "testing"

// TestLeaderStampsByTheOthers gives servers wrong clocks: a leader's own counts unless
// most voters say that it is wrong.
func TestLeaderStampsByTheOthers(t *testing.T) {
	const year = 31_536_000_000
	for name, test := range map[string]struct{ leader, one, other, want int64 }{
		"all agree":            {0, 3000, -3000, 0},
		"the leader is ahead":  {10 * year, 0, 500, -10*year + 500},
		"the leader is behind": {-10 * year, 0, 500, 10 * year},
		"another is ahead":     {0, year, 0, 0},
		"all differ":           {0, year, -year, 0},
	} {
		c := newCluster(t, 1, 2, 3)
		for _, id := range c.ids {
			c.nodes[id].level = 2
		}
		lead := c.leader()
		c.announce()
		lead.clock = test.leader
		c.nodes[lead.id%3+1].clock, c.nodes[(lead.id+1)%3+1].clock = test.one, test.other
		c.step(3 * clockTicks)
		if lead.correction != test.want {
			t.Errorf("%s: corrected by %d, want %d", name, lead.correction, test.want)
		}
		lead.clock = 0
		c.nodes[lead.id%3+1].clock, c.nodes[(lead.id+1)%3+1].clock = 0, 0
		c.step(3 * clockTicks)
		if lead.correction != 0 {
			t.Errorf("%s: the clocks are right again, and it corrects by %d", name, lead.correction)
		}
	}
}
