package quorum

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/zooid-project/zooid/internal/storage"
)

// departs has server 3 of three lose its disk and join anew, and returns the entry that took it out and the copy of the
// old disk, which is up to date.
func departs(t *testing.T, c *cluster) (Departure, *node) {
	t.Helper()
	lead := c.leader()
	lead.say(1)
	c.step(5)
	old := &node{c: c, id: 3, fs: c.nodes[3].fs, ended: map[int64]ChangeStep{}}
	c.crash(3)
	r := c.askToJoin(3, 77)
	c.join(3, r)
	c.greet(3)
	c.until("it has joined", func() bool {
		return slices.Contains(lead.loop.conf.GetVoters(), 3) && !c.nodes[3].loop.joining.lasts()
	})
	return Departure{Index: r.Index, Term: r.Term}, old
}

// askToJoin has an empty server ask until it may start.
func (c *cluster) askToJoin(id uint64, life uint32) JoinReply {
	c.t.Helper()
	for range 200 {
		reply := make(chan JoinReply, 1)
		c.leader().loop.Handle(Event{Kind: EventJoin, From: id, Life: life, Empty: true, Join: reply})
		if r := <-reply; r.Go {
			return r
		}
		c.step(1)
	}
	c.t.Fatal("an empty server is not let in")
	return JoinReply{}
}

// TestOldDiskComesBack: a server whose old disk is put back after it has joined with an empty one learns that from any
// peer that has applied its departure, also after that peer was started again. The server that joined doesn't mind.
func TestOldDiskComesBack(t *testing.T) {
	c := newChange(t, 3, 1, 2, 3)
	at, old := departs(t, c)
	for _, id := range []uint64{1, 2} {
		if got := c.nodes[id].loop.Status().Departed; len(got) != 1 || got[3] != at {
			t.Fatalf("server %d knows the departures %v, want %v of server 3", id, got, at)
		}
	}
	c.step(reconcileTicks)
	kept := departures{view: &c.nodes[1].loop.view}
	if err := kept.read(); err != nil || kept.of[3] != at {
		t.Errorf("its file has the departures %v", kept.of)
	}
	c.crash(2)
	c.restart(2)
	if got := c.nodes[2].loop.Status().Departed[3]; got != at {
		t.Errorf("started again, server 2 knows of the departure %v, want %v", got, at)
	}
	c.step(5)
	told := Event{Kind: EventDeparted, From: 1, Data: at.Append(nil)}
	for range 2 { // the second time after a start without the note that it joins
		if c.nodes[3].loop.Handle(told); c.nodes[3].loop.Failed() != nil {
			t.Fatalf("the server that has joined ends: %v", c.nodes[3].loop.Failed())
		}
		c.step(5)
		c.crash(3)
		c.restart(3)
	}
	c.crash(3)
	c.nodes[3] = old
	c.restart(3)
	former := (*FormerLifeError)(nil)
	if old.loop.Handle(told); !errors.As(old.loop.Failed(), &former) || former.Departure != at || former.From != 1 {
		t.Fatalf("the old disk's server goes on: %v", old.loop.Failed())
	}
}

// TestDepartedNotes: what doesn't show that the data is of a former life, and what does.
func TestDepartedNotes(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	lead := c.elect(1)
	for n := range uint64(5) {
		lead.say(n + 1)
		c.step(2)
	}
	b := c.nodes[2]
	last, err := b.dir.Log().LastIndex()
	if err != nil {
		t.Fatal(err)
	}
	term, err := b.dir.Log().Term(last)
	if err != nil {
		t.Fatal(err)
	}
	for name, e := range map[string]struct {
		from   uint64
		data   []byte
		joined uint64 // the entry after which the server joined
		former bool
	}{
		"an entry that it has":           {1, Departure{last, term}.Append(nil), 0, false},
		"an entry of another term":       {1, Departure{last, term + 1}.Append(nil), 0, true},
		"an entry beyond its log":        {1, Departure{last + 9, term}.Append(nil), 0, true},
		"the entry after which it joins": {1, Departure{last + 9, term}.Append(nil), last + 9, false},
		"a later one than that":          {1, Departure{last + 9, term}.Append(nil), last + 8, true},
		"no entry":                       {1, Departure{0, term}.Append(nil), 0, false},
		"a stranger":                     {9, Departure{last + 9, term}.Append(nil), 0, false},
		"a note that is cut short":       {1, Departure{last + 9, term}.Append(nil)[:15], 0, false},
	} {
		b.loop.failed, b.loop.departures.joinedAfter = nil, e.joined
		b.loop.Handle(Event{Kind: EventDeparted, From: e.from, Data: e.data})
		if got := b.loop.Failed() != nil; got != e.former {
			t.Errorf("%s: its data is of a former life: %t (%v)", name, got, b.loop.Failed())
		}
	}
	b.loop.failed = nil
}

