package quorum

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// reconciling returns server 1, which leads voters 1 to 3, all of which keep up. It has nothing to do.
func reconciling(t *testing.T) (*cluster, *reconciler) {
	c := newCluster(t, 1, 2, 3)
	lead := c.elect(1)
	c.step(5)
	r := &lead.loop.reconciler
	r.course = course{ready: true}
	r.ticks = 1000
	for _, id := range c.ids {
		r.guests.heard[id] = r.ticks
	}
	r.members, r.wanted = ids(1, 2, 3), ids(1, 2, 3)
	return c, r
}

// took tells what a reconciler has done: the steps that it requested, and the change of membership that it proposed,
// such as "joint +4 -5 learner 6".
func took(t *testing.T, b *node) string {
	t.Helper()
	var done []string
	for _, n := range b.waiting {
		done = append(done, map[uint64]string{1: "named", 2: "done", 3: "dropped"}[(n-stepMark)%16])
	}
	var ef Effects
	b.loop.node.Turn(&ef)
	for _, e := range ef.Append.GetEntries() {
		cc := &pb.ConfChangeV2{}
		if err := proto.Unmarshal(e.GetData(), cc); err != nil {
			t.Fatal(err)
		}
		switch {
		case beginsJoint(e):
			done = append(done, "joint")
		case len(cc.GetChanges()) == 0:
			done = append(done, "leave") // for raft, which isn't in joint consensus, an empty entry
		}
		done = append(done, changesIn(cc.GetChanges())...)
	}
	return strings.Join(done, " ")
}

// changesIn tells changes of membership, sorted.
func changesIn(changes []*pb.ConfChangeSingle) (list []string) {
	for _, c := range changes {
		how := map[pb.ConfChangeType]string{
			pb.ConfChangeAddNode: "+", pb.ConfChangeRemoveNode: "-", pb.ConfChangeAddLearnerNode: "learner ",
		}[c.GetType()]
		list = append(list, fmt.Sprint(how, c.GetNodeId()))
	}
	slices.Sort(list)
	return list
}

