package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// TestNothingAfterTheEnd: a log that a failed sync has ended, or that was closed, answers each operation with that
// error, and nothing changes any more.
func TestNothingAfterTheEnd(t *testing.T) {
	t.Parallel()
	for _, end := range []string{"closed", "failed"} {
		memory := NewMemFS()
		d := filled(t, memory, 6)
		takeSnapshot(t, d, 3, []byte("x"))
		received := fromPeer(t, d, position{20, 3}, "y")
		own, err := d.CreateSnapshot(Meta{Index: 5, Term: 1, ConfState: &raftpb.ConfState{}})
		if err != nil {
			t.Fatal(err)
		}
		want := ErrClosed
		if end == "failed" {
			memory.Hook = func(c Call) error {
				if c.Op == "fdatasync" {
					return syscall.EIO
				}
				return nil
			}
			if want = d.Log().Append(nil, nil, true); !errors.Is(want, syscall.EIO) {
				t.Fatal(want)
			}
			memory.Hook = nil
		} else if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		for name, do := range map[string]func() error{
			"Append":          func() error { return d.Log().Append(nil, batch(7, 1, 1, 10), true) },
			"Purge":           func() error { _, _, err := d.Purge(1, 0); return err },
			"CreateSnapshot":  func() error { _, err := d.CreateSnapshot(Meta{Index: 6, Term: 1}); return err },
			"ReceiveSnapshot": func() error { _, err := d.ReceiveSnapshot(); return err },
			"Install":         func() error { return d.Install(received, hs(3, 0, 20)) },
			"Keep":            func() error { return d.Keep("x", []byte("y")) },
			"KeepSkip":        func() error { return d.KeepSkip(skipForTests(7)) },
			"DropSkip":        func() error { return d.DropSkip(7) },
			"KeepReport":      func() error { _, _, err := d.KeepReport(Report{Index: 7}); return err },
		} {
			if err := do(); !errors.Is(err, want) {
				t.Errorf("%s, then %s: %v, want %v", end, name, err, want)
			}
		}
		if err := own.Abort(); err != nil {
			t.Errorf("%s, then Abort: %v", end, err)
		}
		for name, do := range map[string]func() error{
			"Commit":  own.Commit,
			"Install": func() error { return d.Install(received, nil) },
			"Verify":  func() error { _, err := received.Verify(); return err },
		} {
			if err := do(); !errors.Is(err, ErrClosed) {
				t.Errorf("%s of a snapshot that is given up: %v", name, err)
			}
		}
		again := mustOpen(t, smallOptions(memory.Reboot(), 1))
		if last, _ := again.Log().LastIndex(); last != 6 {
			t.Errorf("%s: the log ends at %d, want 6", end, last)
		}
		if snap, _ := again.Log().Snapshot(); snap.GetMetadata().GetIndex() != 3 {
			t.Errorf("%s: snapshot %d, want 3", end, snap.GetMetadata().GetIndex())
		}
	}
}

// TestOldSegmentsBesideAnInstalledLog: segments from before an installed snapshot are put back, by hand for example.
// While the snapshot is there they are void. Without it, the log has lost what the snapshot held.
func TestOldSegmentsBesideAnInstalledLog(t *testing.T) {
	t.Parallel()
	memory := NewMemFS()
	d := filled(t, memory, 30)
	old, before := map[string][]byte{}, memory.Clone()
	for _, s := range d.log.segments {
		old[s.path] = before.content(filepath.Base(s.path))
	}
	w := fromPeer(t, d, position{40, 3}, "y")
	if err := d.Install(w, nil); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Log().Append(hs(3, 0, 40), batch(41, 3, 20, 300), true),
		d.Log().Append(hs(3, 0, 41), batch(61, 3, 20, 300), true), d.Close()); err != nil {
		t.Fatal(err)
	}
	snapshot, second := d.snapshotPath(40), filepath.Join("data", segmentName(2))
	for _, c := range []struct {
		without []string
		says    string // "" if it opens
	}{
		{nil, ""},
		{[]string{second}, ""},
		{[]string{snapshot}, "the log goes on after this snapshot, which is missing or damaged"},
		{[]string{snapshot, second}, "the log begins after this snapshot, which is missing or damaged"},
	} {
		image := memory.Clone()
		for name, b := range old { // any order: each is another file
			image.Damage(name, func([]byte) []byte { return b })
		}
		for _, name := range c.without {
			image.Damage(name, func([]byte) []byte { return nil })
		}
		d, err := Open(smallOptions(image, 1))
		damage := (*DamageError)(nil)
		switch {
		case c.says == "" && err != nil:
			t.Errorf("without %v: %v", c.without, err)
		case c.says == "":
			first, _ := d.Log().FirstIndex()
			if last, _ := d.Log().LastIndex(); first != 41 || last != 80 {
				t.Errorf("without %v: entries %d to %d, want 41 to 80", c.without, first, last)
			}
		case !errors.As(err, &damage) || damage.Reason != c.says || damage.File != snapshot:
			t.Errorf("without %v: %v, want %s", c.without, err, c.says)
		}
	}
}

