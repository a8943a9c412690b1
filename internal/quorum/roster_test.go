package quorum

import (
	"slices"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/zooid-project/zooid/internal/storage"
)

// TestFindsWhoStillVotes has the state machine name server 2 alone while raft's membership
// is 1 and 2, as it is at feature level 1 until the leader has brought raft's to it, and
// between two steps of a change after that. Server 2 restarts then: it must find server 1,
// whose vote it needs, though its configuration and its state name nobody but itself.
func TestFindsWhoStillVotes(t *testing.T) {
	for _, written := range []bool{true, false} { // the file, by the life that is over
		c := newCluster(t, 1, 2)
		c.strange = true
		c.elect(1)
		c.step(5)
		c.cut[[2]uint64{1, 2}], c.cut[[2]uint64{2, 1}] = true, true
		c.members = []Member{c.members[1]}
		for _, id := range c.ids {
			b := c.nodes[id]
			b.wanted, b.version = c.members, 1
		}
		if written {
			c.step(4)
		}
		c.crash(2)
		clear(c.cut)
		c.restart(2)
		for range 100 {
			if c.step(1); c.nodes[2].loop.IsLeader() && slices.Equal(c.voters(), []uint64{2}) {
				break
			}
		}
		b := c.nodes[2]
		if now, before := b.loop.Voters(); !b.loop.IsLeader() || !slices.Equal(now, []uint64{2}) || len(before) > 0 {
			t.Fatalf("written %t: server 2 leads: %t, and the votes of %v and %v count", written, b.loop.IsLeader(), now, before)
		}
		c.crash(1) // it would go on as a guest
		c.step(2 * guestSilentTicks)
		if kept, err := b.dir.Kept(rosterName); err != nil || isMember(mustRead(t, kept), 1) {
			t.Fatalf("written %t: server 1 has left for good and is still remembered (%v)", written, err)
		}
	}
}

func mustRead(t *testing.T, kept []byte) []Member {
	t.Helper()
	members, err := readIntroduction(kept)
	if err != nil || len(members) == 0 {
		t.Fatalf("the kept file names %v: %v", members, err)
	}
	return members
}

// TestMeetsWhoCameAndWent has server 3 miss two changes of membership, the first of which
// adds server 4 and the second removes it, and catch up with both at once. Between the two
// it has to know server 4, whose vote counts until the second is complete.
func TestMeetsWhoCameAndWent(t *testing.T) {
	c := newChange(t, 3, 1, 2, 3, 4)
	for _, id := range []uint64{1, 2, 4} {
		c.cut[[2]uint64{id, 3}], c.cut[[2]uint64{3, id}] = true, true
	}
	named := slices.Clone(c.members)
	c.leader().stage(7, 0, append(named, Member{ID: 4, Addrs: []string{"server4"}})...)
	c.until("server 4 is a member", func() bool { return c.over(7, ChangeDone) })
	c.leader().stage(8, 0, named...)
	c.until("it has left", func() bool { return c.over(8, ChangeDone) })
	clear(c.cut)
	c.until("server 3 has caught up", func() bool { return c.nodes[3].ended[8] == ChangeDone })
	if peers := c.nodes[3].peers; !isMember(peers, 4) {
		t.Fatalf("server 3 was told to connect to %v, never to server 4", peers)
	}
}

// TestGuestsKeepTheirPlaces: guests that announce themselves in turn leave the kept file as it is.
func TestGuestsKeepTheirPlaces(t *testing.T) {
	r := roster{view: &view{conf: &pb.ConfState{Voters: []uint64{1}, Learners: []uint64{4, 5}}}}
	a, b := Member{ID: 4, Addrs: []string{"a:1"}}, Member{ID: 5, Addrs: []string{"b:1"}}
	for range 2 {
		r.guest(a)
		r.guest(b)
	}
	if f := r.former; len(f) != 2 || f[0].ID != 4 || f[1].ID != 5 {
		t.Errorf("servers 4 and 5 are remembered as %v", f)
	}
	b.Addrs = []string{"c:1"}
	r.guest(b)
	r.guest(Member{ID: 6, Addrs: b.Addrs})
	if f := r.former; len(f) != 2 || f[1].Addrs[0] != "c:1" {
		t.Errorf("after a move of server 5, and with a stranger: %v", f)
	}
}

// rosterOf returns server 1's roster; raft's membership has 1, 2, 3 and 4, and the configuration names 1 to 3.
func rosterOf(t *testing.T) (*node, *roster) {
	c := newCluster(t, 1, 2, 3)
	b := c.elect(1)
	r := &b.loop.roster
	r.conf = &pb.ConfState{Voters: []uint64{1, 2, 3}, Learners: []uint64{4}}
	return b, r
}