// TestReconcile: the step that a leader takes next.
func TestReconcile(t *testing.T) {
	t.Parallel()
	joint := &pb.ConfState{Voters: []uint64{1, 2}, VotersOutgoing: []uint64{1, 2, 3}}
	staged := func(r *reconciler, c Change) {
		c.ID, r.of, r.since = 7, 7, 1000
		r.change, r.wanted = &c, c.Members
	}
	for _, c := range []struct {
		what string
		is   func(r *reconciler)
		want string
	}{
		{"nothing to do", func(*reconciler) {}, ""},
		{"a server joins", func(r *reconciler) { r.wanted = ids(1, 2, 3, 4) }, "learner 4"},
		{"nothing is decided", func(r *reconciler) { r.members, r.wanted = nil, ids(1, 2, 3, 4) }, ""},
		{"a server leaves", func(r *reconciler) { r.wanted = ids(1, 2) }, "learner 3"},
		{"a change is pending", func(r *reconciler) { r.wanted, r.proposed = ids(1, 2), 1000-proposalTicks+1 }, ""},
		{"a change was lost", func(r *reconciler) { r.wanted, r.proposed = ids(1, 2), 1000-proposalTicks }, "learner 3"},
		{"entries are old", func(r *reconciler) { r.wanted, r.ready = ids(1, 2), false }, ""},
		{"it hands over", func(r *reconciler) {
			r.wanted = ids(1, 2)
			r.node.TransferLeadership(2)
		}, ""},
		{"it leaves itself", func(r *reconciler) { r.wanted = ids(2, 3) }, ""},
		{"it leaves itself, and nobody takes over", func(r *reconciler) { r.wanted, r.handOffs = ids(2, 3), handOffsMax },
			"learner 1"},
		{"a guest", func(r *reconciler) { r.guests.asked[9] = r.ticks }, "learner 9"},
		{"a guest while a server leaves", func(r *reconciler) {
			r.wanted = ids(1, 2)
			r.guests.asked[9] = r.ticks
		}, "learner 3"},
		{"joint consensus that ends itself", func(r *reconciler) {
			r.conf = &pb.ConfState{Voters: []uint64{1, 2}, VotersOutgoing: []uint64{1, 2, 3}, AutoLeave: new(true)}
		}, "leave"},
		{"joint consensus", func(r *reconciler) { r.conf = joint }, "leave"},
		{"joint, not named", func(r *reconciler) {
			staged(r, Change{Members: ids(1, 2)})
			r.conf = joint
		}, "named"},
		{"joint, named", func(r *reconciler) {
			staged(r, Change{Members: ids(1, 2), Named: true})
			r.conf = joint
		}, "leave"},
		{"joint, without this server", func(r *reconciler) {
			staged(r, Change{Members: ids(2, 3)})
			r.conf = &pb.ConfState{Voters: []uint64{2, 3}, VotersOutgoing: []uint64{1, 2, 3}}
		}, ""},
		{"joint, without this server, and nobody takes over", func(r *reconciler) {
			staged(r, Change{Members: ids(2, 3)})
			r.conf = &pb.ConfState{Voters: []uint64{2, 3}, VotersOutgoing: []uint64{1, 2, 3}}
			r.handOffs = handOffsMax
		}, "named"},
		{"named, and over", func(r *reconciler) { staged(r, Change{Members: ids(1, 2, 3), Named: true}) }, "done"},
		{"requested a moment ago", func(r *reconciler) {
			staged(r, Change{Members: ids(1, 2, 3), Named: true})
			r.step, r.stepped = ChangeDone, 1000-proposalTicks+1
		}, ""},
		{"requested long ago", func(r *reconciler) {
			staged(r, Change{Members: ids(1, 2, 3), Named: true})
			r.step, r.stepped = ChangeDone, 1000-proposalTicks
		}, "done"},
		{"nothing to change", func(r *reconciler) { staged(r, Change{Members: ids(1, 2, 3)}) }, "named"},
		{"a new change", func(r *reconciler) {
			staged(r, Change{Members: ids(1, 2, 3)})
			r.of, r.step, r.stepped, r.handOffs = 6, ChangeNamed, 1000, handOffsMax
		}, "named"},
	} {
		cl, r := reconciling(t)
		cl.nodes[9] = cl.nodes[3] // that asks to follow
		c.is(r)
		r.reconcile()
		if got := took(t, cl.nodes[1]); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
		if proposed := strings.HasPrefix(c.want, "le"); proposed != (r.proposed == 1000) {
			t.Errorf("%s: a change is pending since %d", c.what, r.proposed)
		}
	}
	cl, r := reconciling(t)
	for range handOffsMax + 1 {
		r.handOffTo([]uint64{9}) // which isn't there
	}
	if r.handOffs != handOffsMax || r.handOffTo([]uint64{2}) || took(t, cl.nodes[1]) != "" {
		t.Errorf("it tries to hand over %d times", r.handOffs)
	}
	r.handOffs--
	if !r.handOffTo([]uint64{2}) || !r.node.Transferring() {
		t.Error("it doesn't hand over")
	}
}