// TestLostEntryIsTold: a leader that commits what a server has acknowledged and doesn't have shows that an older copy
// of its disk was put back, until a later leader has sent it what it lacks.
func TestLostEntryIsTold(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	lead := c.elect(1)
	lead.say(1)
	c.step(5)
	b := c.nodes[3]
	c.crash(3)
	older := b.fs.Clone()
	c.restart(3)
	c.step(5)
	lead.say(2)
	c.step(5)
	c.crash(3)
	b.fs = older
	c.restart(3)
	c.step(5)
	if b.loop.Status().Lost == 0 {
		t.Fatal("it doesn't say that it has lost entries")
	}
	c.crash(1)
	c.step(60)
	c.restart(1)
	c.step(60)
	if got := b.loop.Status().Lost; got != 0 {
		t.Errorf("it says that it has lost entry %d, which it has again", got)
	}
}

// TestDeparturesAreKept: a server keeps the last departure of each server, up to lostMax of them, and finds them again
// after a restart. If they can't be written, it tries again later.
func TestDeparturesAreKept(t *testing.T) {
	t.Parallel()
	b := newCluster(t, 1).leader1()
	d := &b.loop.departures
	d.note(3, Departure{50, 4})
	before := d.of
	d.note(3, Departure{50, 9}) // the log is applied again
	d.note(3, Departure{40, 9})
	d.note(4, Departure{51, 4})
	want := map[uint64]Departure{3: {50, 4}, 4: {51, 4}}
	if !maps.Equal(d.of, want) || len(before) != 1 {
		t.Errorf("noted %v; what was handed out before is %v", d.of, before)
	}
	writes, fails := 0, true
	b.fs.Hook = func(c storage.Call) error {
		if c.Op != "create" {
			return nil
		}
		if writes++; fails {
			return errOdd
		}
		return nil
	}
	keeps := func(what string, want int) {
		t.Helper()
		if d.keep(); writes != want {
			t.Errorf("%s: written %d times", what, writes)
		}
		writes = 0
	}
	d.ticks = 1000
	keeps("that fails", 1)
	fails = false
	d.ticks += rosterRetryTicks - 1
	keeps("soon after that", 0)
	d.ticks++
	keeps("later", 1)
	keeps("without a change", 0)
	again := departures{view: d.view}
	if err := again.read(); err != nil || !maps.Equal(again.of, want) || !slices.Equal(again.kept, d.kept) {
		t.Errorf("read again: %v", again.of)
	}
	for _, file := range [][]byte{make([]byte, departedSize-1), make([]byte, departedSize+1)} {
		if err := d.dir.Keep(departedName, file); err != nil {
			t.Fatal(err)
		}
		again = departures{view: d.view}
		if err := again.read(); err != nil || len(again.of) > 0 || again.kept != nil {
			t.Errorf("of %d bytes: %v, %v", len(file), again.of, err)
		}
	}
	b.fs.Hook = func(c storage.Call) error {
		if c.Op == "open" {
			return errOdd
		}
		return nil
	}
	if err := again.read(); !errors.Is(err, errOdd) {
		t.Errorf("a file that can't be read: %v", err)
	}
	b.fs.Hook = nil
	most := 0
	for id := range uint64(2 * lostMax) {
		d.note(100+id, Departure{100 + id, 4})
		most = max(most, len(d.of))
	}
	if most != lostMax {
		t.Errorf("%d departures are noted", most)
	}
}
