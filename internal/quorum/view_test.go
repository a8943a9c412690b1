package quorum

import (
	"slices"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

// ids returns members with those ids.
func ids(list ...uint64) (members []Member) {
	for _, id := range list {
		members = append(members, Member{ID: id})
	}
	return members
}

// TestMembership: what a server knows about who belongs to the ensemble in joint consensus: with voters 1 and 2, before
// that 2 and 3, an observer 4, a guest 5, and server 6 that is to be added.
func TestMembership(t *testing.T) {
	t.Parallel()
	v := view{
		id:         1,
		configured: append(ids(1, 2, 3), Member{ID: 9, Observer: true}),
		conf:       &pb.ConfState{Voters: []uint64{1, 2}, VotersOutgoing: []uint64{2, 3}, Learners: []uint64{4, 5}},
		members:    ids(2, 3, 4),
		wanted:     append(ids(1, 2, 6), Member{ID: 4, Observer: true}),
	}
	is := func(what string, in func(id uint64) bool, want ...uint64) {
		t.Helper()
		var got []uint64
		for id := range uint64(10) {
			if in(id) {
				got = append(got, id)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	named := func(id uint64) bool { return isMember(v.membersNamed(), id) }
	observes := func(id uint64) bool { w := v; w.id = id; return w.observes() }
	is("in raft's membership", func(id uint64) bool { return contains(v.conf, id) }, 1, 2, 3, 4, 5)
	is("named", named, 1, 2, 3, 4, 6)
	is("guests", v.isGuest, 0, 5, 7, 8, 9)
	is("observers", observes, 4)
	v.conf = &pb.ConfState{Voters: []uint64{1, 5}, VotersOutgoing: []uint64{7}}
	is("guests without a vote", v.isGuest, 0, 8, 9)
	v.wanted, v.members = nil, nil
	is("named by the configuration", named, 1, 2, 3, 9)
	is("guests of the configuration", v.isGuest)
	is("observers of the configuration", observes, 9)
}

// TestVotersStay: whether changes leave a voter, and whether raft's voters are those of the configuration.
func TestVotersStay(t *testing.T) {
	t.Parallel()
	remove, add, learn := pb.ConfChangeRemoveNode, pb.ConfChangeAddNode, pb.ConfChangeAddLearnerNode
	for _, c := range []struct {
		voters  []uint64
		changes []*pb.ConfChangeSingle
		want    bool
	}{
		{[]uint64{1}, nil, true},
		{[]uint64{1}, []*pb.ConfChangeSingle{change(remove, 1)}, false},
		{[]uint64{1}, []*pb.ConfChangeSingle{change(learn, 1)}, false},
		{[]uint64{1}, []*pb.ConfChangeSingle{change(add, 1)}, true},
		{[]uint64{1}, []*pb.ConfChangeSingle{change(remove, 1), change(add, 2)}, true},
		{[]uint64{1, 2}, []*pb.ConfChangeSingle{change(remove, 1)}, true},
		{[]uint64{1, 2}, []*pb.ConfChangeSingle{change(remove, 1), change(learn, 2)}, false},
	} {
		v := view{conf: &pb.ConfState{Voters: c.voters}}
		if v.leavesVoter(c.changes) != c.want {
			t.Errorf("of %v, %v leave one: %t", c.voters, c.changes, !c.want)
		}
	}
	configured := append(ids(1, 2), Member{ID: 3, Observer: true})
	for _, c := range []struct {
		voters, outgoing []uint64
		want             bool
	}{
		{[]uint64{2, 1}, nil, true}, {[]uint64{1}, nil, false}, {[]uint64{1, 2, 3}, nil, false}, {[]uint64{1, 3}, nil, false},
		{[]uint64{1, 2}, []uint64{1}, false},
	} {
		v := view{configured: configured, conf: &pb.ConfState{Voters: c.voters, VotersOutgoing: c.outgoing}}
		if v.inForce() != c.want {
			t.Errorf("voters %v and %v are those of the configuration: %t", c.voters, c.outgoing, !c.want)
		}
		alone := len(c.voters) == 1 && c.voters[0] == 1 && len(c.outgoing) == 0
		if soleVoter(v.conf, 1) != alone || soleVoter(v.conf, 2) {
			t.Errorf("voters %v and %v are server 1 alone: %t", c.voters, c.outgoing, !alone)
		}
	}
	if soleVoter(&pb.ConfState{Voters: []uint64{1}, VotersOutgoing: []uint64{1, 2}}, 1) {
		t.Error("beside outgoing voters a server is alone")
	}
}

// TestMajority: more than half, or there is nobody to ask.
func TestMajority(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		voters, able []uint64
		want         bool
	}{
		{nil, nil, true}, {[]uint64{1}, nil, false}, {[]uint64{1}, []uint64{1}, true}, {[]uint64{1, 2}, []uint64{1}, false},
		{[]uint64{1, 2, 3}, []uint64{1, 4}, false}, {[]uint64{1, 2, 3}, []uint64{3, 1}, true},
		{[]uint64{1, 2, 3, 4}, []uint64{3, 1}, false}, {[]uint64{1, 2, 3, 4}, []uint64{3, 1, 2}, true},
	} {
		if got := majority(c.voters, c.able); got != c.want {
			t.Errorf("%v are most of %v: %t", c.able, c.voters, got)
		}
	}
}
