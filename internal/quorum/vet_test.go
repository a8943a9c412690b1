package quorum

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// vetted is server 1, in term 5 with entries up to 10, hearing from server 2.
var vetted = vetting{self: 1, from: 2, term: 5, last: 10}

// said returns a message of server 2 to server 1.
func said(typ pb.MessageType, term uint64, more func(m *pb.Message)) *pb.Message {
	m := &pb.Message{Type: typ.Enum(), From: new(uint64(2)), To: new(uint64(1)), Term: &term}
	if more != nil {
		more(m)
	}
	return m
}

func entry(index, term uint64) *pb.Entry {
	return &pb.Entry{Index: &index, Term: &term}
}

// TestVetting holds messages against the table at the top of vet.go: want is a part
// of the refusal, "" for what raft gets.
func TestVetting(t *testing.T) {
	t.Parallel()
	type message = *pb.Message
	snapshot := func(conf *pb.ConfState, index, term uint64) func(message) {
		return func(m message) {
			m.Snapshot = &pb.Snapshot{Metadata: &pb.SnapshotMetadata{Index: &index, Term: &term, ConfState: conf}}
		}
	}
	appends := func(entries ...*pb.Entry) func(message) {
		return func(m message) {
			m.Index, m.LogTerm, m.Entries, m.Commit = new(uint64(10)), new(uint64(5)), entries, new(uint64(11))
		}
	}
	typed := func(typ pb.EntryType, data []byte) *pb.Entry {
		e := entry(11, 5)
		e.Type, e.Data = typ.Enum(), data
		return e
	}
	context := func(n int) func(message) {
		return func(m message) { m.Entries = []*pb.Entry{{Data: make([]byte, n)}} }
	}
	voters := func(ids ...uint64) *pb.ConfState { return &pb.ConfState{Voters: ids} }
	for _, c := range []struct {
		what string
		m    message
		file bool
		want string
	}{
		{"another's name", said(pb.MsgHeartbeat, 5, func(m message) { m.From = new(uint64(3)) }), false,
			"in the name of server 3"},
		{"to another", said(pb.MsgHeartbeat, 5, func(m message) { m.To = new(uint64(3)) }), false, "for server 3"},
		{"to raft's own threads", said(pb.MsgHeartbeat, 5, func(m message) { m.To = new(uint64(raft.LocalAppendThread)) }),
			false, "for server"},
		{"responses", said(pb.MsgHeartbeat, 5, func(m message) { m.Responses = []message{{}} }), false, "within a server"},
		{"a vote", said(pb.MsgHeartbeat, 5, func(m message) { m.Vote = new(uint64(2)) }), false, "within a server"},
		{"the last term there is", said(pb.MsgAppResp, math.MaxUint64, nil), false, "this server is in term 5"},
		{"a term too far", said(pb.MsgPreVote, 5+termStepMax+1, nil), false, "this server is in term 5"},
		{"a term as far as may be", said(pb.MsgPreVote, 5+termStepMax, nil), false, ""},
		{"no term", said(pb.MsgHeartbeat, 0, nil), false, "of term 0"},
		{"an index too large", said(pb.MsgApp, 5, func(m message) { m.Index = new(uint64(math.MaxUint64)) }), false,
			"at most"},
		{"a long context", said(pb.MsgVote, 5, func(m message) { m.Context = make([]byte, contextSizeMax+1) }), false,
			"context"},

		{"an append", said(pb.MsgApp, 5, appends(entry(11, 5), entry(12, 5))), false, ""},
		{"of a new leader", said(pb.MsgApp, 7, appends(entry(11, 6), entry(12, 7))), false, ""},
		{"an empty append", said(pb.MsgApp, 5, appends()), false, ""},
		{"with an empty snapshot", said(pb.MsgApp, 5, func(m message) { m.Snapshot = &pb.Snapshot{} }), false, ""},
		{"a gap", said(pb.MsgApp, 5, appends(entry(11, 5), entry(13, 5))), false, "follows entry 11"},
		{"falling terms", said(pb.MsgApp, 7, appends(entry(11, 7), entry(12, 6))), false, "follows entry 11"},
		{"a term before the log's", said(pb.MsgApp, 5, appends(entry(11, 4))), false, "follows entry 10"},
		{"a later term than the message", said(pb.MsgApp, 5, appends(entry(11, 6))), false, "later than"},
		{"a change of membership", said(pb.MsgApp, 5, appends(typed(pb.EntryConfChangeV2, nil))), false, ""},
		{"one that can't be read", said(pb.MsgApp, 5, appends(typed(pb.EntryConfChange, []byte{0xff}))), false,
			"can't be decoded"},
		{"one of server 0", said(pb.MsgApp, 5, appends(typed(pb.EntryConfChange, nil))), false, "membership of server 0"},
		{"one of two servers, one of them 0", said(pb.MsgApp, 5, appends(typed(pb.EntryConfChangeV2, changesOf(t, 4, 0)))),
			false, "membership of server 0"},
		{"one of two servers", said(pb.MsgApp, 5, appends(typed(pb.EntryConfChangeV2, changesOf(t, 4, 5)))), false, ""},
		{"an unknown type of entry", said(pb.MsgApp, 5, appends(typed(9, nil))), false, "unknown type 9"},
		{"with a snapshot", said(pb.MsgApp, 5, snapshot(voters(1), 20, 5)), false, "don't belong together"},

		{"an acknowledgement", said(pb.MsgAppResp, 5, func(m message) { m.Index = new(uint64(10)) }), false, ""},
		{"of what isn't there", said(pb.MsgAppResp, 5, func(m message) { m.Index = new(uint64(11)) }), false,
			"the log ends at 10"},
		{"of an earlier term's tail", said(pb.MsgAppResp, 4, func(m message) { m.Index = new(uint64(11)) }), false, ""},
		{"a rejection", said(pb.MsgAppResp, 5, func(m message) {
			m.Index, m.Reject, m.RejectHint = new(uint64(10)), new(true), new(uint64(3))
		}), false, ""},
		{"a rejection with a later hint", said(pb.MsgAppResp, 5, func(m message) {
			m.Index, m.Reject, m.RejectHint = new(uint64(10)), new(true), new(uint64(11))
		}), false, "later hint"},

		{"a heartbeat", said(pb.MsgHeartbeat, 5, func(m message) { m.Commit, m.Context = new(uint64(10)), make([]byte, 9) }),
			false, ""},
		{"that commits what isn't there", said(pb.MsgHeartbeat, 6, func(m message) { m.Commit = new(uint64(11)) }), false,
			"log ends at 10"},
		{"that is late", said(pb.MsgHeartbeat, 4, func(m message) { m.Commit = new(uint64(11)) }), false, ""},
		{"its answer", said(pb.MsgHeartbeatResp, 5, func(m message) { m.Context = make([]byte, 9) }), false, ""},
		{"a heartbeat with entries", said(pb.MsgHeartbeat, 5, func(m message) { m.Entries = []*pb.Entry{entry(1, 1)} }),
			false, "has 1 entries"},

		{"a vote asked for", said(pb.MsgVote, 6, func(m message) {
			m.Index, m.LogTerm, m.Context = new(uint64(99)), new(uint64(6)), []byte("CampaignTransfer")
		}), false, ""},
		{"with a log from the future", said(pb.MsgVote, 6, func(m message) { m.LogTerm = new(uint64(7)) }), false,
			"later than its own"},
		{"a vote", said(pb.MsgVoteResp, 6, nil), false, ""},
		{"a pre-vote refused", said(pb.MsgPreVoteResp, 6, func(m message) { m.Reject = new(true) }), false, ""},
		{"a vote refused", said(pb.MsgVoteResp, 6, func(m message) { m.Reject = new(true) }), false, ""},
		{"a heartbeat refused", said(pb.MsgHeartbeatResp, 5, func(m message) { m.Reject = new(true) }), false, "rejects"},
		{"entries refused", said(pb.MsgApp, 5, func(m message) { m.Reject = new(true) }), false, "rejects"},
		{"an election asked for", said(pb.MsgTimeoutNow, 5, nil), false, ""},

		{"a read index", said(pb.MsgReadIndex, 0, context(9)), false, ""},
		{"with a term", said(pb.MsgReadIndex, 5, context(9)), false, "of term 5"},
		{"without a question", said(pb.MsgReadIndex, 0, nil), false, "has 0 entries"},
		{"with a long one", said(pb.MsgReadIndex, 0, context(contextSizeMax+1)), false, "not one of at most"},
		{"its answer", said(pb.MsgReadIndexResp, 5, context(9)), false, ""},

		{"a snapshot", said(pb.MsgSnap, 5, snapshot(voters(1, 2, 3), 20, 5)), true, ""},
		{"in a joint membership", said(pb.MsgSnap, 5, snapshot(&pb.ConfState{
			Voters: []uint64{1, 2}, VotersOutgoing: []uint64{1, 3}, LearnersNext: []uint64{3}, AutoLeave: new(true),
		}, 20, 5)), true, ""},
		{"without its file", said(pb.MsgSnap, 5, snapshot(voters(1, 2), 20, 5)), false, "don't belong together"},
		{"a file without a snapshot", said(pb.MsgHeartbeat, 5, nil), true, "don't belong together"},
		{"without this server", said(pb.MsgSnap, 5, snapshot(voters(2, 3), 20, 5)), true, "not this server"},
		{"without voters", said(pb.MsgSnap, 5, snapshot(&pb.ConfState{Learners: []uint64{1}}, 20, 5)), true, "no voters"},
		{"who votes and doesn't",
			said(pb.MsgSnap, 5, snapshot(&pb.ConfState{Voters: []uint64{1, 2}, Learners: []uint64{1}}, 20, 5)), true,
			"is invalid"},
		{"of index 0", said(pb.MsgSnap, 5, snapshot(voters(1), 0, 5)), true, "of index 0"},
		{"of a later term", said(pb.MsgSnap, 5, snapshot(voters(1), 20, 6)), true, "of term 6"},

		{"a proposal", said(pb.MsgProp, 5, nil), false, "no server sends it"},
		{"an election within a server", said(pb.MsgHup, 5, nil), false, "no server sends it"},
		{"a response of raft's storage", said(pb.MsgStorageAppendResp, 5, nil), false, "no server sends it"},
		{"a transfer", said(pb.MsgTransferLeader, 5, nil), false, "no server sends it"},
		{"a type of the future", said(99, 5, nil), false, "no server sends it"},
	} {
		v := vetted
		v.file = c.file
		err := v.check(c.m)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
	}
	many := said(pb.MsgApp, 5, func(m *pb.Message) {
		for range entriesMax + 1 {
			m.Entries = append(m.Entries, &pb.Entry{})
		}
	})
	b, err := proto.Marshal(many)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := decodeMessage(b); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("%d entries: %v", entriesMax+1, err)
	}
	many.Entries = many.Entries[1:]
	if b, err = proto.Marshal(many); err != nil {
		t.Fatal(err)
	}
	if m, err := decodeMessage(b); err != nil || len(m.GetEntries()) != 1<<16 {
		t.Errorf("as many entries as a message may have: %d, %v", len(m.GetEntries()), err)
	}
}

