package quorum

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/zooid-project/zooid/internal/storage"
)

// stage stages a change of membership through a server.
func (b *node) stage(id int64, patience uint64, members ...Member) {
	b.c.changes[uint64(id)] = Change{ID: id, Members: slices.Clone(members), Patience: patience}
	b.say(changeMark + uint64(id))
}

// newChange returns a cluster of servers with those ids, of which the first ones are
// members.
func newChange(t *testing.T, members int, ids ...uint64) *cluster {
	c := newCluster(t, ids[:members]...)
	for _, id := range c.ids {
		c.nodes[id].wanted, c.nodes[id].version = slices.Clone(c.members), 1
	}
	first := slices.Clone(c.members)
	if c.step(1); members > 1 {
		c.elect(1)
	}
	for _, id := range ids[members:] {
		c.letIn(id)
		c.nodes[id].wanted, c.nodes[id].version = first, 1
	}
	return c
}

func (c *cluster) pick(ids ...uint64) (members []Member) {
	for _, id := range ids {
		members = append(members, Member{ID: id})
	}
	return members
}

// runningOnly lets no server that runs give a vote to one that doesn't run.
func (c *cluster) runningOnly() {
	for _, b := range c.nodes {
		b.loop.reconciler.runningOnly = true
	}
}

// letIn starts a server with an empty disk, as the leader let it in.
func (c *cluster) letIn(id uint64) {
	c.ids = append(c.ids, id)
	c.nodes[id] = &node{c: c, id: id, fs: storage.NewMemFS(), ended: map[int64]ChangeStep{}}
	c.open(id, c.nodes[1].loop.applied, 0) // server 1 leads
	c.greet(id)
}

// holders returns how many of the voters of members have an entry on their disks.
func (c *cluster) holders(members []Member, index, term uint64) (voters, holders int) {
	for _, m := range members {
		if m.Observer {
			continue
		}
		voters++
		if at, err := c.nodes[m.ID].dir.Log().Term(index); err == nil && at == term {
			holders++
		}
	}
	return voters, holders
}

// checkMajority holds M1: the newest entry that any server applied is on a majority of
// the membership that the state after it names, and so is all before it.
func (c *cluster) checkMajority() {
	c.t.Helper()
	var newest *node
	for _, id := range c.ids {
		if b := c.nodes[id]; b.loop != nil && (newest == nil || b.loop.applied > newest.loop.applied) {
			newest = b
		}
	}
	index := newest.loop.applied
	term, err := newest.dir.Log().Term(index)
	if err != nil {
		c.t.Fatal(err)
	}
	if voters, holders := c.holders(newest.wanted, index, term); holders <= voters/2 {
		c.t.Fatalf("entry %d is applied and on %d of the %d voters that the state names", index, holders, voters)
	}
}

// until steps, saying something new and checking M1 each time, until done.
func (c *cluster) until(what string, done func() bool) {
	c.t.Helper()
	for range 600 {
		if done() {
			return
		}
		c.said++
		for _, id := range c.ids {
			if b := c.nodes[id]; b.loop != nil {
				b.say(c.said*100 + id)
				break
			}
		}
		c.step(1)
		c.checkMajority()
	}
	c.t.Fatalf("in 600 ticks it never came that %s", what)
}

// over reports whether a server that runs knows that a change ended so.
func (c *cluster) over(change int64, step ChangeStep) bool {
	return slices.ContainsFunc(c.ids,
		func(id uint64) bool { return c.nodes[id].loop != nil && c.nodes[id].ended[change] == step })
}

func (c *cluster) voters() []uint64 {
	lead := c.ids[slices.IndexFunc(c.ids,
		func(id uint64) bool { return c.nodes[id].loop != nil && c.nodes[id].loop.IsLeader() })]
	voters, before := c.nodes[lead].loop.Voters()
	slices.Sort(voters)
	if len(before) > 0 {
		c.t.Errorf("the votes of %v still count", before)
	}
	return voters
}

