package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
)

// narrow is a disk of one kind of limit, with a log on it.
type narrow struct {
	t     *testing.T
	fs    *MemFS
	o     Options
	d     *Dir
	index uint64 // of the next entry
	waits int    // how often the log waited
	wait  func() bool
}

// narrowDisks are the ways in which a disk can have no room.
var narrowDisks = []struct {
	name  string
	limit func(fs *MemFS)
	frees func(fs *MemFS)
}{
	{"bytes", func(fs *MemFS) { fs.Budget = 1024 * sectorSize }, func(fs *MemFS) { fs.Budget *= 16 }},
	{
		"a quota", func(fs *MemFS) { fs.Budget, fs.Full, fs.Quota = 1024*sectorSize, syscall.EDQUOT, true },
		func(fs *MemFS) { fs.Budget *= 16 },
	},
	{
		"inodes", func(fs *MemFS) { fs.Budget, fs.FilesMax = 1<<30, 20 },
		func(fs *MemFS) { fs.FilesMax = 1000 },
	},
	{
		"a quota of inodes",
		func(fs *MemFS) { fs.Budget, fs.FilesMax, fs.Full, fs.Quota = 1<<30, 9, syscall.EDQUOT, true },
		func(fs *MemFS) { fs.FilesMax = 1000 },
	},
	{
		"bytes, copied on write", func(fs *MemFS) { fs.Budget, fs.CopyOnWrite = 1024*sectorSize, true },
		func(fs *MemFS) { fs.Budget *= 16 },
	},
}

func newNarrow(t *testing.T, limit func(fs *MemFS)) *narrow {
	n := &narrow{t: t, fs: NewMemFS(), index: 1}
	limit(n.fs)
	n.o = smallOptions(n.fs, 1)
	n.o.SegmentSize = 64 * sectorSize
	n.o.Space = SpaceLimits{WarnPercent: -1, RefusePercent: -1, RefuseBytes: -1, ReserveBytes: 128 * sectorSize}
	n.o.Wait = func() bool {
		n.waits++
		return n.wait != nil && n.wait()
	}
	n.d = mustOpen(t, n.o)
	return n
}

// append appends an entry, or only a HardState.
func (n *narrow) append(size int) error {
	list := batch(n.index, 1, min(size, 1), size)
	err := n.d.Log().Append(hs(1, 0, n.index-1), list, true)
	if err == nil {
		n.index += uint64(len(list))
	}
	return err
}

// fill appends until the log waits for the first time, and reports how many entries fitted after the Dir said to
// refuse writes. then is called while the log waits.
func (n *narrow) fill(then func() bool) (late int) {
	n.t.Helper()
	n.wait = then
	refused := false
	for i := 0; n.waits == 0; i++ {
		if i == 5000 {
			n.t.Fatal("the disk doesn't fill up")
		}
		state, err := n.d.SpaceState()
		if err != nil {
			n.t.Fatal(err)
		}
		refused = refused || state.Level == SpaceRefuse
		if refused {
			late++
		}
		if err := n.append(1000); err != nil {
			n.t.Fatalf("append %d: %v", n.index, err)
		}
	}
	if !refused {
		n.t.Error("the log has no room at all, and writes were not refused before")
	}
	return late
}

// TestNoRoomAlike fills disks that have no room for different reasons: the log goes on after writes are refused, then
// waits, is read, purged and looked at meanwhile, and goes on by itself. Nothing is lost.
func TestNoRoomAlike(t *testing.T) {
	t.Parallel()
	for _, kind := range narrowDisks {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			n := newNarrow(t, kind.limit)
			late := n.fill(func() bool {
				log := n.d.Log()
				if log.WritingFor() != 0 || !log.AwaitsRoom() {
					t.Errorf("a wait for room counts as a write of %v; awaits room: %t", log.WritingFor(), log.AwaitsRoom())
				}
				if state, err := n.d.SpaceState(); err != nil || state.Level != SpaceRefuse || !state.Waits {
					t.Errorf("while the log waits: %+v, %v", state, err)
				}
				if _, err := log.Entries(1, 2, 1000); err != nil {
					t.Errorf("read while the log waits: %v", err)
				}
				if _, _, err := n.d.Purge(1, 0); err != nil {
					t.Errorf("purge while the log waits: %v", err)
				}
				if n.waits == 3 {
					kind.frees(n.fs)
				}
				return true
			})
			if late == 0 {
				t.Error("nothing is kept for what must enter the log when writes are refused")
			}
			if n.waits != 3 || n.d.Log().AwaitsRoom() {
				t.Errorf("waited %d times, want 3; still waits: %t", n.waits, n.d.Log().AwaitsRoom())
			}
			for range 4 { // smaller spares may be tried first
				if _, err := n.d.SpaceState(); err != nil {
					t.Fatal(err)
				}
			}
			if state, _ := n.d.SpaceState(); state.Level != SpaceOK || state.Denied {
				t.Errorf("there is room again: %+v", state)
			}
			for range 50 {
				if err := n.append(1000); err != nil {
					t.Fatal(err)
				}
			}
			if err := n.d.Close(); err != nil {
				t.Fatal(err)
			}
			n.reopened(n.fs)
		})
	}
}

