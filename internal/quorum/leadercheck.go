package quorum

import (
	"encoding/binary"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// leaderCheck regularly asks the leader for a read index, on a leader as well. The answer shows two things.
//
// A follower's messages arrive at its leader. A network can fail in one direction: the
// follower hears its leader and looks healthy, but its clients' writes and pings are lost.
// The check also tells an observer that it was removed from the ensemble. It may not hear
// of its removal, and on an observer raft doesn't notice a silent leader. But the leader
// answers only members, so the check fails.
//
// Once the index is applied here, this server knows everything acknowledged to any client
// before the question (StateMachine.UpToDate).
type leaderCheck struct {
	leader    uint64
	asked     uint64 // tick of the last question
	since     uint64 // on a follower: tick of the first question since the last answer; 0 if none is open
	id        uint64 // id of the last question
	first     uint64 // id of the question asked at since
	questions [questionsKept]question
	answers   []question // answered, with an index that isn't applied yet; oldest first
}

// A question is one question of a leader check.
type question struct {
	id    uint64
	at    int64  // Moment before it was asked
	index uint64 // the answer
}

const (
	// leaderCheckTicks is the pause between two questions.
	leaderCheckTicks = 5
	// questionsKept is the number of questions that may wait for a late answer, or for its index to be applied.
	questionsKept = 8
)

// leaderCheckMark distinguishes the context of a leader check from that of a sync.
const leaderCheckMark = 'r'

func (r *leaderCheck) tick(l *Loop) {
	lead := l.node.Leader()
	if lead == 0 || l.joining.lasts() {
		lead = 0
	}
	if lead != r.leader {
		*r = leaderCheck{leader: lead, id: r.id}
	}
	if lead != 0 && l.sole && l.node.IsLeader() {
		if at := l.state.Moment(); !l.tasks.awaited() {
			l.tell(func() { l.state.UpToDate(at) }) // nothing is acknowledged without this server
		}
		return
	}
	if lead == 0 || r.asked != 0 && l.ticks-r.asked < leaderCheckTicks {
		return
	}
	r.id++
	r.asked = l.ticks
	if r.since == 0 && !l.node.IsLeader() {
		r.since, r.first = l.ticks, r.id
	}
	r.questions[r.id%questionsKept] = question{id: r.id, at: l.state.Moment()}
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
	id := binary.BigEndian.Uint64(ctx[8:readContextSize])
	if id >= r.first {
		r.since = 0
	}
	if q := r.questions[id%questionsKept]; q.id == id && len(r.answers) < questionsKept {
		q.index = rs.Index
		r.answers = append(r.answers, q)
		r.applied(l)
	}
}

// applied reports what those answers show whose index has been applied.
func (r *leaderCheck) applied(l *Loop) {
	if l.tasks.underWay() {
		return // entries up to l.applied are being applied
	}
	n := 0
	for n < len(r.answers) && r.answers[n].index <= l.applied {
		n++
	}
	if n > 0 {
		at := r.answers[n-1].at
		l.tell(func() { l.state.UpToDate(at) })
		r.answers = append(r.answers[:0], r.answers[n:]...)
	}
}

// unanswered returns, at that tick, for how many ticks the leader has not answered.
func (r *leaderCheck) unanswered(ticks uint64) uint64 {
	if r.since == 0 {
		return 0
	}
	return ticks - r.since
}