// TestChangeEnters: when a change begins joint consensus, and when it is given up. Server 4 follows, and doesn't keep
// up.
func TestChangeEnters(t *testing.T) {
	t.Parallel()
	const patience = 100
	for _, c := range []struct {
		what   string
		change Change
		waited uint64
		is     func(c *cluster, r *reconciler)
		want   string
	}{
		{"all keep up", Change{Members: append(ids(1, 2), Member{ID: 3, Observer: true})}, 0, nil, "joint learner 3"},
		{"a server to add", Change{Members: ids(1, 2, 3, 5)}, 0, nil, "learner 5"},
		{"most keep up", Change{Members: ids(1, 2, 3, 4)}, laggardTicks, nil, ""},
		{"most keep up for long", Change{Members: ids(1, 2, 3, 4)}, laggardTicks + 1, nil, "joint +4"},
		{"half keep up", Change{Members: append(ids(1, 2, 4), ids(6)...)}, 1 << 20, func(_ *cluster, r *reconciler) {
			r.conf.Learners = []uint64{4, 6}
		}, ""},
		{"a client waits", Change{Members: ids(1, 2, 3, 4), Patience: patience}, patience / 2, nil, ""},
		{"a client waits for long", Change{Members: ids(1, 2, 3, 4), Patience: patience}, patience/2 + 1, nil, "joint +4"},
		{"a server is about to vote", Change{Members: ids(1, 2, 3, 4), Patience: patience}, patience,
			func(c *cluster, _ *reconciler) { c.nodes[4] = c.nodes[3] }, ""},
		{"a server is about to vote for too long", Change{Members: ids(1, 2, 3, 4), Patience: patience}, patience + 1,
			func(c *cluster, _ *reconciler) { c.nodes[4] = c.nodes[3] }, "dropped"},
		{"about to vote, without a client", Change{Members: ids(1, 2, 3, 4)}, laggardTicks + 1,
			func(c *cluster, _ *reconciler) { c.nodes[4] = c.nodes[3] }, "joint +4"},
		{"too few for too long", Change{Members: ids(1, 4, 6), Patience: patience}, patience + 1,
			func(_ *cluster, r *reconciler) { r.conf.Learners = []uint64{4, 6} }, "dropped"},
		{"too few, and joint consensus is proposed", Change{Members: ids(1, 4, 6), Patience: patience}, patience + 1,
			func(_ *cluster, r *reconciler) { r.asked, r.conf.Learners = true, []uint64{4, 6} }, ""},
		{"too few, and joint consensus is in the log", Change{Members: ids(1, 4, 6), Patience: patience}, patience + 1,
			func(_ *cluster, r *reconciler) { r.committed, r.conf.Learners = true, []uint64{4, 6} }, ""},
		{"dropped already", Change{Members: ids(1, 2, 3, 4), Patience: patience}, patience/2 + 1,
			func(_ *cluster, r *reconciler) { r.step = ChangeDropped }, "dropped"},
		{"dropped already, and nothing to change", Change{Members: ids(1, 2, 3), Patience: patience}, 0,
			func(_ *cluster, r *reconciler) { r.step, r.conf.Learners = ChangeDropped, nil }, "dropped"},
		{"replaced", Change{Members: ids(1, 2, 3, 4), Replaced: true}, 0, nil, "dropped"},
		{"replaced, and a server to add", Change{Members: ids(1, 2, 3, 5), Replaced: true}, 0, nil, "dropped"},
		{"replaced too late", Change{Members: ids(1, 2, 3, 4), Replaced: true}, 0,
			func(_ *cluster, r *reconciler) { r.asked = true }, ""},
		{"replaced far too late", Change{Members: ids(1, 2, 3, 4), Replaced: true}, 0,
			func(_ *cluster, r *reconciler) { r.committed = true }, ""},
	} {
		cl, r := reconciling(t)
		r.conf = &pb.ConfState{Voters: []uint64{1, 2, 3}, Learners: []uint64{4}}
		c.change.ID = 7
		r.of, r.since, r.change, r.wanted = 7, r.ticks-c.waited, &c.change, c.change.Members
		if c.is != nil {
			c.is(cl, r)
		}
		was := r.asked
		r.reconcile()
		if got := took(t, cl.nodes[1]); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
		if asked := was || strings.HasPrefix(c.want, "joint"); r.asked != asked {
			t.Errorf("%s: joint consensus is proposed: %t", c.what, r.asked)
		}
	}
}