// TestChangesMembersAtOnce replaces two of three servers. Until one of the new ones
// has caught up nothing changes; then all does, together.
func TestChangesMembersAtOnce(t *testing.T) {
	c := newChange(t, 3, 1, 2, 3, 4, 5)
	for _, id := range []uint64{4, 5} {
		c.cut[[2]uint64{1, id}], c.cut[[2]uint64{2, id}], c.cut[[2]uint64{3, id}] = true, true, true
	}
	c.leader().stage(7, 0, c.pick(1, 4, 5)...)
	for range 2 * laggardTicks {
		c.until("a tick passed", func() bool { c.step(1); return true })
	}
	if got := c.voters(); !slices.Equal(got, []uint64{1, 2, 3}) || c.over(7, ChangeDone) {
		t.Fatalf("the voters are %v though no new server has caught up", got)
	}
	clear(c.cut)
	c.until("it is done", func() bool { return c.over(7, ChangeDone) })
	if got := c.voters(); !slices.Equal(got, []uint64{1, 4, 5}) {
		t.Fatalf("the voters are %v, want 1, 4 and 5", got)
	}
	c.crash(2)
	c.crash(3)
	c.crash(4)
	c.until("two of the three go on", func() bool { return len(c.nodes[5].applied) > 10 })
}

// TestChangeIsDoneWhenItIsInForce: the servers that a change removes die as it is
// answered, and the others go on, even if they start again first.
func TestChangeIsDoneWhenItIsInForce(t *testing.T) {
	for _, leader := range []uint64{1, 2, 5} {
		for _, restart := range []bool{false, true} {
			c := newChange(t, 5, 1, 2, 3, 4, 5)
			c.elect(leader)
			c.nodes[2].stage(7, 0, c.pick(1, 2)...)
			for !c.nodes[2].stepUntilDone() {
			}
			for _, id := range []uint64{3, 4, 5} {
				c.crash(id)
			}
			if restart {
				c.crash(1)
				c.crash(2)
				c.restart(1)
				c.restart(2)
			}
			before := len(c.nodes[1].applied)
			c.nodes[1].say(99)
			for range 100 {
				c.step(1)
			}
			if len(c.nodes[1].applied) <= before || !slices.Contains(c.nodes[1].applied, 99) {
				t.Errorf("led by %d, restart %t: the two that remain have no quorum; voters %v", leader, restart,
					c.nodes[1].loop.conf)
			}
		}
	}
}

// stepUntilDone steps until the node has applied the end of a change, not a turn longer.
func (b *node) stepUntilDone() bool {
	c := b.c
	for _, id := range c.ids {
		c.nodes[id].loop.Tick()
	}
	for moved := true; moved; {
		moved = false
		for _, id := range c.ids {
			o := c.nodes[id]
			inbox := o.inbox
			o.inbox = nil
			for i, f := range inbox {
				moved = true
				f()
				o.loop.Turn()
				if b.ended[7] == ChangeDone {
					o.inbox = append(slices.Clone(inbox[i+1:]), o.inbox...)
					return true
				}
			}
			o.loop.Turn()
			moved = moved || len(o.inbox) > 0
			if b.ended[7] == ChangeDone {
				return true
			}
		}
	}
	return false
}

// TestChangeIsDropped asks for servers that don't come: after its patience the
// change is given up, and the membership stays as it was. Asked for again once they
// are there it succeeds.
func TestChangeIsDropped(t *testing.T) {
	c := newChange(t, 1, 1, 2)
	c.cut[[2]uint64{1, 2}] = true
	c.nodes[1].stage(7, 50, c.pick(1, 2)...)
	c.until("it is dropped", func() bool { return c.over(7, ChangeDropped) })
	if got := c.voters(); !slices.Equal(got, []uint64{1}) {
		t.Fatalf("the voters are %v, want 1 alone", got)
	}
	clear(c.cut)
	c.nodes[1].stage(8, 50, c.pick(1, 2)...)
	c.until("it is done", func() bool { return c.over(8, ChangeDone) })
	if got := c.voters(); !slices.Equal(got, []uint64{1, 2}) {
		t.Fatalf("the voters are %v, want 1 and 2", got)
	}
}

