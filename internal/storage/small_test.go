package storage

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/raft/v3/raftpb"
)

// TestNoDescriptors: which errors say that no file descriptor is left.
func TestNoDescriptors(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{
		syscall.EMFILE: true, syscall.ENFILE: true, syscall.ENOENT: false, syscall.EMFILE + 1: false, nil: false,
		&os.PathError{Op: "open", Err: syscall.EMFILE}: true,
	} {
		if noDescriptors(err) != want {
			t.Errorf("%v: %t", err, !want)
		}
	}
}

// TestOptionDefaults: what holds where nothing is set.
func TestOptionDefaults(t *testing.T) {
	t.Parallel()
	o, err := Options{Dir: "data", ClusterID: 1}.withDefaults()
	if err != nil || o.SegmentSize != segmentSizeDefault || !o.adapts || o.CacheSize != cacheSizeDefault ||
		o.LogDir != "data" || o.window != windowStep || o.FS != (OS{}) || o.Rand == nil || o.Go == nil {
		t.Errorf("%+v, %v", o, err)
	}
	o, err = Options{Dir: "data", LogDir: "log", ClusterID: 1, SegmentSize: 1, CacheSize: 5}.withDefaults()
	if err != nil || o.SegmentSize != segmentSizeMin || o.adapts || o.CacheSize != 5 || o.LogDir != "log" {
		t.Errorf("%+v, %v", o, err)
	}
	if o, _ = (Options{Dir: "data", ClusterID: 1, SegmentSize: segmentSizeMin + 1}).withDefaults(); o.SegmentSize !=
		segmentSizeMin+sectorSize {
		t.Errorf("a segment of %d bytes", o.SegmentSize)
	}
	for _, o := range []Options{{Dir: "data"}, {ClusterID: 1}} {
		if _, err := o.withDefaults(); err == nil {
			t.Errorf("%+v will do", o)
		}
	}
}

// TestSegmentSizeAdapts: segments and the reserve are as large as a disk has room for.
func TestSegmentSizeAdapts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		total             uint64
		segments, reserve int64
	}{
		{1 << 40, segmentSizeDefault, reserveSizeDefault},
		{segmentShare * segmentSizeDefault, segmentSizeDefault, reserveSizeDefault},
		{segmentShare*segmentSizeDefault - 1, segmentSizeDefault / 2, reserveSizeDefault},
		{reserveShare * reserveSizeDefault / 4, segmentSizeDefault / 8, reserveSizeDefault / 4},
		{1 << 20, firstSegmentSize, reserveSizeMin},
	} {
		for _, adapts := range []bool{true, false} {
			fs := &countedFS{free: c.total, total: c.total}
			d := &Dir{log: &Log{fs: fs, path: "data"}, fs: fs}
			d.space.limits.adapts = adapts
			if err := d.adapt(adapts); err != nil {
				t.Fatal(err)
			}
			want, reserve := c.segments, c.reserve
			if !adapts {
				want, reserve = 0, 0
			}
			if d.log.target != want || d.log.spares.most != want || d.space.limits.ReserveBytes != reserve {
				t.Errorf("%d bytes, adapts: %t: segments of %d, %d, a reserve of %d", c.total, adapts, d.log.target,
					d.log.spares.most, d.space.limits.ReserveBytes)
			}
		}
	}
}

// A slowFile looks at the clock of the work while it is in use.
type slowFile struct {
	File
	work *underWay
	took []time.Duration
}

func (f *slowFile) note() error { f.took = append(f.took, f.work.took()); return nil }

func (f *slowFile) ReadAt([]byte, int64) (int, error)  { return 0, f.note() }
func (f *slowFile) WriteAt([]byte, int64) (int, error) { return 0, f.note() }
func (f *slowFile) WriteOut(int64, int64) error        { return f.note() }
func (f *slowFile) Fdatasync() error                   { return f.note() }

// TestTimedFile: the time of an operation counts while it lasts, and not after that.
func TestTimedFile(t *testing.T) {
	t.Parallel()
	slow := &slowFile{work: newUnderWay()}
	f := timedFile{slow, slow.work}
	for what, do := range map[string]func() error{
		"read":  func() error { _, err := f.ReadAt(nil, 0); return err },
		"write": func() error { _, err := f.WriteAt(nil, 0); return err },
		"out":   func() error { return f.WriteOut(0, 0) },
		"sync":  f.Fdatasync,
	} {
		slow.took = nil
		if err := do(); err != nil || len(slow.took) != 1 || slow.took[0] <= 0 || slow.work.took() != 0 {
			t.Errorf("%s: during it %v, after it %v, %v", what, slow.took, slow.work.took(), err)
		}
	}
}

