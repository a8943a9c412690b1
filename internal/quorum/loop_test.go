package quorum

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zooid-project/zooid/internal/storage"
)

// agreed fails unless every running server applied exactly the numbers 1 to n,
// in whatever order they agreed on.
func (c *cluster) agreed(n int) {
	c.t.Helper()
	for _, id := range c.ids {
		b := c.nodes[id]
		if b.loop == nil {
			continue
		}
		sorted := slices.Clone(b.applied)
		slices.Sort(sorted)
		if len(sorted) != n || n > 0 && (sorted[0] != 1 || sorted[n-1] != uint64(n)) {
			c.t.Fatalf("server %d applied %v, want 1 to %d", id, b.applied, n)
		}
	}
}

func TestEveryServersWishesAreAgreedOn(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	c.leader()
	for n := range uint64(30) {
		c.nodes[n%3+1].say(n + 1)
		if n%4 == 0 {
			c.step(1)
		}
	}
	c.step(3)
	c.agreed(30)
}

func TestLeaderCrashLosesNothing(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	n := uint64(0)
	for range 5 {
		lead := c.leader()
		for _, id := range c.ids {
			n++
			c.nodes[id].say(n)
		}
		// The requests are on their way, some applied, when the leader dies.
		lead.loop.Turn()
		c.crash(lead.id)
		other := c.leader()
		if other == lead {
			t.Fatal("a dead leader leads")
		}
		c.step(5)
		c.restart(lead.id)
		c.step(5)
	}
	c.step(20)
	c.agreed(int(n))
}

// TestCutOffLeaderIsReplaced isolates the leader: the others go on, it can't,
// and after the heal its own wishes are agreed on too.
func TestCutOffLeaderIsReplaced(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	old := c.leader()
	isolate := func(on bool) {
		for _, id := range c.ids {
			c.cut[[2]uint64{id, old.id}], c.cut[[2]uint64{old.id, id}] = on, on
		}
	}
	isolate(true)
	old.say(1)
	c.step(40)
	if len(old.applied) != 0 {
		t.Fatal("a leader without a quorum applied something")
	}
	if old.loop.IsLeader() {
		t.Error("a leader without a quorum still leads after 40 ticks")
	}
	next := c.leader()
	next.say(2)
	c.step(3)
	isolate(false)
	c.greet(old.id)
	c.step(30)
	c.agreed(2)
}

// TestSyncSeesEverythingAcknowledged keeps a server from hearing of what the
// others acknowledge, then lets it sync: it must not be answered before it has
// applied all of that.
func TestSyncSeesEverythingAcknowledged(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	lead := c.leader()
	n := uint64(0)
	for round := range 9 {
		b := c.nodes[c.ids[round%3]]
		c.cut[[2]uint64{lead.id, b.id}] = b != lead
		n++
		lead.say(n)
		c.step(1)
		clear(c.cut)
		b.ticket, b.synced = n, 0
		c.step(5)
		if b.synced != n || b.seen != int(n) {
			t.Fatalf("server %d: ticket %d answered with %d applied, want %d with %d", b.id, b.synced, b.seen, n, n)
		}
	}
}

// TestLaggingServerTakesASnapshot leaves one server behind what the others keep
// of the log.
func TestLaggingServerTakesASnapshot(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	lead := c.leader()
	behind := c.nodes[lead.id%3+1]
	c.crash(behind.id)
	for _, id := range c.ids {
		c.nodes[id].snapshot = 4 << 10
	}
	const n = 4000
	for i := range uint64(n) {
		lead.say(i + 1)
		if i%50 == 0 {
			c.step(1)
		}
	}
	c.step(3)
	if first, _ := lead.dir.Log().FirstIndex(); first < 5 {
		t.Fatalf("the leader's log still begins at %d: the test shows nothing", first)
	}
	c.restart(behind.id)
	c.step(60)
	c.agreed(n)
}

// TestMembersComeAndGo adds two servers, makes one an observer's equal, and
// removes the leader.
func TestMembersComeAndGo(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	lead := c.leader()
	lead.say(1)
	c.step(2)
	c.ids = append(c.ids, 4, 5)
	all := append(slices.Clone(c.members), Member{ID: 4}, Member{ID: 5, Observer: true})
	for _, id := range []uint64{4, 5} {
		c.nodes[id] = &node{c: c, id: id, fs: storage.NewMemFS()}
		c.open(id, lead.loop.applied, lead.loop.node.Term())
	}
	want := func(members []Member) {
		for _, id := range c.ids {
			c.nodes[id].wanted = members
			c.nodes[id].version++
		}
	}
	want(all)
	c.step(30)
	conf := c.leader().loop.conf
	if !slices.Contains(conf.GetVoters(), 4) || !slices.Contains(conf.GetLearners(), 5) || len(conf.GetVoters()) != 4 {
		t.Fatalf("membership is %v, want voters 1 to 4 and learner 5", conf)
	}
	if !c.nodes[4].joined || !c.nodes[5].joined {
		t.Error("a new server doesn't know that it has joined")
	}
	lead = c.leader()
	want(slices.DeleteFunc(slices.Clone(all), func(m Member) bool { return m.ID == lead.id }))
	c.step(40)
	next := c.leader()
	if next == lead || slices.Contains(next.loop.conf.GetVoters(), lead.id) ||
		!slices.Equal(next.loop.Status().Guests, []uint64{lead.id}) {
		t.Fatalf("server %d leads, membership %v; %d was to leave, and to follow", next.id, next.loop.conf, lead.id)
	}
	next.say(2)
	c.nodes[5].say(3)
	c.step(5)
	c.agreed(3) // the one that has left too
	c.crash(lead.id)
	if c.step(2 * guestSilentTicks); contains(next.loop.conf, lead.id) {
		t.Errorf("membership is %v: server %d is silent", next.loop.conf, lead.id)
	}
	c.agreed(3)
}

