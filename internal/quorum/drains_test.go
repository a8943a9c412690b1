package quorum

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
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
	granted, moved, seeds := 0, 0, 60
	if testing.Short() {
		seeds = 12
	}
	for seed := range uint64(seeds) {
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
	if granted < 5*seeds || moved < 5*seeds {
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

// serves returns what server 1 knows of drains, which leads servers 1 to 3. All of them serve.
func serves(t *testing.T) *drains {
	c := drainers(t, 1, 2, 3)
	d := &c.elect(1).loop.drains
	c.step(2 * drainTicks)
	return d
}

// TestDrainAbsent: why a server doesn't count as one that stays, for the leader, server 1.
func TestDrainAbsent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what    string
		id      uint64
		is      func(d *drains, r *drainReport)
		why     string
		certain bool
	}{
		{"it serves", 2, func(*drains, *drainReport) {}, "", false},
		{"it asks", 2, func(_ *drains, r *drainReport) { r.flags = drainAsks }, "", false},
		{"it drains", 2, func(_ *drains, r *drainReport) { r.flags = drainDoes }, "drains", true},
		{"it drained", 2, func(d *drains, r *drainReport) { r.flags, r.tick = drainDoes, d.ticks-drainAgeTicks-1 }, "drains",
			false},
		{"it may drain", 2, func(d *drains, _ *drainReport) { d.granted[2] = 7 }, "drains", true},
		{"its report is old", 2, func(d *drains, r *drainReport) { r.tick = d.ticks - drainAgeTicks }, "", false},
		{"its report is too old", 2, func(d *drains, r *drainReport) { r.tick = d.ticks - drainAgeTicks - 1 },
			"hasn't said that it serves", false},
		{"it never reported", 4, func(*drains, *drainReport) {}, "hasn't said that it serves", false},
		{"an earlier version", 2, func(d *drains, _ *drainReport) { d.levels.frames[2] = FrameDrainAnswer - 1 },
			"runs an earlier version, which doesn't say whether it drains", false},
		{"the first version with drains", 2, func(d *drains, _ *drainReport) { d.levels.frames[2] = FrameDrainAnswer }, "",
			false},
		{"nothing announced", 2, func(d *drains, _ *drainReport) { d.levels.announced(2, 0, 0) }, "", false},
		{"its disk", 2, func(_ *drains, r *drainReport) { r.flags = drainStuck }, "waits for its disk", false},
		{"a stranger", 9, func(d *drains, r *drainReport) { d.told[9] = *r }, "has yet to catch up", false},
		{"this server", 1, func(*drains, *drainReport) {}, "", false},
		{"this server drains", 1, func(d *drains, _ *drainReport) { d.drained = true }, "drains", true},
		{"this server's disk", 1, func(d *drains, _ *drainReport) {
			d.tasks.writing, d.tasks.since = true, d.ticks-stuckTicks
		}, "waits for its disk", false},
		{"this server's disk, not yet", 1, func(d *drains, _ *drainReport) {
			d.tasks.writing, d.tasks.since = true, d.ticks-stuckTicks+1
		}, "", false},
	} {
		d := serves(t)
		d.ticks += drainAgeTicks + 1 // so that there is an age
		r := drainReport{tick: d.ticks}
		c.is(d, &r)
		d.told[2] = r
		if why, certain := d.absent(c.id); why != c.why || certain != c.certain {
			t.Errorf("%s: %q, certain: %t; want %q, %t", c.what, why, certain, c.why, c.certain)
		}
	}
}

