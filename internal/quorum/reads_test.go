package quorum

import (
	"log/slog"
	"strings"
	"testing"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// TestReadOfAFormerLife has a server ask what it may read, stop, and start again before
// the answer comes. The answer to its former life is of an older index than the
// question that it asks now, which has the same number; it must not serve that.
func TestReadOfAFormerLife(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	lead := c.elect(1)
	c.step(5)
	c.restart(2)
	c.step(5)
	b := c.nodes[2]
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

// TestReadAskedOfAFormerLeader has a follower's question what it may read come to a server
// that led when it was sent, and knows another leader by now. That passes nothing on in the
// follower's name, which would look to the leader like an intruder's. The follower asks the
// leader itself as soon as it is connected to it, and doesn't wait for its question to
// count as lost.
func TestReadAskedOfAFormerLeader(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	var log strings.Builder
	c.log = slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})
	for _, id := range c.ids {
		c.crash(id)
		c.restart(id)
	}
	c.elect(1)
	c.step(5)
	c.elect(3)
	c.step(5)
	log.Reset()
	b := c.nodes[2]
	late := &pb.Message{
		Type: pb.MsgReadIndex.Enum(), From: new(uint64(2)), To: new(uint64(1)),
		Entries: []*pb.Entry{{Data: readContext(b.loop.o.Incarnation, 1<<20)}},
	}
	frame, err := proto.Marshal(late)
	if err != nil {
		t.Fatal(err)
	}
	former := c.nodes[1]
	former.post(func() { former.loop.Handle(Event{Kind: EventRaft, From: 2, Data: frame}) })
	c.step(2)
	if log.Len() > 0 {
		t.Fatalf("a question to a former leader led to the warning:\n%s", &log)
	}
	// The connection to the leader is down when server 2 asks, and comes up.
	c.cut[[2]uint64{2, 3}] = true
	b.ticket = 5
	c.step(1)
	if b.synced == 5 {
		t.Fatal("a sync was answered without a connection to the leader")
	}
	clear(c.cut)
	b.post(func() { b.loop.Handle(Event{Kind: EventConnected, From: 3}) })
	if c.step(1); b.synced != 5 {
		t.Fatal("server 2 didn't ask again when it was connected to the leader")
	}
}

// TestReadAnsweredAfterItWasAskedAgain: where servers are far from each other, an answer takes longer than the time
// after which the question is asked again. The answer to the first question counts; a sync requested since then, and
// one whose question is over, aren't answered by it.
func TestReadAnsweredAfterItWasAskedAgain(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	c.elect(1)
	c.step(5)
	b := c.nodes[2]
	reads := &b.loop.reads
	answer := func(id uint64) {
		reads.answered(b.loop, raft.ReadState{Index: b.loop.applied, RequestCtx: readContext(b.loop.o.Incarnation, id)})
		b.turn()
	}
	c.cut[[2]uint64{2, 1}] = true // its questions don't arrive
	b.ticket = 5
	c.step(1)
	first := reads.id
	b.ticket = 6
	c.step(readRetryTicks + 2)
	if reads.id == first {
		t.Fatal("the question wasn't asked again")
	}
	if answer(first - 1); b.synced != 0 {
		t.Fatal("the answer to an earlier question was taken")
	}
	if answer(reads.id + 1); b.synced != 0 {
		t.Fatal("the answer to a question that nobody asked was taken")
	}
	if answer(first); b.synced != 5 {
		t.Fatalf("ticket %d was answered, not 5, whose question was asked twice", b.synced)
	}
	if answer(first); b.synced != 5 {
		t.Fatal("an answer served a sync that was requested after its question")
	}
	if answer(reads.id); b.synced != 6 {
		t.Fatalf("ticket %d was answered, not 6", b.synced)
	}
}

// TestReadBesideAnotherCall has what a server may read become known while its state machine is in a call that applies
// nothing. The sync is answered after that call, though nobody writes any more.
func TestReadBesideAnotherCall(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	lead := c.leader()
	c.step(5)
	lead.busy = true
	lead.loop.reads.ask(lead.loop, 5)
	c.step(2)
	if lead.called == nil || lead.synced == 5 {
		t.Fatal("the state machine isn't busy with the first sync: nothing is shown")
	}
	lead.loop.reads.ask(lead.loop, 6)
	c.step(2)
	if lead.loop.reads.ready != 6 {
		t.Fatal("what may be read for the second sync isn't known: nothing is shown")
	}
	lead.rest()
	c.step(2)
	if lead.synced != 6 {
		t.Errorf("the second sync isn't answered until somebody writes; the last one was %d", lead.synced)
	}
}
