package quorum

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/zooid-project/zooid/internal/storage"
)

// TestRestsOnlyWithout: a server alone doesn't rest while anything waits for a tick.
func TestRestsOnlyWithout(t *testing.T) {
	t.Parallel()
	for what, is := range map[string]func(l *Loop){
		"other voters":        func(l *Loop) { l.sole = false },
		"a learner":           func(l *Loop) { l.conf = &pb.ConfState{Voters: []uint64{1}, Learners: []uint64{2}} },
		"it doesn't lead":     func(l *Loop) { l.node.state = raft.StateFollower },
		"a write":             func(l *Loop) { l.tasks.writing = true },
		"a call":              func(l *Loop) { l.tasks.calling = true },
		"a call that waits":   func(l *Loop) { l.tasks.calls = append(l.tasks.calls, call{}) },
		"no tick yet":         func(l *Loop) { l.ticks = 0 },
		"news":                func(l *Loop) { l.applied++ },
		"a change":            func(l *Loop) { l.change = &Change{} },
		"a batch":             func(l *Loop) { l.batch = []byte{1} },
		"a stray":             func(l *Loop) { l.strays.since[9] = 1 },
		"a question":          func(l *Loop) { l.reads.asked = 1 },
		"an answer":           func(l *Loop) { l.reads.ready = 1 },
		"a snapshot":          func(l *Loop) { l.snap.wanted = true },
		"a member to be":      func(l *Loop) { l.wanted = ids(1, 2) },
		"":                    func(*Loop) {},
		"itself alone wanted": func(l *Loop) { l.wanted = ids(1) },
	} {
		c := newCluster(t, 1)
		b := c.leader1()
		c.step(2)
		rests := what == "" || what == "itself alone wanted"
		if is(b.loop); b.loop.Resting() != rests {
			t.Errorf("with %q it rests: %t", what, !rests)
		}
	}
}

// TestElected: whether a server may belong to an ensemble that has elected a leader.
func TestElected(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		hard, node, joined uint64
		founding           *Founding
		want               bool
	}{
		{0, 0, 0, nil, false}, {bootstrapTerm, 0, 0, nil, false}, {0, bootstrapTerm + 1, 0, nil, true},
		{bootstrapTerm + 1, 0, 0, nil, true}, {0, 0, 1, nil, true}, {5, 5, 0, &Founding{Term: 5}, false},
		{6, 5, 0, &Founding{Term: 5}, true},
	} {
		l := &Loop{hard: pb.HardState{Term: &c.hard}, o: LoopOptions{Founding: c.founding}}
		l.node, l.joining.after = &Node{term: c.node}, c.joined
		if l.elected() != c.want {
			t.Errorf("%+v: elected: %t", c, !c.want)
		}
	}
}

// TestReports: a follower sends its leader a report every reportTicks, if there is one.
func TestReports(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 2, 3)
	lead := c.elect(1)
	c.step(5)
	f := c.nodes[2]
	reports := 0
	for _, b := range []*node{lead, f} {
		b.sent = func(to uint64, kind FrameKind, _ []byte) {
			if kind != FrameReport {
				return
			}
			if reports++; to != 1 || b != f || f.loop.ticks%reportTicks != 0 {
				t.Errorf("server %d reports to server %d at tick %d", b.id, to, b.loop.ticks)
			}
		}
	}
	c.step(4 * reportTicks)
	lead.report, f.report = []byte("x"), []byte{}
	if c.step(4 * reportTicks); reports > 0 {
		t.Errorf("%d empty reports", reports)
	}
	f.report = []byte("x")
	if c.step(4 * reportTicks); reports != 4 {
		t.Errorf("%d reports in %d ticks", reports, 4*reportTicks)
	}
	f.loop.node.leader = 0
	for range 2 * reportTicks {
		f.loop.ticks++
		f.loop.Tick()
	}
	if reports != 4 {
		t.Error("it reports to nobody")
	}
	got := lead.reported
	f.loop.Handle(Event{Kind: EventReport, From: 3, Data: []byte("x")})
	if lead.loop.Handle(Event{Kind: EventReport, From: 3, Data: []byte("x")}); f.reported != 0 || lead.reported != got+1 {
		t.Errorf("the leader got %d reports more, a follower %d", lead.reported-got, f.reported)
	}
}

