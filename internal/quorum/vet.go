package quorum

import (
	"errors"
	"fmt"

	"go.etcd.io/raft/v3/confchange"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// Raft trusts its messages: a term or an index that no honest peer sends makes it panic, or follow a term that no
// server can exceed. So every message from a peer is checked against this server's own state before raft sees it. These
// are the allowed values; "own" means this server's:
//
//	every message   From is the peer it came from, To is this server, no Responses,
//	                no Vote; 0 < Term <= own term + termStepMax; indexes <= indexMax
//	MsgApp, MsgHeartbeat, MsgSnap, MsgTimeoutNow    in own term: From leads it, if this server knows the leader. Raft
//	                would follow any other sender, and accept entries of one term from both
//	MsgApp          entries follow Index without a gap, their terms don't fall, and
//	                LogTerm <= first term, last term <= Term; changes of membership decode
//	MsgAppResp      in own term: Index <= own last, RejectHint <= Index
//	MsgHeartbeat    in own term or a later one: Commit <= own last
//	MsgVote, MsgPreVote                  LogTerm <= Term
//	MsgSnap         only with a snapshot's file; membership is valid and has this server
//	MsgReadIndex    Term is 0; one entry, of at most contextSizeMax bytes
//	MsgReadIndexResp                     one entry, of at most contextSizeMax bytes
//	MsgHeartbeatResp, MsgVoteResp, MsgPreVoteResp, MsgTimeoutNow: nothing else
//	any other type  is refused: raft sends it only within a server, or not at all in this setup
//
// Entries, a snapshot and Reject are refused in messages of types that don't carry them: only MsgAppResp, MsgVoteResp
// and MsgPreVoteResp may reject.
const (
	// termStepMax is how far ahead of this server a peer's term may be. To fall back further, a server would have to be
	// away for six years with an election at each tick. A malicious peer needs 2^32 messages to exhaust all terms.
	termStepMax = 1 << 32
	// indexMax leaves room for additions without overflow.
	indexMax = 1 << 62
	// contextSizeMax bounds the context of a read index, a heartbeat or a vote. The longest is raft's for a transfer.
	contextSizeMax = 64
	// entriesMax bounds the entries in a message, because they take more memory once decoded. A message of MessageSizeMax
	// has fewer.
	entriesMax = 1 << 16
)

// vetting holds the facts that a peer's message is checked against.
type vetting struct {
	self, from uint64
	term, last uint64 // this server's term, and index of the last entry on its disk
	leader     uint64 // of that term, 0 if this server doesn't know it
	file       bool   // a snapshot file came with the message
}

// refusedMessages limits the log lines about refused messages: a peer may repeat one with each tick.
type refusedMessages struct {
	until map[uint64]uint64 // by peer: tick before which nothing is logged
	count map[uint64]int    // by peer: messages refused since the last line
	lost  uint64            // index of an entry that this server, according to a leader, has acknowledged and lacks
}

// refuse logs that a peer's message was refused, at most once in refusedTicks for each peer.
func (r *refusedMessages) refuse(l *Loop, from uint64, err error) {
	if r.until == nil || len(r.until) >= lostMax {
		r.until, r.count = map[uint64]uint64{}, map[uint64]int{}
	}
	r.count[from]++
	lost := (*lostEntryError)(nil)
	if errors.As(err, &lost) {
		r.lost = max(r.lost, lost.Index)
	}
	if l.ticks < r.until[from] {
		return
	}
	if lost != nil {
		l.log.Error("this server has acknowledged log entries that it doesn't have: an older copy of its disk was put back. It can't continue with that: stop it, set its data aside by 'zooid recover -set-aside', and start it; it then joins again",
			"leader", from, "acknowledged", lost.Index, "logEndsAt", lost.Last)
	} else {
		l.log.Warn("a peer's raft message was not accepted", "peer", from, "messages", r.count[from], "err", err)
	}
	r.until[from], r.count[from] = l.ticks+refusedTicks, 0
}

// lostEntry returns the index of an entry that this server has acknowledged and lacks, or 0 if none is known.
func (l *Loop) lostEntry() uint64 {
	if l.messages.lost == 0 {
		return 0
	}
	if last, err := l.disk.LastIndex(); err == nil && last >= l.messages.lost {
		l.messages.lost = 0 // a later leader, which asks where its log ends, has sent what it lacks
	}
	return l.messages.lost
}

// decodeMessage decodes a raft message from a peer.
func decodeMessage(b []byte) (*pb.Message, error) {
	if n := countEntries(b); n > entriesMax {
		return nil, fmt.Errorf("decode it: it has more than %d entries", entriesMax)
	}
	m := &pb.Message{}
	if err := (proto.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: decodeDepthMax}).Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("decode it: %w", err)
	}
	return m, nil
}

