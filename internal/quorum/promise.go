package quorum

import (
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// A Promise is what a raft message commits its sender to, even after a crash and a
// recovery.
type Promise struct {
	Term  uint64 // the sender no longer takes part in earlier terms
	Vote  uint64 // if not 0: the sender votes for no other server in Term
	Acked uint64 // if not 0: the sender holds the log of Term's leader up to this index
}

// PromiseOf returns what the payload of a FrameRaft promises; ok is false if it
// promises nothing. It is for programs that watch a server, such as a simulator.
func PromiseOf(payload []byte) (p Promise, ok bool) {
	m := &pb.Message{}
	if err := proto.Unmarshal(payload, m); err != nil {
		return p, false
	}
	p.Term = m.GetTerm()
	switch m.GetType() {
	case pb.MsgApp, pb.MsgHeartbeat: // only the leader of Term sends these, and it voted for itself
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
