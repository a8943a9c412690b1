package quorum

import (
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

// TestLeaderStampsByTheOthers gives servers wrong clocks: a leader's own counts unless
// most voters say that it is wrong.
func TestLeaderStampsByTheOthers(t *testing.T) {
	const year = 31_536_000_000
	for name, test := range map[string]struct{ leader, one, other, want int64 }{
		"all agree":            {0, 3000, -3000, 0},
		"the leader is ahead":  {10 * year, 0, 500, -10*year + 500},
		"the leader is behind": {-10 * year, 0, 500, 10 * year},
		"another is ahead":     {0, year, 0, 0},
		"all differ":           {0, year, -year, 0},
	} {
		c := newCluster(t, 1, 2, 3)
		for _, id := range c.ids {
			c.nodes[id].level = 2
		}
		lead := c.leader()
		c.announce()
		lead.clock = test.leader
		c.nodes[lead.id%3+1].clock, c.nodes[(lead.id+1)%3+1].clock = test.one, test.other
		c.step(3 * clockTicks)
		if lead.correction != test.want {
			t.Errorf("%s: corrected by %d, want %d", name, lead.correction, test.want)
		}
		lead.clock = 0
		c.nodes[lead.id%3+1].clock, c.nodes[(lead.id+1)%3+1].clock = 0, 0
		c.step(3 * clockTicks)
		if lead.correction != 0 {
			t.Errorf("%s: the clocks are right again, and it corrects by %d", name, lead.correction)
		}
	}
}

// TestClockWrongBy: the leader, server 1, corrects its stamps if more than half of the voters say that its clock is
// wrong in the same direction, by the least that they say. Reports of other servers, or too old ones, don't count.
func TestClockWrongBy(t *testing.T) {
	t.Parallel()
	const now, bound, old = 1000, clockBoundMs, clockAgeTicks
	for _, c := range []struct {
		what   string
		voters []uint64
		told   map[uint64]report
		was    int64
		want   int64
	}{
		{"nothing is told", []uint64{1, 2, 3}, nil, 0, 0},
		{"ahead, at the bound", []uint64{1, 2, 3}, map[uint64]report{2: {bound, now}, 3: {bound, now}}, 0, 0},
		{"ahead", []uint64{1, 2, 3}, map[uint64]report{2: {bound + 1, now}, 3: {bound + 2, now}}, 0, bound + 1},
		{"one at the bound", []uint64{1, 2, 3}, map[uint64]report{2: {bound + 1, now}, 3: {bound, now}}, 0, 0},
		{"behind, at the bound", []uint64{1, 2, 3}, map[uint64]report{2: {-bound, now}, 3: {-bound, now}}, 0, 0},
		{"behind", []uint64{1, 2, 3}, map[uint64]report{2: {-bound - 1, now}, 3: {-bound - 2, now}}, 0, -bound - 1},
		{"both", []uint64{1, 2, 3}, map[uint64]report{2: {bound + 1, now}, 3: {-bound - 1, now}}, 0, 0},
		{"one of three", []uint64{1, 2, 3}, map[uint64]report{2: {bound + 1, now}}, 0, 0},
		{"half", []uint64{1, 2, 3, 4}, map[uint64]report{2: {bound + 1, now}, 3: {bound + 1, now}}, 0, 0},
		{"half, behind", []uint64{1, 2, 3, 4}, map[uint64]report{2: {-bound - 1, now}, 3: {-bound - 1, now}}, 0, 0},
		{"its own", []uint64{1, 2, 3}, map[uint64]report{1: {bound + 1, now}, 2: {bound + 1, now}}, 0, 0},
		{"an observer's", []uint64{1, 2, 3}, map[uint64]report{2: {bound + 1, now}, 4: {bound + 1, now}}, 0, 0},
		{"old", []uint64{1, 2, 3}, map[uint64]report{2: {bound + 1, now - old}, 3: {bound + 1, now}}, 0, bound + 1},
		{"too old", []uint64{1, 2, 3}, map[uint64]report{2: {bound + 1, now - old - 1}, 3: {bound + 1, now}}, 0, 0},
		{"one of two, corrected before", []uint64{1, 2}, map[uint64]report{2: {4 * bound, now}}, 3*bound + 1, 0},
		{"more than before", []uint64{1, 2, 3}, map[uint64]report{2: {4 * bound, now}, 3: {4 * bound, now}}, 3*bound + 1,
			3*bound + 1},
		{"more, by the bound", []uint64{1, 2, 3}, map[uint64]report{2: {4 * bound, now}, 3: {4 * bound, now}}, 3 * bound,
			4 * bound},
		{"less than before", []uint64{1, 2, 3}, map[uint64]report{2: {4 * bound, now}, 3: {4 * bound, now}}, 5*bound - 1,
			5*bound - 1},
		{"less, by the bound", []uint64{1, 2, 3}, map[uint64]report{2: {4 * bound, now}, 3: {4 * bound, now}}, 5 * bound,
			4 * bound},
		{"right again", []uint64{1, 2, 3}, map[uint64]report{2: {0, now}, 3: {0, now}}, bound - 1, 0},
	} {
		v := &view{id: 1, ticks: now, conf: &pb.ConfState{Voters: c.voters}}
		clocks := clocks{view: v, told: c.told, correction: c.was}
		if got := clocks.wrongBy(); got != c.want {
			t.Errorf("%s: wrong by %d, want %d", c.what, got, c.want)
		}
	}
}

// TestClockReports: servers tell a leader their time every clockTicks, if it knows the frame. A leader
// takes no report of another length, and forgets all once it doesn't lead.
func TestClockReports(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	for _, id := range c.ids {
		c.nodes[id].level = doubtLevel
	}
	lead := c.elect(1)
	sent := map[uint64]int{}
	for _, id := range c.ids {
		c.nodes[id].sent = func(to uint64, kind FrameKind, payload []byte) {
			if kind == FrameClock {
				sent[id]++
				if ticks := c.nodes[id].loop.ticks; to != 1 || len(payload) != clockSize || ticks%clockTicks != 0 {
					t.Errorf("server %d tells server %d its time in %d bytes at tick %d", id, to, len(payload), ticks)
				}
			}
		}
	}
	c.step(3 * clockTicks)
	if len(sent) > 0 {
		t.Fatalf("servers %v report to a leader of an earlier version", sent)
	}
	c.announce()
	c.step(1)
	clear(sent)
	c.step(3 * clockTicks)
	if sent[1] != 0 || sent[2] != 3 || sent[3] != 3 {
		t.Errorf("in three times clockTicks they report %v times", sent)
	}
	delete(lead.loop.clocks.told, 2)
	lead.loop.Handle(Event{Kind: EventClock, From: 2, Data: make([]byte, clockSize-1)})
	lead.loop.Handle(Event{Kind: EventClock, From: 2, Data: make([]byte, clockSize+1)})
	if _, ok := lead.loop.clocks.told[2]; ok {
		t.Error("a report of another length counts")
	}
	c.nodes[2].loop.Handle(Event{Kind: EventClock, From: 3, Data: make([]byte, clockSize)})
	if c.nodes[2].loop.clocks.told != nil {
		t.Error("a server that doesn't lead takes a report")
	}
	lead.loop.clocks.correction = 5
	for _, id := range c.ids {
		c.nodes[id].sent = nil
	}
	c.elect(2)
	c.step(clockTicks)
	if k := lead.loop.clocks; k.told != nil || k.correction != 0 {
		t.Errorf("it leads no more, and keeps %v and the correction %d", k.told, k.correction)
	}
}
