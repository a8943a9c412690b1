package quorum

import (
	"testing"

	"go.etcd.io/raft/v3"
)

// TestReadOfAFormerLife has a server ask what it may read, stop, and start again before
// the answer comes. The answer to its former life is of an older index than the
// question that it asks now, which has the same number; it must not serve that.
func TestReadOfAFormerLife(t *testing.T) {
	c := newColony(t, 1, 2, 3)
	lead := c.elect(1)
	c.step(5)
	c.restart(2)
	c.step(5)
	b := c.bodies[2]
	former := b.loop.o.Incarnation
	answer := func(index uint64) raft.ReadState {
		return raft.ReadState{Index: index, RequestCtx: readContext(former, 1)}
	}
	old := lead.loop.applied
	lead.say(7)
	c.step(2)
	c.crash(2)
	c.step(2)
	c.restart(2)
	c.step(2)
	b.loop.reads.ask(b.loop, 5)
	if b.loop.reads.id != 1 {
		t.Fatalf("the first question of a life has the number %d", b.loop.reads.id)
	}
	b.loop.reads.answered(b.loop, answer(old))
	if b.synced == 5 {
		t.Fatal("the answer to a former life served the present one")
	}
	c.step(5)
	if b.synced != 5 {
		t.Fatal("its own answer never came")
	}
}