// TestChangeNeedsEachNewServer asks for a fourth server that can't vote: there is a majority without it, but its vote
// would be missed. If it runs, and doesn't get the log, it is waited for; if it doesn't run, only with RunningOnly.
func TestChangeNeedsEachNewServer(t *testing.T) {
	for name, prepare := range map[string]func(c *cluster){
		"it runs and isn't heard": func(c *cluster) { c.cut[[2]uint64{4, 1}] = true },
		"it has asked to join": func(c *cluster) {
			c.crash(4)
			c.nodes[1].loop.lostDisks.tried[4] = attempt{life: 1, tick: c.nodes[1].loop.ticks}
		},
		"it doesn't run": func(c *cluster) {
			c.runningOnly()
			c.crash(4)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChange(t, 3, 1, 2, 3, 4)
			prepare(c)
			c.nodes[1].stage(7, 50, c.pick(1, 2, 3, 4)...)
			c.until("it is dropped", func() bool { return c.over(7, ChangeDropped) || c.over(7, ChangeDone) })
			if got := c.voters(); !slices.Equal(got, []uint64{1, 2, 3}) {
				t.Fatalf("the voters are %v, want 1, 2 and 3", got)
			}
		})
	}
}

// TestChangeTakesAbsentServer adds a fourth server before it is started. It gets its vote, and the leader says that it
// has never heard it. From then on a majority of four is needed.
func TestChangeTakesAbsentServer(t *testing.T) {
	c := newChange(t, 3, 1, 2, 3, 4)
	c.crash(4)
	c.nodes[1].stage(7, 50, c.pick(1, 2, 3, 4)...)
	c.until("it is done", func() bool { return c.over(7, ChangeDone) })
	if got := c.voters(); !slices.Equal(got, []uint64{1, 2, 3, 4}) {
		t.Fatalf("the voters are %v, want 1 to 4", got)
	}
	if got := c.nodes[1].loop.Status(); !slices.Equal(got.Unheard, []uint64{4}) || !slices.Equal(got.Voters, c.voters()) {
		t.Fatalf("at the answer unheard are %v of %v, want 4", got.Unheard, got.Voters)
	}
	c.crash(3)
	c.nodes[1].stage(8, 50, c.pick(1, 2, 4)...) // {1, 2} of {1, 2, 4} would do, but not of {1, 2, 3, 4}
	c.step(100)
	if c.over(8, ChangeDone) {
		t.Fatal("a change is done that no majority of the voters before it has agreed to")
	}
}

// TestChangesOfRoles makes observers of voters and the other way round, the leader
// among them.
func TestChangesOfRoles(t *testing.T) {
	c := newChange(t, 3, 1, 2, 3)
	roles := c.pick(1, 2, 3)
	for i := range roles {
		roles[i].Observer = true
		c.elect(uint64(i + 1))
		c.nodes[2].stage(int64(10+i), 0, roles...)
		c.until("it is done", func() bool { return c.over(int64(10+i), ChangeDone) })
		if lead := c.leader(); lead.id == uint64(i+1) || len(c.voters()) != 2 {
			t.Fatalf("server %d leads with the voters %v", lead.id, c.voters())
		}
		roles[i].Observer = false
		c.nodes[2].stage(int64(20+i), 0, roles...)
		c.until("it is done", func() bool { return c.over(int64(20+i), ChangeDone) })
		if got := c.voters(); !slices.Equal(got, []uint64{1, 2, 3}) {
			t.Fatalf("the voters are %v, want all", got)
		}
	}
}

// TestChangeUnderCrashes changes {1,2,3} to {1,4,5}, {4,5} and back, and between any two
// steps some server stops for a while, and with it whoever leads.
func TestChangeUnderCrashes(t *testing.T) {
	every := 1
	if testing.Short() {
		every = 6
	}
	for after := 0; after < 24; after += every {
		for _, victim := range []uint64{0, 1, 2, 4} {
			c := newChange(t, 3, 1, 2, 3, 4, 5)
			c.leader().stage(7, 0, c.pick(1, 4, 5)...)
			for range after {
				c.turn()
			}
			id := victim
			if id == 0 {
				id = c.leader().id
			}
			c.crash(id)
			for range 30 {
				c.step(1)
			}
			c.restart(id)
			c.until("it is done", func() bool { return c.over(7, ChangeDone) })
			if got := c.voters(); !slices.Equal(got, []uint64{1, 4, 5}) {
				t.Fatalf("server %d stopped after %d turns: the voters are %v", id, after, got)
			}
		}
	}
}

