package quorum

import (
	"log/slog"
	"strings"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

// TestJoinedBeyond: a server that joins takes part in elections once an entry beyond LoopOptions.JoinedAfter has made
// it a member. The entry at that index was there when it asked to join: it tells of an earlier life.
func TestJoinedBeyond(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name          string
		after, member uint64
		conf          *pb.ConfState
		lasts         bool
	}{
		{"it doesn't join", 0, 0, &pb.ConfState{Voters: []uint64{1, 2}}, false},
		{"a member of before", 10, 9, &pb.ConfState{Voters: []uint64{1, 2, 3}}, true},
		{"a member by the last entry of then", 10, 10, &pb.ConfState{Voters: []uint64{1, 2, 3}}, true},
		{"a member by the next entry", 10, 11, &pb.ConfState{Voters: []uint64{1, 2, 3}}, false},
		{"removed again", 10, 11, &pb.ConfState{Voters: []uint64{1, 2}}, true},
	} {
		told := 0
		j := joining{
			view:  &view{id: 3, conf: c.conf, log: slog.New(slog.DiscardHandler)},
			after: c.after, memberSince: c.member, onJoined: func() { told++ },
		}
		for range 2 {
			if j.lasts() != c.lasts {
				t.Errorf("%s: joining lasts: %t", c.name, !c.lasts)
			}
		}
		if joined := c.after > 0 && !c.lasts; told == 1 != joined || told > 1 {
			t.Errorf("%s: told %d times that it has joined", c.name, told)
		}
	}
}

// TestElectoral: a joining server doesn't act on messages that ask for its vote or make it campaign, and acts on all
// others.
func TestElectoral(t *testing.T) {
	t.Parallel()
	want := map[pb.MessageType]bool{pb.MsgVote: true, pb.MsgPreVote: true, pb.MsgTimeoutNow: true}
	for n := range pb.MessageType_name { // any order: each by itself
		typ := pb.MessageType(n)
		if got := electoral(&pb.Message{Type: typ.Enum()}); got != want[typ] {
			t.Errorf("%v is electoral: %t", typ, got)
		}
	}
}

// TestSaysHowItJoined: a server that has joined says as what: an observer, or one that gets a vote later. One that
// votes says so elsewhere.
func TestSaysHowItJoined(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what     string
		conf     *pb.ConfState
		observer bool
		want     string
	}{
		{"an observer", &pb.ConfState{Voters: []uint64{1, 2}, Learners: []uint64{3}}, true, "as an observer"},
		{"a member", &pb.ConfState{Voters: []uint64{1, 2}, Learners: []uint64{3}}, false, "follows without a vote"},
		{"a voter", &pb.ConfState{Voters: []uint64{1, 2, 3}}, false, ""},
	} {
		var said strings.Builder
		j := joining{
			view: &view{
				id: 3, conf: c.conf, log: slog.New(slog.NewTextHandler(&said, nil)),
				wanted: []Member{{ID: 1}, {ID: 2}, {ID: 3, Observer: c.observer}},
			},
			after: 10, memberSince: 11,
		}
		if j.lasts() || (said.Len() > 0) != (c.want != "") || !strings.Contains(said.String(), c.want) {
			t.Errorf("%s: it says %q, want %q", c.what, &said, c.want)
		}
	}
}
