package quorum

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/zooid-project/zooid/internal/storage"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// ask hands the leader a question of a server with an empty disk.
func (b *node) ask(e Event) JoinReply {
	b.c.t.Helper()
	reply := make(chan JoinReply, 1)
	e.Kind, e.Join = EventJoin, reply
	b.loop.Handle(e)
	b.c.step(3)
	return <-reply
}

// letIn asks until the server may start.
func (b *node) letIn(e Event) JoinReply {
	b.c.t.Helper()
	for range 100 {
		if r := b.ask(e); r.Go {
			return r
		}
	}
	b.c.t.Fatalf("server %d is not let in", e.From)
	return JoinReply{}
}

// want makes the cluster's members those decided on.
func (c *cluster) want() {
	for _, id := range c.ids {
		c.nodes[id].wanted, c.nodes[id].version = c.members, 1
	}
}

// TestJoiningServerLeadsByNoOldMembership: a server that joins took a snapshot from
// before it was taken out, which says that it is the only voter.
func TestJoiningServerLeadsByNoOldMembership(t *testing.T) {
	c := newCluster(t, 1)
	b := c.leader1()
	b.say(1)
	b.snapshot = 1
	c.step(5)
	if _, ok := b.dir.NewestSnapshot(); !ok {
		t.Fatal("no snapshot was taken")
	}
	c.crash(1)
	b.fs.Reboot()
	c.open(1, 1000, 9)
	c.step(100)
	if b.loop.IsLeader() {
		t.Error("a server that has not joined leads, by a membership from before it was taken out")
	}
	// Nor does it when it loses a leader.
	b.loop.failover = failover{turn: 1, until: 1000}
	c.step(20)
	if b.loop.IsLeader() || b.loop.hard.GetTerm() != 9 {
		t.Errorf("a server that has not joined asks for votes: term %d", b.loop.hard.GetTerm())
	}
}

// leader1 is the leader of a cluster of one.
func (c *cluster) leader1() *node {
	c.t.Helper()
	for range 200 {
		if b := c.nodes[c.ids[0]]; b.loop.IsLeader() {
			return b
		}
		c.step(1)
	}
	c.t.Fatal("the only server doesn't lead")
	return nil
}

// TestFormerLifeDoesNotCount: what a server acknowledged before its disk was lost
// arrives after it was let in again.
func TestFormerLifeDoesNotCount(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	lead := c.leader()
	lead.say(1)
	c.step(2)
	lost := lead.id%3 + 1
	last, err := lead.loop.disk.LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	c.crash(lost)
	c.want()
	lead.letIn(Event{From: lost, Life: 1, Conn: 4, Known: true, Empty: true})
	c.step(10) // it is a learner again, and has nothing
	m, err := proto.Marshal(&pb.Message{
		Type: pb.MsgAppResp.Enum(), From: &lost, To: &lead.id, Term: new(lead.loop.node.Term()), Index: &last,
	})
	if err != nil {
		t.Fatal(err)
	}
	match := func(conn uint64) uint64 {
		t.Helper()
		lead.loop.Handle(Event{Kind: EventRaft, From: lost, Conn: conn, Data: m})
		lead.loop.Turn()
		for _, f := range lead.loop.node.Followers() {
			if f.ID == lost {
				return f.Match
			}
		}
		t.Fatalf("server %d is no member", lost)
		return 0
	}
	if n := match(4); n != 0 {
		t.Errorf("after a former life's acknowledgement the leader takes it to have %d entries", n)
	}
	if n := match(5); n != last {
		t.Errorf("after an acknowledgement of now the leader takes it to have %d entries, want %d", n, last)
	}
}

// TestJoinsInNoEarlierTerm: a former life may have voted in any term up to that in
// which it was taken out.
func TestJoinsInNoEarlierTerm(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	c.step(1)
	c.crash(2)
	c.join(2, JoinReply{Index: 40, Term: 7})
	b := c.nodes[2]
	stale, err := proto.Marshal(&pb.Message{Type: pb.MsgApp.Enum(), From: new(uint64(1)), To: new(uint64(2)),
		Term: new(uint64(6)), LogTerm: new(uint64(0)), Index: new(uint64(0)), Commit: new(uint64(0)),
		Entries: []*pb.Entry{{Term: new(uint64(6)), Index: new(uint64(1))}}})
	if err != nil {
		t.Fatal(err)
	}
	b.loop.Handle(Event{Kind: EventRaft, From: 1, Data: stale})
	b.loop.Turn()
	if last, _ := b.loop.disk.LastIndex(); last != 0 || b.loop.node.Term() != 7 {
		t.Errorf("after an entry of term 6 the log ends at %d and the term is %d, want 0 and 7", last, b.loop.node.Term())
	}
	b.fs.Reboot()
	c.open(2, 40, 0)
	if b.loop.hard.GetTerm() != 7 {
		t.Errorf("after a restart the term is %d, want 7", b.loop.hard.GetTerm())
	}
}

// TestOnlyItsLifeIsLetIn: another life has promised other things since.
func TestOnlyItsLifeIsLetIn(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	lead := c.leader()
	lost := lead.id%3 + 1
	c.crash(lost)
	c.want()
	first := lead.letIn(Event{From: lost, Life: 1, Known: true, Empty: true})
	again := lead.ask(Event{From: lost, Life: 1, Known: true})
	if !again.Go || again.Index != first.Index {
		t.Errorf("the same life is answered %+v, then %+v", first, again)
	}
	reply := make(chan JoinReply, 1)
	lead.loop.Handle(Event{Kind: EventJoin, From: lost, Life: 2, Known: true, Empty: true, Join: reply})
	if r := <-reply; r.Go {
		t.Error("another life is let in by what took the first one out")
	}
	if r := lead.letIn(Event{From: lost, Life: 2, Known: true, Empty: true}); r.Index <= first.Index {
		t.Errorf("the second life left at entry %d, the first at %d", r.Index, first.Index)
	}
}

