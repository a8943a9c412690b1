package quorum

import (
	"log/slog"
	"strings"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
)

// announce tells all servers that their connections are new, and each one's level.
func (c *cluster) announce() {
	for _, id := range c.ids {
		c.greet(id)
	}
}

// TestLevelIsWhatAllKnow raises nothing before every member has announced it, on the
// connection that is up.
func TestLevelIsWhatAllKnow(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	for _, id := range c.ids {
		c.nodes[id].level = 2
	}
	lead := c.leader()
	c.step(2 * levelTicks)
	if lead.supported != 1 {
		t.Fatalf("level %d before anybody announced one", lead.supported)
	}
	other := c.nodes[lead.id%3+1]
	other.level = 1
	c.announce()
	c.step(2 * levelTicks)
	if lead.supported != 1 {
		t.Fatalf("level %d while server %d knows 1", lead.supported, other.id)
	}
	other.level = 3
	c.announce()
	c.step(2 * levelTicks)
	if lead.supported != 2 {
		t.Fatalf("level %d while all know 2", lead.supported)
	}
	c.cut[[2]uint64{lead.id, other.id}] = true
	lead.level = 3
	c.step(2 * levelTicks)
	if lead.supported != 1 {
		t.Fatalf("level %d without a connection to server %d", lead.supported, other.id)
	}
}

// TestNewMemberHoldsTheLevel counts a server that is to be a member, too.
func TestNewMemberHoldsTheLevel(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	for _, id := range c.ids {
		c.nodes[id].level = 2
	}
	lead := c.leader()
	c.announce()
	lead.wanted, lead.version = append(c.members[:3:3], Member{ID: 4, Observer: true}), 1
	c.step(2 * levelTicks)
	if lead.supported != 1 {
		t.Fatalf("level %d without a word from server 4", lead.supported)
	}
}

// TestNothingForOlderServers sends a server nothing of a level that it doesn't know.
func TestNothingForOlderServers(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	for _, id := range c.ids {
		c.nodes[id].level, c.nodes[id].inForce = 2, 2
	}
	lead := c.leader()
	old := c.nodes[lead.id%3+1]
	old.level = 1
	c.announce()
	c.step(2)
	was := len(old.applied)
	lead.say(1)
	c.step(30)
	if len(lead.applied) != 1 || len(old.applied) != was {
		t.Fatalf("%d applied by the leader, %d by the older server", len(lead.applied), len(old.applied)-was)
	}
	old.level = 2
	c.announce()
	c.step(30)
	if len(old.applied) != 1 {
		t.Fatal("upgraded, it still gets nothing")
	}
}

// TestSupportedLevel: the highest level that all members know while they are connected, and at the beginning that of
// the founders.
func TestSupportedLevel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what         string
		inForce, own uint32
		known        map[uint64]uint32
		founded      uint32
		cut          bool
		want         uint32
	}{
		{"all know it", 1, 4, map[uint64]uint32{2: 4, 3: 4}, 0, false, 4},
		{"one knows less", 1, 4, map[uint64]uint32{2: 4, 3: 3}, 0, false, 3},
		{"they know more", 1, 4, map[uint64]uint32{2: 5, 3: 5}, 0, false, 4},
		{"one knows less than what is in force", 3, 4, map[uint64]uint32{2: 4, 3: 2}, 0, false, 3},
		{"one says nothing", 1, 4, map[uint64]uint32{2: 4}, 0, false, 1},
		{"one isn't connected", 2, 4, map[uint64]uint32{2: 4, 3: 4}, 0, true, 2},
		{"just founded", 1, 4, nil, 3, true, 3},
		{"founded without a level", 1, 4, map[uint64]uint32{2: 4, 3: 4}, 1, false, 4},
		{"founded, and raised", 2, 4, map[uint64]uint32{2: 4, 3: 4}, 3, false, 4},
	} {
		cl := newCluster(t, 1, 2, 3)
		lead := cl.elect(1)
		v := &lead.loop.levels
		lead.inForce, lead.level, v.founded, cl.cut[[2]uint64{1, 3}] = c.inForce, c.own, c.founded, c.cut
		for id, level := range c.known {
			v.announced(id, level, 0)
		}
		if got := v.supported(); got != c.want {
			t.Errorf("%s: level %d, want %d", c.what, got, c.want)
		}
	}
}

// TestWithheldLevel: which messages aren't sent to a server that doesn't know the level in force.
func TestWithheldLevel(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		typ            pb.MessageType
		inForce, known uint32
		want           bool
	}{
		{pb.MsgApp, 3, 2, true}, {pb.MsgSnap, 3, 2, true}, {pb.MsgHeartbeat, 3, 2, false}, {pb.MsgApp, 3, 3, false},
		{pb.MsgApp, LevelFirst, 0, false}, {pb.MsgApp, 2, 0, true},
	} {
		v := levels{view: &view{}, inForce: c.inForce, known: map[uint64]uint32{2: c.known}}
		if got := v.withholds(&pb.Message{Type: c.typ.Enum(), To: new(uint64(2))}); got != c.want {
			t.Errorf("%+v: withheld: %t", c, got)
		}
	}
}

// TestOutdatedMembers: a leader says once that a connected member doesn't know the level in force, after some checks in
// a row.
func TestOutdatedMembers(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 2, 3)
	lead := c.elect(1)
	var said strings.Builder
	v := &lead.loop.levels
	v.log = slog.New(slog.NewTextHandler(&said, nil))
	lead.inForce, lead.level = 3, 3
	v.announced(2, 3, 0)
	looks := func(n, want int) {
		t.Helper()
		for range n {
			lead.loop.ticks += levelTicks - lead.loop.ticks%levelTicks
			v.tick()
			lead.loop.ticks++
			v.tick() // no check
		}
		if got := strings.Count(said.String(), "too old"); got != want {
			t.Errorf("after %d checks it is said %d times, want %d:\n%s", n, got, want, &said)
		}
	}
	v.announced(3, 2, 0)
	looks(outdatedLooks-1, 0)
	v.announced(3, 3, 0) // upgraded
	looks(1, 0)
	v.announced(3, 2, 0)
	looks(outdatedLooks-1, 0)
	c.cut[[2]uint64{1, 3}] = true
	looks(1, 0)
	c.cut[[2]uint64{1, 3}] = false
	looks(outdatedLooks-1, 0)
	looks(1, 1)
	looks(2*outdatedLooks, 1)
	if !strings.Contains(said.String(), "server=3 knows=2 inForce=3") {
		t.Errorf("it says %s", &said)
	}
}
