package quorum

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/zooid-project/zooid/internal/storage"
)

// TestSnapshotsThatCantBeUsed sends a server that is far behind snapshots whose files are
// whole and wrong. It refuses each and goes on, and takes the first one that is right.
func TestSnapshotsThatCantBeUsed(t *testing.T) {
	t.Parallel()
	announce := func(change func(meta *pb.SnapshotMetadata)) func(message, file []byte) []byte {
		return func(message, _ []byte) []byte {
			m, err := decodeMessage(message)
			if err != nil {
				t.Fatal(err)
			}
			change(m.GetSnapshot().GetMetadata())
			b, err := proto.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
	}
	for name, spoil := range map[string]func(message, file []byte) []byte{
		"no state": nil,
		"damaged on the way": func(message, file []byte) []byte {
			file[len(file)/2] ^= 1
			return message
		},
		"cut": func(message, file []byte) []byte {
			clear(file[len(file)-100:])
			return message
		},
		"of another entry": announce(func(meta *pb.SnapshotMetadata) { meta.Index = new(meta.GetIndex() + 1) }),
		"of another term":  announce(func(meta *pb.SnapshotMetadata) { meta.Term = new(meta.GetTerm() - 1) }),
		"of other members": announce(func(meta *pb.SnapshotMetadata) {
			meta.ConfState.Voters = append(meta.ConfState.Voters, 9)
		}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 1, 2, 3)
			lead := c.leader()
			behind := c.nodes[lead.id%3+1]
			c.crash(behind.id)
			for _, id := range c.ids {
				c.nodes[id].snapshot = 1
			}
			c.spoil, lead.garbled = spoil, spoil == nil
			for i := range uint64(20) {
				lead.mine, lead.waiting = []uint64{i + 1}, slices.Repeat([]uint64{i + 1}, 2000) // each counts once
				c.step(1)
			}
			if first, _ := lead.dir.Log().FirstIndex(); first < 5 {
				t.Fatalf("the leader's log still begins at %d: the test shows nothing", first)
			}
			c.restart(behind.id)
			c.step(30)
			if n := len(behind.applied); n > 0 || behind.loop.lastLead.Leader != lead.id {
				t.Fatalf("%d numbers are applied, under leader %d", n, behind.loop.lastLead.Leader)
			}
			c.spoil, lead.garbled = nil, false
			lead.say(21)
			c.step(30)
			c.agreed(21)
		})
	}
}

// TestUnfitForASnapshot: a server whose program can't go on from a snapshot that is in order stops.
func TestUnfitForASnapshot(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 2, 3)
	lead := c.leader()
	behind := c.nodes[lead.id%3+1]
	c.crash(behind.id)
	for _, id := range c.ids {
		c.nodes[id].snapshot = 1
	}
	for i := range uint64(20) {
		lead.mine, lead.waiting = []uint64{i + 1}, slices.Repeat([]uint64{i + 1}, 2000)
		c.step(1)
	}
	behind.unfit, behind.mayFail = true, true
	c.restart(behind.id)
	c.step(30)
	if unfit := (*UnfitError)(nil); !errors.As(behind.failed, &unfit) || len(behind.applied) > 0 {
		t.Errorf("it goes on: %v, %d applied", behind.failed, len(behind.applied))
	}
}