// TestQuestionTakesNoVote: somebody asks in the name of a server that is down and
// has its data.
func TestQuestionTakesNoVote(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	lead := c.leader()
	down := lead.id%3 + 1
	c.crash(down)
	for range 20 {
		if r := lead.ask(Event{From: down, Life: 1, Known: true}); !r.Ask || r.Go {
			t.Fatalf("the question is answered %+v; want that the server itself be asked", r)
		}
	}
	if !slices.Contains(lead.loop.conf.GetVoters(), down) {
		t.Error("a server that is down lost its vote by a question in its name")
	}
}

// TestMembershipSurvivesACrashOfAll: a server gets its vote back, all crash, and
// another one's disk is lost. The two that are left are a majority.
func TestMembershipSurvivesACrashOfAll(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	lead := c.leader()
	lead.say(1)
	c.step(2)
	lost, third := lead.id%3+1, (lead.id+1)%3+1
	c.crash(lost)
	c.want()
	c.join(lost, lead.letIn(Event{From: lost, Life: 1, Known: true, Empty: true}))
	c.greet(lost)
	votes := func(id uint64) bool { return slices.Contains(c.nodes[id].loop.conf.GetVoters(), lost) }
	for n := 0; !votes(lead.id) || !votes(lost) || !votes(third); n++ {
		if n == 200 {
			t.Fatal("it doesn't get its vote back")
		}
		c.step(1)
	}
	for _, id := range c.ids {
		c.crash(id)
	}
	c.nodes[third].fs = storage.NewMemFS()
	c.restart(lead.id)
	c.restart(lost)
	c.leader()
}

// TestWhoWasAwayLearnsAddresses: a server is told of members that it doesn't know,
// by one that it does.
func TestWhoWasAwayLearnsAddresses(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	c.step(1)
	one, two := c.nodes[1], c.nodes[2]
	one.wanted, one.version = []Member{
		{ID: 1, Addrs: []string{"a"}}, {ID: 2, Addrs: []string{"b"}}, {ID: 5, Addrs: []string{"five:1", "five:2"}},
	}, 1
	one.loop.Handle(Event{Kind: EventLevel, From: 2, Level: levelIntroduces})
	c.step(2)
	want := Member{ID: 5, Addrs: []string{"five:1", "five:2"}}
	if !slices.ContainsFunc(two.peers,
		func(m Member) bool { return m.ID == want.ID && slices.Equal(m.Addrs, want.Addrs) }) {
		t.Errorf("server 2 was told to connect to %+v; want %+v among them", two.peers, want)
	}
	if slices.ContainsFunc(two.peers, func(m Member) bool { return m.ID == 1 }) {
		t.Error("a peer's word changes the address of a server that is known")
	}
	// A server of the first version would end the connection.
	two.peers = nil
	one.loop.levels.known[2] = LevelFirst
	one.loop.roster.introduce(2)
	c.step(1)
	if two.peers != nil {
		t.Error("a server of the first level is told of the members")
	}
}

// TestIntroductionLimits reads what no server of this program writes.
func TestIntroductionLimits(t *testing.T) {
	whole := appendIntroduction(nil,
		[]Member{{ID: 5, Addrs: []string{"five:1", "five:2"}}, {ID: 6, Addrs: []string{"six"}}})
	for n := range whole {
		members, err := readIntroduction(whole[:n])
		if first := len(appendIntroduction(nil, []Member{{ID: 5, Addrs: []string{"five:1", "five:2"}}})); err == nil &&
			n != 0 && n != first {
			t.Errorf("%d of %d bytes are read as %+v", n, len(whole), members)
		}
	}
	many := make([]Member, introducedMax)
	for i := range many {
		many[i].ID = uint64(i + 1)
	}
	if members, err := readIntroduction(appendIntroduction(nil, many)); err != nil || len(members) != introducedMax {
		t.Errorf("%d members are read as %d, %v", introducedMax, len(members), err)
	}
	for name, b := range map[string][]byte{
		"members":   append(appendIntroduction(nil, many), appendIntroduction(nil, many[:1])...),
		"addresses": append(binary.BigEndian.AppendUint64(nil, 1), introducedAddrs+1),
		"length":    binary.BigEndian.AppendUint16(append(binary.BigEndian.AppendUint64(nil, 1), 1), introducedAddr+1),
	} {
		if name == "length" {
			b = append(b, make([]byte, introducedAddr+1)...)
		}
		if _, err := readIntroduction(b); err == nil {
			t.Errorf("too many or too long %s are accepted", name)
		}
	}
	if members, err := readIntroduction(make([]byte, 72)); err == nil { // a file whose content a disk has lost
		t.Errorf("zeros are read as %d members", len(members))
	}
}

// TestAskersAreBounded: what is noted of servers that ask to join stays within its limit,
// though each question comes with another id.
func TestAskersAreBounded(t *testing.T) {
	c := newCluster(t, 1)
	b := c.leader1()
	for n := range uint64(lostMax + 10) {
		b.loop.Handle(Event{Kind: EventJoin, From: 100 + n, Life: 1, Conn: n + 1, Join: make(chan JoinReply, 1)})
		b.loop.Turn()
		if l := &b.loop.lostDisks; max(len(l.out), len(l.tried), len(l.former)) > lostMax {
			t.Fatalf("after %d questions %d lives are out, %d were tried, and the connections of %d are noted", n+1, len(l.out),
				len(l.tried), len(l.former))
		}
	}
	if len(b.loop.lostDisks.out) == 0 {
		t.Error("nobody was taken out")
	}
}
