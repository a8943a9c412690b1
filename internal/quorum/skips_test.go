package quorum

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/storage"
)

// What the disks of a cluster are.
const (
	testClusterID = 7
	testDir       = "/data"
)

// poison is a number at which every node fails.
const poison = 666

var errPoison = errors.New("an entry can't be applied")

// decide makes a decision to skip the entry on the disk of a server that is down. hash is
// that of the entry's bytes.
func (b *node) decide(index, term uint64, hash storage.Hash) {
	b.c.t.Helper()
	s := storage.Skip{
		Cluster: testClusterID, Index: index, Term: term, Hash: hash, By: "ann", Why: "test", At: time.Unix(1e9, 0),
	}
	if err := storage.WriteSkip(b.fs, testDir, s); err != nil {
		b.c.t.Fatal(err)
	}
}

// skips returns the decisions on a server's disk.
func (b *node) skips() []storage.Skip {
	b.c.t.Helper()
	all, err := storage.Skips(b.fs, testDir, testClusterID)
	if err != nil {
		b.c.t.Fatal(err)
	}
	return all
}

// poisoned returns a cluster of which every server is down with an entry in its log at
// which it failed, and the entry's place.
func poisoned(t *testing.T, ids ...uint64) (c *cluster, index, term uint64, hash storage.Hash) {
	t.Helper()
	c = newCluster(t, ids...)
	find := c.leader
	if len(ids) == 1 {
		find = c.leader1
	}
	lead := find()
	lead.say(1)
	c.step(5)
	for _, id := range ids {
		c.nodes[id].mayFail, c.nodes[id].poisoned = true, true
	}
	index, term = lead.loop.applied+1, lead.loop.node.Term()
	lead.say(poison)
	c.step(10)
	for _, id := range ids {
		b := c.nodes[id]
		if b.loop == nil && !errors.Is(b.failed, errPoison) {
			t.Fatalf("server %d ended with %v", id, b.failed)
		}
		if b.loop != nil { // it has not heard that the entry is agreed on
			c.crash(id)
		}
		b.mine, b.waiting, b.failed = nil, nil, nil
	}
	return c, index, term, storage.HashEntry(numbers([]uint64{poison}))
}

// fails steps until a server fails.
func (c *cluster) fails(id uint64, want string) {
	c.t.Helper()
	for range 200 {
		if c.step(1); c.nodes[id].loop == nil {
			break
		}
	}
	b := c.nodes[id]
	if b.loop != nil || b.failed == nil || !strings.Contains(b.failed.Error(), want) {
		c.t.Fatalf("server %d runs: %t, failed with %v; want %q", id, b.loop != nil, b.failed, want)
	}
	b.failed = nil
}

// TestSkipWaitsForWhoMissedTheEntry: one of three servers was down when the others came to
// the entry, and has less of the log. The others decide, and wait with a leader: it gets the
// entry from that, fails at it too, and can be decided on.
func TestSkipWaitsForWhoMissedTheEntry(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 2, 3)
	lead := c.leader()
	lead.say(1)
	c.step(5)
	for _, b := range c.nodes {
		b.mayFail, b.poisoned = true, true
	}
	missed := c.nodes[lead.id%3+1]
	c.crash(missed.id)
	index, term, hash := lead.loop.applied+1, lead.loop.node.Term(), storage.HashEntry(numbers([]uint64{poison}))
	lead.say(poison)
	c.step(10)
	decided := slices.DeleteFunc(slices.Clone(c.ids), func(id uint64) bool { return id == missed.id })
	for _, id := range decided {
		c.crash(id)
		b := c.nodes[id]
		b.mine, b.waiting, b.failed = nil, nil, nil
		b.decide(index, term, hash)
	}
	for range 2 { // the second time they know from the start that the entry is agreed on
		for _, id := range decided {
			c.restart(id)
		}
		c.leader().say(2)
		c.step(20)
		for _, id := range decided {
			if applied := c.nodes[id].loop.applied; applied != index-1 {
				t.Fatalf("server %d has applied entry %d, and entry %d is held", id, applied, index)
			}
			c.crash(id)
			c.nodes[id].mine, c.nodes[id].waiting = nil, nil
		}
	}
	for _, id := range c.ids {
		c.restart(id)
	}
	c.fails(missed.id, errPoison.Error())
	missed.decide(index, term, hash)
	c.restart(missed.id)
	c.step(30)
	c.leader().say(3)
	c.step(20)
	c.agreed(3)
}

