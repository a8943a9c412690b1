package quorum

import (
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"
)

// step hands a peer's message to the node.
func (l *Loop) step(e Event) error {
	if l.lostDisks.isFormer(e) {
		return nil
	}
	m, err := l.vet(e)
	if err != nil {
		return err
	}
	if l.writes.pending() && m.GetType() == pb.MsgVoteResp {
		l.writes.holdVote(e)
		return nil
	}
	if l.lostDisks.noteAdmitted(e.From, m) && l.change != nil {
		l.reconciler.reconcile()
	}
	if l.joining.lasts() && electoral(m) || l.tasks.busySince(refuseLeadTicks) && m.GetType() == pb.MsgTimeoutNow ||
		l.failover.first(l, m) || m.GetType() == pb.MsgReadIndex && !l.answersReads(e.From) {
		return nil
	}
	l.formerVoter(m)
	return l.node.Step(m)
}

// vet returns the message of an event after checking it against this server's state.
func (l *Loop) vet(e Event) (*pb.Message, error) {
	m, err := decodeMessage(e.Data)
	if err != nil {
		return nil, err
	}
	last, _, err := l.writes.lastEntry()
	if err != nil {
		return nil, fmt.Errorf("read the log's last index: %w", err)
	}
	return m, vetting{
		self: l.id, from: e.From, term: l.node.Term(), last: last, leader: l.node.Leader(), file: e.Kind == EventSnapshot,
	}.check(m)
}

// answersReads reports whether this server answers a peer's request for a read index. A
// former leader doesn't: raft would forward the request in the peer's name, and the new
// leader would refuse it. The peer asks again as soon as it knows the new leader. Nor
// does a leader answer a server that has left: the missing answer tells a server that
// doesn't know it yet (see leaderCheck).
func (l *Loop) answersReads(from uint64) bool {
	return l.node.IsLeader() && contains(l.conf, from)
}
