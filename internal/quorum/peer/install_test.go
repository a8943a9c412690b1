package peer

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
)

// TestUnreadableSnapshotIsSentSeldom: a leader that can't read its snapshot is asked to send it again and again, and
// tries ever more seldom. A newer one is tried at once.
func TestUnreadableSnapshotIsSentSeldom(t *testing.T) {
	t.Parallel()
	dir := disk(t, storage.NewMemFS()) // without any snapshot
	synctest.Test(t, func(t *testing.T) {
		tr := &transport{events: make(chan quorum.Event, 1)}
		tr.ctx, tr.cancel = context.WithCancel(t.Context())
		s := &streams{
			dir: dir, t: tr, log: slog.New(slog.DiscardHandler), sending: map[uint64]bool{}, failed: map[uint64]failures{},
		}
		tries := func(index uint64, most time.Duration) (n int) {
			for began := time.Now(); time.Since(began) < most && n < 100; n++ {
				s.send(2, index, nil)
				s.send(2, index, nil) // raft asks again meanwhile
				if e := <-tr.events; e.Kind != quorum.EventSent || e.From != 2 || e.Err == nil {
					t.Fatalf("told %+v", e)
				}
			}
			return n
		}
		if n := tries(7, time.Minute); n < 10 || n > 14 {
			t.Errorf("%d tries in a minute, want 13", n)
		}
		if n := tries(8, time.Second); n < 4 || n > 6 {
			t.Errorf("%d tries in a second to send a newer snapshot, want 5", n)
		}
		if rest := s.restAfter(2, 8, nil); rest != 0 {
			t.Errorf("after a snapshot was sent the next one waits for %v", rest)
		}
		if rest := s.restAfter(2, 8, context.Canceled); rest != sendRestMin {
			t.Errorf("after the first failure a snapshot waits for %v", rest)
		}
		tr.cancel()
		tr.wg.Wait()
	})
}