// TestUnreadableSnapshotIsReplaced: a leader whose newest snapshot is damaged writes another one, at the same entry if
// there is no later one, and the server that needs it catches up. Nothing else makes a snapshot due.
func TestUnreadableSnapshotIsReplaced(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 2, 3)
	lead := c.leader()
	behind := c.nodes[lead.id%3+1]
	c.crash(behind.id)
	lead.snapshot = 1
	for i := range uint64(20) {
		lead.mine, lead.waiting = []uint64{i + 1}, slices.Repeat([]uint64{i + 1}, 2000)
		c.step(1)
	}
	c.step(5)
	lead.snapshot = 0
	meta, ok := lead.dir.NewestSnapshot()
	if !ok {
		t.Fatal("there is no snapshot")
	}
	var said strings.Builder
	lead.loop.log = slog.New(slog.NewTextHandler(&said, nil))
	lead.fs.Damage(fmt.Sprintf("/data/%016x.snap", meta.Index), func(b []byte) []byte { return b[:len(b)-1] })
	c.restart(behind.id)
	c.step(snapshotRetryTicks + 50)
	c.agreed(20)
	if n := strings.Count(said.String(), "can't read its newest snapshot"); n != 1 || lead.loop.snap.wanted {
		t.Errorf("it has said %d times that it can't read the snapshot:\n%s", n, &said)
	}
}

// TestSnapshotIsNotSent: which failures to send a snapshot make a leader write another one, and when.
func TestSnapshotIsNotSent(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		what   string
		unread bool
		index  uint64 // that was sent; the newest is 0
		is     func(s *snapshots)
		want   bool
	}{
		{"the newest can't be read", true, 0, func(*snapshots) {}, true},
		{"the connection broke", false, 0, func(*snapshots) {}, false},
		{"an older one was removed", true, 1, func(*snapshots) {}, false},
		{"another one is being written", true, 0, func(s *snapshots) { s.running = true }, false},
	} {
		l := newCluster(t, 1).leader1().loop
		l.snap.sent[2], l.snap.began, l.snap.retryAt = x.index, 7, 0
		x.is(&l.snap)
		l.snap.notSent(l, Event{From: 2, Unread: x.unread, Err: errOdd})
		if _, kept := l.snap.sent[2]; kept || l.snap.wanted != x.want ||
			x.want != (l.snap.retryAt == 7+snapshotRetryTicks) {
			t.Errorf("%s: %+v", x.what, l.snap)
		}
	}
}

// TestSlowSnapshot: a server gets a snapshot over a slow network. The leader takes several meanwhile, and keeps the log
// that the server needs to go on from the one it gets; once it has caught up, that log is removed.
func TestSlowSnapshot(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 2, 3)
	lead := c.leader()
	behind := c.nodes[lead.id%3+1]
	c.crash(behind.id)
	lead.snapshot = 1
	said := uint64(0)
	write := func() (first uint64) {
		for range 20 {
			said++
			lead.mine, lead.waiting = []uint64{said}, slices.Repeat([]uint64{said}, 2000)
			c.step(1)
		}
		first, _ = lead.dir.Log().FirstIndex()
		return first
	}
	c.slow = true
	write()
	c.restart(behind.id)
	c.step(30)
	if len(c.streams) != 1 {
		t.Fatalf("%d snapshots are under way", len(c.streams))
	}
	sent := lead.loop.snap.sent[behind.id]
	if first := write(); first > sent+1 {
		t.Fatalf("the log begins at %d; the snapshot under way is at %d", first, sent)
	}
	if newest, _ := lead.dir.NewestSnapshot(); newest.Index < sent+10 {
		t.Fatalf("the newest snapshot is at %d, the one under way at %d: nothing is shown", newest.Index, sent)
	}
	c.cut[[2]uint64{behind.id, lead.id}] = true // its acknowledgement is lost
	c.streams[0]()
	c.step(2)
	c.cut[[2]uint64{behind.id, lead.id}] = false
	c.step(30)
	if len(c.streams) != 1 {
		t.Errorf("another snapshot is sent")
	}
	c.agreed(int(said))
	if first := write(); first < sent+10 {
		t.Errorf("the log still begins at %d; everyone has what the snapshot at %d has", first, sent)
	}
}

