package quorum

import (
	"encoding/binary"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// leaderCheck checks that a follower's messages arrive at its leader. A network can fail
// in one direction: the follower hears its leader and looks healthy, but its clients'
// writes and pings are lost. So the follower regularly asks the leader for a read index.
//
// The check also tells an observer that it was removed from the ensemble. It may not hear
// of its removal, and raft doesn't notice on an observer that the leader has gone silent.
// But the leader answers members only, so the check fails.
type leaderCheck struct {
	leader uint64
	asked  uint64 // tick of the last question
	since  uint64 // tick of the first question since the last answer; 0 if none is open
	id     uint64 // id of the last question
	first  uint64 // id of the question asked at since
}

// leaderCheckTicks is the pause between two questions.
const leaderCheckTicks = 10

// leaderCheckMark distinguishes the context of a leader check from that of a sync.
const leaderCheckMark = 'r'

func (r *leaderCheck) tick(l *Loop) {
	lead := l.node.Leader()
	if lead == 0 || l.node.IsLeader() || l.joining() {
		lead = 0
	}
	if lead != r.leader {
		*r = leaderCheck{leader: lead, id: r.id}
	}
	if lead == 0 || l.ticks-r.asked < leaderCheckTicks {
		return
	}
	r.id++
	r.asked = l.ticks
	if r.since == 0 {
		r.since, r.first = l.ticks, r.id
	}
	l.node.ReadIndex(append(readContext(l.o.Incarnation, r.id), leaderCheckMark))
}

// asksLeaderCheck reports whether m is a leader check's question.
func asksLeaderCheck(m *pb.Message) bool {
	return m.GetType() == pb.MsgReadIndex && len(m.GetEntries()) == 1 && isLeaderCheckContext(m.GetEntries()[0].GetData())
}

// isLeaderCheckContext reports whether ctx is the context of a leader check's question.
func isLeaderCheckContext(ctx []byte) bool {
	return len(ctx) == readContextSize+1 && ctx[readContextSize] == leaderCheckMark
}

// answered handles an answer from the leader. It ignores answers to questions of an earlier
// run of this server, or older than the open ones.
func (r *leaderCheck) answered(l *Loop, rs raft.ReadState) {
	ctx := rs.RequestCtx
	if !isLeaderCheckContext(ctx) || binary.BigEndian.Uint64(ctx) != l.o.Incarnation {
		return
	}
	if binary.BigEndian.Uint64(ctx[8:readContextSize]) >= r.first {
		r.since = 0
	}
}

// unanswered returns for how many ticks the leader has not answered.
func (r *leaderCheck) unanswered(l *Loop) uint64 {
	if r.since == 0 {
		return 0
	}
	return l.ticks - r.since
}