// TestSenderOfAnUnusableSnapshotWaits: what could not be used comes again at once, and is not
// taken before a while.
func TestSenderOfAnUnusableSnapshotWaits(t *testing.T) {
	t.Parallel()
	dir := disk(t, storage.NewMemFS())
	synctest.Test(t, func(t *testing.T) {
		tr := &transport{events: make(chan quorum.Event, 1)}
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

// snapshotSender has begun to send a snapshot of size bytes, on a connection that s receives.
func snapshotSender(t *testing.T, s *streams, from, size uint64) (there net.Conn) {
	t.Helper()
	here, there := net.Pipe()
	go func() {
		defer here.Close()
		s.receive(here, from)
	}()
	if _, err := there.Write(binary.BigEndian.AppendUint64([]byte{0, 0, 0, 0}, size)); err != nil {
		t.Fatal(err)
	}
	return there
}

// TestNewerSnapshotConnection: the sender of a snapshot has gone silent, as one that leads no more. Another one that
// has a snapshot doesn't wait until the silence has lasted for too long.
func TestNewerSnapshotConnection(t *testing.T) {
	t.Parallel()
	tr := &transport{events: make(chan quorum.Event, 1)}
	tr.ctx, tr.cancel = context.WithCancel(t.Context())
	defer tr.cancel()
	s := &streams{dir: disk(t, storage.NewMemFS()), t: tr, log: slog.New(slog.DiscardHandler)}
	defer s.incoming.Keep(nil)
	var at [8]byte
	silent := snapshotSender(t, s, 2, 3)
	if _, err := io.ReadFull(silent, at[:]); err != nil {
		t.Fatal(err)
	}
	newer := make(chan net.Conn, 1)
	go func() {
		here, there := net.Pipe()
		newer <- there
		s.receive(here, 3)
		here.Close()
	}()
	silent.SetReadDeadline(time.Now().Add(streamTimeout / 2)) // its silence alone would end it later
	if n, err := silent.Read(at[:]); err != io.EOF {
		t.Fatalf("the connection of the older sender goes on: %d bytes, %v", n, err)
	}
	c := <-newer
	if _, err := c.Write(binary.BigEndian.AppendUint64([]byte{0, 0, 0, 0}, 4)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(c, at[:]); err != nil || binary.BigEndian.Uint64(at[:]) != 0 {
		t.Fatalf("the newer sender is told %v, %v", at, err)
	}
	if s.current == nil {
		t.Error("the newer connection doesn't count as the newest")
	}
	c.Close()
	s.taking.Lock() // it is free once the newer one has ended
	defer s.taking.Unlock()
	if s.current != nil {
		t.Error("a connection that has ended counts as the newest")
	}
}

// TestSenderWaitsForRoom: a snapshot that doesn't fit on the disk comes again at once, and isn't looked at before a
// while. One that was cut off may go on at once.
func TestSenderWaitsForRoom(t *testing.T) {
	t.Parallel()
	dir := disk(t, storage.NewMemFS())
	synctest.Test(t, func(t *testing.T) {
		tr := &transport{events: make(chan quorum.Event, 1)}
		tr.ctx, tr.cancel = context.WithCancel(t.Context())
		defer tr.cancel()
		s := &streams{dir: dir, t: tr, log: slog.New(slog.DiscardHandler)}
		var at [8]byte
		for _, step := range []struct {
			size uint64
			wait time.Duration
		}{{4, 0}, {1 << 62, 0}, {4, snapshotRest}, {4, 0}} {
			began := time.Now()
			c := snapshotSender(t, s, 2, step.size)
			_, err := io.ReadFull(c, at[:])
			if fits := step.size < 1<<62; fits != (err == nil) || time.Since(began) != step.wait {
				t.Errorf("%d bytes: %v after %v, want %v", step.size, err, time.Since(began), step.wait)
			}
			c.Close()
			synctest.Wait()
		}
		s.incoming.Keep(nil)
	})
}

// TestSnapshotThatIsAskedForAgain: a peer has received a snapshot and asks for it again. The sender then reads it
// completely, and finds damage that it doesn't look for otherwise. It reads a snapshot that is in order only once.
func TestSnapshotThatIsAskedForAgain(t *testing.T) {
	t.Parallel()
	fs := storage.NewMemFS()
	dir := disk(t, fs)
	err := dir.Log().Append(&pb.HardState{Term: new(uint64(1)), Vote: new(uint64(1)), Commit: new(uint64(1))},
		[]*pb.Entry{{Index: new(uint64(1)), Term: new(uint64(1))}}, true)
	if err != nil {
		t.Fatal(err)
	}
	w, err := dir.CreateSnapshot(storage.Meta{Index: 1, Term: 1, ConfState: &pb.ConfState{Voters: []uint64{1}}})
	if err == nil {
		chunk := make([]byte, 5000)
		rand.NewChaCha8([32]byte{2}).Read(chunk)
		err = errors.Join(w.WriteChunk(chunk), w.Commit())
	}
	if err != nil {
		t.Fatal(err)
	}
	reads := 0
	fs.Hook = func(c storage.Call) error {
		if c.Op == "read" {
			reads++
		}
		return nil
	}
	tr := &transport{ctx: t.Context()}
	s := &streams{dir: dir, t: tr, log: slog.New(slog.DiscardHandler), sent: map[uint64]uint64{}}
	open := func() (all int, err error) {
		reads = 0
		snap, err := s.open(2, 1)
		if err == nil {
			snap.Close()
		}
		return reads, err
	}
	first, err := open()
	if err != nil {
		t.Fatal(err)
	}
	s.received(2, 1)
	if all, err := open(); err != nil || all <= first {
		t.Errorf("asked for again: %d reads after %d, %v", all, first, err)
	}
	if all, err := open(); err != nil || all != first {
		t.Errorf("asked for once more: %d reads, %v", all, err)
	}
	s.read = 0 // by a sender that hasn't read it
	fs.Damage("/data/0000000000000001.snap", func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
	if _, err := open(); !errors.As(err, new(*unreadError)) || !errors.As(err, new(*storage.DamageError)) {
		t.Errorf("the damaged one: %v", err)
	}
	s.received(2, 7)
	if _, err := open(); err != nil {
		t.Errorf("the damaged one is sent for the first time: %v", err)
	}
}