// decodeDepthMax is how deep messages may nest: a message, a snapshot, its
// metadata, a membership.
const decodeDepthMax = 8

// countEntries returns the number of entries in an encoded message. It stops where the
// bytes are malformed; decoding them reports that.
func countEntries(b []byte) (n int) {
	const entriesField = 7
	for len(b) > 0 {
		field, typ, head := protowire.ConsumeTag(b)
		if head < 0 {
			return n
		}
		size := protowire.ConsumeFieldValue(field, typ, b[head:])
		if size < 0 {
			return n
		}
		if field == entriesField {
			n++
		}
		b = b[head+size:]
	}
	return n
}

// check returns why a message can't be handed to raft, or nil.
func (v vetting) check(m *pb.Message) error {
	typ := m.GetType()
	switch {
	case m.GetFrom() != v.from:
		return fmt.Errorf("%s in the name of server %d", typ, m.GetFrom())
	case m.GetTo() != v.self:
		return fmt.Errorf("%s for server %d", typ, m.GetTo())
	case len(m.GetResponses()) > 0 || m.GetVote() != 0:
		return fmt.Errorf("%s with fields that stay within a server", typ)
	case len(m.GetContext()) > contextSizeMax:
		return fmt.Errorf("%s with a context of %d bytes, at most %d", typ, len(m.GetContext()), contextSizeMax)
	case m.GetIndex() > indexMax || m.GetCommit() > indexMax || m.GetRejectHint() > indexMax:
		return fmt.Errorf("%s with index %d, commit index %d, hint %d: at most %d", typ, m.GetIndex(), m.GetCommit(),
			m.GetRejectHint(), uint64(indexMax))
	case m.GetTerm() > v.term && m.GetTerm()-v.term > termStepMax:
		return fmt.Errorf("%s of term %d; this server is in term %d", typ, m.GetTerm(), v.term)
	case m.GetReject() && typ != pb.MsgAppResp && typ != pb.MsgVoteResp && typ != pb.MsgPreVoteResp:
		return fmt.Errorf("%s that rejects", typ)
	case m.GetTerm() == v.term && v.leader != 0 && v.leader != v.from && (typ == pb.MsgApp || typ == pb.MsgHeartbeat ||
		typ == pb.MsgSnap || typ == pb.MsgTimeoutNow):
		return fmt.Errorf("%s of term %d, which server %d leads", typ, v.term, v.leader)
	case (m.GetTerm() == 0) != (typ == pb.MsgReadIndex):
		return fmt.Errorf("%s of term %d", typ, m.GetTerm())
	case typ != pb.MsgSnap && !emptySnapshot(m.GetSnapshot()) || v.file != (typ == pb.MsgSnap):
		return fmt.Errorf("%s and a snapshot (file: %t) don't belong together", typ, v.file)
	}
	if err := v.checkEntries(m); err != nil {
		return fmt.Errorf("%s: %w", typ, err)
	}
	if err := v.checkType(m); err != nil {
		return fmt.Errorf("%s: %w", typ, err)
	}
	return nil
}

// emptySnapshot reports whether s is nil or empty. Raft may add an empty snapshot to a message.
func emptySnapshot(s *pb.Snapshot) bool {
	return s.GetMetadata().GetIndex() == 0 && len(s.GetData()) == 0
}

// A lostEntryError refuses a message that commits an entry that this server must have acknowledged and lacks.
type lostEntryError struct{ Index, Last uint64 }

func (e *lostEntryError) Error() string {
	return fmt.Sprintf("it commits index %d, which this server has acknowledged to nobody: its log ends at %d", e.Index,
		e.Last)
}

