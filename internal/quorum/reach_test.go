package quorum

import "testing"

// A follower that hears the leader but can't reach it finds out.
func TestUnreachedLeaderIsNoticed(t *testing.T) {
	c := newColony(t, 1, 2, 3)
	c.elect(1)
	unanswered := func(id uint64) uint64 { return c.bodies[id].loop.Status().Unanswered }
	for range 100 {
		c.step(1)
		for _, id := range c.ids {
			if n := unanswered(id); n > 0 {
				t.Fatalf("server %d has no answer for %d ticks", id, n)
			}
		}
	}
	c.cut[[2]uint64{3, 1}] = true
	c.step(100)
	if n := unanswered(3); n < 100-reachTicks || c.bodies[3].loop.node.Leader() != 1 {
		t.Errorf("cut off one way for 100 ticks, it noticed %d; its leader is %d", n, c.bodies[3].loop.node.Leader())
	}
	if unanswered(1) != 0 || unanswered(2) != 0 {
		t.Error("the others are not cut off")
	}
	c.cut[[2]uint64{3, 1}] = false
	c.step(reachTicks)
	if n := unanswered(3); n > 0 {
		t.Errorf("healed, it has no answer for %d ticks", n)
	}
}