// TestRosterChanged: the former members are those that the decided membership doesn't name any more.
func TestRosterChanged(t *testing.T) {
	t.Parallel()
	_, r := rosterOf(t)
	r.former, r.met = ids(5, 3), []uint64{9}
	r.wanted = ids(2, 3)
	r.changed(ids(1, 2, 3, 4, 5))
	if !slices.EqualFunc(r.former, ids(5, 4), sameID) || r.met != nil {
		t.Errorf("former members %v, met %v", r.former, r.met)
	}
}

func sameID(a, b Member) bool { return a.ID == b.ID }

// TestRosterKept: the file holds the named members, and the former ones that are still in raft's membership. It is
// written when it changes, later if that fails, and not before the entries of the last life are applied.
func TestRosterKept(t *testing.T) {
	t.Parallel()
	b, r := rosterOf(t)
	r.ticks, r.former, r.kept = 1000, ids(4, 9), nil
	writes, fails := 0, false
	b.fs.Hook = func(c storage.Call) error {
		if c.Op != "create" {
			return nil
		}
		if writes++; fails {
			return errOdd
		}
		return nil
	}
	keeps := func(what string, want int) {
		t.Helper()
		if r.keep(); writes != want {
			t.Errorf("%s: written %d times, want %d", what, writes, want)
		}
		writes = 0
	}
	r.atStart = r.applied + 1
	keeps("before the old entries are applied", 0)
	r.atStart = r.applied
	keeps("at first", 1)
	kept, err := b.dir.Kept(rosterName)
	if err != nil || !slices.EqualFunc(mustRead(t, kept), ids(1, 2, 3, 4), sameID) {
		t.Errorf("kept: %v, %v", kept, err)
	}
	keeps("without a change", 0)
	r.wanted, fails = ids(1, 2), true
	keeps("that fails", 1)
	fails = false
	r.ticks += rosterRetryTicks - 1
	keeps("soon after that", 0)
	r.ticks++
	keeps("later", 1)

	back := roster{view: r.view}
	back.configured = ids(1, 2)
	if back.read(); !slices.EqualFunc(back.former, ids(4), sameID) || !slices.Equal(back.kept, r.kept) {
		t.Errorf("read back: %v", back.former)
	}
	if err := b.dir.Keep(rosterName, []byte("torn")); err != nil {
		t.Fatal(err)
	}
	back = roster{view: r.view}
	if back.read(); len(back.former) > 0 || back.kept != nil {
		t.Errorf("of a torn file: %v, %q", back.former, back.kept)
	}
}

// TestIntroduced: which of the servers that a peer introduces this server connects to, and whose addresses it keeps.
func TestIntroduced(t *testing.T) {
	t.Parallel()
	b, r := rosterOf(t)
	r.configured = ids(1, 2)
	r.former = ids(6)
	b.peers = nil
	clear(r.strays.dialled)
	if err := r.introduced(appendIntroduction(nil, ids(1, 2, 6))); err != nil || len(b.peers) > 0 {
		t.Errorf("known ones: connected to %v, %v", b.peers, err)
	}
	r.former = nil
	if err := r.introduced(appendIntroduction(nil, ids(1, 3, 4, 7))); err != nil ||
		!slices.EqualFunc(b.peers, ids(3, 4, 7), sameID) || !slices.EqualFunc(r.former, ids(3, 4), sameID) ||
		!r.strays.dialled[7] || !slices.Equal(r.met, []uint64{7}) {
		t.Errorf("connected to %v, kept %v, met %v, %v", b.peers, r.former, r.met, err)
	}
	if kept, err := b.dir.Kept(rosterName); err != nil || !isMember(mustRead(t, kept), 4) {
		t.Errorf("server 4 isn't kept: %v", err)
	}
	if err := r.introduced([]byte("torn")); err == nil {
		t.Error("a torn introduction is read")
	}
	r.met = nil
	for id := uint64(100); id < 100+strangersMetMax; id++ {
		if !r.mayMeet(id) {
			t.Errorf("server %d isn't met", id)
		}
	}
	if r.mayMeet(99) || r.full != true || !r.mayMeet(100) || !r.mayMeet(4) {
		t.Error("one stranger too many is met, or a known one isn't")
	}
}

// TestIntroduces: a server tells the present and former members the addresses, if they know that frame.
func TestIntroduces(t *testing.T) {
	t.Parallel()
	b, r := rosterOf(t)
	for id := range uint64(8) {
		r.levels.announced(id, levelIntroduces, 0)
		b.c.nodes[id] = b.c.nodes[1]
	}
	r.levels.announced(3, levelIntroduces-1, 0)
	var told []uint64
	b.sent = func(to uint64, kind FrameKind, payload []byte) {
		if kind != FrameMembers || !slices.EqualFunc(mustRead(b.c.t, payload), ids(1, 2, 3, 5), sameID) {
			t.Errorf("frame %d: %x", kind, payload)
		}
		told = append(told, to)
	}
	r.wanted, r.former = ids(1, 2, 3, 5), nil
	if r.introduceAll(ids(2, 4)); !slices.Equal(told, []uint64{4, 2, 5}) {
		t.Errorf("it tells %v", told)
	}
}