// TestStatusOfMembers: who is a voter, an observer, a guest, and not heard, and that followers are sorted.
func TestStatusOfMembers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, 1, 2)
	lead := c.elect(2)
	c.step(5)
	l := lead.loop
	l.wanted = append(ids(1, 2, 3), Member{ID: 4, Observer: true})
	l.members = l.wanted
	l.conf = &pb.ConfState{Voters: []uint64{1, 2, 3}, Learners: []uint64{4, 5}}
	l.publish()
	st := l.Status()
	if !slices.Equal(st.Voters, l.conf.GetVoters()) || !slices.Equal(st.Observers, []uint64{4}) ||
		!slices.Equal(st.Guests, []uint64{5}) || len(st.Unheard) > 0 || st.Leader != 2 || st.Applied != l.applied {
		t.Errorf("%+v", st)
	}
	if f := st.Followers; len(f) != 2 || f[0].ID != 1 || f[1].ID != 3 || !f[0].Voter || !f[0].Active || !f[0].Synced ||
		f[0].Guest || f[0].Match != l.applied {
		t.Errorf("the followers are %+v", f)
	}
	if st := c.nodes[1].loop.Status(); st.Followers != nil || st.Unheard != nil {
		t.Errorf("a follower says %+v", st)
	}
	if now, before := l.Voters(); !slices.Equal(now, []uint64{1, 2, 3}) || len(before) > 0 {
		t.Errorf("the voters are %v, before that %v", now, before)
	}
	c = newCluster(t, 1, 2, 3)
	c.crash(3)
	lead = c.leader()
	if c.step(3); !slices.Equal(lead.loop.Status().Unheard, []uint64{3}) {
		t.Errorf("servers %v are unheard of", lead.loop.Status().Unheard)
	}
}

// TestHeldVotes: of votes that come while this server writes its own, each voter's last one is kept, with its data.
func TestHeldVotes(t *testing.T) {
	t.Parallel()
	var w writes
	file := Event{Kind: EventSnapshot, From: 2}
	w.held = []Event{file}
	data := []byte("a")
	w.holdVote(Event{Kind: EventRaft, From: 2, Data: data})
	data[0] = 'b'
	w.holdVote(Event{Kind: EventRaft, From: 3, Data: data})
	data[0] = 'c'
	w.holdVote(Event{Kind: EventRaft, From: 2, Data: data})
	data[0] = 'x'
	var got []string
	for _, e := range w.held[1:] {
		got = append(got, string(e.Data))
	}
	if w.held[0].Kind != EventSnapshot || !slices.Equal(got, []string{"b", "c"}) || w.held[2].From != 2 {
		t.Errorf("held: %+v", w.held)
	}
}

// TestLastEntry: the last entry that raft has handed out: of the appends that wait, the snapshot being installed, the
// write under way, or the log.
func TestLastEntry(t *testing.T) {
	t.Parallel()
	b := newCluster(t, 1).leader1()
	inLog := b.loop.applied
	logTerm, err := b.dir.Log().Term(inLog)
	if err != nil || logTerm == 0 {
		t.Fatal(logTerm, err)
	}
	entries := func(last ...uint64) *pb.Message {
		m := &pb.Message{}
		for _, index := range last {
			m.Entries = append(m.Entries, entry(index, index+10))
		}
		return m
	}
	snap := func(index uint64) *pb.Message {
		return &pb.Message{Snapshot: &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: &index, Term: new(index + 10)}}}
	}
	for _, c := range []struct {
		what    string
		appends []*pb.Message
		install *pb.SnapshotMetadata
		write   *pb.Message
		want    uint64
	}{
		{"the log", nil, nil, nil, inLog},
		{"a write", nil, nil, entries(20, 21), 21},
		{"a write without entries", nil, nil, entries(), inLog},
		{"a snapshot being installed", nil, snap(30).Snapshot.Metadata, nil, 30},
		{"an append", []*pb.Message{entries(40, 41)}, nil, entries(20, 21), 41},
		{"the last append", []*pb.Message{entries(40, 41), entries(42, 43), entries()}, nil, entries(20, 21), 43},
		{"a snapshot among them", []*pb.Message{entries(40, 41), snap(50)}, nil, entries(20, 21), 50},
		{"appends without entries", []*pb.Message{entries()}, nil, entries(20, 21), 21},
	} {
		w := &b.loop.writes
		w.appends, w.installing = c.appends, c.install
		w.tasks.task, w.tasks.writing = Task{message: c.write}, c.write != nil
		index, term, err := w.lastEntry()
		wantTerm := c.want + 10
		if c.want == inLog {
			wantTerm = logTerm
		}
		if term != wantTerm || index != c.want || err != nil {
			t.Errorf("%s: entry %d of term %d, %v; want %d", c.what, index, term, err, c.want)
		}
		if installs := slices.ContainsFunc(c.appends, func(m *pb.Message) bool { return m.Snapshot != nil }); w.installs() !=
			installs || w.pending() != (len(c.appends) > 0 || c.write != nil) {
			t.Errorf("%s: installs: %t, pending: %t", c.what, w.installs(), w.pending())
		}
	}
	w := &b.loop.writes
	w.appends, w.tasks.task, w.tasks.writing = nil, Task{message: entries(20)}, false
	if index, _, _ := w.lastEntry(); index != inLog {
		t.Errorf("a write that is over counts: %d", index)
	}
}