// TestFilesOfAnotherHistory: a segment or a snapshot of the same cluster and number, but of another server's history,
// isn't taken for this one's.
func TestFilesOfAnotherHistory(t *testing.T) {
	t.Parallel()
	memory, other := NewMemFS(), NewMemFS()
	d := filled(t, memory, 30)
	e := mustOpen(t, smallOptions(other, 2))
	if err := e.Log().Append(hs(2, 0, 0), batch(1, 2, 40, 100), true); err != nil {
		t.Fatal(err)
	}
	if err := e.Log().Append(hs(2, 0, 30), batch(41, 2, 20, 300), true); err != nil {
		t.Fatal(err)
	}
	name := segmentName(2)
	image := memory.Clone()
	image.Damage("data/"+name, func([]byte) []byte { return other.content(name) })
	wantDamage(t, image, "log segment follows batch")

	raw, err := peerSnapshot(position{20, 2}, []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	image = memory.Clone()
	image.Damage(d.snapshotPath(20), func([]byte) []byte { return raw })
	wantDamage(t, image, "the snapshot has term 2, the log's entry 20 term 1")
	image.Damage(d.snapshotPath(20), func([]byte) []byte { return nil })
	image.Damage(d.snapshotPath(21), func([]byte) []byte { return raw })
	d = mustOpen(t, smallOptions(image, 1))
	if notes := d.Recovered().DamagedSnapshots; len(notes) != 1 ||
		!strings.Contains(notes[0].Error(), "the file holds a snapshot at index 20") {
		t.Errorf("a snapshot under another's name: %v", notes)
	}
}

// TestNewerLogFormat: a log of a later version is refused as such.
func TestNewerLogFormat(t *testing.T) {
	t.Parallel()
	memory := NewMemFS()
	filled(t, memory, 3)
	memory = memory.Clone()
	memory.Damage("data/"+segmentName(1), func(b []byte) []byte {
		le.PutUint32(b[8:], segmentFormat+1)
		le.PutUint32(b[segmentCRCAt:], crcUpdate(0, b[:segmentCRCAt]))
		return b
	})
	wantDamage(t, memory, "log format 2; this version reads format 1")
}

// TestSnapshotOfAnotherCluster: a peer's snapshot of another ensemble isn't installed.
func TestSnapshotOfAnotherCluster(t *testing.T) {
	t.Parallel()
	o := smallOptions(NewMemFS(), 1)
	o.ClusterID++
	d := mustOpen(t, o)
	w := fromPeer(t, d, position{20, 3}, "y")
	if err := d.Install(w, nil); err == nil || !strings.Contains(err.Error(), "it was not installed") ||
		d.Log().Err() != nil {
		t.Errorf("installed: %v; the log: %v", err, d.Log().Err())
	}
	if names := namesOf(o.FS.(*MemFS)); strings.Contains(fmt.Sprint(names), tmpSuffix) {
		t.Errorf("the file stays: %v", names)
	}
}

// TestForgedChunksAreNotLoaded: a chunk whose checksum is right, and which isn't compressed data of the size it says,
// ends Load with its place.
func TestForgedChunksAreNotLoaded(t *testing.T) {
	t.Parallel()
	forged := forgedSnapshot(func(int, *chunkPlace) {}, func(*snapFooter) {}, nil)
	for _, magic := range []uint32{chunkMagic, chunkMagicZstd} {
		fs := NewMemFS()
		fs.Damage("s", func([]byte) []byte {
			at := int(le.Uint32(forged[12:]))
			le.PutUint32(forged[at:], magic)
			le.PutUint32(forged[at+20:], crcUpdate(0, forged[at:at+20]))
			return forged
		})
		s, err := openSnapshot(fs, "s")
		if err != nil {
			t.Fatal(err)
		}
		err = s.Load(func([]byte) ([]byte, error) { t.Error("a chunk is loaded"); return nil, nil })
		damage := (*DamageError)(nil)
		if !errors.As(err, &damage) || damage.File != "s" || damage.Offset != s.chunks[0].off ||
			!strings.Contains(damage.Reason, "does not decompress to 100 bytes") {
			t.Errorf("magic %#x: %v", magic, err)
		}
	}
}

// TestNoRandomness: without salts there is no directory, and no segment.
func TestNoRandomness(t *testing.T) {
	t.Parallel()
	o := smallOptions(NewMemFS(), 1)
	o.Rand = iotest.ErrReader(syscall.EIO)
	if _, err := Open(o); !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "random source") {
		t.Errorf("opened: %v", err)
	}
	o = smallOptions(NewMemFS(), 1)
	o.Rand = io.LimitReader(o.Rand, 8)
	d := mustOpen(t, o)
	err := d.Log().Append(hs(1, 0, 0), batch(1, 1, 40, 100), true)
	for i := uint64(41); err == nil && i < 100; i++ {
		err = d.Log().Append(hs(1, 0, 0), batch(i, 1, 1, 100), true)
	}
	if fatal := (*FatalError)(nil); !errors.As(err, &fatal) || fatal.File != "random source" ||
		d.Log().Stats().Segments != 1 {
		t.Errorf("appended: %v", err)
	}
}

