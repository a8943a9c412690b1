package quorum

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/zooid-project/zooid/internal/storage"
)

// decision returns a decision about an entry of term 1 with that data.
func decision(index uint64, data string, agreed bool) storage.Skip {
	return storage.Skip{Index: index, Term: 1, Hash: storage.HashEntry([]byte(data)), Agreed: agreed}
}

// skipping returns the decisions of a server alone that has applied two entries, and what it says.
func skipping(t *testing.T) (*skips, *bytes.Buffer) {
	c := newCluster(t, 1)
	b := c.leader1()
	var said bytes.Buffer
	b.loop.log = slog.New(slog.NewTextHandler(&said, nil))
	if b.loop.applied != 2 {
		t.Fatalf("%d entries are applied", b.loop.applied)
	}
	return &b.loop.skips, &said
}

// TestParseSkips: which bytes are a note.
func TestParseSkips(t *testing.T) {
	t.Parallel()
	note := func(all ...storage.Skip) (b []byte) {
		for _, s := range all {
			b = appendSkip(b, &s)
		}
		return b
	}
	var most []storage.Skip
	for i := range storage.SkipsMax + 1 {
		most = append(most, decision(uint64(i+1), "x", i%2 == 0))
	}
	for what, c := range map[string]struct {
		note []byte
		want []storage.Skip
		ok   bool
	}{
		"none":        {nil, nil, true},
		"one":         {note(most[0]), most[:1], true},
		"not agreed":  {note(most[1]), most[1:2], true},
		"as many":     {note(most[:storage.SkipsMax]...), most[:storage.SkipsMax], true},
		"too many":    {note(most...), nil, false},
		"torn":        {note(most[0])[:skipSize-1], nil, false},
		"longer":      {append(note(most[0]), 0), nil, false},
		"agreed as 2": {append(note(most[0])[:skipSize-1], 2), nil, false},
		"of entry 0":  {note(decision(0, "x", false)), nil, false},
		"twice":       {note(most[0], most[1], most[0]), nil, false},
	} {
		got, ok := parseSkips(c.note)
		if ok != c.ok || len(got) != len(c.want) {
			t.Errorf("%s: %v, %t", what, got, ok)
		}
		for _, s := range c.want {
			if got[s.Index] != s {
				t.Errorf("%s: %v instead of %v", what, got[s.Index], s)
			}
		}
	}
}

// TestSkipsAnnounced: a server announces its decisions, except one that isn't agreed about an entry that it has
// applied; and nothing if there are none.
func TestSkipsAnnounced(t *testing.T) {
	t.Parallel()
	s, _ := skipping(t)
	for _, c := range []struct {
		own  []storage.Skip
		want []uint64
	}{
		{nil, nil},
		{[]storage.Skip{decision(2, "x", false)}, nil},
		{[]storage.Skip{decision(2, "x", true), decision(3, "x", false)}, []uint64{2, 3}},
	} {
		b := s.state.(*node)
		s.own, b.note = map[uint64]*storage.Skip{}, nil
		for _, own := range c.own {
			s.own[own.Index] = &own
		}
		s.announce()
		all, ok := parseSkips(b.note)
		if !ok || len(all) != len(c.want) || (b.note == nil) != (c.want == nil) {
			t.Errorf("of %v it announces %v", c.own, all)
		}
	}
}

// TestSkipsHeard: which of a peer's decisions a server takes over, and which come too late, for a server that has
// applied entry 2.
func TestSkipsHeard(t *testing.T) {
	t.Parallel()
	no, yes := decision(3, "x", false), decision(3, "x", true)
	for _, c := range []struct {
		what        string
		theirs, own storage.Skip // own is none if its index is 0
		takes, late bool
	}{
		{"agreed, the next entry", yes, storage.Skip{}, true, false},
		{"agreed, an applied entry", decision(2, "x", true), storage.Skip{}, false, false},
		{"not agreed, the next entry", no, storage.Skip{}, false, false},
		{"not agreed, an applied entry", decision(2, "x", false), storage.Skip{}, false, true},
		{"its own too", yes, no, false, false},
		{"its own, agreed", decision(2, "x", false), decision(2, "x", true), false, false},
		{"its own, too late", decision(2, "x", false), decision(2, "x", false), false, true},
	} {
		s, said := skipping(t)
		if c.own.Index != 0 {
			s.own[c.own.Index] = &c.own
		}
		for range 2 { // it says so once
			s.heard(Event{From: 9, Data: appendSkip(nil, &c.theirs)})
		}
		kept, err := s.dir.Skips()
		if err != nil || len(kept) == 1 != c.takes {
			t.Errorf("%s: decisions %v, %v", c.what, kept, err)
		}
		if c.takes && (s.own[3] == nil || s.own[3].By != "server 9" || s.own[3].Why == "" || s.own[3].From != 9 ||
			len(s.state.(*node).note) == 0) {
			t.Errorf("%s: taken over as %+v", c.what, s.own[3])
		}
		if got := strings.Count(said.String(), "that this server has applied"); got == 1 != c.late || got > 1 {
			t.Errorf("%s: %s", c.what, said)
		}
	}
}