// TestRemovedServerIsNotMissed stops one of two servers as soon as the decision
// that removes it is known: the other goes on alone.
func TestRemovedServerIsNotMissed(t *testing.T) {
	c := newCluster(t, 1, 2)
	lead := c.leader()
	lead.post(func() { // after the tick, and with an entry like any other
		lead.wanted, lead.version = []Member{{ID: lead.id}}, 1
		lead.say(1)
	})
	c.step(1)
	c.crash(lead.id%2 + 1)
	lead.say(2)
	c.step(30)
	c.agreed(2)
}

// TestEmptyDiskJoinsAnew replaces a voter's disk: until it is a member again it
// helps nobody to a majority.
func TestEmptyDiskJoinsAnew(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	lead := c.leader()
	lead.say(1)
	c.step(2)
	lost := c.nodes[lead.id%3+1]
	c.crash(lost.id)
	for _, id := range c.ids {
		c.nodes[id].wanted, c.nodes[id].version = c.members, 1
	}
	ask := func() JoinReply {
		reply := make(chan JoinReply, 1)
		lead.loop.Handle(Event{Kind: EventJoin, From: lost.id, Life: 1, Known: true, Empty: true, Join: reply})
		c.step(3)
		return <-reply
	}
	if r := ask(); r.Go {
		t.Fatal("a member that lost its disk was let in before it left")
	}
	r := ask()
	if !r.Go || r.Index == 0 || r.Term != lead.loop.node.Term() {
		t.Fatalf("answer %+v after it left, want to go", r)
	}
	lost.fs = storage.NewMemFS()
	c.join(lost.id, r)
	if !lost.loop.joining.lasts() {
		t.Fatal("it takes part in elections before it has joined")
	}
	c.greet(lost.id)
	c.step(40)
	if !lost.joined || !slices.Contains(c.leader().loop.conf.GetVoters(), lost.id) {
		t.Fatalf("it has not joined: membership %v", lead.loop.conf)
	}
	c.agreed(1)
}

// TestRandomWeather crashes, cuts and heals at random; when it clears up,
// everything that anybody said is agreed on, once.
func TestRandomWeather(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 5))
		c := newCluster(t, 1, 2, 3, 4, 5)
		n := uint64(0)
		for range 150 {
			id := c.ids[rng.IntN(5)]
			b := c.nodes[id]
			switch rng.IntN(8) {
			case 0:
				if b.loop != nil {
					c.crash(id)
				}
			case 1, 2:
				if b.loop == nil {
					// A crash forgets what was only in memory.
					b.mine, b.waiting = nil, nil
					c.restart(id)
				}
			case 3:
				c.cut[[2]uint64{id, c.ids[rng.IntN(5)]}] = true
			case 4:
				clear(c.cut)
				for _, id := range c.ids {
					c.greet(id)
				}
			default:
				if b.loop != nil {
					n++
					b.say(n)
				}
			}
			c.step(rng.IntN(4))
		}
		clear(c.cut)
		for _, id := range c.ids {
			if c.nodes[id].loop == nil {
				c.nodes[id].mine, c.nodes[id].waiting = nil, nil
				c.restart(id)
			}
			c.greet(id)
		}
		c.leader()
		c.step(60)
		want := c.nodes[1].applied
		for _, id := range c.ids {
			if b := c.nodes[id]; !slices.Equal(b.applied, want) || len(b.mine) > 0 {
				t.Fatalf("seed %d: server %d applied %d numbers and %d of its own are open; server 1 applied %d", seed, id,
					len(b.applied), len(b.mine), len(want))
			}
		}
	}
}

// TestNoRoomAtTheLeader: requests for a leader whose queue is full wait here and are
// sent once, in order, when it has room.
func TestNoRoomAtTheLeader(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	lead := c.leader()
	follower := c.nodes[lead.id%3+1]
	follower.full = true
	for n := range uint64(5) {
		follower.say(n + 1)
	}
	c.step(5)
	c.agreed(0)
	if len(follower.waiting) != 5 {
		t.Fatalf("%d of 5 requests wait", len(follower.waiting))
	}
	follower.full = false
	c.step(2)
	c.agreed(5)
}

// TestBatchOfAFormerLeader: a batch that raft did not take is dropped when the term ends. The state machines send its
// requests again, so that the batch in a later term would be a late copy.
func TestBatchOfAFormerLeader(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 2, 3)
	l := c.elect(1).loop
	l.batch = numbers([]uint64{7})
	if l.leaderChanged(); l.batch == nil {
		t.Error("it is dropped, and the term goes on")
	}
	l.node.leader, l.node.state = 0, 0
	if l.leaderChanged(); l.batch != nil {
		t.Error("it is kept")
	}
}
