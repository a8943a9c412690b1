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

// TestTakenOut: which entries take a life out.
func TestTakenOut(t *testing.T) {
	t.Parallel()
	remove, life := change(pb.ConfChangeRemoveNode, 3), []byte{0, 0, 0, 7}
	for _, c := range []struct {
		what string
		cc   *pb.ConfChangeV2
		typ  pb.EntryType
		torn bool
		want bool
	}{
		{"one", &pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{remove}, Context: life}, pb.EntryConfChangeV2, false, true},
		{"data like it", &pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{remove}, Context: life}, pb.EntryNormal, false,
			false},
		{"torn", &pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{remove}, Context: life}, pb.EntryConfChangeV2, true, false},
		{"without a life", &pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{remove}}, pb.EntryConfChangeV2, false, false},
		{"a longer life", &pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{remove}, Context: append(life, 0)},
			pb.EntryConfChangeV2, false, false},
		{"of nobody", &pb.ConfChangeV2{Context: life}, pb.EntryConfChangeV2, false, false},
		{"of two", &pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{remove, remove}, Context: life}, pb.EntryConfChangeV2,
			false, false},
		{"a server joins", &pb.ConfChangeV2{
			Changes: []*pb.ConfChangeSingle{change(pb.ConfChangeAddNode, 3)}, Context: life,
		}, pb.EntryConfChangeV2, false, false},
	} {
		data, err := proto.Marshal(c.cc)
		if err != nil {
			t.Fatal(err)
		}
		if c.torn {
			data = append(data, 0xff)
		}
		id, life, ok := takenOut(&pb.Entry{Type: c.typ.Enum(), Data: data})
		if ok != c.want || ok && (id != 3 || life != 7) || !ok && (id != 0 || life != 0) {
			t.Errorf("%s: life %d of server %d, %t", c.what, life, id, ok)
		}
	}
}