// TestDrainDecision: a majority of the voters has to stay without the server that asks, of the outgoing voters too. A
// refusal is final if the servers of which too little is known make no difference.
func TestDrainDecision(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what           string
		voters, former []uint64
		told           map[uint64]byte // of servers that report, their flags
		refusal        string
		final          bool
	}{
		{"all stay", []uint64{1, 2, 3}, nil, map[uint64]byte{2: 0, 3: 0}, "", false},
		{"one drains", []uint64{1, 2, 3}, nil, map[uint64]byte{2: 0, 3: drainDoes},
			"1 of 3 voters would keep serving, and 2 are needed; server 3 drains", true},
		{"one is unknown", []uint64{1, 2, 3}, nil, map[uint64]byte{2: 0},
			"1 of 3 voters would keep serving, and 2 are needed; server 3 hasn't said that it serves", false},
		{"both", []uint64{1, 2, 3, 7}, nil, map[uint64]byte{2: 0, 3: drainDoes},
			"1 of 4 voters would keep serving, and 3 are needed; server 3 drains, server 7 hasn't said that it serves", true},
		{"two voters", []uint64{1, 2}, nil, map[uint64]byte{2: 0},
			"1 of 2 voters would keep serving, and 2 are needed", true},
		{"the only voter", []uint64{2}, nil, nil, "0 of 1 voters would keep serving, and 1 are needed", true},
		{"an observer", []uint64{1, 3}, nil, map[uint64]byte{2: 0, 3: 0}, "", false},
		{"former voters", []uint64{1, 2, 3}, []uint64{1, 2, 3, 8, 9}, map[uint64]byte{2: 0, 3: 0},
			"2 of 5 voters would keep serving, and 3 are needed; server 8 hasn't said that it serves, " +
				"server 9 hasn't said that it serves", false},
	} {
		d := serves(t)
		d.conf = &pb.ConfState{Voters: c.voters, VotersOutgoing: c.former}
		clear(d.told)
		for id, flags := range c.told {
			d.told[id] = drainReport{tick: d.ticks, flags: flags}
		}
		if refusal, final := d.decide(2); refusal != c.refusal || final != c.final {
			t.Errorf("%s: %q, final: %t; want %q, %t", c.what, refusal, final, c.refusal, c.final)
		}
		d.granted[2] = 1
		if refusal, final := d.decide(2); refusal != "" || final {
			t.Errorf("%s: it was granted, and then: %q, final: %t", c.what, refusal, final)
		}
	}
}

// drainFrames gathers the frames on draining that a server sends.
func drainFrames(b *node, kind FrameKind) *[][]byte {
	var all [][]byte
	b.sent = func(_ uint64, k FrameKind, payload []byte) {
		if k == kind {
			all = append(all, slices.Clone(payload))
		}
	}
	return &all
}

// TestDrainReported: which reports a leader takes, what it answers, and what it remembers of a grant.
func TestDrainReported(t *testing.T) {
	t.Parallel()
	const conn, ask = 1 << 20, 77
	report := func(term uint64, flags byte) []byte {
		return append(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, term), ask), flags)
	}
	granted, refused := binary.BigEndian.AppendUint64(nil, ask), "!1 of 3 voters would keep serving, and 2 are needed"
	for _, c := range []struct {
		what    string
		is      func(d *drains, e *Event)
		taken   bool
		answer  string // "" if there is none
		granted bool
	}{
		{"it serves", func(*drains, *Event) {}, true, "", false},
		{"it asks", func(d *drains, e *Event) { e.Data[16] = drainAsks }, true, string(granted), true},
		{"its disk", func(d *drains, e *Event) { e.Data[16] = drainStuck }, true, string(granted), false},
		{"it drains", func(d *drains, e *Event) { e.Data[16] = drainDoes }, true, "", false},
		{"it asks, and another drains", func(d *drains, e *Event) {
			e.Data[16] = drainAsks
			d.granted[3] = 1
		}, true, string(granted) + refused + "; server 3 drains", false},
		{"it asks again", func(d *drains, e *Event) {
			e.Data[16] = drainAsks
			d.granted[2], d.granted[3] = ask, 1
		}, true, string(granted), true},
		{"it asks anew", func(d *drains, e *Event) {
			e.Data[16] = drainAsks
			d.granted[2], d.granted[3] = ask-1, 1
		}, true, string(granted) + refused + "; server 3 drains", false},
		{"it was granted, and drains", func(d *drains, e *Event) { e.Data[16], d.granted[2] = drainDoes, ask }, true, "",
			true},
		{"it was granted, and serves", func(d *drains, e *Event) { d.granted[2] = ask }, true, "", false},
		{"it was granted, and its disk", func(d *drains, e *Event) { e.Data[16], d.granted[2] = drainStuck, ask }, true,
			string(granted), false},
		{"the first version with drains", func(d *drains, e *Event) {
			e.Data[16], d.levels.frames[2] = drainAsks, FrameDrainAnswer
		}, true, string(granted), true},
		{"an earlier version", func(d *drains, e *Event) {
			e.Data[16], d.levels.frames[2] = drainAsks, FrameDrainAnswer-1
		}, true, "", false},
		{"the same connection", func(d *drains, e *Event) { d.told[2] = drainReport{conn: conn} }, true, "", false},
		{"an earlier connection", func(d *drains, e *Event) { d.told[2] = drainReport{conn: conn + 1} }, false, "", false},
		{"an earlier term", func(d *drains, e *Event) { e.Data[7]-- }, false, "", false},
		{"it is longer", func(d *drains, e *Event) { e.Data = append(e.Data, 0) }, false, "", false},
		{"it is shorter", func(d *drains, e *Event) { e.Data = e.Data[:16] }, false, "", false},
		{"a stranger", func(d *drains, e *Event) { e.From = 9 }, false, "", false},
		{"this server doesn't lead", func(d *drains, e *Event) { d.lastLead.IsLeader = false }, false, "", false},
	} {
		d := serves(t)
		delete(d.told, 2)
		e := Event{Kind: EventDrain, From: 2, Conn: conn, Data: report(d.lastLead.Term, 0)}
		c.is(d, &e)
		answers := drainFrames(d.state.(*node), FrameDrainAnswer)
		d.reported(e)
		r := d.told[e.From]
		taken := r.tick == d.ticks
		if taken != c.taken || taken && (r.conn != conn || r.ask != ask || r.flags != e.Data[16]) {
			t.Errorf("%s: taken: %t, %+v", c.what, taken, r)
		}
		got := ""
		if len(*answers) > 0 {
			got = string((*answers)[0])
		}
		if _, ok := d.granted[2]; ok != c.granted || got != c.answer || len(*answers) > 1 {
			t.Errorf("%s: granted: %t, the answers are %q; want %t, %q", c.what, ok, *answers, c.granted, c.answer)
		}
	}
}