// reopened checks that a log has all entries.
func (n *narrow) reopened(fs *MemFS) *Dir {
	n.t.Helper()
	o := n.o
	o.FS = fs
	d, err := Open(o)
	if err != nil {
		n.t.Fatalf("open again: %v", err)
	}
	if last, _ := d.Log().LastIndex(); last != n.index-1 {
		n.t.Errorf("the log ends at %d, want %d", last, n.index-1)
	}
	return d
}

// TestStartWithoutRoom starts on a disk on which nothing more fits: the log opens, votes and begins a term, and
// only what has data waits.
func TestStartWithoutRoom(t *testing.T) {
	t.Parallel()
	for _, kind := range narrowDisks {
		if kind.name == "bytes, copied on write" {
			continue // there even what is reserved needs room
		}
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			n := newNarrow(t, kind.limit)
			err := error(nil)
			for err == nil {
				err = n.append(1000)
			}
			if !NoRoom(err) {
				t.Fatal(err)
			}
			fs := n.fs.Reboot()
			d := n.reopened(fs)
			if err := d.Log().Append(hs(2, 1, n.index-1), nil, true); err != nil {
				t.Fatalf("vote: %v", err)
			}
			if err := d.Log().Append(hs(2, 1, n.index-1), []*raftpb.Entry{entry(n.index, 2, nil)}, true); err != nil {
				t.Fatalf("begin a term: %v", err)
			}
			n.index++
			d.SpaceState() // the next file can't be made
			if state, err := d.SpaceState(); err != nil || state.Level != SpaceRefuse {
				t.Errorf("after a start without room: %+v, %v", state, err)
			}
			if err := d.Log().Append(hs(2, 1, n.index-1), batch(n.index, 2, 1, 1000), true); !NoRoom(err) {
				t.Errorf("an entry with data: %v", err)
			}
			fs = fs.Reboot()
			kind.frees(fs)
			n.reopened(fs)
		})
	}
}

// TestEveryCallLacksRoom lets each single call of a script find no room, in each of the ways. The log goes on, except
// after a sync of what was there before; and a restart or a power cut loses nothing that was acknowledged.
func TestEveryCallLacksRoom(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= atMost(5); seed++ {
		rng := rand.New(rand.NewPCG(seed, 4))
		for n, c := range countCalls(t, seed, 40) {
			if !slices.Contains([]string{"open", "create", "write", "allocate", "rename", "fdatasync", "syncdir"}, c.Op) {
				continue
			}
			var fault error = []error{syscall.ENOSPC, syscall.EDQUOT}[n%2]
			if c.Op == "write" && n%4 < 2 {
				fault = &ShortWrite{N: rng.IntN(int(c.Bytes)), Err: fault}
			}
			if diff := lackRoom(seed, n, fault, rng); diff != "" {
				t.Fatalf("seed %d, call %d (%+v) finds no room: %s", seed, n, c, diff)
			}
		}
	}
}