// TestSkip: an entry at which all fail is held back until each member has decided to
// skip it; then all go on without it, and do so after restarts, alone too.
func TestSkip(t *testing.T) {
	t.Parallel()
	c, index, term, hash := poisoned(t, 1, 2, 3)
	var said bytes.Buffer
	c.log = slog.NewTextHandler(&said, nil)
	for _, id := range []uint64{1, 2} {
		c.nodes[id].decide(index, term, hash)
		c.restart(id)
	}
	c.step(100)
	for _, id := range []uint64{1, 2} {
		if b := c.nodes[id]; b.loop == nil || b.loop.applied >= index || b.skips()[0].Agreed {
			t.Fatalf("server %d did not wait for the third: %+v", id, b.skips())
		}
	}
	if n := strings.Count(said.String(), "nothing is applied from this entry on"); n != 2 ||
		!strings.Contains(said.String(), "missing=[3]") {
		t.Errorf("the two servers said %d times that they wait for the third:\n%s", n, said.String())
	}
	c.restart(3)
	c.fails(3, errPoison.Error())
	c.nodes[3].decide(index, term, hash)
	c.restart(3)
	c.step(30)
	c.leader().say(2)
	c.step(20)
	for _, id := range c.ids {
		if b := c.nodes[id]; !slices.Equal(b.applied, []uint64{1, 2}) || !b.skips()[0].Agreed {
			t.Fatalf("server %d has applied %v; %+v", id, b.applied, b.skips())
		}
	}
	// A restart needs nobody: what was agreed on stays so.
	for _, id := range c.ids {
		c.crash(id)
	}
	c.restart(1)
	c.restart(2)
	c.step(30)
	c.leader().say(3)
	c.step(10)
	if b := c.nodes[1]; !slices.Equal(b.applied, []uint64{1, 2, 3}) {
		t.Fatalf("after a restart of two server 1 has applied %v", b.applied)
	}
}

// TestSkipAlone: a server alone needs nobody else's decision.
func TestSkipAlone(t *testing.T) {
	t.Parallel()
	c, index, term, hash := poisoned(t, 1)
	c.restart(1)
	c.fails(1, errPoison.Error())
	c.nodes[1].decide(index, term, hash)
	c.restart(1)
	c.step(5)
	c.nodes[1].say(2)
	c.step(5)
	if b := c.nodes[1]; !slices.Equal(b.applied, []uint64{1, 2}) {
		t.Fatalf("applied %v", b.applied)
	}
}

// TestSkipAfterSilence: a server that hears that a decision is agreed needs no other
// word: who said so knows that it decided the same.
func TestSkipAfterSilence(t *testing.T) {
	t.Parallel()
	c, index, term, hash := poisoned(t, 1, 2, 3)
	for _, id := range c.ids {
		c.nodes[id].decide(index, term, hash)
	}
	c.restart(1)
	c.cut[[2]uint64{3, 2}], c.cut[[2]uint64{2, 3}] = true, true
	b := c.nodes[2]
	c.restart(2)
	c.step(5)
	b.loop.Handle(Event{
		Kind: EventSkips, From: 1, Data: appendSkip(nil, &storage.Skip{Index: index, Term: term, Hash: hash, Agreed: true}),
	})
	c.step(50)
	if !b.skips()[0].Agreed {
		t.Error("a server waits though another says that all agreed")
	}
}

// TestSkipsThatDiffer: servers that decide about different entries skip neither, and say
// who differs. One whose log has another entry there stops and names the file.
func TestSkipsThatDiffer(t *testing.T) {
	t.Parallel()
	c, index, term, hash := poisoned(t, 1, 2, 3)
	var said bytes.Buffer
	c.log = slog.NewTextHandler(&said, nil)
	c.nodes[1].decide(index, term, hash)
	c.nodes[2].decide(index, term, hash)
	c.nodes[3].decide(index, term, storage.HashEntry([]byte("other")))
	for _, id := range c.ids {
		c.restart(id)
	}
	c.fails(3, fmt.Sprintf("entry-%d.skip", index))
	c.step(50)
	for _, id := range []uint64{1, 2} {
		if b := c.nodes[id]; b.loop == nil || b.loop.applied >= index {
			t.Fatalf("server %d did not wait", id)
		}
	}
	if !strings.Contains(said.String(), "decidedOtherwise=[3]") {
		t.Errorf("nobody said who differs:\n%s", said.String())
	}
}

// TestSkipIsTakenOver: a server that joins later takes the decision over before it is
// sent the entry, and a peer that doesn't announce it isn't sent it.
func TestSkipIsTakenOver(t *testing.T) {
	t.Parallel()
	c, index, term, hash := poisoned(t, 1)
	c.nodes[1].decide(index, term, hash)
	c.restart(1)
	c.step(5)
	lead := c.nodes[1]
	lead.say(2)
	lead.wanted, lead.version = []Member{{ID: 1}, {ID: 2}}, 1
	c.step(5)
	c.ids = append(c.ids, 2)
	joiner := &node{c: c, id: 2, fs: storage.NewMemFS(), ended: map[int64]ChangeStep{}, poisoned: true}
	c.nodes[2] = joiner
	c.open(2, lead.loop.applied, 0)
	note := lead.note
	lead.note = nil // its announcement is on the way
	var said bytes.Buffer
	lead.loop.log = slog.New(slog.NewTextHandler(&said, nil))
	c.greet(2)
	c.step(2 * withheldTicks)
	if n := strings.Count(said.String(), "a skipped entry is not sent"); n != 1 {
		t.Errorf("the leader says %d times that it withholds the entry:\n%s", n, said.String())
	}
	if len(joiner.skips()) > 0 || joiner.loop.applied >= index {
		t.Fatal("the entry was sent to a server that doesn't know that it is skipped")
	}
	if last, _ := joiner.dir.Log().LastIndex(); last >= index {
		t.Fatalf("entries up to %d were sent to it", last)
	}
	lead.note = note
	c.greet(2)
	c.step(100)
	if got := joiner.skips(); len(got) != 1 || !got[0].Agreed || got[0].From != 1 ||
		!slices.Equal(joiner.applied, []uint64{1, 2}) {
		t.Fatalf("it took over %+v and applied %v", got, joiner.applied)
	}
}

