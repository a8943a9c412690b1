package quorum

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

// digestFrame is a frame about a digest that a server has sent.
type digestFrame struct {
	to, index, digest uint64
	kind              byte
}

// digests gathers the frames about digests that a server sends.
func digests(b *node) *[]digestFrame {
	var all []digestFrame
	b.sent = func(to uint64, kind FrameKind, p []byte) {
		if kind == FrameDigest {
			all = append(all, digestFrame{to, binary.BigEndian.Uint64(p), binary.BigEndian.Uint64(p[8:]), p[16]})
		}
	}
	return &all
}

// doubter returns the doubts of server 1, which leads servers 1 to 3 and has the digest 5, and the frames that it
// sends.
func doubter(t *testing.T) (*doubts, *[]digestFrame) {
	c := newCluster(t, 1, 2, 3)
	for _, id := range c.ids {
		c.nodes[id].level, c.nodes[id].mayFail = doubtLevel, true
	}
	lead := c.elect(1)
	c.announce()
	lead.say(1)
	c.step(3)
	lead.odd = 5
	return &lead.loop.doubts, digests(lead)
}

// TestDoubtIsJudged: the digest of more than half of the voters is right. If all are known and none is, the others hear
// this server's for doubtAnswerTicks before it stops.
func TestDoubtIsJudged(t *testing.T) {
	t.Parallel()
	const running = doubtTicks - doubtAnswerTicks
	for _, c := range []struct {
		what     string
		voters   []uint64
		votes    map[uint64]uint64
		open     bool
		settled  bool
		lasted   uint64
		diverged *DivergedError
	}{
		{"its own only", []uint64{1, 2, 3}, map[uint64]uint64{1: 5}, true, false, 0, nil},
		{"one of two others", []uint64{1, 2, 3}, map[uint64]uint64{1: 5, 2: 6}, true, false, 0, nil},
		{"half", []uint64{1, 2, 3, 4}, map[uint64]uint64{1: 5, 2: 5}, true, false, 0, nil},
		{"a majority", []uint64{1, 2, 3}, map[uint64]uint64{1: 5, 2: 5}, false, true, 0, nil},
		{"the others", []uint64{1, 2, 3}, map[uint64]uint64{1: 5, 2: 6, 3: 6}, false, false, 0,
			&DivergedError{Index: 9, Digest: 5, Theirs: 6, Server: 1, Agree: []uint64{2, 3}, Deviates: []uint64{1}}},
		{"three others, and two unlike", []uint64{1, 2, 3, 4, 5}, map[uint64]uint64{1: 5, 2: 6, 3: 6, 4: 7, 5: 6}, false,
			false, 0,
			&DivergedError{Index: 9, Digest: 5, Theirs: 6, Server: 1, Agree: []uint64{2, 3, 5}, Deviates: []uint64{1, 4}}},
		{"three others, one silent", []uint64{1, 2, 3, 4, 5}, map[uint64]uint64{1: 5, 2: 6, 3: 6, 5: 6}, false, false, 0,
			&DivergedError{Index: 9, Digest: 5, Theirs: 6, Server: 1, Agree: []uint64{2, 3, 5}, Deviates: []uint64{1}}},
		{"all unlike", []uint64{1, 2, 3}, map[uint64]uint64{1: 5, 2: 6, 3: 7}, true, false, running, nil},
		{"an observer's", []uint64{1, 2, 3}, map[uint64]uint64{1: 5, 4: 5}, true, false, 0, nil},
	} {
		d, _ := doubter(t)
		d.conf, d.open, d.index, d.votes = &pb.ConfState{Voters: c.voters}, true, 9, c.votes
		d.judge()
		if d.open != c.open || d.settled == 9 != c.settled || d.lasted != c.lasted {
			t.Errorf("%s: open: %t, settled after %d, it has lasted %d", c.what, d.open, d.settled, d.lasted)
		}
		var got *DivergedError
		errors.As(d.failed, &got)
		if (got == nil) != (c.diverged == nil) || got != nil && (got.Index != c.diverged.Index ||
			got.Digest != c.diverged.Digest || got.Theirs != c.diverged.Theirs || got.Server != c.diverged.Server ||
			!slices.Equal(got.Agree, c.diverged.Agree) || !slices.Equal(got.Deviates, c.diverged.Deviates)) {
			t.Errorf("%s: %+v", c.what, got)
		}
	}
}