// TestDrainAnswered: which answers a server takes.
func TestDrainAnswered(t *testing.T) {
	t.Parallel()
	const ask = 77
	granted := binary.BigEndian.AppendUint64(nil, ask)
	no := strings.Repeat("x", drainReasonMax)
	for _, c := range []struct {
		what string
		is   func(d *drains, e *Event)
		want Draining
		took bool
	}{
		{"yes", func(*drains, *Event) {}, Draining{Drained: true}, true},
		{"no", func(_ *drains, e *Event) { e.Data = append(e.Data, "x"...) }, Draining{Refusal: "x"}, true},
		{"never", func(_ *drains, e *Event) { e.Data = append(e.Data, "!x"...) }, Draining{Refusal: "x", Final: true}, true},
		{"a long reason", func(_ *drains, e *Event) { e.Data = append(e.Data, no...) }, Draining{Refusal: no}, true},
		{"too long a reason", func(_ *drains, e *Event) { e.Data = append(e.Data, no+"x"...) }, Draining{}, false},
		{"too short", func(_ *drains, e *Event) { e.Data = e.Data[:7] }, Draining{}, false},
		{"it asked nothing", func(d *drains, _ *Event) { d.asking = false }, Draining{}, false},
		{"it asked because of its disk", func(d *drains, e *Event) {
			d.asking, d.inquires = false, true
			e.Data = append(e.Data, "x"...)
		}, Draining{}, true},
		{"another leader", func(_ *drains, e *Event) { e.From = 3 }, Draining{}, false},
		{"another ask", func(d *drains, _ *Event) { d.ask++ }, Draining{}, false},
	} {
		v := &view{id: 2, ticks: 50, lastLead: Leadership{Leader: 1, Term: 3}}
		d := drains{view: v, asking: true, ask: ask}
		e := Event{Kind: EventDrainAnswer, From: 1, Data: slices.Clone(granted)}
		c.is(&d, &e)
		d.answered(e)
		got := Draining{Drained: d.drained, Refusal: d.refusal, Final: d.final}
		if took := d.answeredAt == 50; got != c.want || took != c.took || d.drained && d.asking {
			t.Errorf("%s: %+v, taken: %t; want %+v, %t", c.what, got, took, c.want, c.took)
		}
	}
}