// TestVoidSkip: a decision taken over from a peer that is not about the entry in the log
// is dropped, and the entry applied.
func TestVoidSkip(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	b := c.leader1()
	index := b.loop.applied + 1
	b.loop.Handle(Event{
		Kind: EventSkips, From: 9, Data: appendSkip(nil,
			&storage.Skip{Index: index, Term: 1, Hash: storage.HashEntry(nil), Agreed: true}),
	})
	if len(b.skips()) != 1 {
		t.Fatal("it was not taken over")
	}
	b.say(7)
	c.step(5)
	if !slices.Equal(b.applied, []uint64{7}) || len(b.skips()) != 0 {
		t.Fatalf("applied %v, decisions %+v", b.applied, b.skips())
	}
}

// TestLateSkips: of decisions that come too late a bounded number is remembered.
func TestLateSkips(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	b := c.leader1()
	b.loop.applied = 2 * warnedMax // none of them is looked for
	most := 0
	for i := range 2 * warnedMax {
		s := storage.Skip{Index: 1 + uint64(i)}
		b.loop.Handle(Event{Kind: EventSkips, From: 9, Data: appendSkip(nil, &s)})
		most = max(most, len(b.loop.skips.warned))
	}
	if most != warnedMax {
		t.Errorf("%d are remembered, want up to %d", most, warnedMax)
	}
}

// FuzzParseSkips: any bytes are a bounded note or none.
func FuzzParseSkips(f *testing.F) {
	f.Add(appendSkip(nil, &storage.Skip{Index: 1, Term: 2, Agreed: true}))
	f.Add([]byte{0})
	f.Fuzz(func(t *testing.T, b []byte) {
		all, ok := parseSkips(b)
		if ok && (len(all) != len(b)/skipSize || len(all) > storage.SkipsMax) {
			t.Errorf("%d bytes are %d decisions", len(b), len(all))
		}
	})
}

// TestSkipNotes: a note is bounded, and a peer's decisions about entries that were
// applied, or that aren't agreed, are not taken over.
func TestSkipNotes(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	b := c.leader1()
	b.say(1)
	c.step(5)
	var said bytes.Buffer
	b.loop.log = slog.New(slog.NewTextHandler(io.MultiWriter(&said), nil))
	hear := func(skips ...storage.Skip) {
		var note []byte
		for _, s := range skips {
			note = appendSkip(note, &s)
		}
		b.loop.Handle(Event{Kind: EventSkips, From: 9, Data: note})
	}
	many := []storage.Skip{}
	for i := range 1000 {
		many = append(many, storage.Skip{Index: 1000 + uint64(i), Agreed: true})
	}
	hear(many...)
	hear(many[0], many[0])
	b.loop.Handle(Event{Kind: EventSkips, From: 9, Data: []byte("torn")})
	if len(b.skips()) != 0 || len(b.loop.skips.told[9]) != 0 || strings.Count(said.String(), "can't be decoded") != 3 {
		t.Fatalf("%d decisions; said:\n%s", len(b.skips()), said.String())
	}
	hear(storage.Skip{Index: 2000}, storage.Skip{Index: b.loop.applied})
	hear(storage.Skip{Index: 2000}, storage.Skip{Index: b.loop.applied})
	if len(b.skips()) != 0 ||
		strings.Count(said.String(), "which this server has applied") != 0 &&
			strings.Count(said.String(), "that this server has applied") != 1 {
		t.Fatalf("%d decisions; said:\n%s", len(b.skips()), said.String())
	}
	// A decision of its own about an entry that it has applied, which S1 excludes, doesn't keep it from saying so.
	own := storage.Skip{Index: b.loop.applied - 1, Term: 1}
	b.loop.skips.own[own.Index] = &own
	late := strings.Count(said.String(), "that this server has applied")
	hear(own)
	if n := strings.Count(said.String(), "that this server has applied") - late; n != 1 {
		t.Errorf("it says %d times that it has applied the entry that it is to skip", n)
	}
	delete(b.loop.skips.own, own.Index)
	for i := range 20 { // more than are kept
		hear(storage.Skip{Index: 3000 + uint64(i), Agreed: true})
	}
	if n := len(b.skips()); n != storage.SkipsMax || len(b.note) != storage.SkipsMax*skipSize ||
		len(b.note) > NoteSizeMax {
		t.Errorf("%d decisions are kept, %d bytes announced", n, len(b.note))
	}
	if b.loop.Failed() != nil {
		t.Error(b.loop.Failed())
	}
}