// TestStuckLeaderTransfers: when a leader whose task takes long asks another server to lead.
func TestStuckLeaderTransfers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what string
		is   func(c *cluster, l *Loop)
		want bool
	}{
		{"stuck", func(*cluster, *Loop) {}, true},
		{"not yet", func(_ *cluster, l *Loop) { l.tasks.since++ }, false},
		{"nothing to do", func(_ *cluster, l *Loop) { l.tasks.writing = false }, false},
		{"a call", func(_ *cluster, l *Loop) { l.tasks.writing, l.tasks.calling = false, true }, true},
		{"it doesn't lead", func(_ *cluster, l *Loop) { l.node.state = raft.StateFollower }, false},
		{"others lack an entry", func(_ *cluster, l *Loop) {
			l.writes.appends = []*pb.Message{{Entries: []*pb.Entry{entry(l.applied+1, 9)}}}
		}, false},
		{"one is gone", func(c *cluster, l *Loop) {
			c.crash(3)
			c.step(30)
			l.tasks.writing, l.tasks.since = true, l.ticks-stuckTicks
		}, false},
		{"outgoing voters are needed", func(_ *cluster, l *Loop) {
			l.conf = &pb.ConfState{Voters: []uint64{1, 2, 3}, VotersOutgoing: []uint64{1, 8, 9}}
		}, false},
		{"the new voters are needed", func(_ *cluster, l *Loop) {
			l.conf = &pb.ConfState{Voters: []uint64{1, 8, 9}, VotersOutgoing: []uint64{1, 2, 3}}
		}, false},
	} {
		cl := newCluster(t, 1, 2, 3)
		l := cl.elect(1).loop
		cl.step(5)
		l.tasks.writing, l.tasks.since = true, l.ticks-stuckTicks
		c.is(cl, l)
		if l.writes.tick(&l.leadership); l.node.Transferring() != c.want || l.leadership.handing != c.want {
			t.Errorf("%s: it hands over: %t", c.what, !c.want)
		}
	}
}

// TestFailedServer: a server that has failed does nothing more, and keeps its first error.
func TestFailedServer(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 2, 3)
	b := c.elect(1)
	c.step(5)
	l := b.loop
	b.say(1)
	l.failed = errOdd
	ticks := l.ticks
	l.Tick()
	w, err := b.dir.ReceiveSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	l.Handle(Event{Kind: EventSnapshot, From: 2, File: w})
	l.Handle(Event{Kind: EventDeparted, From: 2})
	if err := w.WriteRaw([]byte{1}); err == nil {
		t.Error("a peer's snapshot isn't given up")
	}
	if task := l.Advance(); task != nil || l.ticks != ticks || !errors.Is(l.Failed(), errOdd) || len(b.applied) > 0 {
		t.Errorf("task %v, %d ticks, %v, applied %v", task, l.ticks-ticks, l.Failed(), b.applied)
	}
	l.tasks.start(Task{call: func() error { return nil }}, func() { t.Error("it goes on after a call") })
	if task := l.Advance(); task != nil || !l.tasks.due {
		t.Error("a task is begun")
	}
	l.tasks.due = false
	l.tasks.task.err = errPoison
	if l.Done(); !errors.Is(l.Failed(), errOdd) {
		t.Errorf("the first error is lost: %v", l.Failed())
	}
	l.take(&pb.Message{Entries: []*pb.Entry{entry(90, 9)}, Term: new(uint64(9))}, nil)
	if l.tasks.due || l.tasks.writing {
		t.Error("a write is begun")
	}

	b = c.nodes[2]
	called := 0
	fails := func() error { called++; return errOdd }
	b.loop.call(fails, func() { called += 10 })
	b.loop.call(fails, nil)
	if b.loop.Turn(); called != 1 || !errors.Is(b.loop.Failed(), errOdd) {
		t.Errorf("called %d, %v", called, b.loop.Failed())
	}
	b, called = c.nodes[3], 0
	b.loop.tasks.writing = true
	b.loop.call(fails, func() { called += 10 })
	b.loop.call(func() error { called += 100; return nil }, nil)
	if called != 1 || !errors.Is(b.loop.Failed(), errOdd) {
		t.Errorf("called %d during a write, %v", called, b.loop.Failed())
	}
}