// TestDifference: the changes that make raft's membership the wanted one, at once, and by and by.
func TestDifference(t *testing.T) {
	t.Parallel()
	conf := func(voters []uint64, learners ...uint64) *pb.ConfState {
		return &pb.ConfState{Voters: voters, Learners: learners}
	}
	observer := func(id uint64) Member { return Member{ID: id, Observer: true} }
	for _, c := range []struct {
		what    string
		conf    *pb.ConfState
		wanted  []Member
		is      func(c *cluster, r *reconciler)
		all     []string
		settles []string
	}{
		{"the same", conf([]uint64{1, 2}, 3), append(ids(1, 2), observer(3)), nil, nil, nil},
		{"a voter becomes an observer", conf([]uint64{1, 2, 3}), append(ids(1, 2), observer(3)), nil, []string{"learner 3"},
			[]string{"learner 3"}},
		{"an observer becomes a voter", conf([]uint64{1, 2}, 3), ids(1, 2, 3), nil, []string{"+3"}, []string{"+3"}},
		{"one that isn't admitted", conf([]uint64{1, 2}, 3), ids(1, 2, 3),
			func(_ *cluster, r *reconciler) { clear(r.lostDisks.admitted) }, []string{"+3"}, nil},
		{"one that is silent", conf([]uint64{1, 2}, 3), ids(1, 2, 3), func(c *cluster, _ *reconciler) {
			c.crash(3)
			c.step(30)
		}, []string{"+3"}, nil},
		{"a voter leaves", conf([]uint64{1, 2, 3}), ids(1, 2), nil, []string{"learner 3"}, []string{"learner 3"}},
		{"a voter leaves that is gone", conf([]uint64{1, 2, 3}), ids(1, 2), func(c *cluster, _ *reconciler) {
			c.crash(3)
			c.step(30)
		}, []string{"-3"}, []string{"-3"}},
		{"a guest stays", conf([]uint64{1, 2}, 3), ids(1, 2), nil, nil, nil},
		{"a guest is silent", conf([]uint64{1, 2}, 3), ids(1, 2),
			func(_ *cluster, r *reconciler) { r.guests.heard[3] = r.ticks - guestSilentTicks - 1 }, []string{"-3"},
			[]string{"-3"}},
		{"most keep up", conf([]uint64{1, 2, 3}, 4), ids(1, 2, 4), nil, []string{"+4", "learner 3"}, []string{"learner 3"}},
		{"half keep up", conf([]uint64{1, 2, 3}, 4, 5), ids(1, 2, 4, 5), nil, []string{"+4", "+5", "learner 3"}, nil},
		{"half keep up, and one is gone", conf([]uint64{1, 2, 3}, 4, 5), ids(1, 2, 4, 5), func(c *cluster, _ *reconciler) {
			c.crash(3)
			c.step(30)
		}, []string{"+4", "+5", "-3"}, nil},
		{"no voter stays", conf([]uint64{2}), append(ids(), observer(2)), nil, []string{"learner 2"}, nil},
	} {
		cl, r := reconciling(t)
		for id := range uint64(4) {
			r.lostDisks.admitted[id] = true
		}
		if c.is != nil {
			c.is(cl, r)
		}
		r.conf, r.members, r.wanted = c.conf, c.wanted, c.wanted
		if got := changesIn(r.difference()); !slices.Equal(got, c.all) {
			t.Errorf("%s: %q differ, want %q", c.what, got, c.all)
		}
		if got := changesIn(r.settle()); !slices.Equal(got, c.settles) {
			t.Errorf("%s: %q, want %q", c.what, got, c.settles)
		}
	}
}

// TestKeepsUp: a server that hasn't acknowledged more than caughtUpEntries of the log's last entries doesn't keep up.
func TestKeepsUp(t *testing.T) {
	t.Parallel()
	c, r := reconciling(t)
	lead := c.nodes[1]
	if !r.keepsUp(1) || !r.keepsUp(2) || r.keepsUp(9) {
		t.Fatal("servers that keep up don't, or a stranger does")
	}
	c.nodes[2].hung = true
	match := lead.loop.Status().Followers[0].Match
	behind := uint64(0)
	for n := uint64(0); behind <= caughtUpEntries+1; n++ {
		lead.say(n)
		c.step(1)
		last, _, err := lead.loop.writes.lastEntry()
		if err != nil {
			t.Fatal(err)
		}
		behind = last - match
		if got := r.keepsUp(2); got != (behind <= caughtUpEntries) {
			t.Errorf("%d entries behind it keeps up: %t", behind, got)
		}
	}
	if !r.keepsUp(3) {
		t.Error("another one doesn't keep up")
	}
	r.wanted = append(ids(1, 2, 3), Member{ID: 4, Observer: true})
	if voters, caughtUp := r.caughtUp(); voters != 3 || caughtUp != 2 {
		t.Errorf("%d of %d voters keep up", caughtUp, voters)
	}
}