// TestSkipsPassed: a server says which of the entries 10 to 12, that it has just applied, a peer waits to skip.
func TestSkipsPassed(t *testing.T) {
	t.Parallel()
	var entries []*pb.Entry
	for i := range uint64(3) {
		entries = append(entries, entry(10+i, 1))
	}
	for _, c := range []struct {
		theirs storage.Skip
		own    bool
		late   bool
	}{
		{decision(9, "x", false), false, false}, {decision(10, "x", false), false, true},
		{decision(12, "x", false), false, true}, {decision(13, "x", false), false, false},
		{decision(11, "x", true), false, false}, {decision(11, "x", false), true, false},
	} {
		s, said := skipping(t)
		if s.passed(entries); said.Len() > 0 {
			t.Errorf("no peer has told anything: %s", said)
		}
		s.told[9] = map[uint64]storage.Skip{c.theirs.Index: c.theirs}
		if c.own {
			s.own[c.theirs.Index] = &c.theirs
		}
		s.passed(nil)
		s.passed(entries)
		if late := strings.Contains(said.String(), "that this server has applied"); late != c.late {
			t.Errorf("entry %d, agreed: %t, its own: %t: %s", c.theirs.Index, c.theirs.Agreed, c.own, said)
		}
	}
}

// TestSkipsMissing: whose decisions are missing, and who has decided about another entry, for server 1.
func TestSkipsMissing(t *testing.T) {
	t.Parallel()
	own, other := decision(5, "x", false), decision(5, "y", false)
	agreed, elsewhere := decision(5, "x", true), decision(6, "x", true)
	conf := &pb.ConfState{
		Voters: []uint64{3, 1, 2}, VotersOutgoing: []uint64{4, 3}, Learners: []uint64{6, 5}, LearnersNext: []uint64{7},
	}
	named := []Member{{ID: 1}, {ID: 2}, {ID: 3}, {ID: 4}, {ID: 5}, {ID: 7}} // 6 is a guest
	for _, c := range []struct {
		what            string
		told            map[uint64]storage.Skip
		missing, differ []uint64
	}{
		{"nobody", nil, []uint64{2, 3, 4, 5, 7}, nil},
		{"all", map[uint64]storage.Skip{2: own, 3: own, 4: own, 5: own, 7: own}, nil, nil},
		{"two differ", map[uint64]storage.Skip{2: other, 3: own, 4: own, 5: other, 7: own}, nil, []uint64{2, 5}},
		{"another entry", map[uint64]storage.Skip{2: elsewhere}, []uint64{2, 3, 4, 5, 7}, nil},
		{"one knows that it is agreed", map[uint64]storage.Skip{2: other, 7: agreed}, nil, nil},
		{"a guest says so", map[uint64]storage.Skip{6: agreed}, []uint64{2, 3, 4, 5, 7}, nil},
	} {
		s := skips{view: &view{id: 1, conf: conf, wanted: named}, told: map[uint64]map[uint64]storage.Skip{}}
		for id, theirs := range c.told {
			s.told[id] = map[uint64]storage.Skip{theirs.Index: theirs}
		}
		if missing, differ := s.missing(&own); !slices.Equal(missing, c.missing) || !slices.Equal(differ, c.differ) {
			t.Errorf("%s: %v are missing, %v differ", c.what, missing, differ)
		}
	}
}