// TestSlowSnapshotFails: a snapshot doesn't arrive. Nobody needs the log after it any more.
func TestSlowSnapshotFails(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, 2, 3)
	lead := c.leader()
	sent := lead.loop.snap.sent
	sent[2], sent[3] = 1, 1
	lead.loop.Handle(Event{Kind: EventSent, From: 2, Err: errOdd})
	lead.loop.Handle(Event{Kind: EventSent, From: 3})
	if _, waits := sent[2]; waits || sent[3] != 1 {
		t.Errorf("the log is kept for %v", sent)
	}
	sent[9] = 1 // it was a member
	if after := sent.needed(lead.loop, lead.loop.applied); after != 0 || len(sent) > 0 {
		t.Errorf("the log after %d is kept, for %v", after, sent)
	}
	follower := c.others(lead)[0]
	follower.loop.snap.sent[lead.id] = 1 // it led
	if after := follower.loop.snap.sent.needed(follower.loop, follower.loop.applied+9); after != 0 {
		t.Errorf("a follower keeps the log after %d", after)
	}
}

// TestSnapshotsHeldAgain brings a server whose state machine is busy two snapshots. Both wait for it. The first one
// begins another call of the state machine, for which the second one waits in its turn; it isn't lost.
func TestSnapshotsHeldAgain(t *testing.T) {
	c := newCluster(t, 1, 2, 3)
	lead := c.leader()
	c.step(5)
	f := c.others(lead)[0]
	f.busy = true
	lead.say(7)
	if c.step(1); f.called == nil {
		t.Fatal("the state machine has nothing to do: nothing is shown")
	}
	var taken []chan bool
	for range 2 {
		file, err := f.dir.ReceiveSnapshot()
		if err != nil {
			t.Fatal(err)
		}
		message, err := proto.Marshal(&pb.Message{
			Type: pb.MsgSnap.Enum(), From: new(lead.id), To: new(f.id), Term: new(lead.loop.node.Term()),
			Snapshot: &pb.Snapshot{Metadata: &pb.SnapshotMetadata{
				Index: new(f.loop.applied + 100), Term: new(lead.loop.node.Term()), ConfState: f.loop.conf,
			}},
		})
		if err != nil {
			t.Fatal(err)
		}
		answer := make(chan bool, 1)
		taken = append(taken, answer)
		f.loop.Handle(Event{Kind: EventSnapshot, From: lead.id, Data: message, File: file, Taken: answer})
	}
	f.rest()
	c.step(3)
	for i, answer := range taken {
		select {
		case ok := <-answer:
			if ok {
				t.Errorf("snapshot %d, which has no state, was taken", i+1)
			}
		default:
			t.Errorf("snapshot %d was lost while it waited", i+1)
		}
	}
}

// TestSnapshotIsRefused: a server that can't use a peer's snapshot says so, but not each time. It stops if its own disk
// or program is the cause.
func TestSnapshotIsRefused(t *testing.T) {
	t.Parallel()
	b := newCluster(t, 1).leader1()
	l := b.loop
	var said strings.Builder
	l.log = slog.New(slog.NewTextHandler(&said, nil))
	refuse := func(err error, failed bool, lines int) {
		t.Helper()
		l.refuseSnapshot(Event{From: 2}, err)
		if (l.failed != nil) != failed || strings.Count(said.String(), "snapshot is refused") != lines {
			t.Errorf("failed: %v; it has said\n%s", l.failed, &said)
		}
	}
	refuse(errOdd, false, 1)
	l.ticks += refusedTicks - 1
	refuse(errOdd, false, 1)
	l.ticks++
	refuse(errOdd, false, 2)
	l.ticks += refusedTicks
	if refuse(&UnfitError{errOdd}, true, 2); !errors.Is(l.failed, errOdd) {
		t.Errorf("a program that can't use it ends with %v", l.failed)
	}
	full := errors.New("the disk is full")
	b.fs.Hook = func(c storage.Call) error {
		if c.Op == "fdatasync" {
			return full
		}
		return nil
	}
	if err := l.disk.Append(nil, nil, true); err == nil {
		t.Fatal("the log goes on after a failed sync")
	}
	if refuse(errOdd, true, 2); !errors.Is(l.failed, full) {
		t.Errorf("a server whose disk has failed ends with %v", l.failed)
	}
}
