package quorum

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// drainers returns a cluster whose servers all know of draining, with a leader.
func drainers(t *testing.T, ids ...uint64) *cluster {
	c := newCluster(t, ids...)
	for _, id := range ids {
		c.nodes[id].frames = FrameKindMax
	}
	for _, id := range ids {
		c.greet(id)
	}
	c.leader()
	c.step(2 * drainTicks)
	return c
}

// drained returns the servers that drain.
func (c *cluster) drained() (ids []uint64) {
	for _, id := range c.ids {
		if b := c.nodes[id]; b.loop != nil && b.loop.Status().Draining.Drained {
			ids = append(ids, id)
		}
	}
	return ids
}

func (b *node) drain(w DrainWish) { b.loop.Drain(w) }

// TestDrainOneAfterTheOther: of three servers one may drain, the leader or another one; the next is
// refused, and told because of whom, until the first serves again or was started anew.
func TestDrainOneAfterTheOther(t *testing.T) {
	for first := range uint64(3) {
		c := drainers(t, 1, 2, 3)
		one, two := c.nodes[first+1], c.nodes[(first+1)%3+1]
		one.drain(DrainAsk)
		c.step(2 * drainTicks)
		if got := c.drained(); len(got) != 1 || got[0] != one.id {
			t.Fatalf("servers %v drain, want server %d", got, one.id)
		}
		refused := func(w DrainWish) {
			t.Helper()
			two.drain(w)
			c.step(2 * drainTicks)
			d := two.loop.Status().Draining
			if d.Drained || !d.Final || !strings.Contains(d.Refusal, fmt.Sprintf("server %d drains", one.id)) {
				t.Fatalf("a second drain: %+v", d)
			}
		}
		refused(DrainAsk)
		if lead := c.leader(); lead == one {
			one.loop.TransferLeadership()
			c.step(5)
			c.leader()
			refused(DrainAsk) // by a leader that knows it from the drained one only
		}
		one.drain(DrainNot)
		c.step(2 * drainTicks)
		if !two.loop.Status().Draining.Drained {
			t.Fatalf("the first serves again, and the second may not drain: %+v", two.loop.Status().Draining)
		}
		c.crash(two.id)
		c.restart(two.id)
		c.leader()
		c.step(2 * drainTicks)
		one.drain(DrainAsk)
		c.step(2 * drainTicks)
		if got := c.drained(); len(got) != 1 || got[0] != one.id {
			t.Fatalf("servers %v drain after the second was started again, want server %d", got, one.id)
		}
	}
}

// TestDrainAllAtOnce: three servers ask in the same tick, and one may.
func TestDrainAllAtOnce(t *testing.T) {
	c := drainers(t, 1, 2, 3)
	for _, id := range c.ids {
		c.nodes[id].drain(DrainAsk)
	}
	c.step(3 * drainTicks)
	if got := c.drained(); len(got) != 1 {
		t.Errorf("servers %v drain, want one", got)
	}
}

// TestDrainUnknown: a server of which nothing is known doesn't count as one that stays, nor does one of an earlier
// version or one whose disk is stuck. An earlier version that leads grants nothing, and gets no frame that it doesn't
// know. By force a server drains all the same.
func TestDrainUnknown(t *testing.T) {
	for name, c := range map[string]struct {
		change func(c *cluster, follower *node)
		says   string
	}{
		"cut off": {func(c *cluster, f *node) { c.crash(f.id) }, "hasn't said that it serves"},
		"older": {func(c *cluster, f *node) {
			f.frames, f.level = 0, 2
			c.crash(f.id)
			c.restart(f.id)
		}, "runs an earlier version"},
		"stuck": {func(c *cluster, f *node) {
			f.hung = true
			c.leader().say(1)
		}, "waits for its disk"},
		"older leader": {func(c *cluster, f *node) {
			lead := c.leader()
			lead.frames = 0
			lead.sent = func(to uint64, kind FrameKind, _ []byte) {
				if kind == FrameDrainAnswer {
					t.Error("a server of an earlier version answers")
				}
			}
			for _, id := range c.ids {
				if o := c.nodes[id]; o != lead {
					o.loop.Handle(Event{Kind: EventLevel, From: lead.id, Level: LevelFirst})
					o.sent = func(to uint64, kind FrameKind, _ []byte) {
						if to == lead.id && kind == FrameDrain {
							t.Error("a server of an earlier version is sent a report on draining")
						}
					}
				}
			}
		}, "leads and runs an earlier version"},
	} {
		cl := drainers(t, 1, 2, 3)
		lead := cl.leader()
		follower, asker := cl.nodes[lead.id%3+1], cl.nodes[(lead.id+1)%3+1]
		c.change(cl, follower)
		cl.step(drainAgeTicks + 2*drainTicks)
		asker.drain(DrainAsk)
		cl.step(2 * drainTicks)
		if d := asker.loop.Status().Draining; d.Drained || d.Final || !strings.Contains(d.Refusal, c.says) {
			t.Errorf("%s: %+v, want a refusal that says %q", name, d, c.says)
		}
		asker.drain(DrainForce)
		cl.step(1)
		if !asker.loop.Status().Draining.Drained {
			t.Errorf("%s: it doesn't drain by force", name)
		}
	}
}