// TestDoubtIsGivenUp: after doubtTicks with a leader a server in doubt stops, unless all that have answered agree.
func TestDoubtIsGivenUp(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what   string
		votes  map[uint64]uint64
		leader bool
		lasted uint64
		open   bool
		stops  bool
		then   uint64
	}{
		{"nobody answers", map[uint64]uint64{1: 5}, true, doubtTicks, false, true, doubtTicks + 1},
		{"not yet", map[uint64]uint64{1: 5}, true, doubtTicks - 1, true, false, doubtTicks},
		{"all agree", map[uint64]uint64{1: 5, 2: 5}, true, doubtTicks, true, false, 0},
		{"one differs", map[uint64]uint64{1: 5, 2: 5, 3: 6}, true, doubtTicks, false, true, doubtTicks + 1},
		{"without a leader", map[uint64]uint64{1: 5}, false, doubtTicks - doubtAnswerTicks - 1, true, false,
			doubtTicks - doubtAnswerTicks - 1},
		{"the last ticks", map[uint64]uint64{1: 5}, false, doubtTicks - doubtAnswerTicks, true, false,
			doubtTicks - doubtAnswerTicks + 1},
	} {
		d, _ := doubter(t)
		if !c.leader {
			d.node.leader = 0
		}
		d.conf = &pb.ConfState{Voters: []uint64{1, 2, 3, 4, 5}}
		d.open, d.index, d.since, d.asked, d.votes, d.lasted = true, 9, d.ticks, d.ticks, c.votes, c.lasted
		d.tick()
		var undecided *UndecidedError
		errors.As(d.failed, &undecided)
		if d.open != c.open || (undecided != nil) != c.stops || d.lasted != c.then {
			t.Errorf("%s: open: %t, %v, it has lasted %d", c.what, d.open, d.failed, d.lasted)
		}
		if undecided != nil && (undecided.Index != 9 || !maps.Equal(undecided.Digests, c.votes) ||
			!slices.Equal(undecided.Voters, d.conf.GetVoters())) {
			t.Errorf("%s: %+v", c.what, undecided)
		}
	}
}