// TestMemFileEnds: a read behind the end, or over it, says so.
func TestMemFileEnds(t *testing.T) {
	t.Parallel()
	m := NewMemFS()
	if err := m.MkdirAll("data"); err != nil {
		t.Fatal(err)
	}
	f, err := m.Create("data/x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("four"), 0); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		off  int64
		size int
		n    int
		err  error
	}{{0, 4, 4, nil}, {0, 5, 4, io.EOF}, {3, 1, 1, nil}, {4, 1, 0, io.EOF}, {9, 1, 0, io.EOF}, {-1, 1, 0, fs.ErrInvalid}} {
		if n, err := f.ReadAt(make([]byte, c.size), c.off); n != c.n || !errors.Is(err, c.err) {
			t.Errorf("%d bytes at %d: %d, %v", c.size, c.off, n, err)
		}
	}
	if err := f.Truncate(2); err != nil {
		t.Fatal(err)
	}
	if n, err := f.ReadAt(make([]byte, 4), 0); n != 2 || err != io.EOF {
		t.Errorf("after it was cut: %d bytes, %v", n, err)
	}
}

// TestSkipsOfNoDirectory: where there is no directory, nothing is skipped; and a decision gets the log's cluster.
func TestSkipsOfNoDirectory(t *testing.T) {
	t.Parallel()
	if all, err := Skips(OS{}, filepath.Join(t.TempDir(), "none"), 7); all != nil || err != nil {
		t.Errorf("%v, %v", all, err)
	}
	d := mustOpen(t, smallOptions(NewMemFS(), 1))
	s := skipForTests(3)
	s.Cluster = 99
	if err := d.KeepSkip(s); err != nil {
		t.Fatal(err)
	}
	if all, err := d.Skips(); err != nil || len(all) != 1 || all[0].Cluster != testCluster {
		t.Errorf("%v, %v", all, err)
	}
}

// TestParseFooter: only a whole footer is one.
func TestParseFooter(t *testing.T) {
	t.Parallel()
	good := (&snapFooter{chunks: 3, raw: 99, length: 500, sum: [32]byte{1, 2}}).append(nil)
	if f, ok := parseFooter(good); !ok || f.chunks != 3 || f.raw != 99 || f.length != 500 || f.sum != [32]byte{1, 2} {
		t.Errorf("%+v, %t", f, ok)
	}
	for at := range good {
		b := slices.Clone(good)
		b[at] ^= 1
		if _, ok := parseFooter(b); ok {
			t.Errorf("byte %d changed: it is a footer", at)
		}
	}
	for _, b := range [][]byte{nil, good[:snapFooterSize-1], append(slices.Clone(good), 0)} {
		if _, ok := parseFooter(b); ok {
			t.Errorf("%d bytes are a footer", len(b))
		}
	}
}