// TestDrainsAlwaysLeaveAMajority: servers ask and give up, while leaders change, links are cut, servers are started
// again, and what they say of draining arrives late. At no moment do so many drain that no majority is left.
func TestDrainsAlwaysLeaveAMajority(t *testing.T) {
	var granted, moved int
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		ids := []uint64{1, 2, 3}
		if seed%2 == 1 {
			ids = []uint64{1, 2, 3, 4, 5}
		}
		c := drainers(t, ids...)
		c.late = map[[2]uint64][]func(){}
		any := func() *node { return c.nodes[ids[rng.IntN(len(ids))]] }
		was := uint64(0)
		for range 250 {
			switch rng.IntN(12) {
			case 0, 1, 2:
				if b := any(); b.loop != nil {
					b.drain(DrainAsk)
				}
			case 3, 4:
				if b := any(); b.loop != nil {
					b.drain(DrainNot)
				}
			case 5:
				for _, id := range ids {
					if b := c.nodes[id]; b.loop != nil && b.loop.IsLeader() {
						b.loop.TransferLeadership()
					}
				}
			case 6:
				link := [2]uint64{any().id, any().id}
				c.cut[link] = !c.cut[link]
			case 7, 8:
				clear(c.cut)
			case 9:
				if b := any(); b.loop != nil && rng.IntN(3) == 0 {
					c.crash(b.id)
					for _, id := range ids {
						delete(c.late, [2]uint64{b.id, id})
						delete(c.late, [2]uint64{id, b.id})
					}
					c.restart(b.id)
				}
			}
			for range rng.IntN(30) { // frames of one link arrive in order
				link := [2]uint64{any().id, any().id}
				if q := c.late[link]; len(q) > 0 {
					if o := c.nodes[link[1]]; o.loop != nil {
						o.post(q[0])
					}
					c.late[link] = q[1:]
				}
			}
			before := len(c.drained())
			c.step(1 + rng.IntN(3))
			drained := c.drained()
			if len(drained) > before {
				granted++
			}
			if most := (len(ids) - 1) / 2; len(drained) > most {
				t.Fatalf("seed %d: servers %v of %d drain", seed, drained, len(ids))
			}
			for _, id := range ids {
				if b := c.nodes[id]; b.loop.IsLeader() && id != was {
					was = id
					moved++
				}
			}
		}
	}
	if granted < 300 || moved < 300 {
		t.Errorf("%d drains were granted, and the leader changed %d times: the test tests little", granted, moved)
	}
}

// TestDrainReasonIsCut: a refusal that names very many servers is cut.
func TestDrainReasonIsCut(t *testing.T) {
	ids := make([]uint64, 19)
	for i := range ids {
		ids[i] = uint64(i + 1)
	}
	c := drainers(t, ids...)
	lead := c.leader()
	longest := 0
	lead.sent = func(_ uint64, kind FrameKind, payload []byte) {
		if kind == FrameDrainAnswer {
			longest = max(longest, len(payload))
		}
	}
	for _, id := range ids {
		if id != lead.id {
			c.nodes[id].drain(DrainForce)
		}
	}
	c.step(2 * drainTicks)
	last := c.nodes[lead.id%uint64(len(ids))+1]
	last.drain(DrainNot)
	c.step(drainTicks)
	last.drain(DrainAsk)
	c.step(2 * drainTicks)
	d := last.loop.Status().Draining
	if !d.Final || longest > drainAskSize+drainReasonMax || len(d.Refusal) > drainReasonMax {
		t.Errorf("%d bytes, %+v", longest, d)
	}
}

