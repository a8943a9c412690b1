package quorum

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// TestVisits: when a server, which isn't a leader, announces itself as a guest.
func TestVisits(t *testing.T) {
	t.Parallel()
	const now = 1000
	for _, c := range []struct {
		what string
		is   func(g *guests)
		want bool
	}{
		{"a member", func(*guests) {}, false},
		{"no member", func(g *guests) { g.wanted = g.wanted[:1] }, true},
		{"to be removed", func(g *guests) { g.wanted, g.members = g.wanted[:1], g.wanted }, false},
		{"no member of an unknown membership", func(g *guests) { g.wanted, g.configured = nil, nil }, false},
		{"it joins", func(g *guests) { g.joining.after = 5 }, true},
		{"without a leader", func(g *guests) { g.lost = now - guestLeaderlessTicks }, false},
		{"without a leader for longer", func(g *guests) { g.lost = now - guestLeaderlessTicks - 1 }, true},
		{"without an answer", func(g *guests) { g.leaderCheck.since = now - guestLeaderlessTicks }, false},
		{"without an answer for longer", func(g *guests) { g.leaderCheck.since = now - guestLeaderlessTicks - 1 }, true},
		{"a leader that is removed", func(g *guests) { g.wanted, g.node.state = g.wanted[:1], raft.StateLeader }, false},
	} {
		v := &view{
			id: 2, ticks: now, conf: &pb.ConfState{Voters: []uint64{1, 2}}, wanted: []Member{{ID: 1}, {ID: 2}}, node: &Node{},
		}
		g := guests{view: v, joining: &joining{view: v}, leaderCheck: &leaderCheck{}}
		if c.is(&g); g.visits() != c.want {
			t.Errorf("%s: it announces itself: %t", c.what, !c.want)
		}
	}
}

// TestVisitsRegularly: a server that isn't a member announces its last known address every guestTicks, and every
// guestRenewTicks while a leader answers it.
func TestVisitsRegularly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what  string
		is    func(g *guests)
		pause int
		addr  string
	}{
		{"it follows", func(*guests) {}, guestRenewTicks, "server2"},
		{"it follows, and was named", func(g *guests) { g.named([]Member{{ID: 1}, {ID: 2, Addrs: []string{"x:1"}}}) },
			guestRenewTicks, "x:1"},
		{"it isn't answered", func(g *guests) { g.leaderCheck.since = 1 }, guestTicks, "server2"},
		{"it has no leader", func(g *guests) { g.node.leader = 0 }, guestTicks, "server2"},
		{"it joins", func(g *guests) { g.joining.after = 1 << 20 }, guestTicks, "server2"},
		{"it has no address", func(g *guests) { g.configured = g.configured[:1] }, 0, ""},
	} {
		cl := newCluster(t, 1, 2, 3)
		cl.elect(1)
		g := &cl.nodes[2].loop.guests
		visits := &visitor{Shell: g.shell}
		g.shell = visits
		g.wanted, g.members = g.configured[:1], g.configured[:1]
		g.visited = 0
		c.is(g)
		var at []int
		for n := range 4*guestRenewTicks + 1 {
			g.ticks = uint64(n)
			if g.tick(); len(visits.told) > len(at) {
				at = append(at, n)
			}
		}
		if c.pause == 0 {
			if len(at) > 0 || g.visited != 4*guestRenewTicks {
				t.Errorf("%s: it announces itself at ticks %v, the last time at %d", c.what, at, g.visited)
			}
			continue
		}
		if len(at) != 4*guestRenewTicks/c.pause || at[0] != c.pause || at[1] != 2*c.pause {
			t.Errorf("%s: it announces itself at ticks %v", c.what, at)
		}
		if m, err := ReadAnnouncement(2, visits.told[0]); err != nil || !slices.Equal(m.Addrs, []string{c.addr}) {
			t.Errorf("%s: it announces %+v, %v", c.what, m, err)
		}
	}
}

// A visitor is a Shell that keeps the announcements.
type visitor struct {
	Shell
	told [][]byte
}

func (v *visitor) Visit(announcement []byte) { v.told = append(v.told, announcement) }

// TestLeaderless: since when a server has known no leader.
func TestLeaderless(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 2, 3)
	c.elect(1)
	g := &c.nodes[2].loop.guests
	for _, step := range []struct{ leader, tick, lost uint64 }{
		{1, 100, 0}, {0, 101, 101}, {0, 102, 101}, {3, 103, 0}, {0, 104, 104},
	} {
		g.node.leader, g.ticks = step.leader, step.tick
		if g.tick(); g.lost != step.lost {
			t.Errorf("%+v: without a leader since tick %d", step, g.lost)
		}
	}
}

