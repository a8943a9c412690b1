package quorum

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestBusyFollower lets a follower's state machine take very long for an entry. Its reports arrive, it keeps its
// leader, the others go on, and afterwards it has everything.
func TestBusyFollower(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	lead := c.leader()
	c.step(5)
	f := c.others(lead)[0]
	f.report, f.busy = []byte("x"), true
	term, reported := lead.loop.node.Term(), lead.reported
	for n := range uint64(60) {
		lead.say(1000 + n)
		c.step(1)
	}
	if f.called == nil || !f.loop.Stuck() {
		t.Fatal("the follower's state machine has nothing to do: nothing was shown")
	}
	if got := len(lead.applied); got < 60 || lead.loop.node.Term() != term || !lead.loop.IsLeader() {
		t.Errorf("beside the busy server %d numbers were applied, in term %d after %d", got, lead.loop.node.Term(), term)
	}
	if got := lead.reported - reported; got < 60/reportTicks-2 {
		t.Errorf("the leader got %d reports in 60 ticks from the busy server", got)
	}
	if f.loop.node.Leader() != lead.id {
		t.Error("the busy server has lost its leader")
	}
	f.rest()
	c.step(20)
	if len(f.applied) != len(lead.applied) {
		t.Errorf("afterwards it has %d numbers, the leader %d", len(f.applied), len(lead.applied))
	}
}

// TestBusyLeader lets a leader's state machine take very long while the others' don't: another server leads within a
// second. If an entry takes long everywhere, the leader keeps leading, and nobody is heard less.
func TestBusyLeader(t *testing.T) {
	for name, all := range map[string]bool{"alone": false, "as all others": true} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 1, 2, 3)
			old := c.leader()
			c.step(5)
			term := old.loop.node.Term()
			f := c.others(old)[0]
			f.report = []byte("x")
			for _, id := range c.ids {
				c.nodes[id].busy = all || id == old.id
			}
			reported := old.reported
			old.say(7)
			c.step(22)
			if old.called == nil {
				t.Fatal("the leader's state machine has nothing to do: nothing is shown")
			}
			if old.loop.IsLeader() != all {
				t.Errorf("after 22 ticks the busy server leads: %t", old.loop.IsLeader())
			}
			if all && (old.loop.node.Term() != term || old.reported-reported < 22/reportTicks-2) {
				t.Errorf("term %d after %d, and %d reports", old.loop.node.Term(), term, old.reported-reported)
			}
			for _, id := range c.ids {
				c.nodes[id].rest()
			}
			next := c.leader()
			f.say(8)
			c.step(60)
			for _, id := range c.ids {
				if b := c.nodes[id]; len(b.applied) != 2 {
					t.Errorf("server %d has %d numbers, server %d leads", id, len(b.applied), next.id)
				}
			}
		})
	}
}

// TestBusyCandidateVotesFirst keeps the state machine of a candidate busy while its own vote waits to be written: it
// doesn't lead by the votes of the others.
func TestBusyCandidateVotesFirst(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	lead := c.leader()
	c.step(5)
	f := c.others(lead)[0]
	votes := 0
	c.others(lead)[1].sent = func(to uint64, kind FrameKind, payload []byte) {
		if p, ok := PromiseOf(payload); kind == FrameRaft && ok && to == f.id && p.Vote == f.id {
			votes++
		}
	}
	f.busy = true // from the moment in which it loses its leader
	if !lead.loop.leadership.transferTo([]uint64{f.id}) {
		t.Fatal("the leader doesn't hand over")
	}
	for range 8 {
		if c.step(1); f.loop.IsLeader() && f.loop.writes.pending() {
			t.Fatal("a server leads whose own vote is not on its disk")
		}
	}
	if votes == 0 {
		t.Fatal("nobody voted for the one that is busy: nothing is shown")
	}
	f.rest()
	c.step(60)
	c.leader()
}

