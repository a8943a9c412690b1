package quorum

import (
	"slices"
	"testing"
)

// TestFirstMembershipIsReplaced: a first membership that this leader's configuration doesn't name any more is dropped,
// though nobody lost patience: before its servers follow, while they do, and not once their votes count.
func TestFirstMembershipIsReplaced(t *testing.T) {
	replaced := func(c *cluster, id int64) {
		lead := c.nodes[1]
		change := c.changes[uint64(id)]
		change.Replaced = true
		c.changes[uint64(id)] = change
		lead.change.Replaced = true
		lead.version += 1000 // as after a restart
	}
	t.Run("nobody comes", func(t *testing.T) {
		c := newChange(t, 1, 1, 2, 3)
		c.cut[[2]uint64{1, 2}], c.cut[[2]uint64{1, 3}] = true, true
		c.nodes[1].stage(7, 0, c.pick(1, 2, 3)...)
		for range 2 * laggardTicks {
			c.step(1)
		}
		replaced(c, 7)
		c.until("it is dropped", func() bool { return c.over(7, ChangeDropped) })
		if got := c.voters(); !slices.Equal(got, []uint64{1}) {
			t.Fatalf("the voters are %v, want 1 alone", got)
		}
	})
	t.Run("one follows", func(t *testing.T) {
		c := newChange(t, 1, 1, 2, 3)
		c.cut[[2]uint64{1, 3}] = true
		c.nodes[1].stage(7, 0, c.pick(1, 2, 3)...)
		c.until("server 2 is a learner", func() bool { return slices.Contains(c.nodes[1].loop.conf.GetLearners(), 2) })
		replaced(c, 7)
		c.until("it is dropped", func() bool { return c.over(7, ChangeDropped) })
	})
	t.Run("the votes count", func(t *testing.T) {
		c := newChange(t, 2, 1, 2, 3)
		c.nodes[1].stage(7, 0, c.pick(1, 2, 3)...)
		for range 1000 {
			if c.turn(); c.nodes[1].loop.reconciler.committed {
				break
			}
		}
		if len(c.nodes[1].loop.conf.GetVotersOutgoing()) > 0 || !c.nodes[1].loop.reconciler.committed {
			t.Fatal("joint consensus has begun, or it isn't in the log")
		}
		replaced(c, 7)
		c.until("it is done", func() bool { return c.over(7, ChangeDone) })
		if c.over(7, ChangeDropped) {
			t.Error("it was dropped as well")
		}
	})
}
