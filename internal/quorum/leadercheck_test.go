package quorum

import (
	"encoding/binary"
	"slices"
	"testing"

	"go.etcd.io/raft/v3"
)

// A follower that hears the leader but can't reach it finds out.
func TestUnreachedLeaderIsNoticed(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	c.elect(1)
	unanswered := func(id uint64) uint64 { return c.nodes[id].loop.Status().Unanswered }
	for range 100 {
		c.step(1)
		for _, id := range c.ids {
			if n := unanswered(id); n > 0 {
				t.Fatalf("server %d has no answer for %d ticks", id, n)
			}
		}
	}
	c.cut[[2]uint64{3, 1}] = true
	c.step(100)
	if n := unanswered(3); n < 100-leaderCheckTicks || c.nodes[3].loop.node.Leader() != 1 {
		t.Errorf("cut off one way for 100 ticks, it noticed %d; its leader is %d", n, c.nodes[3].loop.node.Leader())
	}
	if unanswered(1) != 0 || unanswered(2) != 0 {
		t.Error("the others are not cut off")
	}
	c.cut[[2]uint64{3, 1}] = false
	c.step(leaderCheckTicks)
	if n := unanswered(3); n > 0 {
		t.Errorf("healed, it has no answer for %d ticks", n)
	}
}

// An observer that is removed goes on as a guest. If its leader takes it out for its silence
// it isn't told: it finds out as it gets no answers, and comes back by asking.
func TestRemovedObserverFindsOut(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	c.elect(1)
	decide := func(version int64, members ...Member) {
		for _, id := range c.ids {
			c.nodes[id].wanted, c.nodes[id].version = members, version
		}
		c.step(40)
	}
	observer := c.members[2]
	observer.Observer = true
	decide(1, c.members[0], c.members[1], observer)
	removed := c.nodes[3].loop
	if !slices.Contains(removed.conf.GetLearners(), 3) || removed.Status().Unanswered > 0 {
		t.Fatalf("it is no observer, or has no answer: %v", removed.conf)
	}
	decide(2, c.members[:2]...)
	if lead := c.nodes[1].loop.Status(); !slices.Equal(lead.Guests, []uint64{3}) || len(lead.Observers) > 0 ||
		removed.Status().Unanswered > 0 {
		t.Fatalf("it doesn't go on as a guest: %+v", lead)
	}
	for _, id := range []uint64{1, 2} {
		c.cut[[2]uint64{3, id}] = true
	}
	c.step(guestSilentTicks + 40)
	if contains(c.nodes[1].loop.conf, 3) {
		t.Fatalf("it was not taken out: %v", c.nodes[1].loop.conf)
	}
	if n := removed.Status().Unanswered; n < guestSilentTicks {
		t.Errorf("it has had no answer for %d ticks only, of %d", n, guestSilentTicks+40)
	}
	clear(c.cut)
	c.step(2*guestTicks + leaderCheckTicks + 20)
	if n := removed.Status().Unanswered; n > 0 || !slices.Equal(c.nodes[1].loop.Status().Guests, []uint64{3}) {
		t.Errorf("it doesn't come back: no answer for %d ticks, membership %v", n, c.nodes[1].loop.conf)
	}
}

// TestObserverRemovedUnheard: an observer that was cut off when it was removed, and whose leader has forgotten it,
// announces itself once it can, though raft has it believe that it follows.
func TestObserverRemovedUnheard(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	c.elect(1)
	decide := func(version int64, members ...Member) {
		for _, m := range members {
			c.nodes[m.ID].wanted, c.nodes[m.ID].version = members, version
		}
		c.step(40)
	}
	observer := c.members[2]
	observer.Observer = true
	decide(1, c.members[0], c.members[1], observer)
	for _, id := range []uint64{1, 2} {
		c.cut[[2]uint64{3, id}], c.cut[[2]uint64{id, 3}] = true, true
	}
	decide(2, c.members[:2]...)
	c.step(guestSilentTicks + 40)
	removed := c.nodes[3].loop
	if contains(c.nodes[1].loop.conf, 3) || removed.node.Leader() != 1 {
		t.Fatalf("it was not taken out, or has heard of it: %v", c.nodes[1].loop.conf)
	}
	clear(c.cut)
	c.step(2*guestTicks + leaderCheckTicks + 20)
	if n := removed.Status().Unanswered; n > 0 || !slices.Equal(c.nodes[1].loop.Status().Guests, []uint64{3}) {
		t.Errorf("it doesn't come back: no answer for %d ticks, membership %v", n, c.nodes[1].loop.conf)
	}
}