// guested returns what server 1 knows of guests, which leads servers 1 to 3, the members, and 4, a guest.
func guested(t *testing.T) (*cluster, *guests) {
	c := newCluster(t, 1, 2, 3)
	lead := c.elect(1)
	c.named(1, c.members)
	c.step(5)
	c.arrives(4)
	c.named(1, c.members)
	c.step(60)
	g := &lead.loop.guests
	if !slices.Equal(lead.loop.Status().Guests, []uint64{4}) {
		t.Fatalf("the guests are %v", lead.loop.Status().Guests)
	}
	return c, g
}

// TestGuestStays: whether a server that the membership doesn't name stays.
func TestGuestStays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what string
		id   uint64
		is   func(c *cluster, g *guests)
		want bool
	}{
		{"the leader", 1, func(_ *cluster, g *guests) { g.state.(*node).level = 9 }, true},
		{"a voter", 2, func(*cluster, *guests) {}, true},
		{"a voter that is gone", 2, func(c *cluster, _ *guests) {
			c.crash(2)
			c.step(40)
		}, false},
		{"a voter of an earlier version", 2, func(_ *cluster, g *guests) { g.state.(*node).level = 2 }, false},
		{"a voter of this version", 2, func(_ *cluster, g *guests) {
			g.state.(*node).level = 2
			g.levels.announced(2, 2, 0)
		}, true},
		{"a voter, and guests enough", 2, func(_ *cluster, g *guests) { manyGuests(g, guestsMax) }, false},
		{"a voter, and a place", 2, func(_ *cluster, g *guests) { manyGuests(g, guestsMax-1) }, true},
		{"a guest", 4, func(*cluster, *guests) {}, true},
		{"a guest that was heard long ago", 4, func(_ *cluster, g *guests) { g.ticks += guestSilentTicks }, true},
		{"a silent guest", 4, func(_ *cluster, g *guests) { g.ticks += guestSilentTicks + 1 }, false},
		{"a guest not heard of yet", 4, func(_ *cluster, g *guests) {
			g.led()
			g.ticks += guestSilentTicks + 1
		}, true},
	} {
		cl, g := guested(t)
		g.tick()
		if c.is(cl, g); g.stays(c.id) != c.want {
			t.Errorf("%s: it stays: %t", c.what, !c.want)
		}
	}
}

// manyGuests makes raft's membership have that many guests.
func manyGuests(g *guests, n int) {
	conf := &pb.ConfState{Voters: []uint64{1, 2, 3}, LearnersNext: []uint64{99}}
	for i := range n - 1 {
		conf.Learners = append(conf.Learners, 100+uint64(i))
	}
	g.conf = conf
}

// TestGuestHeard: a leader notes when it has heard its guests, those of this version only, and forgets those that have
// left.
func TestGuestHeard(t *testing.T) {
	t.Parallel()
	c, g := guested(t)
	g.heard[9] = 5
	c.step(1)
	if _, left := g.heard[9]; left || g.heard[4] != g.ticks || len(g.heard) != 3 {
		t.Errorf("heard at tick %d: %v", g.ticks, g.heard)
	}
	g.state.(*node).level = 2
	c.step(3)
	if g.heard[4] != g.ticks-3 {
		t.Errorf("a guest of an earlier version was heard at tick %d of %d", g.heard[4], g.ticks)
	}
	g.levels.announced(4, 2, 0)
	if c.step(1); g.heard[4] != g.ticks {
		t.Errorf("a guest of this version was heard at tick %d of %d", g.heard[4], g.ticks)
	}
	delete(g.heard, 4)
	g.levels.announced(4, 0, 0)
	if c.step(1); g.heard[4] != g.ticks {
		t.Errorf("a guest not noted before: %v at tick %d", g.heard, g.ticks)
	}
}