// TestFailedWriteIsNotAnswered: what needn't be synced may fail as well, and nothing is sent then.
func TestFailedWriteIsNotAnswered(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 2, 3)
	b := c.elect(1)
	c.step(5)
	l := b.loop
	sent := 0
	b.sent = func(uint64, FrameKind, []byte) { sent++ }
	m := &pb.Message{
		Term: l.hard.Term, Vote: l.hard.Vote, Commit: l.hard.Commit,
		Responses: []*pb.Message{said(pb.MsgHeartbeatResp, l.hard.GetTerm(), func(m *pb.Message) { m.To = new(uint64(2)) })},
	}
	if l.write(m); sent != 1 || l.failed != nil || l.tasks.due {
		t.Errorf("%d messages, %v; a write is due: %t", sent, l.failed, l.tasks.due)
	}
	b.fs.Hook = func(c storage.Call) error {
		if c.Op == "fdatasync" {
			return errOdd
		}
		return nil
	}
	if err := l.disk.Append(nil, nil, true); err == nil {
		t.Fatal("the log goes on after a failed sync")
	}
	if l.write(m); sent != 1 || !errors.Is(l.failed, errOdd) {
		t.Errorf("%d messages, %v", sent, l.failed)
	}
	l.failed = nil
	if l.Tick(); !errors.Is(l.Failed(), errOdd) {
		t.Errorf("at the next tick: %v", l.Failed())
	}
}

// TestEntriesAreAppliedInOrder: raft never hands out an entry twice, or leaves one out.
func TestEntriesAreAppliedInOrder(t *testing.T) {
	t.Parallel()
	for _, skip := range []uint64{0, 2} {
		l := newCluster(t, 1).leader1().loop
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("entry %d is applied after %d", l.applied+skip, l.applied)
				}
			}()
			l.gather([]*pb.Entry{entry(l.applied+skip, 1)})
		}()
	}
}

// TestRefusedMessages: refused messages are logged for each peer once in refusedTicks, with their number.
func TestRefusedMessages(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	l := &Loop{}
	l.log = slog.New(slog.NewTextHandler(&said, nil))
	refuse := func(what string, from uint64, err error, want string) {
		t.Helper()
		l.messages.refuse(l, from, err)
		if got := said.String(); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q", what, got)
		}
		said.Reset()
	}
	l.ticks = 100
	refuse("the first", 2, errOdd, "peer=2 messages=1")
	refuse("again", 2, errOdd, "")
	refuse("another peer's", 3, errOdd, "peer=3 messages=1")
	l.ticks += refusedTicks - 1
	refuse("soon", 2, errOdd, "")
	l.ticks++
	refuse("later", 2, errOdd, "peer=2 messages=3")
	refuse("a lost entry", 4, &lostEntryError{Index: 9, Last: 5}, "leader=4 acknowledged=9 logEndsAt=5")
	refuse("an earlier lost entry", 4, &lostEntryError{Index: 8, Last: 5}, "")
	if l.messages.lost != 9 {
		t.Errorf("entry %d is lost", l.messages.lost)
	}
	most := 0
	for id := range uint64(2 * lostMax) {
		l.messages.refuse(l, 100+id, errOdd)
		most = max(most, len(l.messages.until), len(l.messages.count))
	}
	if most != lostMax {
		t.Errorf("%d peers are noted", most)
	}
}