// TestActiveFollowers: those that answer are active at every tick, also at those at which raft begins to count anew;
// one that is gone is not, after an election timeout.
func TestActiveFollowers(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	lead := c.elect(2)
	c.step(5)
	active := func(id uint64) bool {
		return slices.ContainsFunc(lead.loop.Status().Followers, func(f Progress) bool { return f.ID == id && f.Active })
	}
	for n := range 50 {
		c.step(1)
		if !active(1) || !active(3) {
			t.Fatalf("tick %d: %+v", n, lead.loop.Status().Followers)
		}
	}
	c.crash(3)
	ticks := 0
	for ; active(3); ticks++ {
		if c.step(1); ticks > 50 {
			t.Fatal("a server that is gone stays active")
		}
	}
	if !active(1) {
		t.Errorf("%d ticks after another has gone: %+v", ticks, lead.loop.Status().Followers)
	}
}

// TestQuestionsAreNumberedOnce: a server numbers the questions by which it learns what has ended upwards, also from
// one leader to the next, since an answer of the former one may come late and must not be taken for the new one's.
func TestQuestionsAreNumberedOnce(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	lead := c.leader()
	f := c.others(lead)[0]
	var last uint64
	asked := map[uint64]int{}
	f.sent = func(to uint64, kind FrameKind, payload []byte) {
		m, err := decodeMessage(payload)
		if kind != FrameRaft || err != nil || !asksLeaderCheck(m) {
			return
		}
		id := binary.BigEndian.Uint64(m.GetEntries()[0].GetData()[8:])
		if id <= last {
			t.Errorf("server %d is asked question %d after question %d", to, id, last)
		}
		last = id
		asked[to]++
	}
	c.step(3 * leaderCheckTicks)
	next := c.others(lead)[1]
	c.elect(next.id)
	c.step(3 * leaderCheckTicks)
	c.elect(lead.id)
	c.step(3 * leaderCheckTicks)
	if asked[lead.id] < 4 || asked[next.id] < 2 {
		t.Errorf("asked %v: nothing is shown", asked)
	}
}

// TestLeaderCheckAnswers: which answers show that the leader hears this server, and as of when it is up to date: as of
// the last question whose answer's index it has applied.
func TestLeaderCheckAnswers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 2, 3)
	c.elect(1)
	c.step(5)
	b := c.nodes[2]
	l, r := b.loop, &b.loop.leaderCheck
	ctx := func(incarnation, id uint64, mark ...byte) []byte {
		return append(readContext(incarnation, id), mark...)
	}
	answer := func(index uint64, context []byte) {
		r.answered(l, raft.ReadState{Index: index, RequestCtx: context})
		b.turn()
	}
	own := l.o.Incarnation
	ask := func() { // questions 20 to 23, at moments 120 to 123
		*r = leaderCheck{leader: 1, id: 23, first: 21, since: 7}
		for id := uint64(20); id <= 23; id++ {
			r.questions[id%questionsKept] = question{id: id, at: 100 + int64(id)}
		}
		b.upToDate = 0
	}
	for _, x := range []struct {
		what    string
		context []byte
		ahead   uint64
		since   uint64
		as      int64
	}{
		{"the open question", ctx(own, 21, leaderCheckMark), 0, 0, 121},
		{"a later one", ctx(own, 23, leaderCheckMark), 0, 0, 123},
		{"an earlier one", ctx(own, 20, leaderCheckMark), 0, 7, 120},
		{"one that is forgotten", ctx(own, 15, leaderCheckMark), 0, 7, 0},
		{"one ahead", ctx(own, 21, leaderCheckMark), 1, 0, 0},
		{"a former life's", ctx(own-1, 21, leaderCheckMark), 0, 7, 0},
		{"of a sync", ctx(own, 21), 0, 7, 0},
		{"of something else", ctx(own, 21, leaderCheckMark+1), 0, 7, 0},
		{"longer", ctx(own, 21, leaderCheckMark, 0), 0, 7, 0},
	} {
		ask()
		answer(l.applied+x.ahead, x.context)
		if r.since != x.since || b.upToDate != x.as {
			t.Errorf("%s: unanswered since %d, up to date as of %d; want %d, %d", x.what, r.since, b.upToDate, x.since, x.as)
		}
	}
	ask()
	for id := uint64(20); id <= 23; id++ {
		answer(l.applied+id-20+1, ctx(own, id, leaderCheckMark))
	}
	for _, x := range []struct {
		applied uint64
		as      int64
		waiting int
	}{{0, 0, 4}, {1, 120, 3}, {1, 121, 2}, {2, 123, 0}, {1, 123, 0}} {
		l.applied += x.applied
		r.applied(l)
		b.turn()
		if b.upToDate != x.as || len(r.answers) != x.waiting {
			t.Errorf("up to date as of %d, and %d answers wait; want %+v", b.upToDate, len(r.answers), x)
		}
	}
	ask()
	for range questionsKept + 1 {
		answer(l.applied+1, ctx(own, 20, leaderCheckMark))
	}
	if len(r.answers) != questionsKept {
		t.Errorf("%d answers are kept", len(r.answers))
	}
	l.tasks.calling = true // entries are being applied
	l.applied++
	r.applied(l)
	if l.tasks.calling = false; len(r.answers) != questionsKept || b.upToDate != 0 {
		t.Errorf("up to date as of %d while entries are being applied", b.upToDate)
	}
}