// deliver delivers the oldest n frames on draining that a link holds, or all of them if n is -1.
func (c *cluster) deliver(from, to uint64, n int) {
	link := [2]uint64{from, to}
	if n < 0 {
		n = len(c.late[link])
	}
	for _, f := range c.late[link][:n] {
		c.nodes[to].post(f)
	}
	c.late[link] = c.late[link][n:]
	c.step(1)
}

// TestNeeded: a server whose disk is stuck learns from the leader if no majority serves without it, and drains for that
// neither itself nor in others' eyes. Of a leader that is silent it knows nothing.
func TestNeeded(t *testing.T) {
	c := drainers(t, 1, 2, 3)
	lead := c.leader()
	stuck, other := c.nodes[lead.id%3+1], c.nodes[(lead.id+1)%3+1]
	needed := func(n *node, want bool, when string) {
		t.Helper()
		st := n.loop.Status()
		if st.Needed != want || st.Draining.Drained || st.Draining.Refusal != "" {
			t.Errorf("%s: Needed is %v, want %v; %+v", when, st.Needed, want, st.Draining)
		}
		if lead.loop != nil && len(lead.loop.Status().Drained) > 0 {
			t.Errorf("%s: servers %v count as drained", when, lead.loop.Status().Drained)
		}
	}
	const long = stuckTicks + 2*drainAgeTicks + 3*drainTicks
	needed(stuck, false, "before anything happens")
	stuck.hung = true
	lead.say(1)
	c.step(long)
	needed(stuck, false, "one of three servers is stuck")

	c.crash(other.id)
	c.step(long)
	needed(stuck, true, "another one is down")
	c.restart(other.id)
	c.step(3 * drainTicks)
	c.leader().say(2)
	c.step(3 * drainTicks)
	needed(stuck, false, "it is back")

	other.hung, lead.hung = true, true
	lead.say(3)
	c.step(long)
	for _, n := range []*node{lead, stuck, other} {
		needed(n, true, "all are stuck")
	}
	c.crash(lead.id)
	c.step(drainAgeTicks + 3*drainTicks)
	needed(stuck, false, "the leader is gone")
}

// TestDrainOldGrant: what a leader has granted counts for nothing once another one leads, even if it leads again.
func TestDrainOldGrant(t *testing.T) {
	c := drainers(t, 1, 2, 3)
	c.elect(1)
	c.step(2 * drainTicks)
	c.late = map[[2]uint64][]func(){}
	c.nodes[2].drain(DrainAsk)
	c.step(1)
	c.deliver(2, 1, -1)
	old := len(c.late[[2]uint64{1, 2}])
	if old == 0 {
		t.Fatal("the leader hasn't answered")
	}
	c.elect(3)
	c.deliver(2, 3, -1) // it asks, and is refused, as this leader knows nothing of server 1
	c.deliver(1, 3, -1)
	c.nodes[3].drain(DrainAsk)
	c.step(drainTicks)
	if got := c.drained(); len(got) != 1 || got[0] != 3 {
		t.Fatalf("servers %v drain, want server 3", got)
	}
	c.elect(1)
	c.deliver(1, 2, old)
	c.step(1)
	if got := c.drained(); len(got) > 1 {
		t.Errorf("servers %v drain", got)
	}
}

// TestDrainOldReport: a leader doesn't rely on reports of an earlier term in which it led.
func TestDrainOldReport(t *testing.T) {
	c := drainers(t, 1, 2, 3)
	c.elect(1)
	c.late = map[[2]uint64][]func(){}
	c.step(2 * drainTicks)
	old := len(c.late[[2]uint64{2, 1}])
	if old == 0 {
		t.Fatal("server 2 reports nothing")
	}
	c.elect(3)
	c.nodes[2].drain(DrainAsk)
	c.step(drainTicks)
	c.deliver(1, 3, -1)
	c.deliver(2, 3, -1)
	c.deliver(3, 2, -1)
	c.step(1)
	if got := c.drained(); len(got) != 1 || got[0] != 2 {
		t.Fatalf("servers %v drain, want server 2", got)
	}
	c.elect(1)
	c.step(drainTicks)
	c.deliver(3, 1, -1)
	c.deliver(2, 1, old)
	c.nodes[1].drain(DrainAsk)
	c.step(drainTicks)
	if got := c.drained(); len(got) != 1 {
		t.Errorf("servers %v drain", got)
	}
}