// TestRoomForNewLog: a log isn't begun where it couldn't grow: 8 segments of the smallest size and the reserve must
// fit, and 16 files.
func TestRoomForNewLog(t *testing.T) {
	t.Parallel()
	need := uint64(roomSegments*8*sectorSize + 2*sectorSize)
	for _, c := range []struct {
		budget, files uint64
		says          string
	}{
		{need, 0, ""}, {need - 1, 0, "a new log needs"}, {1 << 30, filesRefuse, ""},
		{1 << 30, filesRefuse - 1, "can take 15 more files, and a new log needs 16"},
	} {
		memory := NewMemFS()
		memory.Budget, memory.FilesMax = c.budget, c.files
		_, err := Open(smallOptions(memory, 1))
		if c.says == "" && err != nil || c.says != "" && (!NoRoom(err) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%d bytes, %d files: %v, want %q", c.budget, c.files, err, c.says)
		}
		if names := namesOf(memory); c.says != "" && len(names) > 0 {
			t.Errorf("%d bytes, %d files: refused, with files %v", c.budget, c.files, names)
		}
	}
}

// TestPlaceOfSkip: an entry's place is read as it was written, and nothing else is one.
func TestPlaceOfSkip(t *testing.T) {
	t.Parallel()
	s := skipForTests(12)
	var read Skip
	if !read.ParsePlace(s.Place()) || !read.SamePlace(&s) {
		t.Errorf("%s is read as %+v", s.Place(), read)
	}
	for _, change := range []func(*Skip){
		func(s *Skip) { s.Index++ }, func(s *Skip) { s.Term++ }, func(s *Skip) { s.Hash[31]++ },
	} {
		o := s
		if change(&o); o.SamePlace(&s) {
			t.Errorf("%s is the place of %s", o.Place(), s.Place())
		}
	}
	hash := s.Hash.String()
	for _, text := range []string{
		"", "12:3", "12:3:" + hash + ":", "12:3:" + hash[1:], "12:3:" + hash + "0", "0:3:" + hash, "12:0:" + hash,
		"x:3:" + hash, "12:x:" + hash, "12:3:" + strings.Repeat("x", len(hash)),
	} {
		if read.ParsePlace(text) {
			t.Errorf("%q is the place of an entry", text)
		}
	}
}

// TestTooManySkips: a directory with more decisions than a server reads is refused, with the one too many.
func TestTooManySkips(t *testing.T) {
	t.Parallel()
	memory := NewMemFS()
	if err := memory.MkdirAll("data"); err != nil {
		t.Fatal(err)
	}
	for i := range uint64(SkipsMax + 1) {
		s := skipForTests(i + 1)
		memory.Damage(skipPath("data", i+1), func([]byte) []byte { return s.append(nil) })
		all, err := Skips(memory, "data", 0)
		if i < SkipsMax && (err != nil || len(all) != int(i)+1) || i == SkipsMax && (err == nil ||
			!strings.Contains(err.Error(), "entry-17.skip: there are more than 16")) {
			t.Errorf("%d decisions: %d are read, %v", i+1, len(all), err)
		}
	}
}

