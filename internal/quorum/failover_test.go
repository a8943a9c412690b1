package quorum

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

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

// TestTurns: when a follower asks for votes after its leader is lost: at its rank among the other voters, and again
// after a round of them, until turnTicks are over.
func TestTurns(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what     string
		id       uint64
		voters   []uint64
		was, is  Leadership
		turn, to uint64 // ticks after the loss of the first turn, and between two of them; 0 for none
	}{
		{"the first", 1, []uint64{3, 2, 1}, Leadership{Leader: 3, Term: 5}, Leadership{Term: 5}, 1, 2},
		{"the second", 2, []uint64{3, 2, 1}, Leadership{Leader: 3, Term: 5}, Leadership{Term: 5}, 2, 2},
		{"the second, after the first leader", 3, []uint64{1, 2, 3}, Leadership{Leader: 1, Term: 5}, Leadership{Term: 5}, 2,
			2},
		{"the third of seven", 3, []uint64{1, 2, 3, 4, 5, 6, 7}, Leadership{Leader: 7, Term: 5}, Leadership{Term: 5}, 3, 6},
		{"an election has begun", 1, []uint64{1, 2, 3}, Leadership{Leader: 3, Term: 5}, Leadership{Term: 6}, 1 + voteTicks,
			2},
		{"no voter", 4, []uint64{1, 2, 3}, Leadership{Leader: 3, Term: 5}, Leadership{Term: 5}, 0, 0},
		{"it led", 1, []uint64{1, 2, 3}, Leadership{Leader: 1, Term: 5, IsLeader: true}, Leadership{Term: 6}, 0, 0},
		{"another leads", 1, []uint64{1, 2, 3}, Leadership{Leader: 3, Term: 5}, Leadership{Leader: 2, Term: 6}, 0, 0},
		{"nobody led", 1, []uint64{1, 2, 3}, Leadership{Term: 5}, Leadership{Term: 6}, 0, 0},
	} {
		l := &Loop{}
		var said strings.Builder
		l.id, l.ticks, l.log, l.conf = c.id, 100, slog.New(slog.NewTextHandler(&said, nil)), &pb.ConfState{Voters: c.voters}
		l.node = &Node{term: c.is.Term, leader: c.is.Leader}
		l.assemble()
		l.joining.after = 1 << 20 // so that it begins no election
		l.failover.led(l, c.was, c.is)
		var turns []uint64
		for range 2 * turnTicks {
			l.ticks++
			if l.failover.tick(l); l.failover.asked == l.ticks {
				turns = append(turns, l.ticks-100)
			}
		}
		var want []uint64
		for turn := c.turn; c.turn > 0 && turn <= turnTicks; turn += c.to {
			want = append(want, turn)
		}
		if !slices.Equal(turns, want) {
			t.Errorf("%s: it asks after %v ticks, want %v", c.what, turns, want)
		}
		if n := strings.Count(said.String(), "asking for votes"); n != min(len(want), 1) {
			t.Errorf("%s: it says %d times that it asks", c.what, n)
		}
		l.failover.turn = 300
		if l.failover.led(l, Leadership{Term: 7}, Leadership{Leader: 2, Term: 7}); l.failover != (failover{}) {
			t.Errorf("%s: there is a leader, and its next turn is at %d", c.what, l.failover.turn)
		}
	}
}

// TestLostConnection: a follower whose leader's connection ends looks for another one; no other connection matters.
func TestLostConnection(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		server, from uint64
		want         bool
	}{{2, 1, true}, {2, 3, false}, {1, 1, false}, {1, 2, false}} {
		c := newCluster(t, 1, 2, 3)
		c.elect(1)
		l := c.nodes[x.server].loop
		l.leadership.dropped = false
		l.Handle(Event{Kind: EventLost, From: x.from})
		if got := l.leadership.dropped; got != x.want || (l.node.raw.BasicStatus().Lead == 0) != x.want {
			t.Errorf("server %d, of whom 1 leads, loses its connection to %d: %t", x.server, x.from, got)
		}
	}
}

// TestTurnWaitsForAnElection: an election of another server that begins before a server's turn has voteTicks.
func TestTurnWaitsForAnElection(t *testing.T) {
	t.Parallel()
	l := &Loop{}
	l.id, l.ticks, l.log, l.conf = 2, 100, slog.New(slog.DiscardHandler), &pb.ConfState{Voters: []uint64{1, 2, 3}}
	l.node = &Node{term: 5}
	l.assemble()
	l.joining.after = 1 << 20
	f := &l.failover
	f.led(l, Leadership{Leader: 3, Term: 5}, Leadership{Term: 5})
	l.ticks, l.node.term = 102, 6
	if f.tick(l); f.asked != 0 || f.turn != 102+voteTicks+1 {
		t.Errorf("asked at tick %d, the next turn is at %d", f.asked, f.turn)
	}
	l.ticks = f.turn
	if f.tick(l); f.asked != l.ticks {
		t.Errorf("asked at tick %d, at %d", f.asked, l.ticks)
	}
	at := f.turn + 10
	f.turn, l.node.term = at, 7
	if f.tick(l); f.turn != at {
		t.Errorf("its turn at %d is at %d now", at, f.turn)
	}
}

// TestPrecedes: which pre-votes a server leaves unanswered that asks for votes itself.
func TestPrecedes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 2, 3)
	c.elect(3)
	c.step(5)
	l := c.nodes[2].loop
	last, term, err := l.writes.lastEntry()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		what string
		is   func(m *pb.Message)
		want bool
	}{
		{"the same log", func(*pb.Message) {}, true},
		{"a vote", func(m *pb.Message) { m.Type = pb.MsgVote.Enum() }, false},
		{"asked at another tick", func(*pb.Message) { l.failover.asked-- }, false},
		{"never asked", func(*pb.Message) { l.failover.asked, l.ticks = 0, 0 }, false},
		{"of a lower id", func(m *pb.Message) { m.From = new(uint64(1)) }, false},
		{"a longer log", func(m *pb.Message) { m.Index = new(last + 1) }, false},
		{"a shorter log", func(m *pb.Message) { m.Index = new(last - 1) }, true},
		{"a later term", func(m *pb.Message) { m.Index, m.LogTerm = new(last-1), new(term+1) }, false},
		{"an earlier term", func(m *pb.Message) { m.Index, m.LogTerm = new(last+1), new(term-1) }, true},
	} {
		ticks := l.ticks
		l.failover.asked = l.ticks
		m := &pb.Message{Type: pb.MsgPreVote.Enum(), From: new(uint64(3)), Index: &last, LogTerm: &term}
		if x.is(m); l.failover.first(l, m) != x.want {
			t.Errorf("%s: unanswered: %t", x.what, !x.want)
		}
		l.ticks = ticks
	}
}