// TestLeaderCheckAsks: when a server asks its leader, and since when it has no answer; a leader asks itself, and a
// server that joins doesn't ask.
func TestLeaderCheckAsks(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 2, 3)
	c.elect(1)
	c.step(5)
	for _, x := range []struct {
		what     string
		id       uint64
		is       func(l *Loop)
		asks     bool
		since    uint64
		unheard  uint64 // what is told ten ticks later
		answered bool
	}{
		{"at first", 2, func(l *Loop) { l.leaderCheck = leaderCheck{} }, true, 1000, 10, false},
		{"within the pause", 2, func(l *Loop) { l.leaderCheck.asked = 1000 - leaderCheckTicks + 1 }, false, 0, 0, false},
		{"after the pause", 2, func(l *Loop) { l.leaderCheck.asked = 1000 - leaderCheckTicks }, true, 1000, 10, false},
		{"still open", 2, func(l *Loop) { l.leaderCheck.asked, l.leaderCheck.since = 900, 900 }, true, 900, 110, false},
		{"another leader", 2, func(l *Loop) { l.leaderCheck.leader, l.leaderCheck.since = 3, 900 }, true, 1000, 10, false},
		{"no leader", 2, func(l *Loop) { l.node.leader = 0 }, false, 0, 0, false},
		{"it joins", 2, func(l *Loop) { l.joining.after = 1 << 20 }, false, 0, 0, false},
		{"a leader", 1, func(l *Loop) { l.leaderCheck.asked = 900 }, true, 0, 0, false},
	} {
		l := c.nodes[x.id].loop
		ticks := l.ticks
		l.ticks, l.leaderCheck = 1000, leaderCheck{leader: 1, asked: 999, id: 40}
		x.is(l)
		id := l.leaderCheck.id
		l.leaderCheck.tick(l)
		r := l.leaderCheck
		if asks := r.id == id+1; asks != x.asks || r.since != x.since || asks && r.asked != 1000 ||
			asks && x.id == 2 && x.since == 1000 && r.first != r.id || r.unanswered(1010) != x.unheard {
			t.Errorf("%s: %+v", x.what, r)
		}
		l.ticks, l.node.leader, l.joining.after, l.leaderCheck = ticks, 1, 0, leaderCheck{}
	}
	alone := newCluster(t, 1)
	b := alone.leader1()
	alone.step(3)
	if b.loop.leaderCheck.id != 0 || b.upToDate != int64(b.loop.ticks) {
		t.Errorf("alone it asks %d questions, and is up to date as of %d of %d", b.loop.leaderCheck.id, b.upToDate,
			b.loop.ticks)
	}
}