// TestOwnFiles: which names in a data directory are this package's.
func TestOwnFiles(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][2]bool{
		segmentName(3): {true, true}, "0000000000000003.snap": {false, true}, identityName: {false, true},
		"spare-3": {false, true}, "server.kept": {false, true}, "snapshot-1.tmp": {false, true},
		"3.log": {false, false}, reserveName: {false, false}, "myid": {false, false}, "entry-3.skip": {false, false},
	} {
		if segment, own := OwnFile(name); segment != want[0] || own != want[1] {
			t.Errorf("%s: a segment: %t, own: %t; want %v", name, segment, own, want)
		}
	}
}

// TestPurgeKeepsThree: without a number, Purge keeps SnapshotsKept snapshots.
func TestPurgeKeepsThree(t *testing.T) {
	t.Parallel()
	memory := NewMemFS()
	d := filled(t, memory, 6)
	for i := uint64(1); i <= 5; i++ {
		takeSnapshot(t, d, i, []byte("x"))
	}
	n, _, err := d.Purge(0, 0)
	if left, _ := SnapshotIndexes(memory, "data"); n != 2 || err != nil || !reflect.DeepEqual(left, []uint64{3, 4, 5}) {
		t.Errorf("%d are removed, %v; %v are left", n, err, left)
	}
}

// TestTermOfPurged: the log doesn't know the terms of entries before its first segment.
func TestTermOfPurged(t *testing.T) {
	t.Parallel()
	d := filled(t, NewMemFS(), 40)
	takeSnapshot(t, d, 40, []byte("x"))
	if _, n, err := d.Purge(1, 0); n == 0 || err != nil {
		t.Fatalf("%d segments purged, %v", n, err)
	}
	first, _ := d.Log().FirstIndex()
	if term, err := d.Log().Term(first - 1); term != 1 || err != nil {
		t.Errorf("the term before the first entry: %d, %v", term, err)
	}
	if _, err := d.Log().Term(first - 2); err != raft.ErrCompacted {
		t.Errorf("the term of an entry before that: %v", err)
	}
}

// TestSyncsAreTold: OnSync learns of each sync of the log, with the bytes that were written before.
func TestSyncsAreTold(t *testing.T) {
	t.Parallel()
	o := smallOptions(NewMemFS(), 1)
	var told []int
	o.OnSync = func(took time.Duration, bytes int) {
		if took < 0 {
			t.Errorf("a sync took %v", took)
		}
		told = append(told, bytes)
	}
	d := mustOpen(t, o)
	if err := d.Log().Append(hs(1, 0, 0), batch(1, 1, 1, 100), true); err != nil {
		t.Fatal(err)
	}
	if len(told) != 1 || told[0] < frameSize(batch(1, 1, 1, 100)) || d.Log().Stats().Syncs != 1 {
		t.Errorf("told of syncs after %v bytes, %d were counted", told, d.Log().Stats().Syncs)
	}
}

// TestIdentityOfBrokenLog: whose log it is can't be read from a damaged segment, nor where there is none any more.
func TestIdentityOfBrokenLog(t *testing.T) {
	t.Parallel()
	memory := NewMemFS()
	filled(t, memory, 3)
	memory.Damage("data/"+identityName, func([]byte) []byte { return nil })
	if cluster, err := ReadIdentity(memory, "data", ""); cluster != testCluster || err != nil {
		t.Errorf("of a log without an IDENTITY: %#x, %v", cluster, err)
	}
	if _, err := clusterOfLog(memory, "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a directory: %v", err)
	}
	memory.Damage("data/"+segmentName(1), func(b []byte) []byte { b[20] ^= 1; return b })
	damage := (*DamageError)(nil)
	if _, err := ReadIdentity(memory, "data", ""); !errors.As(err, &damage) || damage.File != "data/"+segmentName(1) {
		t.Errorf("of a damaged log: %v", err)
	}
	memory.Damage("data/"+segmentName(1), func([]byte) []byte { return nil })
	if _, err := clusterOfLog(memory, "data"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a segment: %v", err)
	}
}

