package quorum

import (
	"slices"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

// TestFindsWhoStillVotes has the state machine name server 2 alone while raft's membership
// is 1 and 2, as it is at feature level 1 until the leader has brought raft's to it, and
// between two steps of a change after that. Server 2 restarts then: it must find server 1,
// whose vote it needs, though its configuration and its state name nobody but itself.
func TestFindsWhoStillVotes(t *testing.T) {
	for _, written := range []bool{true, false} { // the file, by the life that is over
		c := newCluster(t, 1, 2)
		c.strange = true
		c.elect(1)
		c.step(5)
		c.cut[[2]uint64{1, 2}], c.cut[[2]uint64{2, 1}] = true, true
		c.members = []Member{c.members[1]}
		for _, id := range c.ids {
			b := c.nodes[id]
			b.wanted, b.version = c.members, 1
		}
		if written {
			c.step(4)
		}
		c.crash(2)
		clear(c.cut)
		c.restart(2)
		for range 100 {
			if c.step(1); c.nodes[2].loop.IsLeader() && slices.Equal(c.voters(), []uint64{2}) {
				break
			}
		}
		b := c.nodes[2]
		if now, before := b.loop.Voters(); !b.loop.IsLeader() || !slices.Equal(now, []uint64{2}) || len(before) > 0 {
			t.Fatalf("written %t: server 2 leads: %t, and the votes of %v and %v count", written, b.loop.IsLeader(), now, before)
		}
		c.crash(1) // it would go on as a guest
		c.step(2 * guestSilentTicks)
		if kept, err := b.dir.Kept(rosterName); err != nil || isMember(mustRead(t, kept), 1) {
			t.Fatalf("written %t: server 1 has left for good and is still remembered (%v)", written, err)
		}
	}
}

func mustRead(t *testing.T, kept []byte) []Member {
	t.Helper()
	members, err := readIntroduction(kept)
	if err != nil || len(members) == 0 {
		t.Fatalf("the kept file names %v: %v", members, err)
	}
	return members
}

// TestMeetsWhoCameAndWent has server 3 miss two changes of membership, the first of which
// adds server 4 and the second removes it, and catch up with both at once. Between the two
// it has to know server 4, whose vote counts until the second is complete.
func TestMeetsWhoCameAndWent(t *testing.T) {
	c := newChange(t, 3, 1, 2, 3, 4)
	for _, id := range []uint64{1, 2, 4} {
		c.cut[[2]uint64{id, 3}], c.cut[[2]uint64{3, id}] = true, true
	}
	named := slices.Clone(c.members)
	c.leader().stage(7, 0, append(named, Member{ID: 4, Addrs: []string{"server4"}})...)
	c.until("server 4 is a member", func() bool { return c.over(7, ChangeDone) })
	c.leader().stage(8, 0, named...)
	c.until("it has left", func() bool { return c.over(8, ChangeDone) })
	clear(c.cut)
	c.until("server 3 has caught up", func() bool { return c.nodes[3].ended[8] == ChangeDone })
	if peers := c.nodes[3].peers; !isMember(peers, 4) {
		t.Fatalf("server 3 was told to connect to %v, never to server 4", peers)
	}
}

// TestGuestsKeepTheirPlaces: guests that announce themselves in turn leave the kept file as it is.
func TestGuestsKeepTheirPlaces(t *testing.T) {
	r := roster{view: &view{conf: &pb.ConfState{Voters: []uint64{1}, Learners: []uint64{4, 5}}}}
	a, b := Member{ID: 4, Addrs: []string{"a:1"}}, Member{ID: 5, Addrs: []string{"b:1"}}
	for range 2 {
		r.guest(a)
		r.guest(b)
	}
	if f := r.former; len(f) != 2 || f[0].ID != 4 || f[1].ID != 5 {
		t.Errorf("servers 4 and 5 are remembered as %v", f)
	}
	b.Addrs = []string{"c:1"}
	r.guest(b)
	r.guest(Member{ID: 6, Addrs: b.Addrs})
	if f := r.former; len(f) != 2 || f[1].Addrs[0] != "c:1" {
		t.Errorf("after a move of server 5, and with a stranger: %v", f)
	}
}