// TestSnapshotAtOne: 0 stands for the newest snapshot, and 1 for that at index 1.
func TestSnapshotAtOne(t *testing.T) {
	t.Parallel()
	d := mustOpen(t, smallOptions(NewMemFS(), 1))
	if _, err := d.OpenSnapshot(0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a snapshot: %v", err)
	}
	if err := d.Log().Append(hs(1, 0, 2), batch(1, 1, 2, 8), true); err != nil {
		t.Fatal(err)
	}
	for index := uint64(1); index <= 2; index++ {
		w, err := d.CreateSnapshot(Meta{Index: index, Term: 1, ConfState: &raftpb.ConfState{Voters: []uint64{1}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.WriteChunk([]byte("state")), w.Commit()); err != nil {
			t.Fatal(err)
		}
	}
	for index, want := range map[uint64]uint64{0: 2, 1: 1, 2: 2} {
		s, err := d.OpenSnapshot(index)
		if err != nil || s.Index != want {
			t.Errorf("of %d: %+v, %v", index, s, err)
		}
	}
}

// TestPurgeVerifiesOnce: a purge reads each snapshot that it keeps, and the next one doesn't read it again.
func TestPurgeVerifiesOnce(t *testing.T) {
	t.Parallel()
	m := NewMemFS()
	d := mustOpen(t, smallOptions(m, 1))
	if err := d.Log().Append(hs(1, 0, 3), batch(1, 1, 3, 8), true); err != nil {
		t.Fatal(err)
	}
	for index := uint64(1); index <= 3; index++ {
		w, err := d.CreateSnapshot(Meta{Index: index, Term: 1, ConfState: &raftpb.ConfState{Voters: []uint64{1}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.WriteChunk([]byte("state")), w.Commit()); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = mustOpen(t, smallOptions(m, 1))
	reads := 0
	m.Hook = func(c Call) error {
		if c.Op == "read" && strings.HasSuffix(c.Name, snapshotSuffix) {
			reads++
		}
		return nil
	}
	for _, first := range []bool{true, false} {
		reads = 0
		if n, _, err := d.Purge(3, 0); err != nil || n != 0 || reads > 0 != first {
			t.Errorf("the first purge: %t; %d removed, %d reads, %v", first, n, reads, err)
		}
	}
}

// TestSnapshotFileInTheReserve: if not even a file can be made, a snapshot of this server's state gets the reserve's
// room, which is no longer lent once the snapshot is written or given up.
func TestSnapshotFileInTheReserve(t *testing.T) {
	t.Parallel()
	for _, commits := range []bool{true, false} {
		m := NewMemFS()
		d := mustOpen(t, smallOptions(m, 1))
		if err := d.Log().Append(hs(1, 0, 1), batch(1, 1, 1, 8), true); err != nil {
			t.Fatal(err)
		}
		m.Hook = func(c Call) error {
			if c.Op == "create" && strings.HasSuffix(c.Name, tmpSuffix) && d.space.held {
				return syscall.ENOSPC
			}
			return nil
		}
		w, err := d.CreateSnapshot(Meta{Index: 1, Term: 1, ConfState: &raftpb.ConfState{Voters: []uint64{1}}})
		if err != nil {
			t.Fatalf("a snapshot with room for it in the reserve: %v", err)
		}
		if d.space.held || d.space.lent != 1 {
			t.Errorf("the reserve is held: %t, lent %d times", d.space.held, d.space.lent)
		}
		if commits {
			err = errors.Join(w.WriteChunk([]byte("state")), w.Commit())
		} else {
			err = w.Abort()
		}
		if err != nil || d.space.lent != 0 {
			t.Errorf("written: %t: lent %d times, %v", commits, d.space.lent, err)
		}
	}
}

// TestWrittenOutInSteps: what reaches a step exactly is handed to the disk at once.
func TestWrittenOutInSteps(t *testing.T) {
	t.Parallel()
	m := NewMemFS()
	d := mustOpen(t, smallOptions(m, 1))
	var out []int64
	m.Hook = func(c Call) error {
		if c.Op == "writeout" {
			out = append(out, c.Off, c.Bytes)
		}
		return nil
	}
	w, err := d.ReceiveSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{writeOutStep - 1, 1, 2*writeOutStep + 1, writeOutStep - 2} {
		if err := w.WriteRaw(make([]byte, size)); err != nil {
			t.Fatal(err)
		}
	}
	want := []int64{0, writeOutStep, writeOutStep, writeOutStep, 2 * writeOutStep, writeOutStep}
	if !slices.Equal(out, want) {
		t.Errorf("written out: %v, want %v", out, want)
	}
	if err := w.WriteRaw(make([]byte, 1)); err != nil || len(out) != 8 || w.Offset() != 4*writeOutStep {
		t.Errorf("written out: %v of %d, %v", out, w.Offset(), err)
	}
	if err := w.Abort(); err != nil {
		t.Error(err)
	}
}

// TestTailOfATornSegment: a segment without a whole header isn't taken for a lost one.
func TestTailOfATornSegment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, segmentName(1)), make([]byte, sectorSize-1), 0o600); err != nil {
		t.Fatal(err)
	}
	none := func(LogStep) error { t.Error("a step"); return nil }
	if err := NewTail(OS{}, dir).Read(none); !errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, ErrTailLost) {
		t.Errorf("of half a header: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, segmentName(1)), make([]byte, sectorSize), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := NewTail(OS{}, dir).Read(none); !errors.Is(err, ErrTailLost) {
		t.Errorf("of no header: %v", err)
	}
}

// TestFailedWritesEndTheStart: a start whose writes fail is no start.
func TestFailedWritesEndTheStart(t *testing.T) {
	t.Parallel()
	m := NewMemFS()
	d := mustOpen(t, smallOptions(m, 1))
	unsealed := (*MemFS)(nil)
	m.Hook = func(c Call) error {
		if c.Op == "write" && c.Name == filepath.Join("data", segmentName(1)) && d.log.next != nil && unsealed == nil {
			unsealed = m.Clone() // the next segment is there, and this one isn't sealed
		}
		return nil
	}
	for n := uint64(1); unsealed == nil; n++ {
		if err := d.Log().Append(hs(1, 0, 0), batch(n, 1, 1, 300), true); err != nil {
			t.Fatal(err)
		}
	}
	m.Hook = nil
	for _, state := range []*MemFS{m, unsealed} {
		failing, n := 0, 0
		for failing = 0; ; failing++ {
			again := state.Reboot().Clone()
			n = 0
			again.Hook = func(c Call) error {
				if c.Op != "write" {
					return nil
				}
				if n++; n-1 == failing {
					return syscall.EIO
				}
				return nil
			}
			_, err := Open(smallOptions(again, 1))
			if n <= failing {
				if err != nil {
					t.Fatal(err)
				}
				break
			}
			if !errors.Is(err, syscall.EIO) {
				t.Errorf("write %d of a start fails: %v", failing, err)
			}
		}
		if failing < 2 {
			t.Errorf("a start writes %d times: nothing is shown", failing)
		}
	}
}

// TestReportAtTheLimit: a report of the largest size is read, and none that is a byte larger.
func TestReportAtTheLimit(t *testing.T) {
	t.Parallel()
	r := Report{Cluster: 1, Index: 2, Term: 3}
	r.Text = strings.Repeat("x", reportSizeMax-len(r.append(nil)))
	if got, err := ParseReport(r.append(nil)); err != nil || got.Text != r.Text || got.Index != 2 {
		t.Errorf("of the largest size: %d bytes of text, %v", len(got.Text), err)
	}
	r.Text += "x"
	if _, err := ParseReport(r.append(nil)); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("a byte larger: %v", err)
	}
}

// TestSnapshotsOfTwoKinds: a peer's snapshot is installed and this server's own is committed, chunk by chunk.
func TestSnapshotsOfTwoKinds(t *testing.T) {
	t.Parallel()
	d := mustOpen(t, smallOptions(NewMemFS(), 1))
	theirs, err := d.ReceiveSnapshot()
	if err != nil {
		t.Fatal(err)
	}
	own, err := d.CreateSnapshot(Meta{Index: 1, Term: 1, ConfState: &raftpb.ConfState{Voters: []uint64{1}}})
	if err != nil {
		t.Fatal(err)
	}
	for what, do := range map[string]func() error{
		"commit a peer's":         theirs.Commit,
		"a chunk for a peer's":    func() error { return theirs.WriteChunk([]byte{1}) },
		"raw bytes for one's own": func() error { return own.WriteRaw([]byte{1}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: accepted", what)
				}
			}()
			_ = do()
		}()
	}
	if err := errors.Join(theirs.Abort(), own.Abort()); err != nil {
		t.Error(err)
	}
}