// TestAwaits: which servers that are to get a vote are absent, and for which of these a change waits.
func TestAwaits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what string
		is   func(c *cluster, r *reconciler)
		want bool
	}{
		{"never heard", func(*cluster, *reconciler) {}, false},
		{"only running ones", func(_ *cluster, r *reconciler) { r.runningOnly = true }, true},
		{"connected", func(c *cluster, _ *reconciler) { c.nodes[9] = c.nodes[3] }, true},
		{"it has asked to join", func(_ *cluster, r *reconciler) {
			r.lostDisks.tried[9] = attempt{1, r.ticks - joinAskTicks + 1}
		}, true},
		{"it has asked to join long ago", func(_ *cluster, r *reconciler) {
			r.lostDisks.tried[9] = attempt{1, r.ticks - joinAskTicks}
		}, false},
	} {
		cl, r := reconciling(t)
		if c.is(cl, r); r.awaits(9) != c.want {
			t.Errorf("%s: a change waits for it: %t", c.what, !c.want)
		}
	}
	c, r := reconciling(t)
	c.cut[[2]uint64{1, 2}], c.cut[[2]uint64{1, 3}] = true, true // no connections
	if !r.awaits(2) {
		t.Error("a change doesn't wait for a server that was heard")
	}
	r.wanted = append(ids(1, 2, 7, 8), Member{ID: 9, Observer: true})
	r.lostDisks.admitted[8] = true
	if got := r.absent(); !slices.Equal(got, []uint64{7}) {
		t.Errorf("servers %v are absent", got)
	}
	r.wanted = append(ids(1, 2), Member{ID: 3, Observer: true})
	if got := r.othersThatVote(); !slices.Equal(got, []uint64{2}) {
		t.Errorf("servers %v keep their votes", got)
	}
	if !r.knowsAll() {
		t.Error("raft knows all")
	}
	if r.wanted = ids(1, 9); r.knowsAll() {
		t.Error("raft doesn't know server 9")
	}
}

// TestJointIsLogged: whether the entries that a leader writes tell it that joint consensus has begun.
func TestJointIsLogged(t *testing.T) {
	t.Parallel()
	of := func(typ pb.EntryType, cc *pb.ConfChangeV2) *pb.Entry {
		data, err := proto.Marshal(cc)
		if err != nil {
			t.Fatal(err)
		}
		return &pb.Entry{Type: typ.Enum(), Data: data}
	}
	explicit := pb.ConfChangeTransition_ConfChangeTransitionJointExplicit.Enum()
	joint := of(pb.EntryConfChangeV2, &pb.ConfChangeV2{Transition: explicit})
	for _, c := range []struct {
		what                    string
		asked, was              bool
		entries                 []*pb.Entry
		stillAsked, isCommitted bool
	}{
		{"none", true, false, nil, true, false},
		{"it", true, false, []*pb.Entry{entry(1, 1), joint}, false, true},
		{"others", true, false, []*pb.Entry{entry(1, 1)}, false, false},
		{"others, later", true, true, []*pb.Entry{entry(1, 1)}, false, true},
		{"it, not asked for", false, false, []*pb.Entry{joint}, false, false},
		{"another change", true, false, []*pb.Entry{of(pb.EntryConfChangeV2, &pb.ConfChangeV2{})}, false, false},
		{"data like it", true, false, []*pb.Entry{of(pb.EntryNormal, &pb.ConfChangeV2{Transition: explicit})}, false, false},
		{"torn", true, false, []*pb.Entry{{Type: pb.EntryConfChangeV2.Enum(), Data: []byte{0xff}}}, false, false},
	} {
		r := reconciler{course: course{asked: c.asked, committed: c.was}}
		if r.logged(c.entries); r.asked != c.stillAsked || r.committed != c.isCommitted {
			t.Errorf("%s: asked: %t, committed: %t", c.what, r.asked, r.committed)
		}
	}
}