// turn lets each server do one thing.
func (c *cluster) turn() {
	for _, id := range c.ids {
		b := c.nodes[id]
		if len(b.inbox) == 0 {
			b.loop.Tick()
		} else {
			f := b.inbox[0]
			b.inbox = b.inbox[1:]
			f()
		}
		b.loop.Turn()
	}
}

// TestChangeWaitsForVotes asks for two empty servers in place of two members, and one of
// them gets the beginning of the log only: it may not vote yet. Were its vote counted, the
// loss of the leader would leave no quorum.
func TestChangeWaitsForVotes(t *testing.T) {
	c := newChange(t, 3, 1, 2, 3, 4, 5)
	lead := c.leader()
	for n := range uint64(3) { // more than one message holds; each number but the first is dropped
		lead.mine = append(lead.mine, 10+n)
		lead.waiting = slices.Repeat([]uint64{10 + n}, MessageSizeMax/8)
		c.step(1)
	}
	lead.stage(7, 400, c.pick(1, 4, 5)...)
	begun := func(f Progress) bool { return f.ID == 5 && f.Match > 0 }
	for range 1000 {
		if slices.ContainsFunc(lead.loop.node.Followers(), begun) {
			break
		}
		c.turn()
	}
	c.cut[[2]uint64{1, 5}], c.nodes[5].inbox = true, nil
	last, err := c.nodes[5].dir.Log().LastIndex()
	if err != nil || last == 0 || !c.nodes[5].loop.joining.lasts() {
		t.Fatalf("server 5 has the log up to %d (%v) and may vote: %t", last, err, !c.nodes[5].loop.joining.lasts())
	}
	for range 300 { // longer than is given to those that have begun
		c.step(1)
		c.checkMajority()
	}
	c.crash(1)
	before := len(c.nodes[2].applied)
	c.until("the others go on", func() bool { return len(c.nodes[2].applied) > before+5 })
	c.until("it is done", func() bool { return c.over(7, ChangeDone) })
}

// TestChangeTellsOfMembersOnly adds a server and then has a peer tell of one that is no
// member: it is connected to, and never said to be a member; the others always are.
func TestChangeTellsOfMembersOnly(t *testing.T) {
	c := newChange(t, 3, 1, 2, 3, 4)
	b := c.nodes[2]
	c.leader().stage(7, 0, c.pick(1, 2, 3, 4)...)
	c.until("it is done", func() bool { return b.ended[7] == ChangeDone })
	b.loop.Handle(Event{
		Kind: EventMembers, From: 1, Data: appendIntroduction(nil, []Member{{ID: 9, Addrs: []string{"nine"}}}),
	})
	if !isMember(b.peers, 9) {
		t.Error("the server that a peer told of is not connected to")
	}
	fourth := false
	for _, members := range b.told {
		for _, id := range []uint64{1, 2, 3} {
			if !isMember(members, id) {
				t.Errorf("the members are said to be %v, without server %d", members, id)
			}
		}
		fourth = fourth || isMember(members, 4)
		if isMember(members, 9) {
			t.Errorf("the members are said to be %v, with a server that is none", members)
		}
	}
	if !fourth {
		t.Error("the server that was added is never said to be a member")
	}
}