// TestPurgedSegmentsBecomeSpares: which files of purged segments are kept as spares.
func TestPurgedSegmentsBecomeSpares(t *testing.T) {
	t.Parallel()
	const most = 8 * sectorSize
	for _, c := range []struct {
		what         string
		size, wanted int64
		inPlace      bool
		frugal       bool
		ready        int
		kept         bool
	}{
		{"large enough", most, most, true, false, 0, true},
		{"too small", most - sectorSize, most, true, false, 0, false},
		{"too large", most + sectorSize, most, true, false, 0, false},
		{"copied on write", most, most, false, false, 0, false},
		{"enough spares", most, most, true, false, sparesMax, false},
		{"one more", most, most, true, false, sparesMax - 1, true},
		{"small, where there is hardly room", most - sectorSize, most, true, true, 0, true},
		{"a second one, where there is hardly room", most, most, true, true, 1, false},
	} {
		m := NewMemFS()
		d := mustOpen(t, smallOptions(m, 1))
		s := &d.log.spares
		s.ready, s.frugal, s.most = make([]string, c.ready), c.frugal, most
		f, err := m.Create("data/old")
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Close(), s.retire("data/old", c.size, c.wanted, c.inPlace)); err != nil {
			t.Fatal(err)
		}
		names, err := m.ReadDir("data")
		if err != nil || len(s.ready) == c.ready+1 != c.kept || slices.Contains(names, "old") {
			t.Errorf("%s: %d spares after %d, files %v, %v", c.what, len(s.ready), c.ready, names, err)
		}
	}
}
