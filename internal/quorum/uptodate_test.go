package quorum

import "testing"

// TestUpToDate: a server is up to date as long as the leader answers it, and it applies what it is told of. Not
// so a follower that the leader doesn't hear or whose disk hangs, and a leader that reaches no majority.
func TestUpToDate(t *testing.T) {
	behind := func(b *node) uint64 { return b.loop.ticks - uint64(b.upToDate) }
	const most = 2 * leaderCheckTicks // one question and its answer
	for name, hurt := range map[string]func(c *cluster, lead, f *node) *node{
		"nothing": func(*cluster, *node, *node) *node { return nil },
		"a follower is not heard": func(c *cluster, lead, f *node) *node {
			c.cut[[2]uint64{f.id, lead.id}] = true
			return f
		},
		"a follower hears nothing": func(c *cluster, lead, f *node) *node {
			for _, b := range c.others(f) {
				c.cut[[2]uint64{b.id, f.id}] = true
			}
			return f
		},
		"a follower's disk hangs": func(_ *cluster, _, f *node) *node { f.hung = true; return f },
		"the leader is alone": func(c *cluster, lead, _ *node) *node {
			for _, b := range c.others(lead) {
				c.cut[[2]uint64{b.id, lead.id}], c.cut[[2]uint64{lead.id, b.id}] = true, true
			}
			return lead
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 1, 2, 3)
			lead := c.leader()
			c.step(20)
			victim := hurt(c, lead, c.others(lead)[0])
			for n := range uint64(60) {
				if b := c.others(victimOr(victim, lead))[0]; b != victim {
					b.say(n)
				}
				c.step(1)
			}
			for _, id := range c.ids {
				b := c.nodes[id]
				if late := behind(b); b == victim && late < 50 || b != victim && late > most {
					t.Errorf("server %d was up to date %d ticks ago", id, late)
				}
			}
		})
	}
}

func victimOr(victim, other *node) *node {
	if victim != nil {
		return victim
	}
	return other
}
