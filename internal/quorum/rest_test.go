package quorum

import (
	"testing"
)

// TestRests: only a server alone rests, and not while something is new to it.
func TestRests(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1)
	b := c.nodes[1]
	b.loop.Turn()
	if b.loop.Resting() {
		t.Fatal("it rests before its first tick")
	}
	c.step(1)
	if !b.loop.Resting() {
		t.Fatal("alone with nothing to do, it doesn't rest")
	}
	b.say(1)
	b.loop.Turn()
	if b.loop.Resting() {
		t.Error("it rests though Status doesn't show yet what it applied")
	}
	c.step(1)
	if !b.loop.Resting() || b.loop.Status().Applied != b.loop.applied {
		t.Error("a tick after the change it doesn't rest")
	}
	b.wanted, b.version = []Member{{ID: 1}, {ID: 2}}, 1
	c.step(1)
	if b.loop.Resting() {
		t.Error("it rests while another server is to join")
	}

	c = newCluster(t, 1, 2, 3)
	c.leader()
	c.step(5)
	for _, id := range c.ids {
		if c.nodes[id].loop.Resting() {
			t.Errorf("server %d of three rests", id)
		}
	}
}
