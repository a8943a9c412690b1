package quorum

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
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
		"of other members": announce(func(meta *pb.SnapshotMetadata) { meta.ConfState.Voters = append(meta.ConfState.Voters, 9) }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newColony(t, 1, 2, 3)
			lead := c.leader()
			behind := c.bodies[lead.id%3+1]
			c.crash(behind.id)
			for _, id := range c.ids {
				c.bodies[id].snapshot = 1
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

// TestSenderOfAnUnusableSnapshotWaits: what could not be used comes again at once, and is not
// taken before a while.
func TestSenderOfAnUnusableSnapshotWaits(t *testing.T) {
	t.Parallel()
	dir := newColony(t, 1).bodies[1].dir
	synctest.Test(t, func(t *testing.T) {
		tr := &transport{events: make(chan Event, 1)}
		tr.ctx, tr.cancel = context.WithCancel(t.Context())
		s := &streams{dir: dir, t: tr, log: slog.New(slog.DiscardHandler)}
		send := func() (took time.Duration) {
			here, there := net.Pipe()
			go s.receive(here, 2)
			began := time.Now()
			head := binary.BigEndian.AppendUint64([]byte{0, 0, 0, 0}, 3) // an empty message, then the size
			if _, err := there.Write(head); err != nil {
				t.Fatal(err)
			}
			var at [8]byte
			_, err := io.ReadFull(there, at[:])
			_, werr := there.Write([]byte("abc"))
			if err := errors.Join(err, werr); err != nil {
				t.Fatal(err)
			}
			e := <-tr.events
			_, err = there.Read(at[:1])
			e.Taken <- false
			if err := errors.Join(err, e.File.Abort()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return time.Since(began)
		}
		if first, second := send(), send(); first > 0 || second != snapshotRest {
			t.Errorf("the first snapshot takes %v, the one after it %v; want 0 and %v", first, second, snapshotRest)
		}
		tr.cancel()
		if s.rested() {
			t.Error("a server that stops takes another snapshot")
		}
	})
}
