package quorum

import (
	"errors"
	"slices"
	"testing"
)

// doubting is a cluster whose servers know the question and may stop.
func doubting(t *testing.T, ids ...uint64) (*cluster, *node) {
	c := newCluster(t, ids...)
	for _, id := range ids {
		c.nodes[id].level, c.nodes[id].mayFail = 2, true
	}
	lead := c.leader()
	c.announce()
	lead.say(1)
	c.step(3)
	return c, lead
}

// TestMajorityOfStatesDecides gives one server another state, the leader or a
// follower; whoever notices, that one stops and the others go on.
func TestMajorityOfStatesDecides(t *testing.T) {
	for _, odd := range []string{"leader", "follower"} {
		for notices := range uint64(3) {
			c, lead := doubting(t, 1, 2, 3)
			wrong := lead
			if odd == "follower" {
				wrong = c.nodes[lead.id%3+1]
			}
			wrong.odd = 99
			c.nodes[notices+1].doubtful = true
			lead.say(2)
			c.step(40)
			for _, b := range c.nodes {
				var diverged *DivergedError
				if got := errors.As(b.failed, &diverged); got != (b == wrong) || b.failed != nil && !got {
					t.Fatalf("%s odd, server %d notices: server %d (odd: %v) ended with %v", odd, notices+1, b.id, b == wrong, b.failed)
				}
				if diverged != nil && (len(diverged.Agree) != 2 || slices.Contains(diverged.Agree, wrong.id)) {
					t.Fatalf("server %d says that %v agree", b.id, diverged.Agree)
				}
			}
			next := c.leader()
			next.say(3)
			c.step(5)
			if n := len(next.applied); next == wrong || next.applied[n-1] != 3 {
				t.Fatalf("the others don't go on: %v", next.applied)
			}
		}
	}
}

// TestNoMajorityOfStates stops all where nobody can tell who is right, and tells
// nobody to remove anything.
func TestNoMajorityOfStates(t *testing.T) {
	for name, states := range map[string][]uint64{
		"two servers": {1, 2}, "all differ": {1, 2, 3}, "one is down": {1, 2, 1},
	} {
		ids := []uint64{1, 2, 3}[:len(states)]
		c, lead := doubting(t, ids...)
		for i, state := range states {
			c.nodes[uint64(i+1)].odd = state
		}
		down := uint64(0)
		if name == "one is down" {
			// The one that is left beside the leader has another state.
			for _, id := range ids {
				if b := c.nodes[id]; b != lead && down == 0 {
					down = id
				} else if b != lead {
					b.odd = lead.odd + 1
				}
			}
			c.crash(down)
		}
		lead.doubtful = true
		lead.say(2)
		c.step(3 * doubtTicks)
		for _, id := range ids {
			var undecided *UndecidedError
			if b := c.nodes[id]; id != down && !errors.As(b.failed, &undecided) {
				t.Errorf("%s: server %d ended with %v", name, id, b.failed)
			}
		}
	}
}

// TestDoubtIsDispelled goes on where the digest that was met is nobody's: it is of an
// earlier leader that was wrong.
func TestDoubtIsDispelled(t *testing.T) {
	c, lead := doubting(t, 1, 2, 3)
	for _, b := range c.nodes {
		b.doubtful = true
	}
	lead.say(2)
	c.step(3 * doubtTicks)
	c.agreed(2)
	for _, b := range c.nodes {
		if b.failed != nil || b.loop.doubts.open {
			t.Errorf("server %d: %v, in doubt: %t", b.id, b.failed, b.loop.doubts.open)
		}
	}
}

// TestDoubtfulStateIsNotSpread has a leader with a wrong state and a server that needs
// a snapshot: while another server contradicts the leader, it gives its state to nobody.
// A third that took it would make the wrong state that of a majority.
func TestDoubtfulStateIsNotSpread(t *testing.T) {
	for _, odd := range []bool{false, true} {
		c, lead := doubting(t, 1, 2, 3)
		away := c.nodes[lead.id%3+1]
		c.crash(away.id)
		for _, b := range c.nodes {
			b.snapshot = 1
		}
		for n := range uint64(300) { // more than a segment of the log
			lead.say(2 + n)
			c.step(2)
		}
		if odd {
			lead.odd = 99
		}
		c.restart(away.id)
		c.step(3 * doubtTicks)
		var undecided *UndecidedError
		switch got := len(c.nodes[away.id].applied) >= 300; {
		case got == odd:
			t.Errorf("leader odd: %t; the one that was away has taken its state: %t", odd, got)
		case odd != errors.As(lead.failed, &undecided):
			t.Errorf("leader odd: %t; it ended with %v", odd, lead.failed)
		}
	}
}

// TestUncontradictedServerGoesOn has a server in doubt that hears only the leader: that
// has the same state, and two of five are no majority. It goes on asking.
func TestUncontradictedServerGoesOn(t *testing.T) {
	c, lead := doubting(t, 1, 2, 3, 4, 5)
	b := c.nodes[lead.id%5+1]
	for _, id := range c.ids {
		if id != lead.id && id != b.id {
			c.cut[[2]uint64{b.id, id}], c.cut[[2]uint64{id, b.id}] = true, true
		}
	}
	b.doubtful = true
	lead.say(2)
	c.step(3 * doubtTicks)
	if b.failed != nil {
		t.Fatalf("server %d: %v", b.id, b.failed)
	}
	if !b.loop.doubts.open {
		t.Fatal("two of five dispel the doubt")
	}
	clear(c.cut)
	for _, id := range c.ids {
		c.greet(id)
	}
	c.step(2 * doubtRenewTicks)
	if b.failed != nil || b.loop.doubts.open {
		t.Errorf("all answer; server %d: %v, in doubt: %t", b.id, b.failed, b.loop.doubts.open)
	}
}

// TestDoubtfulStateIsNotKept: a server in doubt writes no snapshot of its state.
func TestDoubtfulStateIsNotKept(t *testing.T) {
	for _, odd := range []bool{false, true} {
		c, lead := doubting(t, 1, 2, 3)
		c.crash(lead.id%3 + 1)
		lead.say(2)
		c.step(3)
		if odd {
			lead.odd, lead.doubtful = 99, true
			lead.say(3)
			c.step(3)
		}
		lead.snapshot = 1
		before := lead.loop.applied
		lead.say(4)
		c.step(snapshotLookTicks + 3)
		if meta, ok := lead.dir.NewestSnapshot(); (ok && meta.Index > before) == odd {
			t.Errorf("in doubt: %t; the newest snapshot is of entry %d, behind %d", odd, meta.Index, before)
		}
	}
}

// TestOldAnswerGivesNothing: a leader asks whether it may give its state, and the server
// that needed it goes away meanwhile. When one needs it much later the leader asks again,
// as its state may be another one by then.
func TestOldAnswerGivesNothing(t *testing.T) {
	for _, odd := range []bool{false, true} {
		c, lead := doubting(t, 1, 2, 3)
		mayGive := func() bool { return lead.loop.doubts.mayGive() }
		if mayGive() {
			t.Fatal("nobody was asked")
		}
		c.step(givenTicks + 2)
		if odd {
			lead.odd = 99
		}
		if mayGive() {
			t.Errorf("odd: %t: the answers to an old question count", odd)
		}
		c.step(3)
		var diverged *DivergedError
		if odd != errors.As(lead.failed, &diverged) {
			t.Errorf("odd: %t: the leader ended with %v", odd, lead.failed)
		}
		if !odd && !mayGive() {
			t.Error("nobody contradicts the leader, and it gives its state to nobody")
		}
	}
}