// changesOf returns the data of an entry that makes servers voters.
func changesOf(t *testing.T, ids ...uint64) []byte {
	t.Helper()
	cc := &pb.ConfChangeV2{}
	for _, id := range ids {
		cc.Changes = append(cc.Changes, change(pb.ConfChangeAddNode, id))
	}
	b, err := proto.Marshal(cc)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// lastTerm is 19 bytes: an acknowledgement of server 2 in the last term there is.
func lastTerm(t *testing.T) []byte {
	t.Helper()
	b, err := proto.Marshal(said(pb.MsgAppResp, math.MaxUint64, nil))
	if err != nil || len(b) > 19 {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	return b
}

// TestHostileMessages gives a running server what no honest peer sends; it goes on
// and still agrees with the others.
func TestHostileMessages(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	c.leader()
	c.nodes[1].say(1)
	c.step(10)
	hostile := [][]byte{lastTerm(t), {}, {0xff}, make([]byte, 100)}
	for _, m := range []*pb.Message{
		said(pb.MsgHeartbeat, math.MaxUint64, nil),
		said(pb.MsgHeartbeat, 3, func(m *pb.Message) { m.Commit = new(uint64(1 << 40)) }),
		said(pb.MsgAppResp, 2, func(m *pb.Message) { m.Index = new(uint64(1 << 40)) }),
		said(pb.MsgSnap, 3, func(m *pb.Message) {
			m.Snapshot = &pb.Snapshot{
				Metadata: &pb.SnapshotMetadata{
					Index: new(uint64(1 << 40)), Term: new(uint64(1)), ConfState: &pb.ConfState{Voters: []uint64{1}},
				},
			}
		}),
		said(pb.MsgStorageApplyResp, 2, func(m *pb.Message) { m.Entries = []*pb.Entry{entry(1<<40, 1)} }),
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		hostile = append(hostile, b)
	}
	term := c.nodes[1].loop.node.Term()
	for _, b := range hostile {
		c.nodes[1].loop.Handle(Event{Kind: EventRaft, From: 2, Data: b})
		c.nodes[1].loop.Turn()
	}
	if now := c.nodes[1].loop.node.Term(); now != term {
		t.Errorf("the term is %d, and was %d", now, term)
	}
	c.nodes[2].say(2)
	c.step(30)
	c.agreed(2)
}

// FuzzVetting gives raft what passes the vetting. Its panics are the failures: of a
// leader, and of a follower.
func FuzzVetting(f *testing.F) {
	for _, m := range []*pb.Message{
		said(pb.MsgAppResp, math.MaxUint64, nil),
		said(pb.MsgHeartbeat, 2, func(m *pb.Message) { m.Commit = new(uint64(3)) }),
		said(pb.MsgApp, 2, func(m *pb.Message) {
			m.Index, m.LogTerm, m.Entries = new(uint64(3)), new(uint64(2)), []*pb.Entry{entry(4, 2)}
		}),
		said(pb.MsgAppResp, 2,
			func(m *pb.Message) { m.Index, m.Reject, m.RejectHint = new(uint64(3)), new(true), new(uint64(1)) }),
		said(pb.MsgVote, 3, func(m *pb.Message) { m.Index, m.LogTerm = new(uint64(9)), new(uint64(2)) }),
		said(pb.MsgReadIndex, 0, func(m *pb.Message) { m.Entries = []*pb.Entry{{Data: []byte("r")}} }),
		said(pb.MsgTimeoutNow, 2, nil),
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, false)
		f.Add(b, true)
	}
	f.Fuzz(func(t *testing.T, data []byte, leads bool) {
		m, err := decodeMessage(data)
		if err != nil {
			return
		}
		s := raft.NewMemoryStorage()
		n, err := NewNode(NodeOptions{ID: 1, ElectionTicks: 10, Storage: s})
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Bootstrap([]uint64{1, 2, 3}); err != nil {
			t.Fatal(err)
		}
		settle(t, n, s)
		if leads {
			if err := n.Campaign(); err != nil {
				t.Fatal(err)
			}
			settle(t, n, s)
			for _, typ := range []pb.MessageType{pb.MsgPreVoteResp, pb.MsgVoteResp} {
				if err := n.Step(said(typ, 2, nil)); err != nil {
					t.Fatal(err)
				}
				settle(t, n, s)
			}
			if !n.IsLeader() {
				t.Fatal("it doesn't lead")
			}
		}
		last, _ := s.LastIndex()
		if err := (vetting{self: 1, from: 2, term: n.Term(), last: last}).check(m); err != nil {
			return
		}
		n.Step(m)
		settle(t, n, s)
		n.Tick()
		settle(t, n, s)
	})
}

// settle carries out what the node wants on a storage in memory.
func settle(t *testing.T, n *Node, s *raft.MemoryStorage) {
	t.Helper()
	var ef Effects
	for range 100 {
		if !n.Turn(&ef) {
			return
		}
		var own []*pb.Message
		if m := ef.Append; m != nil {
			if err := s.Append(m.GetEntries()); err != nil {
				t.Fatal(err)
			}
			own = append(own, m.GetResponses()...)
		}
		if m := ef.Apply; m != nil {
			for _, e := range m.GetEntries() {
				if reconfigures(e) {
					if _, err := n.ApplyConfChange(e); err != nil {
						return // raft says so, and the loop ends the server: see step
					}
				}
			}
			own = append(own, m.GetResponses()...)
		}
		for _, m := range own {
			if m.GetTo() == 1 {
				if err := n.Step(m); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// TestSecondLeaderOfATerm: only one server leads a term, so a server takes nothing from another one in that term that
// only a leader sends.
func TestSecondLeaderOfATerm(t *testing.T) {
	t.Parallel()
	snapshot := func(m *pb.Message) {
		m.Snapshot = &pb.Snapshot{Metadata: &pb.SnapshotMetadata{
			Index: new(uint64(20)), Term: new(uint64(5)), ConfState: &pb.ConfState{Voters: []uint64{1, 2, 3}},
		}}
	}
	for typ, ofLeader := range map[pb.MessageType]bool{
		pb.MsgApp: true, pb.MsgHeartbeat: true, pb.MsgSnap: true, pb.MsgTimeoutNow: true,
		pb.MsgVote: false, pb.MsgVoteResp: false, pb.MsgAppResp: false, pb.MsgHeartbeatResp: false,
	} {
		for leader, others := range map[uint64]bool{0: false, 1: true, 2: false, 3: true} {
			for term, own := range map[uint64]bool{4: false, 5: true, 6: false} {
				v := vetted
				v.leader, v.file = leader, typ == pb.MsgSnap
				m := said(typ, term, nil)
				if v.file {
					snapshot(m)
					m.Snapshot.Metadata.Term = new(uint64(4))
				}
				refused := ofLeader && others && own
				if err := v.check(m); (err != nil) != refused || refused && !strings.Contains(err.Error(), "leads") {
					t.Errorf("%s of term %d in a term that server %d leads: %v", typ, term, leader, err)
				}
			}
		}
	}
}

// TestForgedAppend: a server that doesn't lead sends a follower, as its own, what only the leader of the term sends.
// The follower takes none of it, and goes on with the leader.
func TestForgedAppend(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 2, 3)
	leader := c.leader()
	leader.say(1)
	c.step(10)
	var others []*node
	for _, id := range c.ids {
		if id != leader.id {
			others = append(others, c.nodes[id])
		}
	}
	follower, forger := others[0], others[1]
	term := leader.loop.node.Term()
	last, lastTerm, err := follower.loop.writes.lastEntry()
	if err != nil {
		t.Fatal(err)
	}
	forged := entry(last+1, term)
	forged.Data = binary.BigEndian.AppendUint64(nil, 99)
	for _, m := range []*pb.Message{
		{Type: pb.MsgHeartbeat.Enum(), Commit: new(last)},
		{Type: pb.MsgApp.Enum(), Index: new(last), LogTerm: &lastTerm, Entries: []*pb.Entry{forged}, Commit: new(last + 1)},
		{Type: pb.MsgTimeoutNow.Enum()},
	} {
		m.From, m.To, m.Term = &forger.id, &follower.id, &term
		b, err := proto.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		follower.loop.Handle(Event{Kind: EventRaft, From: forger.id, Data: b})
		follower.turn()
		if got := follower.loop.node.Leader(); got != leader.id {
			t.Errorf("after a forged %s it follows server %d", m.GetType(), got)
		}
	}
	leader.say(2)
	c.step(30)
	c.agreed(2)
	if now := leader.loop.node.Term(); now != term || !leader.loop.IsLeader() {
		t.Errorf("the term was %d and is %d", term, now)
	}
}