// TestJoinAnswers: what a leader answers a server with an empty disk, and whether it takes a life out for that.
func TestJoinAnswers(t *testing.T) {
	t.Parallel()
	const now = 1000
	for _, c := range []struct {
		what     string
		e        Event
		is       func(c *cluster, d *lostDisks)
		want     JoinReply
		takesOut bool
	}{
		{"a stranger", Event{From: 9, Life: 5}, nil, JoinReply{}, true},
		{"a known address", Event{From: 9, Life: 5, Known: true}, nil, JoinReply{Ask: true}, false},
		{"a known address that is empty", Event{From: 9, Life: 5, Known: true, Empty: true}, nil, JoinReply{}, true},
		{"a member that is connected", Event{From: 3, Life: 5, Empty: true}, nil, JoinReply{DuplicateID: true}, false},
		{"a member", Event{From: 3, Life: 5}, func(c *cluster, _ *lostDisks) { c.crash(3) }, JoinReply{Ask: true}, false},
		{"a member that is empty", Event{From: 3, Life: 5, Empty: true}, func(c *cluster, _ *lostDisks) { c.crash(3) },
			JoinReply{}, true},
		{"taken out", Event{From: 9, Life: 5}, func(_ *cluster, d *lostDisks) {
			d.out[9] = departure{life: 5, index: 70, term: 8}
		}, JoinReply{Go: true, Index: 70, Term: 8}, false},
		{"another life was taken out", Event{From: 9, Life: 5}, func(_ *cluster, d *lostDisks) {
			d.out[9] = departure{life: 4, index: 70, term: 8}
		}, JoinReply{}, true},
		{"a life without a number", Event{From: 9}, func(_ *cluster, d *lostDisks) {
			d.out[9] = departure{index: 70, term: 8, tick: now - namelessTicks + 1}
		}, JoinReply{Go: true, Index: 70, Term: 8}, false},
		{"one long ago", Event{From: 9}, func(_ *cluster, d *lostDisks) {
			d.out[9] = departure{index: 70, term: 8, tick: now - namelessTicks}
		}, JoinReply{}, true},
		{"an earlier version", Event{From: 9, Life: 5, Level: 2}, func(_ *cluster, d *lostDisks) { d.levels.inForce = 3 },
			JoinReply{}, false},
		{"the first version, too early", Event{From: 9, Life: 5}, func(_ *cluster, d *lostDisks) {
			d.levels.inForce = LevelFirst + 1
		}, JoinReply{}, false},
		{"this version", Event{From: 9, Life: 5, Level: 3}, func(_ *cluster, d *lostDisks) { d.levels.inForce = 3 },
			JoinReply{}, true},
		{"the first version", Event{From: 9, Life: 5}, func(_ *cluster, d *lostDisks) { d.levels.inForce = LevelFirst },
			JoinReply{}, true},
		{"tried before", Event{From: 9, Life: 5}, func(_ *cluster, d *lostDisks) {
			d.tried[9] = attempt{5, now - takeOutTicks + 1}
		}, JoinReply{}, false},
		{"tried long before", Event{From: 9, Life: 5}, func(_ *cluster, d *lostDisks) {
			d.tried[9] = attempt{5, now - takeOutTicks}
		}, JoinReply{}, true},
		{"another life was tried", Event{From: 9, Life: 5}, func(_ *cluster, d *lostDisks) { d.tried[9] = attempt{4, now} },
			JoinReply{}, true},
		{"in joint consensus", Event{From: 9, Life: 5}, func(_ *cluster, d *lostDisks) {
			d.conf = &pb.ConfState{Voters: []uint64{1, 2, 3}, VotersOutgoing: []uint64{1}}
		}, JoinReply{}, false},
		{"the last voter", Event{From: 3, Life: 5, Empty: true}, func(c *cluster, d *lostDisks) {
			c.crash(3)
			d.conf = &pb.ConfState{Voters: []uint64{3}}
		}, JoinReply{}, false},
		{"it doesn't lead", Event{From: 9, Life: 5}, func(_ *cluster, d *lostDisks) { d.node.state = 0 }, JoinReply{}, false},
	} {
		cl := newCluster(t, 1, 2, 3)
		lead := cl.elect(1)
		cl.step(5)
		d := &lead.loop.lostDisks
		d.ticks = now
		if c.is != nil {
			c.is(cl, d)
		}
		reply := make(chan JoinReply, 1)
		c.e.Join, c.e.Conn = reply, 77
		d.join(c.e)
		if got := <-reply; got != c.want {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
		var ef Effects
		d.node.Turn(&ef)
		id, life := uint64(0), uint32(0)
		for _, e := range ef.Append.GetEntries() {
			id, life, _ = takenOut(e)
		}
		if took := id == c.e.From; took != c.takesOut || took && (life != c.e.Life || d.tried[id] != attempt{life, now}) {
			t.Errorf("%s: life %d of server %d is taken out; tried %v", c.what, life, id, d.tried)
		}
		if noted := d.former[c.e.From] == 77; noted != (c.takesOut && c.e.Known) {
			t.Errorf("%s: its connections are noted: %t", c.what, noted)
		}
	}
}

// TestFormerConnections: an event came from a former life if its connection has a number up to the one noted.
func TestFormerConnections(t *testing.T) {
	t.Parallel()
	d := lostDisks{former: map[uint64]uint64{3: 7}}
	for e, want := range map[[2]uint64]bool{{3, 7}: true, {3, 6}: true, {3, 8}: false, {3, 0}: false, {2, 7}: false} {
		if d.isFormer(Event{From: e[0], Conn: e[1]}) != want {
			t.Errorf("server %d on connection %d is of a former life: %t", e[0], e[1], !want)
		}
	}
}

// TestAdmitted: a leader notes each server once that asks what only a server asks that may vote, and forgets it when
// its life is taken out. What it notes is bounded.
func TestAdmitted(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 2, 3)
	d := &c.elect(1).loop.lostDisks
	asks := &pb.Message{
		Type: pb.MsgReadIndex.Enum(), Entries: []*pb.Entry{{Data: append(readContext(1, 1), leaderCheckMark)}},
	}
	clear(d.admitted)
	if d.noteAdmitted(9, &pb.Message{Type: pb.MsgAppResp.Enum()}) || d.isAdmitted(9) {
		t.Error("a message of another type admits a server")
	}
	if !d.noteAdmitted(9, asks) || d.noteAdmitted(9, asks) || !d.isAdmitted(9) || !d.isAdmitted(2) {
		t.Error("it isn't admitted, or admitted twice")
	}
	data, err := proto.Marshal(&pb.ConfChangeV2{
		Changes: []*pb.ConfChangeSingle{change(pb.ConfChangeRemoveNode, 9)}, Context: []byte{0, 0, 0, 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	d.left(&pb.Entry{Type: pb.EntryConfChangeV2.Enum(), Data: data, Index: new(uint64(50)), Term: new(uint64(4))})
	if d.isAdmitted(9) || d.out[9] != (departure{life: 1, index: 50, term: 4, tick: d.ticks}) ||
		d.departures.of[9] != (Departure{50, 4}) {
		t.Errorf("it has left, and is admitted: %t; %+v", d.isAdmitted(9), d.out)
	}
	most, mostOut := 0, 0
	for id := range uint64(2 * lostMax) {
		d.noteAdmitted(100+id, asks)
		most = max(most, len(d.admitted))
		if data, err = proto.Marshal(&pb.ConfChangeV2{
			Changes: []*pb.ConfChangeSingle{change(pb.ConfChangeRemoveNode, 100+id)}, Context: []byte{0, 0, 0, 1},
		}); err != nil {
			t.Fatal(err)
		}
		d.left(&pb.Entry{Type: pb.EntryConfChangeV2.Enum(), Data: data, Index: new(60 + id), Term: new(uint64(4))})
		d.noteAdmitted(100+id, asks)
		mostOut = max(mostOut, len(d.out))
	}
	if most != lostMax || mostOut != lostMax {
		t.Errorf("%d servers are noted, and %d departures", most, mostOut)
	}
	if f := &c.nodes[2].loop.lostDisks; f.noteAdmitted(9, asks) || len(f.admitted) > 0 {
		t.Error("a server that doesn't lead admits another one")
	}
	if c.elect(2); len(d.admitted) > 0 {
		t.Errorf("it leads no more, and %d servers are noted", len(d.admitted))
	}
}
