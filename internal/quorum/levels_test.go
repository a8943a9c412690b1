package quorum

import (
	"testing"
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