// TestChangeIsDroppedThoughJointWasRefused: raft refuses joint consensus while another change of its membership is on
// its way, and says so to nobody. If the new server is gone when that has arrived, the change is given up like any
// other.
func TestChangeIsDroppedThoughJointWasRefused(t *testing.T) {
	c := newChange(t, 3, 1, 2, 3, 4, 5)
	lead := c.leader()
	roles := c.pick(1, 2, 3, 4, 5)
	roles[3].Observer, roles[4].Observer = true, true
	lead.stage(6, 0, roles...)
	admitted := lead.loop.lostDisks.admitted
	c.until("4 and 5 are observers", func() bool { return c.over(6, ChangeDone) && admitted[4] && admitted[5] })
	c.cut[[2]uint64{4, 1}], c.cut[[2]uint64{5, 1}] = true, true
	c.step(30)
	lead.stage(7, 200, c.pick(1, 4, 5)...)
	c.until("it is staged", func() bool { return lead.loop.change != nil })
	c.step(2)
	c.cut = map[[2]uint64]bool{{2, 1}: true, {3, 1}: true} // what is proposed from here on stays uncommitted
	lead.loop.Handle(Event{Kind: EventJoin, From: 9, Life: 1, Empty: true, Join: make(chan JoinReply, 1)})
	asked := lead.loop.reconciler.proposed
	for range 8 { // less than an election timeout
		c.step(1)
	}
	if lead.loop.reconciler.proposed == asked || !lead.loop.IsLeader() {
		t.Fatal("joint consensus was not asked for")
	}
	clear(c.cut)
	c.crash(4)
	c.crash(5)
	c.until("it is dropped", func() bool { return c.over(7, ChangeDropped) })
	if got := c.voters(); !slices.Equal(got, []uint64{1, 2, 3}) {
		t.Fatalf("the voters are %v, want 1, 2 and 3", got)
	}
}

// TestStrangersMetLimit has a peer tell of a thousand servers that are no members: this one connects to some of them,
// and to the members as before.
func TestStrangersMetLimit(t *testing.T) {
	c := newChange(t, 3, 1, 2, 3)
	b := c.nodes[2]
	var many []Member
	for i := range introducedMax {
		many = append(many, Member{ID: uint64(1000 + i), Addrs: []string{"nowhere"}})
	}
	tell := func() {
		b.peers = nil
		b.loop.Handle(Event{Kind: EventMembers, From: 1, Data: appendIntroduction(nil, many)})
	}
	if tell(); len(b.peers) != strangersMetMax {
		t.Errorf("it connects to %d strangers; at most %d", len(b.peers), strangersMetMax)
	}
	if tell(); len(b.peers) != strangersMetMax || b.peers[0].ID != 1000 {
		t.Errorf("told again it connects to %d of them", len(b.peers))
	}
	for i := range many {
		many[i].ID += introducedMax
	}
	if tell(); len(b.peers) != 0 {
		t.Errorf("it connects to %d more", len(b.peers))
	}
	long := strings.Repeat("x", introducedAddr)
	for i := range many {
		many[i].Addrs = slices.Repeat([]string{long}, introducedAddrs)
	}
	if n := len(appendIntroduction(nil, many)); n >= FrameMembers.SizeMax() {
		t.Errorf("it tells of members in %d bytes, and a frame has at most %d", n, FrameMembers.SizeMax())
	}
}