// TestDoubtAsks: a server in doubt asks the voters that have not answered, every doubtPauseTicks, and about the entry
// that it has applied since once doubtRenewTicks are over.
func TestDoubtAsks(t *testing.T) {
	t.Parallel()
	d, sent := doubter(t)
	asks := func(what string, want ...digestFrame) {
		t.Helper()
		if !slices.Equal(*sent, want) {
			t.Errorf("%s: it sends %v, want %v", what, *sent, want)
		}
		*sent = nil
	}
	d.tick()
	asks("without a doubt")
	index, first := d.applied, d.ticks
	two, three := digestFrame{2, index, 5, digestQuestion}, digestFrame{3, index, 5, digestQuestion}
	d.lasted, d.asked = 7, 7
	d.begin()
	asks("at the beginning", two, three)
	if d.lasted != 0 || d.asked != first {
		t.Errorf("at the beginning it has lasted %d ticks, and was asked at %d of %d", d.lasted, d.asked, first)
	}
	d.begin()
	asks("in doubt already")
	for range doubtPauseTicks - 1 {
		d.ticks++
		d.tick()
	}
	asks("within the pause")
	d.ticks++
	d.tick()
	asks("after the pause", two, three)
	d.votes[2] = 6
	for d.ticks++; d.ticks < first+doubtRenewTicks; d.ticks++ {
		d.tick()
	}
	if len(*sent) != (doubtRenewTicks-doubtPauseTicks-1)/doubtPauseTicks || (*sent)[0] != three {
		t.Errorf("until it asks about another entry it sends %v", *sent)
	}
	*sent = nil
	d.state.(*node).odd = 7
	d.tick()
	two.digest, three.digest = 7, 7
	asks("about another entry", two, three)
	if d.since != d.ticks || d.index != index || len(d.votes) != 1 {
		t.Errorf("since tick %d of %d, entry %d, %v", d.since, d.ticks, d.index, d.votes)
	}
	d.levels.announced(3, doubtLevel-1, 0)
	d.ticks += doubtPauseTicks
	d.tick()
	asks("one of an earlier version", two)

	d, sent = doubter(t)
	d.state, d.asked = digestless{d.state}, 7
	d.begin()
	asks("without a digest of its own")
	if d.asked != 0 {
		t.Errorf("without a digest it was asked at tick %d", d.asked)
	}
	d, sent = doubter(t)
	d.conf = &pb.ConfState{Voters: []uint64{1}, VotersOutgoing: []uint64{2, 3}}
	if d.begin(); d.open || d.settled != d.applied {
		t.Errorf("as the only voter it is in doubt, or its state isn't right: %t, %d", d.open, d.settled)
	}
	d, sent = doubter(t)
	d.open, d.failed = true, errOdd
	d.tick()
	asks("a server that has failed")
	d, sent = doubter(t)
	d.sole = true
	if d.begin(); d.open || len(*sent) > 0 {
		t.Error("a server alone is in doubt")
	}
}

// TestDigestHeard: what server 1, which has applied an entry with the digest 5, does with a peer's digest of it.
func TestDigestHeard(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what             string
		from             uint64
		digest, ahead    uint64 // ahead of the entry that is applied
		kind             byte
		is               func(d *doubts, e *Event)
		answers, doubted bool
		waits            bool
	}{
		{what: "its own", from: 2, digest: 5},
		{what: "asked", from: 2, digest: 5, kind: digestQuestion, answers: true},
		{what: "another", from: 2, digest: 6, doubted: true},
		{what: "asked, another", from: 2, digest: 6, kind: digestQuestion, answers: true, doubted: true},
		{what: "asked by an observer", from: 4, digest: 6, kind: digestQuestion, answers: true},
		{what: "asked by a stranger", from: 9, digest: 6, kind: digestQuestion},
		{what: "settled", from: 2, digest: 6, is: func(d *doubts, _ *Event) { d.settled = d.applied }},
		{what: "settled before", from: 2, digest: 6, is: func(d *doubts, _ *Event) { d.settled = d.applied - 1 },
			doubted: true},
		{what: "asked too soon", from: 2, digest: 6, ahead: 1, kind: digestQuestion, waits: true},
		{what: "told of a later entry", from: 2, digest: 6, ahead: 1},
		{what: "too short", from: 2, digest: 6, is: func(_ *doubts, e *Event) { e.Data = e.Data[:digestSize-1] }},
		{what: "too long", from: 2, digest: 6, is: func(_ *doubts, e *Event) { e.Data = append(e.Data, 0) }},
	} {
		d, sent := doubter(t)
		d.conf = &pb.ConfState{Voters: []uint64{1, 2, 3}, Learners: []uint64{4}}
		d.levels.announced(4, doubtLevel, 0)
		index := d.applied + c.ahead
		e := Event{From: c.from, Data: binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, index), c.digest)}
		e.Data = append(e.Data, c.kind)
		if c.is != nil {
			c.is(d, &e)
		}
		d.state.(*node).c.nodes[4] = d.state.(*node).c.nodes[3] // that the observer is linked
		d.heard(e)
		answered := slices.Contains(*sent, digestFrame{c.from, index, 5, digestAnswer})
		if answered != c.answers || d.open != c.doubted || len(d.asking) == 1 != c.waits {
			t.Errorf("%s: answered: %t, in doubt: %t, waiting %v", c.what, answered, d.open, d.asking)
		}
		if d.open && c.from == 2 && d.votes[2] != 6 {
			t.Errorf("%s: what it said doesn't count: %v", c.what, d.votes)
		}
		if !c.waits {
			continue
		}
		if d.tick(); len(*sent) > 0 {
			t.Errorf("%s: %v before the entry is applied", c.what, *sent)
		}
		d.applied++
		if d.tick(); len(d.asking) > 0 || !d.open || (*sent)[0] != (digestFrame{2, index, 5, digestAnswer}) {
			t.Errorf("%s: after the entry was applied: %v, in doubt: %t, waiting %v", c.what, *sent, d.open, d.asking)
		}
	}
}

