package quorum

import (
	"slices"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
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

// TestStray: when a server, 4, is no longer dialled: once there was no reason for strayTicks and it isn't connected, by
// one that hears the leader.
func TestStray(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what string
		is   func(c *cluster, s *strays)
		gone bool
		kept bool // since when there is no reason
	}{
		{"long enough", func(*cluster, *strays) {}, true, false},
		{"not long enough", func(_ *cluster, s *strays) { s.since[4]++ }, false, true},
		{"not noted before", func(_ *cluster, s *strays) { delete(s.since, 4) }, false, true},
		{"connected", func(c *cluster, _ *strays) { c.nodes[4] = c.nodes[3] }, false, true},
		{"a member", func(_ *cluster, s *strays) { s.wanted = append(slices.Clone(s.wanted), Member{ID: 4}) }, false, false},
		{"in raft's membership", func(_ *cluster, s *strays) {
			s.conf = &pb.ConfState{Voters: []uint64{1, 2, 3}, Learners: []uint64{4}}
		}, false, false},
		{"it has asked", func(_ *cluster, s *strays) { s.guests.asked[4] = s.ticks - guestAskedTicks }, false, false},
		{"it has asked long ago", func(_ *cluster, s *strays) { s.guests.asked[4] = s.ticks - guestAskedTicks - 1 }, true,
			false},
		{"no leader", func(_ *cluster, s *strays) { s.node.leader = 0 }, false, false},
		{"it joins", func(_ *cluster, s *strays) { s.joining.after = 1 << 20 }, false, false},
		{"an answer is due", func(_ *cluster, s *strays) { s.leaderCheck.since = s.ticks - leaderCheckTicks }, true, false},
		{"no answer", func(_ *cluster, s *strays) { s.leaderCheck.since = s.ticks - leaderCheckTicks - 1 }, false, false},
		{"nothing is decided", func(_ *cluster, s *strays) { s.wanted = nil }, false, false},
	} {
		cl := newCluster(t, 1, 2, 3)
		cl.elect(1)
		b := cl.nodes[2]
		s := &b.loop.strays
		s.wanted, s.members, s.ticks = s.configured, s.configured, 10*strayTicks
		s.leaderCheck.since = 0
		s.note([]Member{{ID: 2}, {ID: 4}})
		s.since[4] = s.ticks - strayTicks
		c.is(cl, s)
		s.tick()
		since, kept := s.since[4]
		if gone := slices.Equal(b.dropped, []uint64{4}); gone != c.gone || s.dialled[4] == c.gone || kept != c.kept ||
			c.what == "not noted before" && since != s.ticks || s.dialled[2] {
			t.Errorf("%s: dropped %v, dialled %v, no reason since %v", c.what, b.dropped, s.dialled, s.since)
		}
	}
}