// TestDescribeNothing: a folder without data isn't described as an empty log, and errors of the output are reported.
func TestDescribeNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := Describe(io.Discard, nil, dir); err == nil || !strings.Contains(err.Error(), "is this the data directory?") {
		t.Errorf("an empty folder: %v", err)
	}
	if err := Walk(nil, []string{dir}, func(LogStep) error { return nil }); err != nil {
		t.Errorf("an empty folder, walked: %v", err)
	}
	if err := Walk(nil, []string{filepath.Join(dir, "none")}, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder, walked: %v", err)
	}
	memory := NewMemFS()
	d := filled(t, memory, 3)
	takeSnapshot(t, d, 2, []byte("x"))
	r, w := io.Pipe()
	r.CloseWithError(syscall.EPIPE)
	if err := Describe(w, memory, "data"); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("an output that is closed: %v", err)
	}
	for _, c := range []struct{ from, to, says string }{
		{d.snapshotPath(2), d.snapshotPath(3), "the file holds a snapshot at index 2"},
		{"data/" + segmentName(1), "data/" + segmentName(2), "the file holds log segment 1"},
	} {
		image := memory.Clone()
		if err := image.Rename(c.from, c.to); err != nil {
			t.Fatal(err)
		}
		damage := (*DamageError)(nil)
		if err := Describe(io.Discard, image, "data"); !errors.As(err, &damage) || damage.File != c.to ||
			damage.Reason != c.says {
			t.Errorf("%s in the place of %s: %v", c.from, c.to, err)
		}
	}
}

// TestFailedSpareIsTheLast: after an error that isn't a lack of room no further spare is made, since the disk can't be
// trusted, and a segment that needs one gets that error.
func TestFailedSpareIsTheLast(t *testing.T) {
	t.Parallel()
	memory := NewMemFS()
	d := filled(t, memory, 1)
	if _, err := d.log.spares.giveUp(0); err != nil {
		t.Fatal(err)
	}
	created := 0
	memory.Hook = func(c Call) error {
		if c.Op == "create" {
			created++
			return syscall.EIO
		}
		return nil
	}
	d.log.spares.makeAhead(8 * sectorSize)
	if _, err := d.log.spares.take(8*sectorSize, 8*sectorSize); !errors.Is(err, syscall.EIO) || created != 1 {
		t.Errorf("after %d attempts: %v", created, err)
	}
}

// TestDescribeWithoutAnEnd: if the last segment's header is damaged, nobody knows where the log ends, so nothing is
// said about what is behind its end.
func TestDescribeWithoutAnEnd(t *testing.T) {
	t.Parallel()
	memory := NewMemFS()
	d := filled(t, memory, 30)
	memory = memory.Clone()
	memory.Damage(d.log.active.path, func(b []byte) []byte { b[20] ^= 1; return b })
	var out strings.Builder
	if err := Describe(&out, memory, "data"); !errors.As(err, new(*DamageError)) {
		t.Error(err)
	}
	if text := out.String(); strings.Count(text, "damaged") != 1 || strings.Contains(text, "the log ends") {
		t.Errorf("described as:\n%s", text)
	}
}

// TestNoReserveWhileRefusing: while writes are refused, the log's own writes need the room more than the reserve does.
func TestNoReserveWhileRefusing(t *testing.T) {
	t.Parallel()
	memory := NewMemFS()
	o := smallOptions(memory, 1)
	o.Space.RefuseBytes = 1 << 20
	memory.Budget = 4 << 20
	d := mustOpen(t, o)
	for _, c := range []struct {
		budget uint64
		level  SpaceLevel
		held   bool
	}{{1 << 20, SpaceRefuse, false}, {4 << 20, SpaceOK, true}} {
		memory.Budget = c.budget
		d.space.release()
		state, err := d.SpaceState()
		if err != nil || state.Level != c.level || d.space.held != c.held || state.Denied {
			t.Errorf("of %d bytes: %+v, %v; the reserve is held: %t, want %t", c.budget, state, err, d.space.held, c.held)
		}
	}
}

// TestTornBatchIsNoted: Open tells where the log's last batch was cut off.
func TestTornBatchIsNoted(t *testing.T) {
	t.Parallel()
	memory := NewMemFS()
	d := filled(t, memory, 3)
	at := d.log.end
	if err := d.Log().Append(hs(1, 0, 3), batch(4, 1, 1, 100), true); err != nil {
		t.Fatal(err)
	}
	path := d.log.active.path
	memory = memory.Clone()
	memory.Damage(path, func(b []byte) []byte { b[at+frameHeaderSize+8] ^= 1; return b })
	notes := mustOpen(t, smallOptions(memory, 1)).Recovered()
	if notes.Torn.File != path || notes.Torn.Offset != at {
		t.Errorf("torn in %s at %d, want %s at %d", notes.Torn.File, notes.Torn.Offset, path, at)
	}
}