// TestDigestDecides: a peer's digest that makes a majority ends the doubt.
func TestDigestDecides(t *testing.T) {
	t.Parallel()
	d, _ := doubter(t)
	d.begin()
	if d.compare(2, digestAt{d.index - 1, 5}, false); !d.open {
		t.Error("a digest of another entry ends the doubt")
	}
	if d.compare(2, digestAt{d.index, 5}, false); d.open || d.settled != d.index {
		t.Errorf("in doubt: %t, settled after %d", d.open, d.settled)
	}
}

// TestMayGive: before a leader gives others its state it asks the voters that have all entries, and waits for their
// answers, for a while; then it may for givenTicks.
func TestMayGive(t *testing.T) {
	t.Parallel()
	d, sent := doubter(t)
	questions := []digestFrame{{2, d.applied, 5, digestQuestion}, {3, d.applied, 5, digestQuestion}}
	may := func(what string, want bool, asked ...digestFrame) {
		t.Helper()
		if got := d.mayGive(); got != want || !slices.Equal(*sent, asked) {
			t.Errorf("%s: %t, and it sends %v", what, got, *sent)
		}
		*sent = nil
	}
	answer := func(from uint64) { d.compare(from, digestAt{d.giving.index, 5}, false) }
	may("at first", false, questions...)
	may("again", false)
	if answer(2); !slices.Equal(d.giving.awaited, []uint64{3}) {
		t.Errorf("one has answered, and %v are awaited", d.giving.awaited)
	}
	may("one has answered", false)
	answer(2)
	may("it again", false)
	answer(3)
	may("both have", true)
	d.ticks += givenTicks - 1
	may("for some ticks", true)
	d.ticks++
	may("later", false, questions...)
	d.ticks += doubtAnswerTicks - 1
	may("no answer yet", false)
	d.ticks++
	may("no answer for long", true)

	d.giving = giving{index: d.applied, awaited: []uint64{2}, since: d.ticks}
	d.ticks += givenTicks
	may("the question is old", true)
	d.giving = giving{index: d.applied, awaited: []uint64{2}, since: d.ticks}
	d.ticks += givenTicks + 1
	may("the question is too old", false, questions...)

	d.giving = giving{}
	d.levels.announced(2, doubtLevel-1, 0)
	d.levels.announced(3, doubtLevel, 0)
	may("one of an earlier version", false, questions[1])
	d.giving, d.open = giving{until: d.ticks + 1}, true
	may("in doubt", false)
	d.open, d.tasks.calling = false, true
	may("while entries are applied", false)
	d.tasks.calling = false
	may("after that", true)
	d.giving, d.applied = giving{}, d.applied+1
	may("nobody has the last entry", true)
	d.giving, d.state = giving{}, digestless{d.state}
	may("without a digest", true)
	if d.giving.until != 0 {
		t.Error("what couldn't be asked is taken for answered")
	}
}

// digestless is a state machine that has no digest.
type digestless struct{ StateMachine }

func (digestless) DigestAt(uint64) (uint64, bool) { return 0, false }