// TestGuestArrives: which of the servers that have asked becomes a guest.
func TestGuestArrives(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what string
		is   func(c *cluster, g *guests)
		want uint64
	}{
		{"it has asked", func(*cluster, *guests) {}, 5},
		{"two have", func(_ *cluster, g *guests) { g.asked[6] = g.ticks }, 5},
		{"long ago", func(_ *cluster, g *guests) { g.asked[5] = g.ticks - guestAskedTicks }, 5},
		{"too long ago", func(_ *cluster, g *guests) { g.asked[5] = g.ticks - guestAskedTicks - 1 }, 0},
		{"a guest already", func(_ *cluster, g *guests) {
			g.conf = &pb.ConfState{Voters: []uint64{1, 2, 3}, Learners: []uint64{4, 5}}
		}, 0},
		{"a member", func(_ *cluster, g *guests) { g.wanted = append(slices.Clone(g.wanted), Member{ID: 5}) }, 0},
		{"not connected", func(c *cluster, _ *guests) { c.cut[[2]uint64{1, 5}] = true }, 0},
		{"of an earlier version", func(_ *cluster, g *guests) { g.state.(*node).level = 2 }, 0},
		{"no place", func(_ *cluster, g *guests) { manyGuests(g, guestsMax) }, 0},
		{"a place", func(_ *cluster, g *guests) { manyGuests(g, guestsMax-1) }, 5},
	} {
		cl, g := guested(t)
		g.ticks += 2 * guestAskedTicks // the first guest's announcement is over
		cl.nodes[5], cl.nodes[6] = cl.nodes[3], cl.nodes[3]
		g.asked[5] = g.ticks
		c.is(cl, g)
		if got := g.arriving(); got != c.want {
			t.Errorf("%s: server %d arrives, want %d", c.what, got, c.want)
		}
	}
}

// TestAnnounced: what a server does for one that announces itself, and for whom not.
func TestAnnounced(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what string
		m    Member
		want bool
	}{
		{"a stranger", Member{ID: 7, Addrs: []string{"x:1"}}, true},
		{"a guest", Member{ID: 4, Addrs: []string{"x:1"}}, true},
		{"itself", Member{ID: 1, Addrs: []string{"x:1"}}, false},
		{"a member", Member{ID: 2, Addrs: []string{"x:1"}}, false},
		{"without an address", Member{ID: 7}, false},
		{"the last byte of a member", Member{ID: 256 + 3, Addrs: []string{"x:1"}}, false},
		{"the last byte of a guest", Member{ID: 256 + 4, Addrs: []string{"x:1"}}, false},
		{"the last byte of one that has asked", Member{ID: 256 + 8, Addrs: []string{"x:1"}}, false},
	} {
		cl, g := guested(t)
		lead := cl.nodes[1]
		clear(g.strays.dialled)
		g.asked[8] = 1
		lead.peers, g.ticks = nil, g.ticks+1
		cl.nodes[7] = cl.nodes[3]
		introduced := false
		lead.sent = func(to uint64, kind FrameKind, _ []byte) {
			introduced = introduced || to == c.m.ID && kind == FrameMembers
		}
		g.levels.announced(c.m.ID, levelIntroduces, 0)
		g.announced(Event{From: c.m.ID, Data: appendIntroduction(nil, []Member{c.m})})
		noted := g.asked[c.m.ID] == g.ticks
		if noted != c.want || isMember(lead.peers, c.m.ID) != c.want || g.strays.dialled[c.m.ID] != c.want ||
			introduced != c.want {
			t.Errorf("%s: noted: %t, connected to: %v, it is told of the members: %t", c.what, noted, lead.peers, introduced)
		}
		i := slices.IndexFunc(g.roster.former, func(m Member) bool { return m.ID == 4 })
		if c.m.ID == 4 && (i < 0 || g.roster.former[i].Addrs[0] != "x:1") {
			t.Errorf("%s: its address isn't kept: %v", c.what, g.roster.former)
		}
	}
}

// TestStrangersAreBounded: strangersMax servers may ask to follow, which is said once. Those that have asked before may
// ask again. What can't be decoded is said, and nothing else done.
func TestStrangersAreBounded(t *testing.T) {
	t.Parallel()
	c, g := guested(t)
	var said strings.Builder
	g.log = slog.New(slog.NewTextHandler(&said, nil))
	peers := len(c.nodes[1].peers)
	g.announced(Event{From: 7, Data: []byte("torn")})
	if got := said.String(); strings.Count(got, "can't be decoded") != 1 || len(c.nodes[1].peers) != peers ||
		len(g.asked) != 1 {
		t.Errorf("of a torn announcement: %s", got)
	}
	ask := func(id uint64) {
		g.announced(Event{From: id, Data: appendIntroduction(nil, []Member{{ID: id, Addrs: []string{"x:1"}}})})
	}
	for id := uint64(5); len(g.asked) < strangersMax; id++ {
		ask(id)
	}
	if said.Reset(); said.Len() > 0 || g.full {
		t.Errorf("as many as may: %s", &said)
	}
	ask(100)
	ask(101)
	g.ticks++
	if ask(5); strings.Count(said.String(), "too many servers") != 1 || len(g.asked) != strangersMax ||
		g.asked[5] != g.ticks || g.asked[100] != 0 {
		t.Errorf("%d have asked, server 5 at tick %d of %d: %s", len(g.asked), g.asked[5], g.ticks, &said)
	}
}
