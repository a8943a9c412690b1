package quorum

import (
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Bootstrap begins the log of a new group with these voters. All of them must call it
// with the same ids. It fails if the log isn't empty.
func (n *Node) Bootstrap(ids []uint64) error {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	peers := make([]raft.Peer, len(ids))
	for i, id := range ids {
		peers[i].ID = id
	}
	if err := n.raw.Bootstrap(peers); err != nil {
		return fmt.Errorf("begin a new log for servers %v: %w", ids, err)
	}
	return nil
}

// ApplyConfChange applies a committed change of membership and returns the new
// membership.
func (n *Node) ApplyConfChange(e *pb.Entry) (*pb.ConfState, error) {
	switch e.GetType() {
	case pb.EntryConfChange:
		cc := &pb.ConfChange{}
		if err := proto.Unmarshal(e.GetData(), cc); err != nil {
			return nil, fmt.Errorf("decode the change of membership in log entry %d: %w", e.GetIndex(), err)
		}
		return n.raw.ApplyConfChange(cc), nil
	case pb.EntryConfChangeV2:
		cc := &pb.ConfChangeV2{}
		if err := proto.Unmarshal(e.GetData(), cc); err != nil {
			return nil, fmt.Errorf("decode the change of membership in log entry %d: %w", e.GetIndex(), err)
		}
		return n.raw.ApplyConfChange(cc), nil
	}
	panic(fmt.Sprintf("quorum: log entry %d is of type %s, not a change of membership", e.GetIndex(), e.GetType()))
}

// soleVoter reports whether id is the only server whose vote counts under conf.
func soleVoter(conf *pb.ConfState, id uint64) bool {
	return len(conf.GetVotersOutgoing()) == 0 && len(conf.GetVoters()) == 1 && conf.GetVoters()[0] == id
}