// TestStrangersMessages: raft takes a message of a server that isn't a member for an error; this server drops it.
func TestStrangersMessages(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 2, 3)
	lead := c.elect(1)
	c.step(5)
	term := lead.loop.node.Term()
	stranger := said(pb.MsgAppResp, term, func(m *pb.Message) { m.From = new(uint64(9)) })
	if err := lead.loop.node.Step(stranger); err != nil {
		t.Errorf("a stranger's message: %v", err)
	}
	dropped := said(pb.MsgProp, 0, func(m *pb.Message) { m.Entries = []*pb.Entry{{Data: []byte{1}}} })
	if err := c.nodes[2].loop.node.Step(dropped); err != nil {
		t.Errorf("a proposal to a follower: %v", err)
	}
	if err := lead.loop.node.Step(said(pb.MsgHup, 0, nil)); err == nil {
		t.Error("a message that only raft itself sends is taken")
	}
	garbage := Event{Kind: EventRaft, From: 2, Data: []byte{0xff}}
	if err := lead.loop.step(garbage); err == nil {
		t.Error("a message that can't be decoded is taken")
	}
}

// TestLargeFrames: the memory of a message is kept for the next one unless it is large.
func TestLargeFrames(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 2, 3)
	l := c.elect(1).loop
	c.step(5)
	for _, n := range []int{100, FrameKeepBytes + 1, 200} {
		m := said(pb.MsgApp, 1, func(m *pb.Message) {
			m.To, m.Entries = new(uint64(2)), []*pb.Entry{{Data: make([]byte, n)}}
		})
		l.frame = nil
		l.send(m)
		if kept := cap(l.frame) >= proto.Size(m); kept != (n < FrameKeepBytes) {
			t.Errorf("the memory of a message with %d bytes is kept: %t", n, kept)
		}
	}
}

// kept is a Shell that keeps what it is asked to send, and has the connections and the room that it is told.
type kept struct {
	Shell
	frames    []FrameKind
	to        []uint64
	snapshots []uint64
	linked    bool
	room      bool
}

func (k *kept) Connected(uint64) bool { return k.linked }
func (k *kept) Room(uint64) bool      { return k.room }

func (k *kept) Send(to uint64, kind FrameKind, _ []byte) bool {
	k.frames, k.to = append(k.frames, kind), append(k.to, to)
	return k.linked
}

func (k *kept) SendSnapshot(_, index uint64, _ []byte) { k.snapshots = append(k.snapshots, index) }

// TestSends: what becomes of a message of raft: it is sent, withheld, or can't be sent, which raft is told.
func TestSends(t *testing.T) {
	t.Parallel()
	snap := func(learners ...uint64) func(m *pb.Message) {
		return func(m *pb.Message) {
			m.Snapshot = &pb.Snapshot{Metadata: &pb.SnapshotMetadata{
				Index: new(uint64(2)), Term: new(uint64(1)), ConfState: &pb.ConfState{Voters: []uint64{1}, Learners: learners},
			}}
		}
	}
	for _, c := range []struct {
		what   string
		typ    pb.MessageType
		more   func(m *pb.Message)
		is     func(l *Loop, k *kept)
		frames int
		file   bool
		probes bool // raft is told that the message is lost
		wanted bool
	}{
		{what: "entries", typ: pb.MsgApp, frames: 1},
		{what: "entries, without a connection", typ: pb.MsgApp, is: func(_ *Loop, k *kept) { k.linked = false }, frames: 1,
			probes: true},
		{what: "a heartbeat, without a connection", typ: pb.MsgHeartbeat, is: func(_ *Loop, k *kept) { k.linked = false },
			frames: 1},
		{what: "entries of a later level", typ: pb.MsgApp, is: func(l *Loop, _ *kept) { l.levels.inForce = 3 }, probes: true},
		{what: "a snapshot", typ: pb.MsgSnap, more: snap(2), file: true},
		{what: "a snapshot of a later level", typ: pb.MsgSnap, more: snap(2),
			is: func(l *Loop, _ *kept) { l.levels.inForce = 3 }},
		{what: "a snapshot without the receiver", typ: pb.MsgSnap, more: snap(3), wanted: true},
		{what: "a snapshot of a doubtful state", typ: pb.MsgSnap, more: snap(2),
			is: func(l *Loop, _ *kept) { l.doubts.open = true }},
	} {
		cl := newCluster(t, 1, 2, 3)
		l := cl.elect(1).loop
		cl.step(5)
		k := &kept{Shell: l.shell, linked: true, room: true}
		l.shell, l.doubts.giving.until = k, l.ticks+9
		if c.is != nil {
			c.is(l, k)
		}
		l.snap.wanted = false
		l.send(said(c.typ, l.node.Term(), func(m *pb.Message) {
			m.To = new(uint64(2))
			if c.more != nil {
				c.more(m)
			}
		}))
		if len(k.frames) != c.frames || len(k.snapshots) == 1 != c.file || l.snap.wanted != c.wanted ||
			(l.snap.sent[2] == 2) != c.file {
			t.Errorf("%s: frames %v, snapshots %v; one is wanted: %t", c.what, k.frames, k.snapshots, l.snap.wanted)
		}
		if probes := !l.node.replicates(2); probes != c.probes {
			t.Errorf("%s: raft takes it for lost: %t", c.what, probes)
		}
	}
}