// TestSkipsWithheld: a server isn't sent an entry whose decision is agreed until it has announced the same decision.
// That is said once, after withheldTicks, and again if it happens later.
func TestSkipsWithheld(t *testing.T) {
	t.Parallel()
	agreed, other := decision(5, "x", true), decision(5, "y", true)
	app := func(typ pb.MessageType, index uint64) *pb.Message {
		return &pb.Message{Type: typ.Enum(), To: new(uint64(2)), Entries: []*pb.Entry{entry(4, 1), entry(index, 1)}}
	}
	for _, c := range []struct {
		what      string
		m         *pb.Message
		own       storage.Skip
		told      map[uint64]storage.Skip
		withholds bool
	}{
		{"not told", app(pb.MsgApp, 5), agreed, nil, true},
		{"told of another", app(pb.MsgApp, 5), agreed, map[uint64]storage.Skip{5: other}, true},
		{"told", app(pb.MsgApp, 5), agreed, map[uint64]storage.Skip{5: agreed}, false},
		{"not agreed here", app(pb.MsgApp, 5), decision(5, "x", false), nil, false},
		{"without the entry", app(pb.MsgApp, 6), agreed, nil, false},
		{"no append", app(pb.MsgAppResp, 5), agreed, nil, false},
	} {
		s, said := skipping(t)
		s.own[5], s.told[2] = &c.own, c.told
		for _, after := range []uint64{0, 1, withheldTicks, withheldTicks + 1, withheldTicks + 2, 3 * withheldTicks} {
			s.ticks = 10 + after
			if s.withholds(c.m) != c.withholds {
				t.Errorf("%s: withheld: %t", c.what, !c.withholds)
			}
			want := 0
			if c.withholds && after > withheldTicks {
				want = 1
			}
			if n := strings.Count(said.String(), "is not sent"); n != want {
				t.Errorf("%s: said %d times after %d ticks", c.what, n, after)
			}
		}
		if !c.withholds {
			continue
		}
		if s.withholds(app(pb.MsgApp, 6)) || len(s.withheld) > 0 {
			t.Errorf("%s: other entries are withheld, %v", c.what, s.withheld)
		}
	}
	s, said := skipping(t)
	s.own[5], s.ticks = &agreed, 0
	s.withholds(app(pb.MsgApp, 5)) // before the first tick
	if s.ticks = withheldTicks + 1; !s.withholds(app(pb.MsgApp, 5)) || said.Len() > 0 {
		t.Errorf("after %d ticks: %s", s.ticks-1, said)
	}
	if s.ticks++; !s.withholds(app(pb.MsgApp, 5)) || !strings.Contains(said.String(), "is not sent") {
		t.Error("nothing was said")
	}
}

// TestSkipsRelease: entries from an undecided one on wait, in order, and the responses that raft gets are those of the
// entries that are applied. Entries that a snapshot has brought are passed over.
func TestSkipsRelease(t *testing.T) {
	t.Parallel()
	apply := func(first, last uint64) *pb.Message {
		m := &pb.Message{Responses: []*pb.Message{{Type: pb.MsgStorageApplyResp.Enum(), To: new(uint64(1))}}}
		for i := first; i <= last; i++ {
			m.Entries = append(m.Entries, entry(i, 1))
		}
		m.Responses[0].Entries = m.Entries
		return m
	}
	indexes := func(m *pb.Message) (list []uint64) {
		for _, e := range m.GetEntries() {
			list = append(list, e.GetIndex())
		}
		return list
	}
	s, _ := skipping(t)
	if s.holds(nil) || s.holds(apply(3, 5)) {
		t.Fatal("entries wait, though nothing was decided")
	}
	own := decision(5, "", false)
	s.own[5] = &own
	s.told[2] = map[uint64]storage.Skip{}
	s.wanted = nil
	s.conf = &pb.ConfState{Voters: []uint64{1, 2}}
	if s.holds(apply(3, 4)) || !s.holds(apply(3, 6)) || !s.holds(apply(7, 8)) {
		t.Fatal("entries wait that don't have to, or don't wait that have to")
	}
	next := func(want []uint64, responses []uint64) {
		t.Helper()
		m := s.release()
		if m == nil {
			t.Fatalf("nothing is released, want %v", want)
		}
		if len(m.GetResponses()) != 1 || !slices.Equal(indexes(m), want) ||
			!slices.Equal(indexes(m.GetResponses()[0]), responses) {
			t.Errorf("released %v with responses %v, want %v, %v", indexes(m), m.GetResponses(), want, responses)
		}
		if len(want) > 0 {
			s.applied = want[len(want)-1]
		}
	}
	waits := func() {
		t.Helper()
		if m := s.release(); m != nil {
			t.Errorf("entries %v are released", indexes(m))
		}
	}
	next([]uint64{3, 4}, []uint64{3, 4})
	waits()
	s.told[2][5] = decision(5, "", false)
	next([]uint64{5, 6}, []uint64{5, 6})
	if kept, err := s.dir.Skips(); err != nil || len(kept) != 1 || !kept[0].Agreed {
		t.Errorf("released by %+v, %v", kept, err)
	}
	next([]uint64{7, 8}, []uint64{7, 8})
	waits()

	again := decision(10, "", false)
	s.own[10] = &again
	if !s.holds(apply(9, 10)) || !s.holds(apply(11, 12)) || !s.holds(apply(13, 13)) {
		t.Fatal("entries don't wait")
	}
	s.applied = 11 // by a snapshot
	next(nil, []uint64{9, 10})
	next([]uint64{12}, []uint64{11, 12})
	next([]uint64{13}, []uint64{13})
	s.failed = errOdd
	if s.held = append(s.held, apply(14, 14)); s.release() != nil {
		t.Error("a server that has failed applies more")
	}
}