// checkType checks the fields whose allowed values depend on the message's type.
func (v vetting) checkType(m *pb.Message) error {
	switch m.GetType() {
	case pb.MsgAppResp:
		if m.GetTerm() != v.term {
			return nil // raft looks only at the term
		}
		if m.GetIndex() > v.last {
			return fmt.Errorf("it acknowledges index %d; the log ends at %d", m.GetIndex(), v.last)
		}
		if m.GetReject() && m.GetRejectHint() > m.GetIndex() {
			return fmt.Errorf("it rejects index %d with the later hint %d", m.GetIndex(), m.GetRejectHint())
		}
	case pb.MsgHeartbeat:
		if m.GetTerm() >= v.term && m.GetCommit() > v.last {
			return &lostEntryError{Index: m.GetCommit(), Last: v.last}
		}
	case pb.MsgVote, pb.MsgPreVote:
		if m.GetLogTerm() > m.GetTerm() {
			return fmt.Errorf("its log is of term %d, later than its own %d", m.GetLogTerm(), m.GetTerm())
		}
	case pb.MsgSnap:
		return v.checkSnapshot(m)
	case pb.MsgApp, pb.MsgHeartbeatResp, pb.MsgVoteResp, pb.MsgPreVoteResp, pb.MsgTimeoutNow, pb.MsgReadIndex,
		pb.MsgReadIndexResp:
	default:
		return errors.New("no server sends it to another")
	}
	return nil
}

// checkEntries checks the entries of a message.
func (v vetting) checkEntries(m *pb.Message) error {
	entries := m.GetEntries()
	switch m.GetType() {
	case pb.MsgApp:
	case pb.MsgReadIndex, pb.MsgReadIndexResp:
		if len(entries) != 1 || len(entries[0].GetData()) > contextSizeMax {
			return fmt.Errorf("it has %d entries, and not one of at most %d bytes", len(entries), contextSizeMax)
		}
		return nil
	default:
		if len(entries) > 0 {
			return fmt.Errorf("it has %d entries", len(entries))
		}
		return nil
	}
	index, term := m.GetIndex(), m.GetLogTerm()
	for _, e := range entries {
		if e.GetIndex() != index+1 || e.GetTerm() < term || e.GetTerm() == 0 {
			return fmt.Errorf("entry %d of term %d follows entry %d of term %d", e.GetIndex(), e.GetTerm(), index, term)
		}
		index, term = e.GetIndex(), e.GetTerm()
		if err := checkEntry(e); err != nil {
			return err
		}
	}
	if term > m.GetTerm() {
		return fmt.Errorf("an entry is of term %d, later than the message's %d", term, m.GetTerm())
	}
	return nil
}

// checkEntry checks the type of an entry, and that a change of membership decodes.
func checkEntry(e *pb.Entry) (err error) {
	var changes []*pb.ConfChangeSingle
	switch e.GetType() {
	case pb.EntryNormal:
		return nil
	case pb.EntryConfChange:
		cc := &pb.ConfChange{}
		err = proto.Unmarshal(e.GetData(), cc)
		changes = []*pb.ConfChangeSingle{{Type: cc.Type, NodeId: cc.NodeId}}
	case pb.EntryConfChangeV2:
		cc := &pb.ConfChangeV2{}
		err = proto.Unmarshal(e.GetData(), cc)
		changes = cc.GetChanges()
	default:
		return fmt.Errorf("entry %d is of the unknown type %d", e.GetIndex(), e.GetType())
	}
	if err != nil {
		return fmt.Errorf("entry %d is a change of membership that can't be decoded: %w", e.GetIndex(), err)
	}
	for _, c := range changes {
		if _, known := pb.ConfChangeType_name[int32(c.GetType())]; !known || c.GetNodeId() == 0 {
			return fmt.Errorf("entry %d changes the membership of server %d in an unknown way (%d)", e.GetIndex(), c.GetNodeId(),
				c.GetType())
		}
	}
	return nil
}

// checkSnapshot checks a snapshot's metadata.
func (v vetting) checkSnapshot(m *pb.Message) error {
	meta := m.GetSnapshot().GetMetadata()
	conf := meta.GetConfState()
	switch {
	case meta.GetIndex() == 0 || meta.GetIndex() > indexMax || meta.GetTerm() == 0 || meta.GetTerm() > m.GetTerm():
		return fmt.Errorf("it is of index %d of term %d, in a message of term %d", meta.GetIndex(), meta.GetTerm(),
			m.GetTerm())
	case len(m.GetSnapshot().GetData()) > 0:
		return fmt.Errorf("it has %d bytes in addition to its file", len(m.GetSnapshot().GetData()))
	case len(conf.GetVoters()) == 0 || !contains(conf, v.self):
		return fmt.Errorf("its membership has no voters, or not this server: %v", conf)
	}
	t := tracker.MakeProgressTracker(1, 0)
	changer := confchange.Changer{Tracker: t, LastIndex: meta.GetIndex()}
	var err error
	if t.Config, t.Progress, err = confchange.Restore(changer, conf); err == nil {
		err = conf.Equivalent(t.ConfState())
	}
	if err != nil {
		return fmt.Errorf("its membership %v is invalid: %w", conf, err)
	}
	return nil
}