// TestFeeds: who gets the requests of this server's clients: raft, the leader, or nobody yet.
func TestFeeds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what    string
		server  uint64
		is      func(l *Loop, k *kept)
		frames  int  // to the leader
		waiting bool // the requests stay where they are
	}{
		{"a leader", 1, nil, 0, false},
		{"a leader that hands over", 1, func(l *Loop, _ *kept) { l.node.TransferLeadership(2) }, 0, true},
		{"during a write", 1, func(l *Loop, _ *kept) { l.tasks.writing = true }, 0, true},
		{"during a call", 1, func(l *Loop, _ *kept) { l.tasks.calling = true }, 0, true},
		{"a follower", 2, nil, 1, false},
		{"a follower during a write", 2, func(l *Loop, _ *kept) { l.tasks.writing = true }, 0, true},
		{"a follower without a connection", 2, func(_ *Loop, k *kept) { k.linked = false }, 0, true},
		{"a follower without room", 2, func(_ *Loop, k *kept) { k.room = false }, 0, true},
		{"a follower without a leader", 2, func(l *Loop, _ *kept) { l.node.leader = 0 }, 0, true},
	} {
		cl := newCluster(t, 1, 2, 3)
		cl.elect(1)
		cl.step(5)
		b := cl.nodes[c.server]
		l := b.loop
		k := &kept{Shell: l.shell, linked: true, room: true}
		l.shell = k
		if b.say(7); c.is != nil {
			c.is(l, k)
		}
		for range 2 {
			l.feed()
		}
		sent := 0
		for i, kind := range k.frames {
			if kind == FrameForward && k.to[i] == 1 {
				sent++
			}
		}
		if sent != c.frames || len(b.waiting) == 1 != c.waiting || l.batch != nil {
			t.Errorf("%s: %d frames to the leader, %d requests wait; a batch waits: %t", c.what, sent, len(b.waiting),
				l.batch != nil)
		}
		if c.server == 1 && !c.waiting && !l.node.HasReady() {
			t.Errorf("%s: raft has nothing to do", c.what)
		}
	}
}

// TestSnapshotEvents: what a leader is told of a snapshot that was sent.
func TestSnapshotEvents(t *testing.T) {
	t.Parallel()
	l := newCluster(t, 1, 2, 3).elect(1).loop
	l.snap.sent[2], l.snap.sent[3] = 5, 5
	l.Handle(Event{Kind: EventSent, From: 2})
	l.Handle(Event{Kind: EventSent, From: 3, Err: errOdd})
	if _, failed := l.snap.sent[3]; failed || l.snap.sent[2] != 5 {
		t.Errorf("sent: %v", l.snap.sent)
	}
	l.Handle(Event{Kind: EventLevel, From: 2, Level: 4, Frames: 3})
	l.Handle(Event{Kind: EventRules, From: 2, Data: []byte("x")})
	l.skips.told[2] = nil
	if l.levels.known[2] != 4 || l.levels.frames[2] != 3 || string(l.levels.rules[2]) != "x" {
		t.Errorf("levels %v, frames %v, rules %v", l.levels.known, l.levels.frames, l.levels.rules)
	}
	l.Handle(Event{Kind: EventConnected, From: 2}) // what was announced on the former connection is void
	_, rules := l.levels.rules[2]
	_, told := l.skips.told[2]
	if l.levels.known[2] != 0 || l.levels.frames[2] != 0 || rules || told {
		t.Errorf("after a new connection: levels %v, frames %v, rules %v, skips %v", l.levels.known, l.levels.frames,
			l.levels.rules, l.skips.told)
	}
}
