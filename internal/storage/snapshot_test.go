package storage

import (
	"bytes"
	"errors"
	"io/fs"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
)

// filled opens a directory whose log has n committed entries.
func filled(t *testing.T, fs *MemFS, n uint64) *Dir {
	t.Helper()
	d := mustOpen(t, smallOptions(fs, 1))
	for i := uint64(1); i <= n; i++ {
		if err := d.Log().Append(hs(1, 0, i-1), batch(i, 1, 1, 100), true); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Log().Append(hs(1, 0, n), nil, true); err != nil {
		t.Fatal(err)
	}
	return d
}

func takeSnapshot(t *testing.T, d *Dir, index uint64, chunks ...[]byte) {
	t.Helper()
	w, err := d.CreateSnapshot(Meta{
		Index: index, Term: 1, ConfState: &raftpb.ConfState{Voters: []uint64{1, 2}}, Zxid: 5, Digest: 6, FeatureLevel: 7,
		BodyFormat: 8,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range chunks {
		if err := w.WriteChunk(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
}

func TestSnapshotLoads(t *testing.T) {
	t.Parallel()
	d := filled(t, NewMemFS(), 5)
	rng := rand.New(rand.NewPCG(1, 1))
	var chunks [][]byte
	for i := range 20 {
		c := make([]byte, rng.IntN(3000)*(i%3))
		for k := range c {
			c[k] = byte(rng.Uint32N(uint32(i + 1)))
		}
		chunks = append(chunks, c)
	}
	takeSnapshot(t, d, 4, chunks...)
	s, err := d.OpenSnapshot(4)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Index != 4 || s.Term != 1 || s.Zxid != 5 || s.Digest != 6 || s.FeatureLevel != 7 || s.BodyFormat != 8 ||
		s.ClusterID != testCluster ||
		!slices.Equal(s.ConfState.GetVoters(), []uint64{1, 2}) || s.Chunks() != len(chunks) {
		t.Errorf("meta %+v, %d chunks", s.Meta, s.Chunks())
	}
	for _, again := range []bool{false, true} {
		var got [][]byte
		err := s.Load(func(chunk []byte) ([]byte, error) {
			if again {
				got = append(got, bytes.Clone(chunk))
				return chunk, nil
			}
			got = append(got, chunk)
			return nil, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(got, chunks, bytes.Equal) {
			t.Errorf("memory used again %v: the chunks differ", again)
		}
	}
	stop := errors.New("stop")
	if err := s.Load(func([]byte) ([]byte, error) { return nil, stop }); err != stop {
		t.Errorf("error of the taker became %v", err)
	}
}

// TestEachChunkIsCompared: a byte that rots is found when the snapshot is loaded, in any chunk, before that is used.
func TestEachChunkIsCompared(t *testing.T) {
	t.Parallel()
	memory := NewMemFS()
	d := filled(t, memory, 5)
	rng := rand.New(rand.NewPCG(1, 2))
	chunks := make([][]byte, 5)
	for i := range chunks {
		chunks[i] = make([]byte, 500)
		for k := range chunks[i] {
			chunks[i][k] = byte(rng.Uint32()) // can't be compressed
		}
	}
	takeSnapshot(t, d, 4, chunks...)
	whole, err := d.OpenSnapshot(4)
	if err != nil {
		t.Fatal(err)
	}
	for n, c := range whole.chunks {
		turn := func(b []byte) []byte {
			b[c.off+250] ^= 1
			return b
		}
		memory.Damage(d.snapshotPath(4), turn)
		s, err := d.OpenSnapshot(4) // looks at where the chunks are, and not into them
		if err != nil {
			t.Fatal(err)
		}
		var broken *DamageError
		loaded := 0
		err = s.Load(func([]byte) ([]byte, error) { loaded++; return nil, nil })
		if !errors.As(err, &broken) || loaded != n {
			t.Errorf("with chunk %d damaged, %d chunks are loaded and then %v", n, loaded, err)
		}
		memory.Damage(d.snapshotPath(4), turn)
	}
}

func TestSnapshotMustMatchTheLog(t *testing.T) {
	t.Parallel()
	memory := NewMemFS()
	d := filled(t, memory, 5)
	for _, at := range []position{{9, 1}, {4, 2}} {
		w, err := d.CreateSnapshot(Meta{Index: at.index, Term: at.term})
		if err != nil {
			t.Fatal(err)
		}
		if w.Commit() == nil {
			t.Errorf("a snapshot at %v was accepted", at)
		}
	}
	if _, err := d.OpenSnapshot(0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no snapshot: %v", err)
	}
	w, _ := d.CreateSnapshot(Meta{Index: 4, Term: 1})
	if err := errors.Join(w.Abort(), w.Abort()); err != nil {
		t.Error(err)
	}
	for _, name := range namesOf(memory) {
		if strings.HasSuffix(name, tmpSuffix) {
			t.Errorf("%s is left", name)
		}
	}
	if err := w.Commit(); err != ErrClosed {
		t.Errorf("Commit after Abort: %v", err)
	}
}

// TestTransfer sends a snapshot in pieces with a break in between, and one damaged on the way.
func TestTransfer(t *testing.T) {
	t.Parallel()
	from := filled(t, NewMemFS(), 9)
	takeSnapshot(t, from, 9, []byte("one"), []byte("two"))
	s, err := from.OpenSnapshot(0)
	if err != nil {
		t.Fatal(err)
	}
	to := filled(t, NewMemFS(), 2)
	send := func(damage int64) error {
		w, err := to.ReceiveSnapshot()
		if err != nil {
			t.Fatal(err)
		}
		for w.Offset() < s.Size() {
			p := make([]byte, min(50, s.Size()-w.Offset()))
			if _, err := s.ReadAt(p, w.Offset()); err != nil {
				t.Fatal(err)
			}
			if damage >= w.Offset() && damage < w.Offset()+50 {
				p[damage-w.Offset()] ^= 1
			}
			if err := w.WriteRaw(p); err != nil {
				t.Fatal(err)
			}
		}
		return to.Install(w, hs(4, 3, 9))
	}
	for i := range s.Size() {
		if err := send(i); err == nil {
			t.Fatalf("a snapshot with byte %d damaged on the way was installed", i)
		}
	}
	if last, _ := to.Log().LastIndex(); last != 2 || to.Log().Err() != nil {
		t.Fatalf("last index %d, %v after refused snapshots", last, to.Log().Err())
	}
	if err := send(-1); err != nil {
		t.Fatal(err)
	}
	want := model{}.installed(position{9, 1}, hardState{4, 3, 9}, []byte("onetwo"))
	if diff := want.differs(to) + want.snapshotDiffers(to); diff != "" {
		t.Error(diff)
	}
	if err := send(-1); err == nil {
		t.Error("the same snapshot was installed twice")
	}
	if err := to.Log().Append(nil, batch(10, 4, 1, 10), true); err != nil {
		t.Error(err)
	}
}

// TestMixedSnapshots joins parts of two snapshots whose chunks are all intact: only the whole's checksum tells.
func TestMixedSnapshots(t *testing.T) {
	t.Parallel()
	at := position{9, 1}
	one, err := peerSnapshot(at, []byte("one"))
	if err != nil {
		t.Fatal(err)
	}
	two, err := peerSnapshot(at, []byte("two"))
	if err != nil || len(one) != len(two) {
		t.Fatal(err, len(one), len(two))
	}
	_, header, _ := parseMeta(one)
	mixed := slices.Concat(one[:header], two[header:len(two)-snapFooterSize], one[len(one)-snapFooterSize:])
	d := filled(t, NewMemFS(), 2)
	w, err := d.ReceiveSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WriteRaw(mixed); err != nil {
		t.Fatal(err)
	}
	if err := d.Install(w, hs(1, 0, 9)); err == nil || !strings.Contains(err.Error(), "SHA-256") {
		t.Errorf("installed, or refused for another reason: %v", err)
	}
}

func TestPurgeKeepsWhatIsNeeded(t *testing.T) {
	t.Parallel()
	memory := NewMemFS()
	d := filled(t, memory, 60)
	for i := uint64(10); i <= 60; i += 10 {
		takeSnapshot(t, d, i, []byte{byte(i)})
	}
	// Damage that Purge must find out about by itself: the directory is opened anew.
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	memory.Damage(d.snapshotPath(50), func(b []byte) []byte { b[len(b)/2] ^= 1; return b })
	d = mustOpen(t, smallOptions(memory, 3))
	const keep = SnapshotsKept - 1 // not what is kept unless somebody says so
	snapshots, segments, err := d.Purge(keep, 0)
	if err != nil || segments == 0 {
		t.Fatalf("purged %d snapshots, %d segments: %v", snapshots, segments, err)
	}
	var left []string
	for _, n := range namesOf(memory) {
		if strings.HasSuffix(n, snapshotSuffix) {
			left = append(left, strings.TrimLeft(strings.TrimSuffix(n, snapshotSuffix), "0"))
		}
	}
	if !slices.Equal(left, []string{"28", "32", "3c"}) {
		t.Errorf("snapshots left: %v; want two verified ones and none below them", left)
	}
	if first, _ := d.Log().FirstIndex(); first > 41 || first < 30 {
		t.Errorf("first index %d; the oldest snapshot kept is at 40", first)
	}
	if n := len(d.Log().spares.ready); n == 0 {
		t.Error("no purged segment is kept to be written again")
	}
	if again, n, err := d.Purge(keep, 0); again+n != 0 || err != nil {
		t.Errorf("a second purge removed %d, %d: %v", again, n, err)
	}
}

// TestPurgePassesOverTheUnreadable: a snapshot that can't be read doesn't count, and keeps nothing from being removed.
// Its error is returned all the same.
func TestPurgePassesOverTheUnreadable(t *testing.T) {
	t.Parallel()
	memory := NewMemFS()
	d := filled(t, memory, 60)
	for i := uint64(20); i <= 60; i += 10 {
		takeSnapshot(t, d, i, []byte{byte(i)})
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	faulty := newFaultyFS(memory)
	faulty.fail = func(c Call) error {
		if c.Name == d.snapshotPath(50) {
			return syscall.EIO
		}
		return nil
	}
	o := smallOptions(memory, 3)
	o.FS = faulty
	d = mustOpen(t, o)
	snapshots, segments, err := d.Purge(2, 0)
	if snapshots != 2 || segments == 0 || !errors.Is(err, syscall.EIO) || d.Log().Err() != nil {
		t.Errorf("purged %d snapshots, want 2, and %d segments: %v, and then %v", snapshots, segments, err, d.Log().Err())
	}
}

// TestPurgeKeepsTheLogForAnother: the log that another server needs is kept with the one newest snapshot, but not more
// of it than that server can ever catch up with, and none while space is short.
func TestPurgeKeepsTheLogForAnother(t *testing.T) {
	t.Parallel()
	memory := NewMemFS()
	d := filled(t, memory, 60)
	takeSnapshot(t, d, 60, []byte{1})
	first := func() uint64 {
		first, err := d.Log().FirstIndex()
		if err != nil {
			t.Fatal(err)
		}
		return first
	}
	if _, segments, err := d.Purge(1, 40); err != nil || segments == 0 || first() > 41 || first() < 20 {
		t.Fatalf("%d segments are removed, the log begins at %d; it is needed from 41 on: %v", segments, first(), err)
	}
	segment := int64(d.Log().segments[0].size)
	before := first()
	for room := segment * int64(len(d.Log().segments)); room >= 0; room -= segment {
		if index := d.log.within(room, 40, 60); index < before-1 || index > 60 || room == 0 && index < 55 {
			t.Errorf("within %d bytes the log is removed up to %d", room, index)
		} else {
			before = index + 1
		}
	}
	if before == first() {
		t.Error("however little room there is, all is kept")
	}
	if _, segments, err := d.Purge(1, 0); err != nil || segments == 0 || first() <= 41 {
		t.Errorf("nobody needs it: %d segments are removed, the log begins at %d: %v", segments, first(), err)
	}
}

// TestKeepAll: a purge that is to keep everything removes nothing.
func TestKeepAll(t *testing.T) {
	t.Parallel()
	memory := NewMemFS()
	d := filled(t, memory, 60)
	for i := uint64(10); i <= 60; i += 10 {
		takeSnapshot(t, d, i, []byte{byte(i)})
	}
	before := namesOf(memory)
	if snapshots, segments, err := d.Purge(KeepAll, 0); snapshots+segments != 0 || err != nil ||
		!slices.Equal(before, namesOf(memory)) {
		t.Errorf("it removed %d snapshots, %d segments: %v", snapshots, segments, err)
	}
}

// TestRefusals: a log that no snapshot connects to, another cluster's directory, a directory in use.
func TestRefusals(t *testing.T) {
	t.Parallel()
	memory := NewMemFS()
	d := filled(t, memory, 40)
	takeSnapshot(t, d, 30, []byte("x"))
	if _, _, err := d.Purge(1, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(smallOptions(memory, 2)); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("second Open: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	if err := d.Log().Append(nil, nil, true); err != ErrClosed {
		t.Errorf("Append after Close: %v", err)
	}
	o := smallOptions(memory.Clone(), 2)
	o.ClusterID++
	other := (*ClusterError)(nil)
	if _, err := Open(o); !errors.As(err, &other) {
		t.Errorf("another cluster: %v", err)
	}
	memory.Damage(d.snapshotPath(30), func([]byte) []byte { return nil })
	damage := (*DamageError)(nil)
	if _, err := Open(smallOptions(memory, 2)); !errors.As(err, &damage) ||
		!strings.Contains(err.Error(), "no verified snapshot") {
		t.Errorf("log without snapshot: %v", err)
	}
}

// TestSnapshotIsWrittenOut hands a snapshot to the disk piece by piece, none of it twice: the log would wait behind
// what piled up. A piece that the disk refuses ends snapshot and log, one that finds the disk full the snapshot only.
func TestSnapshotIsWrittenOut(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault error
		fatal bool
	}{{nil, false}, {syscall.EIO, true}, {syscall.ENOSPC, false}} {
		fs := NewMemFS()
		d := mustOpen(t, Options{FS: fs, Dir: "data", ClusterID: 9})
		if err := d.Log().Append(hs(1, 0, 1), batch(1, 1, 1, 100), true); err != nil {
			t.Fatal(err)
		}
		var out int64
		fs.Hook = func(call Call) error {
			if call.Op != "writeout" {
				return nil
			}
			if call.Off != out || call.Bytes > writeOutStep {
				t.Errorf("written out: %d bytes from %d on; until there %d", call.Bytes, call.Off, out)
			}
			if out += call.Bytes; out > 3*writeOutStep {
				return c.fault
			}
			return nil
		}
		w, err := d.CreateSnapshot(Meta{Index: 1, Term: 1, ConfState: &raftpb.ConfState{Voters: []uint64{1}}})
		if err != nil {
			t.Fatal(err)
		}
		paused := 0
		w.Pause = func() error { paused++; return nil }
		rng := rand.New(rand.NewPCG(1, 2))
		chunk := make([]byte, 100<<10)
		for range 20 {
			for i := range chunk {
				chunk[i] = byte(rng.Uint32())
			}
			if err = w.WriteChunk(chunk); err != nil {
				break
			}
			if left := w.Offset() - out; left >= writeOutStep {
				t.Fatalf("%d bytes are left to a later sync", left)
			}
		}
		if err == nil {
			err = w.Commit()
		}
		if !errors.Is(err, c.fault) || paused == 0 {
			t.Errorf("disk says %v to a piece: %v; paused %d times", c.fault, err, paused)
		}
		if got := d.Log().Err() != nil; got != c.fatal {
			t.Errorf("disk says %v to a piece: log ended with %v", c.fault, d.Log().Err())
		}
		fs.Hook = nil
		if err := errors.Join(w.Abort(), d.Close()); !c.fatal && err != nil {
			t.Error(err)
		}
	}
}

// TestPausedSnapshotEnds stops a snapshot where it pauses, while it is written and while it is verified.
func TestPausedSnapshotEnds(t *testing.T) {
	t.Parallel()
	stopped := errors.New("stopped")
	for after := range 6 {
		fs := NewMemFS()
		d := mustOpen(t, Options{FS: fs, Dir: "data", ClusterID: 9})
		if err := d.Log().Append(hs(1, 0, 1), batch(1, 1, 1, 100), true); err != nil {
			t.Fatal(err)
		}
		w, err := d.CreateSnapshot(Meta{Index: 1, Term: 1, ConfState: &raftpb.ConfState{Voters: []uint64{1}}})
		if err != nil {
			t.Fatal(err)
		}
		pauses := 0
		w.Pause = func() error {
			if pauses++; pauses > after {
				return stopped
			}
			return nil
		}
		if err = w.WriteChunk([]byte("state")); err == nil {
			err = w.Commit()
		}
		if !errors.Is(err, stopped) || d.Log().Err() != nil {
			t.Errorf("stopped at pause %d: %v; log: %v", after, err, d.Log().Err())
		}
		if err := w.Abort(); err != nil {
			t.Error(err)
		}
		if _, ok := d.NewestSnapshot(); ok {
			t.Errorf("stopped at pause %d, yet there is a snapshot", after)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestSpareIsWrittenOut makes a segment's file: whatever of it is written is handed to the disk before more is.
func TestSpareIsWrittenOut(t *testing.T) {
	t.Parallel()
	const size = 5*writeOutStep + 512
	for _, fault := range []error{nil, syscall.EIO} {
		fs := NewMemFS()
		var written, out int64
		fs.Hook = func(call Call) error {
			switch call.Op {
			case "write":
				written += call.Bytes
			case "writeout":
				if out += call.Bytes; out > 3*writeOutStep {
					return fault
				}
			}
			if written-out > writeOutStep {
				t.Errorf("%d bytes are written, %d handed to the disk", written, out)
			}
			return nil
		}
		if err := fs.MkdirAll("data"); err != nil {
			t.Fatal(err)
		}
		err := makeSpare(fs, "data/spare-1", size)
		if fatal := (*FatalError)(nil); !errors.Is(err, fault) || errors.As(err, &fatal) != (fault != nil) {
			t.Errorf("fault %v: %v", fault, err)
		}
		if fault == nil && (written != size || out != size) {
			t.Errorf("%d bytes are written, %d handed to the disk; want %d", written, out, size)
		}
	}
}

// TestPurgeHoldsUpNoAppend appends in the middle of each removal, rename and sync of the directory that a purge does.
func TestPurgeHoldsUpNoAppend(t *testing.T) {
	t.Parallel()
	fs := &interruptedFS{FS: NewMemFS()}
	d := mustOpen(t, smallOptions(fs, 9))
	index := uint64(0)
	add := func() {
		index++
		if err := d.Log().Append(hs(1, 0, index), batch(index, 1, 1, 1000), true); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		for range 40 {
			add()
		}
		takeSnapshot(t, d, index, []byte("all"))
	}
	inside := 0
	fs.interrupt = func() {
		inside++
		add()
	}
	if snapshots, segments, err := d.Purge(1, 0); snapshots != 1 || segments == 0 || err != nil {
		t.Errorf("purge: %d snapshots, %d segments, %v", snapshots, segments, err)
	}
	if inside < 4 {
		t.Errorf("only %d calls were seen", inside)
	}
}

// interruptedFS calls interrupt before it changes a directory, unless it is in one such call already.
type interruptedFS struct {
	FS
	interrupt func()
}

func (f *interruptedFS) stop() {
	if interrupt := f.interrupt; interrupt != nil {
		f.interrupt = nil
		interrupt()
		f.interrupt = interrupt
	}
}

func (f *interruptedFS) Remove(name string) error {
	f.stop()
	return f.FS.Remove(name)
}

func (f *interruptedFS) Rename(from, to string) error {
	f.stop()
	return f.FS.Rename(from, to)
}

func (f *interruptedFS) SyncDir(name string) error {
	f.stop()
	return f.FS.SyncDir(name)
}

// TestRoomFor: a snapshot that a peer announces is refused before its first byte if it doesn't fit beside the reserve.
func TestRoomFor(t *testing.T) {
	t.Parallel()
	fs := NewMemFS()
	o := smallOptions(fs, 1)
	o.Space.ReserveBytes = 1 << 20
	d := mustOpen(t, o)
	fs.Budget = 8 << 20
	free, _, err := fs.Free("")
	if err != nil {
		t.Fatal(err)
	}
	room := int64(free) - 1<<20
	for size, want := range map[int64]bool{
		0: true, room: true, room + 1: false, 1 << 40: false, math.MaxInt64: false, -1: false, math.MinInt64: false,
	} {
		if err := d.RoomFor(size); (err == nil) != want {
			t.Errorf("%d bytes, with %d free: %v", size, free, err)
		}
	}
}
