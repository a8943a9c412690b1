package quorum

import (
	"slices"
	"testing"
)

// TestStraysAreDropped: a server whose adding was given up, and one that was removed while it was down, are no longer
// connected to after a while, on any server. Asked for again they are.
func TestStraysAreDropped(t *testing.T) {
	c := newChange(t, 4, 1, 2, 3, 4, 5)
	lead := c.leader()
	c.runningOnly()
	c.crash(4)
	c.crash(5)
	lead.stage(7, 50, c.pick(1, 2, 3, 4, 5)...)
	c.until("it is dropped", func() bool { return c.over(7, ChangeDropped) })
	lead.stage(8, 0, c.pick(1, 2, 3)...)
	c.until("it is done", func() bool { return c.over(8, ChangeDone) })
	for _, id := range []uint64{1, 2, 3} {
		if got := c.nodes[id].dropped; len(got) > 0 {
			t.Fatalf("server %d drops %v at once", id, got)
		}
	}
	c.step(guestSilentTicks + strayTicks + 50)
	for _, id := range []uint64{1, 2, 3} {
		b := c.nodes[id]
		if slices.Sort(b.dropped); !slices.Equal(b.dropped, []uint64{4, 5}) {
			t.Errorf("server %d has dropped %v, want 4 and 5", id, b.dropped)
		}
		if !isMember(b.known, 1) || !isMember(b.known, 2) || !isMember(b.known, 3) {
			t.Errorf("server %d connects only to %v", id, b.known)
		}
	}
	lead.stage(9, 50, c.pick(1, 2, 3, 5)...)
	c.until("it is dropped", func() bool { return c.over(9, ChangeDropped) })
	if !isMember(lead.known, 5) {
		t.Error("the server that is asked for again is not connected to")
	}
}

// TestStraysOfWhoIsAway: a server without a leader drops nobody: it doesn't know who the members are.
func TestStraysOfWhoIsAway(t *testing.T) {
	c := newChange(t, 3, 1, 2, 3, 4)
	c.leader().stage(7, 0, c.pick(1, 2, 3, 4)...)
	c.until("it is done", func() bool { return c.over(7, ChangeDone) })
	c.crash(4)
	c.leader().stage(8, 0, c.pick(1, 2, 3)...)
	c.until("it is done", func() bool { return c.over(8, ChangeDone) })
	for _, id := range []uint64{2, 3} {
		c.crash(id)
	}
	away := c.nodes[1]
	away.dropped = nil
	c.step(guestSilentTicks + 2*strayTicks)
	if len(away.dropped) > 0 {
		t.Errorf("alone it drops %v", away.dropped)
	}
}
