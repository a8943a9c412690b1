package quorum

import "testing"

// replaced steps until another than old leads and most follow, at most so many
// ticks, less than raft's own clock needs.
func (c *cluster) replaced(old uint64, ticks int) *node {
	c.t.Helper()
	for range ticks {
		c.step(1)
		for _, id := range c.ids {
			if b := c.nodes[id]; id != old && b.loop != nil && b.loop.IsLeader() && c.followed(b) {
				return b
			}
		}
	}
	c.t.Fatalf("no new leader within %d ticks", ticks)
	return nil
}

// elect makes a server the leader.
func (c *cluster) elect(id uint64) *node {
	c.t.Helper()
	for lead := c.leader(); lead.id != id; lead = c.leader() {
		lead.loop.node.TransferLeadership(id)
		c.step(5)
	}
	return c.nodes[id]
}

func TestDeadLeaderIsReplacedAtTheNextTick(t *testing.T) {
	for id := range uint64(5) {
		c := newCluster(t, 1, 2, 3, 4, 5)
		c.elect(id + 1)
		c.step(5)
		c.crash(id + 1)
		first := uint64(1)
		if id == 0 {
			first = 2
		}
		if lead := c.replaced(id+1, 2); lead.id != first { // it notices in one tick, and asks at the next
			t.Errorf("server %d died, server %d leads; want the first by rank", id+1, lead.id)
		}
	}
}

// The first by rank lacks an entry that is acknowledged: it can't win, and the
// next one must not wait for raft's clock.
func TestLeaderIsReplacedByWhoHasTheNewestEntry(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	lead := c.elect(3)
	c.step(5)
	c.cut[[2]uint64{3, 1}] = true
	lead.say(1)
	c.step(2)
	if len(c.nodes[2].applied) != 1 || len(c.nodes[1].applied) != 0 {
		t.Fatal("the entry is to be on servers 2 and 3 only")
	}
	c.crash(3)
	if lead := c.replaced(3, 3); lead.id != 2 {
		t.Errorf("server %d leads without the newest entry", lead.id)
	}
	c.step(3)
	c.agreed(1)
}

// What the first pre-vote meets is not there yet: nobody is connected.
func TestVoteIsAskedForAgain(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	c.elect(3)
	c.step(5)
	c.crash(3)
	c.cut[[2]uint64{1, 2}], c.cut[[2]uint64{2, 1}] = true, true
	c.step(5)
	c.cut[[2]uint64{1, 2}], c.cut[[2]uint64{2, 1}] = false, false
	c.replaced(3, 2)
}

// Two servers notice so that their turns fall together: one of them wins at once.
func TestTwoThatAskTogetherDontSplitTheVotes(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	c.elect(3)
	c.step(5)
	c.nodes[3].loop = nil
	lost := func(id uint64) {
		b := c.nodes[id]
		b.post(func() { b.loop.Handle(Event{Kind: EventLost, From: 3}) })
	}
	lost(2)
	c.step(1)
	lost(1)
	if lead := c.replaced(3, 2); lead.id != 1 || lead.loop.node.Term() != c.nodes[2].loop.node.Term() {
		t.Errorf("server %d leads term %d", lead.id, lead.loop.node.Term())
	}
}

// A leader falls silent, its connections stay. Whose patience ends first asks in
// vain, since another heard the leader later, and asks again.
func TestSilentLeaderIsReplaced(t *testing.T) {
	for range 20 {
		c := newCluster(t, 1, 2, 3)
		c.elect(2)
		c.step(5)
		c.cut[[2]uint64{2, 1}] = true
		c.step(5)
		c.cut[[2]uint64{2, 3}] = true
		for ticks := 0; c.nodes[1].loop.node.Leader() == 2; ticks++ {
			if c.step(1); ticks > 30 {
				t.Fatal("nobody notices the silence")
			}
		}
		c.replaced(2, 6)
	}
}

// A server that can't be answered stops asking after a while, and follows again
// once it hears a leader.
func TestTurnsEnd(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	c.elect(3)
	c.step(5)
	c.crash(3)
	c.crash(2)
	c.step(3 * turnTicks)
	if f := c.nodes[1].loop.failover; f.turn != 0 {
		t.Errorf("it still takes turns: %+v", f)
	}
	c.restart(2)
	c.leader()
}