// TestLeavesAnImplicitJointConsensus: a membership that is named without steps, as at feature level 1, replaces a voter
// by joint consensus that raft leaves by itself: it proposes that as soon as it is in force, and again with each entry
// that is applied. A leader that hands over just then accepts no proposals, and nobody takes over. Though nobody writes
// anything from then on, the old voters don't count for ever.
func TestLeavesAnImplicitJointConsensus(t *testing.T) {
	c := newChange(t, 3, 1, 2, 3, 4)
	lead, handed := c.nodes[1], false
	lead.sent = func(_ uint64, kind FrameKind, payload []byte) {
		if m, err := decodeMessage(payload); kind != FrameRaft || err != nil || handed ||
			!slices.ContainsFunc(m.GetEntries(), isSwap) {
			return
		}
		handed = true
		lead.post(func() { // before anybody has acknowledged the entry
			c.cut[[2]uint64{1, 2}] = true
			lead.loop.node.TransferLeadership(2)
			if !lead.loop.node.Transferring() {
				t.Error("the leader doesn't hand over")
			}
		})
	}
	for _, id := range c.ids {
		c.nodes[id].wanted, c.nodes[id].version = c.pick(1, 2, 4), 2
	}
	for range 100 {
		if c.step(1); handed {
			break
		}
	}
	if now, before := lead.loop.Voters(); !handed || !slices.Equal(now, []uint64{1, 2, 4}) || len(before) == 0 ||
		!lead.loop.conf.GetAutoLeave() {
		t.Fatalf("handed over: %t, the votes of %v and %v count", handed, now, before)
	}
	term := lead.loop.node.Term()
	c.step(12) // raft gives the handover up after an election timeout
	clear(c.cut)
	c.step(3 * proposalTicks)
	if lead.loop.node.Term() != term || !lead.loop.IsLeader() {
		t.Fatal("another server leads, so the test shows nothing")
	}
	if now, before := lead.loop.Voters(); !slices.Equal(now, []uint64{1, 2, 4}) || len(before) > 0 {
		t.Errorf("%d ticks later the votes of %v and %v count", 3*proposalTicks, now, before)
	}
}

// isSwap reports whether an entry changes several servers' parts at once.
func isSwap(e *pb.Entry) bool {
	cc := &pb.ConfChangeV2{}
	return e.GetType() == pb.EntryConfChangeV2 && proto.Unmarshal(e.GetData(), cc) == nil && len(cc.GetChanges()) > 1
}

// TestDroppedChangeIsForgotten: once a change is dropped, every server goes by the members that are named, and by
// none of those that the change asked for.
func TestDroppedChangeIsForgotten(t *testing.T) {
	c := newChange(t, 3, 1, 2, 3, 4, 5)
	c.cut[[2]uint64{1, 4}], c.cut[[2]uint64{1, 5}] = true, true // too few of those asked for catch up
	named := c.nodes[1].wanted
	c.nodes[2].stage(7, 40, c.pick(1, 4, 5)...)
	c.until("it is dropped", func() bool { return c.over(7, ChangeDropped) })
	c.step(2)
	for _, id := range []uint64{1, 2, 3} {
		v := &c.nodes[id].loop.view
		if v.change != nil || !slices.Equal(membersOf(v.wanted), membersOf(named)) ||
			!slices.Equal(membersOf(v.membersNamed()), membersOf(named)) {
			t.Errorf("server %d goes by %v and %v, want %v", id, membersOf(v.wanted), membersOf(v.membersNamed()),
				membersOf(named))
		}
	}
}

// membersOf returns the members as a text each.
func membersOf(members []Member) (texts []string) {
	for _, m := range members {
		texts = append(texts, fmt.Sprint(m))
	}
	return texts
}

// TestPeersOfAChange: while a change is under way, a server has connections to the members that it removes, which
// still vote, at the addresses of before, and to those that it adds. Afterwards it has those to the new members at
// their new addresses.
func TestPeersOfAChange(t *testing.T) {
	c := newChange(t, 3, 1, 2, 3, 4)
	c.cut[[2]uint64{1, 4}] = true // it doesn't catch up
	lead := c.nodes[1]
	named := lead.wanted
	asked := []Member{named[0], {ID: 2, Addrs: []string{"elsewhere"}}, {ID: 4, Addrs: []string{"server4"}}}
	lead.stage(7, 0, asked...)
	c.until("the change is under way", func() bool { return lead.loop.change != nil })
	want := append(slices.Clone(named), asked[2])
	for _, id := range []uint64{1, 2, 3} {
		if told := c.nodes[id].told; len(told) == 0 || !slices.Equal(membersOf(told[len(told)-1]), membersOf(want)) {
			t.Errorf("server %d has connections to %v, want %v", id, told, want)
		}
	}
	clear(c.cut)
	c.until("it is done", func() bool { return c.over(7, ChangeDone) })
	if told := lead.told; !slices.Equal(membersOf(told[len(told)-1]), membersOf(asked)) {
		t.Errorf("in the end it has connections to %v, want %v", told[len(told)-1], asked)
	}
}
