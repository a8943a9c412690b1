package quorum

import (
	"log/slog"
	"slices"
	"testing"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/zooid-project/zooid/internal/storage"
)

// TestFoundersBegin: the founders of a group, and nobody else, are its first voters, and it begins at their level.
func TestFoundersBegin(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	b := &node{c: c, id: 1, fs: storage.NewMemFS(), level: 4}
	dir, err := storage.Open(storage.Options{
		FS: b.fs, Dir: "/data", ClusterID: 7, Space: storage.SpaceLimits{ReserveBytes: -1},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.dir = dir
	l, err := NewLoop(LoopOptions{
		ID: 1, Dir: dir, State: b, Shell: b, Members: ids(1, 2, 3), ElectionTicks: 10, SnapshotsKept: 1,
		Log: slog.New(slog.DiscardHandler), Founding: &Founding{Term: 1, Voters: []uint64{1}, Level: 3},
	})
	if err != nil {
		t.Fatal(err)
	}
	b.loop = l
	for range 3 {
		l.Turn()
		l.Tick()
	}
	if now, _ := l.Voters(); !slices.Equal(now, []uint64{1}) || !l.IsLeader() {
		t.Errorf("the voters are %v; it leads: %t", now, l.IsLeader())
	}
	if got := l.levels.supported(); got != 3 {
		t.Errorf("it begins at level %d", got)
	}
}

// TestBootstrapSorts: all founders write the same first entries, in whatever order their server lines are.
func TestBootstrapSorts(t *testing.T) {
	t.Parallel()
	var logs [][]*pb.Entry
	for _, ids := range [][]uint64{{3, 1, 2}, {1, 2, 3}} {
		n, err := NewNode(NodeOptions{ID: 1, ElectionTicks: 10, Storage: raft.NewMemoryStorage()})
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Bootstrap(ids); err != nil {
			t.Fatal(err)
		}
		var ef Effects
		n.Turn(&ef)
		logs = append(logs, ef.Append.GetEntries())
	}
	if len(logs[0]) != 3 || !slices.EqualFunc(logs[0], logs[1], func(a, b *pb.Entry) bool { return proto.Equal(a, b) }) {
		t.Errorf("the logs begin with %v and %v", logs[0], logs[1])
	}
}

// TestRemovedLeaderStepsDown: a leader leads no more once it has applied that it is no member.
func TestRemovedLeaderStepsDown(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 2, 3)
	l := c.elect(1).loop
	c.step(5)
	l.node.raw.ApplyConfChange(&pb.ConfChangeV2{Changes: []*pb.ConfChangeSingle{change(pb.ConfChangeRemoveNode, 1)}})
	var ef Effects
	if l.node.Turn(&ef); l.node.IsLeader() {
		t.Error("it leads")
	}
}