// TestNeededSince: a server is needed once all answers of drainAgeTicks have said that the others don't serve without
// it, as long as the newest answer isn't older than that.
func TestNeededSince(t *testing.T) {
	t.Parallel()
	const now, age = 100, drainAgeTicks
	for _, c := range []struct {
		what              string
		inquires          bool
		refused, answered uint64
		want              bool
	}{
		{"long enough", true, now - age, now, true},
		{"not yet", true, now - age + 1, now, false},
		{"they serve", true, 0, now, false},
		{"since the first tick", true, 1, now, true},
		{"its disk goes on", false, now - age, now, false},
		{"an old answer", true, 1, now - age, true},
		{"too old an answer", true, 1, now - age - 1, false},
	} {
		d := drains{view: &view{ticks: now}, inquires: c.inquires, refusedSince: c.refused, answeredAt: c.answered}
		if got := d.needed(); got != c.want {
			t.Errorf("%s: %t", c.what, got)
		}
	}
	d := drains{view: &view{ticks: now}, inquires: true}
	for _, c := range []struct {
		refusal string
		since   uint64
	}{{"no", now}, {"no", now}, {"", 0}, {"no", now + 3}} {
		d.took(c.refusal, false)
		if d.refusedSince != c.since || d.refusal != "" || d.drained {
			t.Errorf("%+v: refused since %d; it drains: %t, refusal %q", c, d.refusedSince, d.drained, d.refusal)
		}
		d.ticks++
	}
}

// TestDrainReport: the bytes that a follower sends every drainTicks, and at once if its wish changes or its disk is
// stuck; and what it says if it can't ask.
func TestDrainReport(t *testing.T) {
	t.Parallel()
	c := drainers(t, 1, 2, 3)
	c.elect(1)
	f := c.nodes[2]
	for c.step(1); f.loop.ticks%drainTicks != 0; {
		c.step(1)
	}
	reports := drainFrames(f, FrameDrain)
	d := &f.loop.drains
	d.drained = false
	told := func(what string, flags byte) {
		t.Helper()
		want := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, f.loop.lastLead.Term), d.ask)
		if got := *reports; len(got) != 1 || string(got[0]) != string(append(want, flags)) {
			t.Errorf("%s: %x, want one report %x with %d", what, got, want, flags)
		}
		*reports = nil
	}
	for range 3 {
		for range drainTicks - 1 {
			d.ticks++
			d.tick()
		}
		if len(*reports) > 0 {
			t.Fatal("it reports too soon")
		}
		d.ticks++
		d.tick()
		told("it serves", 0)
	}
	d.ticks++
	ask := d.ask
	d.orders.give(DrainAsk)
	d.tick()
	told("it asks", drainAsks)
	if d.ask != ask+1 {
		t.Errorf("ask %d after %d", d.ask, ask)
	}
	d.orders.give(DrainForce)
	d.tick()
	told("it drains by force", drainDoes)
	d.orders.give(DrainAsk)
	d.tick()
	told("it drains, and asks for it", drainDoes)
	d.orders.give(DrainNot)
	d.tick()
	told("it serves again", 0)
	d.tasks.writing, d.tasks.since, d.refusedSince = true, d.ticks-stuckTicks, 5
	d.tick()
	told("its disk is stuck", drainStuck)
	if d.refusedSince != 0 {
		t.Errorf("what was refused before is kept: %d", d.refusedSince)
	}
	d.tasks.writing = false
	d.tick()
	told("its disk goes on", 0)

	for _, x := range []struct {
		want string
		is   func()
	}{
		{"server 1 leads and isn't reached", func() { c.cut[[2]uint64{2, 1}] = true; d.levels.announced(1, 0, 0) }},
		{"server 1 leads and runs an earlier version, which doesn't know which servers drain", func() {
			d.levels.announced(1, LevelFirst, FrameDrainAnswer-1)
		}},
		{"there is no leader to ask", func() { d.lastLead = Leadership{} }},
	} {
		x.is()
		d.tick()
		d.orders.give(DrainNot)
		if d.tick(); d.refusal != "" {
			t.Errorf("it doesn't ask, and is refused: %s", d.refusal)
		}
		d.orders.give(DrainAsk)
		if d.tick(); d.refusal != x.want {
			t.Errorf("%q, want %q", d.refusal, x.want)
		}
	}
	if len(*reports) > 0 {
		t.Errorf("reports %x to nobody", *reports)
	}
}
