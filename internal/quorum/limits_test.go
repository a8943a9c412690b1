package quorum

import (
	"errors"
	"testing"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
)

// TestUncommittedBytes: a leader whose entries nobody acknowledges takes no more than
// so many bytes of them.
func TestUncommittedBytes(t *testing.T) {
	if testing.Short() {
		t.Skip("in a run that isn't short: there is one goroutine")
	}
	t.Parallel()
	s := raft.NewMemoryStorage()
	n, err := NewNode(NodeOptions{ID: 1, ElectionTicks: 10, Storage: s})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Bootstrap([]uint64{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	settle(t, n, s)
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
	batch := make([]byte, 1<<20) // all entries share it
	taken := 0
	for range 2 * uncommittedBytesMax / len(batch) {
		if err := n.Propose(batch); err == nil {
			taken += len(batch)
		} else if !errors.Is(err, raft.ErrProposalDropped) {
			t.Fatal(err)
		}
	}
	if taken < uncommittedBytesMax-len(batch) || taken > uncommittedBytesMax {
		t.Errorf("a leader without followers takes %d bytes, want up to %d", taken, uncommittedBytesMax)
	}
}
