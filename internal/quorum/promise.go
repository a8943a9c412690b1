package quorum

import (
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// A Promise is what a raft message commits its sender to, whatever happens to
// it: what it recovers after a crash must keep it.
type Promise struct {
	Term  uint64 // it takes part in no earlier term any more
	Vote  uint64 // not 0: it votes for no other server in Term
	Acked uint64 // not 0: it holds the log of Term's leader up to this index
}

// PromiseOf returns what a FrameRaft payload promises; ok is false for one that
// promises nothing. It is for those who watch a server, such as a simulator.
func PromiseOf(payload []byte) (p Promise, ok bool) {
	m := &pb.Message{}
	if err := proto.Unmarshal(payload, m); err != nil {
		return p, false
	}
	p.Term = m.GetTerm()
	switch m.GetType() {
	case pb.MsgApp, pb.MsgHeartbeat: // only the leader of Term says that, and it voted for itself
		p.Vote = m.GetFrom()
	case pb.MsgVoteResp:
		if !m.GetReject() {
			p.Vote = m.GetTo()
		}
	case pb.MsgAppResp:
		if !m.GetReject() {
			p.Acked = m.GetIndex()
		}
	}
	// Other messages may leave before their term is durable.
	return p, p.Vote != 0 || p.Acked != 0
}
