package quorum

import (
	"math/rand/v2"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

// others returns the nodes other than b, by id.
func (c *cluster) others(b *node) (list []*node) {
	for _, id := range c.ids {
		if id != b.id {
			list = append(list, c.nodes[id])
		}
	}
	return list
}

// TestFollowersHungDisk lets a follower's disk hang. Its reports arrive, it promises nothing, and
// the others go on. Afterwards it has everything.
func TestFollowersHungDisk(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	lead := c.leader()
	c.step(5)
	f := c.others(lead)[0]
	f.report, f.hung = []byte("x"), true
	last, err := f.dir.Log().LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	f.sent = func(_ uint64, kind FrameKind, payload []byte) {
		if p, ok := PromiseOf(payload); kind == FrameRaft && ok && p.Acked > last && f.hung {
			t.Errorf("the server whose disk hangs acknowledged entry %d; %d is on its disk", p.Acked, last)
		}
	}
	term, reported := lead.loop.node.Term(), lead.reported
	for n := range uint64(60) {
		lead.say(1000 + n)
		c.step(1)
	}
	if f.write == nil || !f.loop.Stuck() {
		t.Fatal("the follower's disk has nothing to write: nothing was shown")
	}
	if got := len(lead.applied); got < 60 || lead.loop.node.Term() != term || !lead.loop.IsLeader() {
		t.Errorf("beside the hung disk %d numbers were applied, in term %d after %d", got, lead.loop.node.Term(), term)
	}
	if got := lead.reported - reported; got < 60/reportTicks-2 {
		t.Errorf("the leader got %d reports in 60 ticks from the server whose disk hung", got)
	}
	if n := len(f.applied); n >= 60 {
		t.Errorf("the server whose disk hung applied %d numbers", n)
	}
	f.heal()
	c.step(20)
	if len(f.applied) != len(lead.applied) {
		t.Errorf("after its disk went on it has %d numbers, the leader %d", len(f.applied), len(lead.applied))
	}
}

// TestLeadersHungDisk lets a leader's disk hang: another server leads within a second (20 ticks),
// and the former leader follows, before and after its disk goes on.
func TestLeadersHungDisk(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	old := c.leader()
	c.step(5)
	old.hung = true
	old.say(7)
	ticks := 0
	for old.loop.IsLeader() {
		if c.step(1); ticks == 20 {
			t.Fatal("a leader whose disk hangs leads for 20 ticks")
		}
		ticks++
	}
	next := c.leader()
	for n := range uint64(40) {
		next.say(1000 + n)
		c.step(1)
	}
	if next.loop.node.Leader() != next.id || old.loop.IsLeader() || len(next.applied) != 41 {
		t.Errorf("server %d leads, with %d numbers", next.loop.node.Leader(), len(next.applied))
	}
	old.heal()
	c.step(20)
	if len(old.applied) != len(next.applied) || next.loop.node.Leader() != next.id {
		t.Errorf("the former leader has %d numbers, the leader %d; server %d leads", len(old.applied), len(next.applied),
			next.loop.node.Leader())
	}
}

// TestCandidateVotesFirst lets the disk of a candidate hang at its own vote: it doesn't lead by the votes of the
// others, of whom there are enough. After a crash it would not know that it had.
func TestCandidateVotesFirst(t *testing.T) {
	c := newCluster(t, 1, 2, 3, 4, 5)
	lead := c.leader()
	c.step(5)
	f := c.others(lead)[0]
	f.hung = true
	votes := 0
	for _, b := range c.others(f) {
		b.sent = func(to uint64, kind FrameKind, payload []byte) {
			if p, ok := PromiseOf(payload); kind == FrameRaft && ok && to == f.id && p.Vote == f.id {
				votes++
			}
		}
	}
	c.crash(lead.id)
	for range 60 {
		if c.step(1); f.loop.IsLeader() {
			t.Fatal("a server leads whose own vote is not on its disk")
		}
	}
	if votes < 3 {
		t.Fatalf("%d servers voted for the one whose disk hangs: nothing is shown", votes)
	}
	if next := c.leader(); next == f {
		t.Error("it leads")
	}
	f.heal()
	c.step(60)
	if next := c.leader(); f.loop.node.Leader() != next.id {
		t.Errorf("after its disk went on it follows %d, and %d leads", f.loop.node.Leader(), next.id)
	}
}

// TestStuckLeaderThatIsNeeded lets a leader's disk hang while one of three servers is down. The others can't
// elect another, so it stays, and the follower's reports arrive.
func TestStuckLeaderThatIsNeeded(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	lead := c.leader()
	c.step(5)
	f := c.others(lead)[0]
	c.crash(c.others(lead)[1].id)
	f.report, lead.hung = []byte("x"), true
	term, reported := lead.loop.node.Term(), lead.reported
	lead.say(7)
	c.step(60)
	if !lead.loop.IsLeader() || lead.loop.node.Term() != term || lead.reported-reported < 60/reportTicks-2 {
		t.Errorf("it leads: %t, in term %d after %d; it got %d reports in 60 ticks", lead.loop.IsLeader(), lead.loop.node.Term(),
			term, lead.reported-reported)
	}
	lead.heal()
	c.step(20)
	if len(lead.applied) != 1 || len(f.applied) != 1 {
		t.Errorf("afterwards %d and %d numbers were agreed on, want 1", len(lead.applied), len(f.applied))
	}
}

// TestStuckServersDontLead lets the disks of two servers of three hang, of which one leads, and
// stops nothing else: no server that couldn't write takes over, nothing is agreed on, and all go on
// afterwards.
func TestStuckServersDontLead(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	lead := c.leader()
	c.step(5)
	f := c.others(lead)[0]
	lead.hung, f.hung = true, true
	lead.say(7)
	c.step(100)
	if f.loop.IsLeader() || len(lead.applied)+len(f.applied) > 0 {
		t.Errorf("a server whose disk hangs leads, or %d numbers were agreed on", len(lead.applied)+len(f.applied))
	}
	lead.heal()
	f.heal()
	c.leader()
	c.step(100)
	if n := len(c.nodes[1].applied); n != 1 {
		t.Errorf("afterwards server 1 has %d numbers, not one", n)
	}
}

// TestStuckServerAsksForNoVotes kills the leader of five while the disk of a follower hangs whose turn to
// ask for votes is the first: another one leads.
func TestStuckServerAsksForNoVotes(t *testing.T) {
	c := newCluster(t, 1, 2, 3, 4, 5)
	lead := c.leader()
	c.step(5)
	f := c.others(lead)[0]
	f.hung = true
	lead.say(7)
	c.step(stuckTicks + 2)
	if !f.loop.Stuck() {
		t.Fatal("the follower isn't stuck: nothing is shown")
	}
	c.crash(lead.id)
	for range 60 {
		if c.step(1); f.loop.IsLeader() {
			t.Fatal("a server whose disk hangs leads")
		}
	}
	if next := c.leader(); next == f {
		t.Error("a server whose disk hangs leads")
	}
}

// TestSnapshotForAHungDisk sends a server whose disk hangs a snapshot. It takes it once the write is over.
func TestSnapshotForAHungDisk(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	lead := c.leader()
	f := c.others(lead)[0]
	for n := range uint64(5) {
		lead.say(n)
		c.step(1)
	}
	f.hung = true
	lead.say(99)
	c.step(2)
	for _, b := range c.others(f) {
		c.cut[[2]uint64{b.id, f.id}], c.cut[[2]uint64{f.id, b.id}] = true, true
	}
	for _, b := range c.others(f) {
		b.snapshot = 4 << 10
	}
	for n := range uint64(200) {
		lead.say(100 + n)
		c.step(1)
	}
	clear(c.cut)
	c.step(60)
	held := len(f.loop.writes.held) > 0
	f.heal()
	c.step(60)
	if lead = c.leader(); !held || len(f.applied) != len(lead.applied) {
		t.Errorf("held back: %t; it has %d numbers, the leader %d", held, len(f.applied), len(lead.applied))
	}
}

// TestDisksHangAtRandom lets disks hang and go on, and servers crash meanwhile, at random.
// cluster.check holds the invariants at each step; at the end all servers have everything.
func TestDisksHangAtRandom(t *testing.T) {
	for seed := range uint64(12) {
		dice := rand.New(rand.NewPCG(seed, 1))
		c := newCluster(t, 1, 2, 3, 4, 5)
		c.leader()
		n := uint64(0)
		for range 300 {
			b := c.nodes[c.ids[dice.IntN(len(c.ids))]]
			switch dice.IntN(12) {
			case 0:
				b.hung = true
			case 1, 2:
				b.heal()
			case 3:
				if b.loop != nil && dice.IntN(4) == 0 {
					b.hung = false
					c.crash(b.id)
					c.restart(b.id)
				}
			default:
				n++
				b.say(n)
			}
			c.step(dice.IntN(4))
		}
		for _, id := range c.ids {
			c.nodes[id].heal()
		}
		c.leader()
		c.step(100)
		lead := c.leader()
		for _, id := range c.ids {
			if got := len(c.nodes[id].applied); got != len(lead.applied) {
				t.Errorf("seed %d: server %d has %d numbers, the leader %d", seed, id, got, len(lead.applied))
			}
		}
		if len(lead.applied) == 0 {
			t.Errorf("seed %d: nothing was agreed on", seed)
		}
	}
}

// TestApplyFailsBesideAWrite: entries that can't be applied stop the server even if they were applied beside a write
// of the log, and though that write never ends.
func TestApplyFailsBesideAWrite(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	lead := c.leader()
	c.step(5)
	f := c.others(lead)[0]
	f.sent = func(to uint64, kind FrameKind, payload []byte) {
		// The leader hears that the number is on the disk. The commit index doesn't come back before the next number.
		if m, err := decodeMessage(payload); kind == FrameRaft && err == nil && m.GetType() == pb.MsgAppResp {
			c.cut[[2]uint64{lead.id, f.id}] = true
		}
	}
	lead.say(poison)
	c.step(1)
	f.sent = nil
	clear(c.cut)
	f.poisoned, f.mayFail, f.hung = true, true, true
	lead.say(8)
	for range 8 {
		if c.step(1); f.write != nil || f.failed != nil {
			break
		}
	}
	if f.write == nil {
		t.Fatalf("no write is under way: nothing is shown (%v)", f.failed)
	}
	c.step(2)
	if f.failed == nil {
		t.Errorf("it goes on, with entry %d", lead.loop.applied)
	}
}