// lackRoom lets call n of a script fail once with fault, and returns what is wrong.
func lackRoom(seed uint64, n int, fault error, rng *rand.Rand) string {
	fs := NewMemFS()
	o := oneOrTwo(fs, seed)
	o.Wait = func() bool { return true }
	s := newScript(o, seed)
	calls, op, segment := 0, "", false
	fs.Hook = func(c Call) error {
		if calls++; calls == n+1 {
			op, segment = c.Op, strings.HasSuffix(c.Name, segmentSuffix)
			return fault
		}
		return nil
	}
	s.run(40)
	fs.Hook = nil
	var fatal *FatalError
	switch {
	case s.err != nil && !NoRoom(s.err):
		return "reported as: " + s.err.Error()
	case s.err == nil && (op == "syncdir" || op == "fdatasync" && segment):
		return "a sync that failed was repeated"
	case s.err == nil:
		return s.powerCut(fs, rng)
	case s.dir == nil: // the start failed
	case s.dir.Log().Err() != nil && op != "fdatasync" && op != "syncdir":
		return fmt.Sprintf("the log ended because of a %s: %v", op, s.dir.Log().Err())
	case s.dir.Log().Err() != nil && !errors.As(s.err, &fatal):
		return "not a FatalError: " + s.err.Error()
	}
	if diff := s.powerCut(fs, rng); diff != "" {
		return diff
	}
	return s.restart(fs, rng)
}

// TestInstallNeedsRoom: a peer's snapshot for whose log there is no room is refused before anything relies on it.
func TestInstallNeedsRoom(t *testing.T) {
	t.Parallel()
	n := newNarrow(t, narrowDisks[3].limit)
	w := fromPeer(t, n.d, position{100, 3}, "content")
	used := uint64(len(n.fs.names))
	n.fs.FilesMax = used
	n.d.space.limits.ReserveBytes = -1
	n.d.space.release()
	for n.fs.FilesMax = used - 1; len(n.d.log.spares.ready) > 0; { // only the segments and the snapshot stay
		if _, err := n.d.log.spares.giveUp(0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Verify(); !NoRoom(err) || n.d.Log().Err() != nil {
		t.Fatalf("a snapshot without room for its log: %v; the log: %v", err, n.d.Log().Err())
	}
	n.fs.FilesMax = 1000
	snap, err := w.Verify()
	if err != nil {
		t.Fatal(err)
	}
	snap.Close()
	n.fs.FilesMax = 1 // Install has what it needs
	if err := n.d.Install(w, hs(3, 0, 100)); err != nil {
		t.Fatal(err)
	}
	if last, _ := n.d.Log().LastIndex(); last != 100 {
		t.Errorf("the log ends at %d after the snapshot, want 100", last)
	}
}

// TestSnapshotTakesReserve: on a full disk a small snapshot gets the room of the reserve, and the log before it makes
// room for the reserve again. Without that, nothing could ever free space on a disk that others fill.
func TestSnapshotTakesReserve(t *testing.T) {
	t.Parallel()
	n := newNarrow(t, narrowDisks[0].limit)
	for range 100 {
		if err := n.append(1000); err != nil {
			t.Fatal(err)
		}
	}
	free, _, _ := n.fs.Free("")
	n.fs.Damage("data/foreign", func([]byte) []byte { return make([]byte, free) })
	write := func(size int) error {
		w, err := n.d.CreateSnapshot(Meta{Index: n.index - 2, Term: 1, ConfState: &raftpb.ConfState{Voters: []uint64{1}}})
		if err != nil {
			return err
		}
		content := make([]byte, size)
		rand.NewChaCha8([32]byte{}).Read(content) // can't be compressed
		return errors.Join(writeChunks(w, content), w.Commit(), w.Abort())
	}
	for range 2 {
		if err := write(200 * sectorSize); !NoRoom(err) {
			t.Fatalf("a snapshot that is larger than the reserve: %v", err)
		}
	}
	if n.d.space.held {
		t.Error("the reserve was not released for a snapshot")
	}
	if _, err := n.d.SpaceState(); err != nil || !n.d.space.held {
		t.Fatalf("the reserve is held again: %t, %v", n.d.space.held, err)
	}
	if err := write(200 * sectorSize); !NoRoom(err) || !n.d.space.held {
		t.Fatalf("the reserve was released once more for a snapshot that didn't fit before: %t, %v", !n.d.space.held, err)
	}
	n.d.noteSnapshotSize(0) // as after the next start
	if err := write(10 * sectorSize); err != nil {
		t.Fatalf("a small snapshot on a full disk: %v", err)
	}
	if _, removed, err := n.d.Purge(1, 0); err != nil || removed == 0 {
		t.Fatalf("purge: %d segments, %v", removed, err)
	}
	if state, err := n.d.SpaceState(); err != nil || !n.d.space.held {
		t.Errorf("the reserve after the purge: %t, %+v, %v", n.d.space.held, state, err)
	}
}