// TestBusyLeaderIsFull forwards requests to a leader whose state machine is busy, until it takes no more. Afterwards it
// has all that it took.
func TestBusyLeaderIsFull(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	lead := c.leader()
	c.step(5)
	lead.busy = true
	lead.say(7)
	c.step(1)
	frame, sent := make([]byte, 1<<20), 0
	for ; !lead.loop.Full(); sent++ {
		if sent > forwardedWaitMax/len(frame) {
			t.Fatalf("it takes more than %d MiB", sent)
		}
		lead.loop.Handle(Event{Kind: EventForward, From: c.others(lead)[0].id, Data: frame})
	}
	if sent != forwardedWaitMax/len(frame)+1 {
		t.Errorf("it is full after %d MiB", sent)
	}
	lead.rest()
	if lead.loop.Full() || lead.loop.tasks.forwarded != 0 || lead.forwarded != sent*len(frame) {
		t.Errorf("it got %d bytes of %d; %d wait", lead.forwarded, sent*len(frame), lead.loop.tasks.forwarded)
	}
}

// TestForwardedBuffers forwards requests to a leader, one frame after the other and many at once. Each frame is copied
// to the memory of an earlier one; no more than forwardedSpares buffers are kept, and none that is large.
func TestForwardedBuffers(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	lead := c.leader()
	c.step(5)
	frame := make([]byte, FrameKeepBytes+8)
	spare := func(frames ...[]byte) [][]byte {
		for _, b := range frames {
			lead.loop.Handle(Event{Kind: EventForward, From: c.others(lead)[0].id, Data: b})
		}
		lead.loop.Turn()
		return lead.loop.tasks.spare
	}
	first := spare(frame[:4096])
	if len(first) != 1 || lead.forwarded != 4096 {
		t.Fatalf("the state machine got %d bytes, and %d buffers are kept", lead.forwarded, len(first))
	}
	memory := &first[0][0]
	for range 10 {
		if kept := spare(frame[:2048]); len(kept) != 1 || &kept[0][0] != memory {
			t.Fatal("a frame was copied to new memory")
		}
	}
	if n := len(spare(slices.Repeat([][]byte{frame[:8]}, 10*forwardedSpares)...)); n != forwardedSpares {
		t.Errorf("%d buffers are kept", n)
	}
	lead.loop.tasks.spare = nil
	if n := len(spare(frame)); n != 0 {
		t.Errorf("a buffer of %d bytes is kept", len(frame))
	}
	if n := len(spare(frame[:FrameKeepBytes])); n != 1 {
		t.Errorf("a buffer of %d bytes isn't kept", FrameKeepBytes)
	}
}

// TestBusyAtRandom lets state machines and disks take long, and servers crash meanwhile, at random. cluster.check and
// node.used hold the invariants at each step; at the end all servers have everything.
func TestBusyAtRandom(t *testing.T) {
	busy := 0
	for seed := range uint64(12) {
		dice := rand.New(rand.NewPCG(seed, 2))
		c := newCluster(t, 1, 2, 3, 4, 5)
		c.leader()
		n := uint64(0)
		for range 300 {
			b := c.nodes[c.ids[dice.IntN(len(c.ids))]]
			switch dice.IntN(14) {
			case 0:
				b.hung = true
			case 1, 2:
				b.heal()
			case 3, 4:
				b.busy = true
			case 5, 6, 7:
				if b.called != nil {
					busy++
				}
				b.rest()
			case 8:
				if b.loop != nil && dice.IntN(4) == 0 {
					b.hung, b.busy, b.called = false, false, nil
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
			c.nodes[id].rest()
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
	if busy < 100 {
		t.Errorf("only %d times was a state machine busy", busy)
	}
}

// TestForwardedBytesAreGivenBack: frames of forwarded requests of any size count while they wait, and not after that,
// also if they are copied to the memory of larger ones.
func TestForwardedBytesAreGivenBack(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	lead := c.leader()
	c.step(5)
	for _, size := range []int{0, 8, 104, 4104, FrameKeepBytes + 8, 16, 8} {
		before := lead.forwarded
		lead.busy = true
		for range 3 {
			lead.loop.Handle(Event{Kind: EventForward, From: c.others(lead)[0].id, Data: make([]byte, size)})
		}
		if lead.turn(); lead.called == nil || lead.loop.tasks.forwarded != 3*size {
			t.Errorf("while 3 frames of %d bytes wait, %d bytes count; busy: %t", size, lead.loop.tasks.forwarded,
				lead.called != nil)
		}
		lead.rest()
		if lead.loop.tasks.forwarded != 0 || lead.forwarded-before != 3*size {
			t.Errorf("after 3 frames of %d bytes, of which %d were taken, %d bytes count", size, lead.forwarded-before,
				lead.loop.tasks.forwarded)
		}
	}
}
