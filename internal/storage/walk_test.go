package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
)

// walked tells the steps of a log, such as "begins 0, 1 2 c0, 3 c2".
func walked(fsys FS, dirs ...string) (string, error) {
	var steps []string
	err := Walk(fsys, dirs, func(s LogStep) error {
		text := ""
		switch {
		case s.Begins && s.Reset:
			text = fmt.Sprintf("restarts %d", s.After)
		case s.Begins:
			text = fmt.Sprintf("begins %d", s.After)
		}
		for _, e := range s.Entries {
			text += fmt.Sprintf("%d/%d ", e.Index, e.Term)
			if e.Consensus {
				text += "conf "
			}
		}
		if !s.Begins {
			text += fmt.Sprintf("c%d", s.Committed)
		}
		if s.Cluster != testCluster {
			text += fmt.Sprintf(" of cluster %d", s.Cluster)
		}
		steps = append(steps, text)
		return nil
	})
	return strings.Join(steps, ", "), err
}

// TestWalk: what a tool reads of a log, with several segments, in two directories, torn, damaged, and after a snapshot
// from a peer.
func TestWalk(t *testing.T) {
	t.Parallel()
	m := NewMemFS()
	o := smallOptions(m, 1)
	d := mustOpen(t, o)
	if err := d.Log().Append(hs(1, 0, 1), batch(1, 1, 2, 10), true); err != nil {
		t.Fatal(err)
	}
	conf := batch(3, 2, 1, 10)
	conf[0].Type = raftpb.EntryConfChange.Enum()
	if err := d.Log().Append(hs(2, 0, 2), conf, true); err != nil {
		t.Fatal(err)
	}
	const first = "begins 0, c0, 1/1 2/1 c1, 3/2 conf c2"
	check := func(what string, fsys FS, want string) {
		t.Helper()
		if got, err := walked(fsys, "data"); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", what, got, err, want)
		}
	}
	check("one segment", m, first)
	var again []*raftpb.Entry
	for n := uint64(4); d.Log().Stats().Segments == 1; n++ {
		again = batch(n, 2, 1, 600)
		if err := d.Log().Append(hs(2, 0, 3), again, true); err != nil {
			t.Fatal(err)
		}
	}
	last := again[0].GetIndex()
	whole, err := walked(m, "data")
	if err != nil || !strings.HasPrefix(whole, first+", 4/2 c3") ||
		!strings.HasSuffix(whole, fmt.Sprintf("begins %d, c3, %d/2 c3", last-1, last)) {
		t.Errorf("two segments: %q, %v", whole, err)
	}
	firstOnly, _, _ := strings.Cut(whole, fmt.Sprintf(", begins %d", last-1))
	image := func() *MemFS { return m.Clone() }
	second := filepath.Join("data", segmentName(2))
	for what, c := range map[string]struct {
		do   func(m *MemFS)
		want string
	}{
		"a header is damaged":  {func(m *MemFS) { flip(m, second, 20) }, firstOnly},
		"another number":       {func(m *MemFS) { m.Rename(second, filepath.Join("data", segmentName(3))) }, firstOnly},
		"the first is damaged": {func(m *MemFS) { flip(m, filepath.Join("data", segmentName(1)), 20) }, ""},
		"a record is damaged": {
			func(m *MemFS) { flip(m, filepath.Join("data", segmentName(1)), 3*sectorSize+100) }, "begins 0, c0, 1/1 2/1 c1",
		},
	} {
		m := image()
		c.do(m)
		check(what, m, c.want)
	}
	stop := errors.New("enough")
	for n := range 3 {
		steps := 0
		err := Walk(m, []string{"data"}, func(LogStep) error {
			if steps++; steps == n+1 {
				return stop
			}
			return nil
		})
		if !errors.Is(err, stop) || steps != n+1 {
			t.Errorf("stopped after step %d of %d: %v", steps, n+1, err)
		}
	}
	if _, err := walked(m, "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no directory: %v", err)
	}
	m.Hook = func(c Call) error {
		if c.Op == "open" && c.Name == second {
			return syscall.EIO
		}
		return nil
	}
	if _, err := walked(m, "data"); !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), second) {
		t.Errorf("of a segment that can't be opened: %v", err)
	}
	m.Hook = nil
}

// TestWalkRestarts: a snapshot from a peer makes everything before it void.
func TestWalkRestarts(t *testing.T) {
	t.Parallel()
	g := &goldenRun{t: t, fs: NewMemFS()}
	for _, do := range []func() error{g.open, g.append(1, 4, 300), g.snapshot(3)} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	w, err := g.d.CreateSnapshot(Meta{Index: 20, Term: 2, ConfState: &raftpb.ConfState{Voters: []uint64{1}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.WriteChunk([]byte("state")), g.d.Install(w, hs(2, 0, 20))); err != nil {
		t.Fatal(err)
	}
	restarts := 0
	err = Walk(g.fs, []string{"data"}, func(s LogStep) error {
		if s.Reset {
			restarts++
			if !s.Begins || s.After != 20 {
				t.Errorf("%+v", s)
			}
		}
		return nil
	})
	if err != nil || restarts != 1 {
		t.Errorf("%d restarts, %v", restarts, err)
	}
	if all, err := SnapshotIndexes(g.fs, "data"); err != nil || !slices.Equal(all, []uint64{3, 20}) {
		t.Errorf("snapshots %v, %v", all, err)
	}
	if s, err := PeekSnapshot(g.fs, "data"); err != nil || s.Index != 20 {
		t.Errorf("the newest snapshot: %+v, %v", s, err)
	}
	if s, err := PeekSnapshotAt(g.fs, "data", 3); err != nil || s.Index != 3 {
		t.Errorf("the snapshot at 3: %+v, %v", s, err)
	}
	if _, err := SnapshotIndexes(g.fs, "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no directory: %v", err)
	}
	if err := g.fs.MkdirAll("empty"); err != nil {
		t.Fatal(err)
	}
	if _, err := PeekSnapshot(g.fs, "empty"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of an empty directory: %v", err)
	}
}

// TestTornTail: the batch at the end that a crash has cut off, and none if the log ends with a whole one.
func TestTornTail(t *testing.T) {
	t.Parallel()
	m := NewMemFS()
	d := mustOpen(t, smallOptions(m, 1))
	for n := range uint64(3) {
		if err := d.Log().Append(hs(1, 0, n), batch(n+1, 1, 1, 700), true); err != nil {
			t.Fatal(err)
		}
	}
	if torn, err := TornTail(m, "data"); err != nil || torn.File != "" {
		t.Errorf("of a whole log: %+v, %v", torn, err)
	}
	s := d.log.active
	path, end := s.path, d.log.end
	size := int64(pad(frameSize(batch(3, 1, 1, 700)), sectorSize))
	m.Damage(path, func(b []byte) []byte {
		clear(b[end-sectorSize : end]) // the last sector never reached the disk
		return b
	})
	torn, err := TornTail(m, "data")
	if err != nil || torn.File != path || torn.Offset != end-size || len(torn.Bytes) != frameSize(batch(3, 1, 1, 700)) {
		t.Errorf("torn at %d, %d bytes, of %s, %v; want %d in %s", torn.Offset, len(torn.Bytes), torn.File, err, end-size,
			path)
	}
	flip(m, path, 20)
	damage := (*DamageError)(nil)
	if _, err := TornTail(m, "data"); !errors.As(err, &damage) {
		t.Errorf("of a damaged header: %v", err)
	}
	if _, err := TornTail(m, "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of no directory: %v", err)
	}
	if err := m.MkdirAll("empty"); err != nil {
		t.Fatal(err)
	}
	if torn, err := TornTail(m, "empty"); err != nil || torn.File != "" {
		t.Errorf("of an empty directory: %+v, %v", torn, err)
	}
}

// TestDataIsRemoved: which files are a server's data, and are removed: the identity last, nothing else.
func TestDataIsRemoved(t *testing.T) {
	t.Parallel()
	own := []string{identityName, segmentName(1), "0000000000000003.snap"}
	for _, name := range append(own, reserveName, "myid", "notes.txt") {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if used := InUse(dir); used != slices.Contains(own, name) {
			t.Errorf("with %s alone a directory is in use: %t", name, used)
		}
	}
	dir := t.TempDir()
	if InUse(dir) || InUse(filepath.Join(dir, "none")) {
		t.Error("an empty directory is in use")
	}
	loop := filepath.Join(dir, "loop")
	if err := os.Symlink("loop", loop); err != nil {
		t.Fatal(err)
	}
	if !InUse(loop) {
		t.Error("a directory that can't be read is taken for a new one")
	}
	if err := os.Remove(loop); err != nil {
		t.Fatal(err)
	}
	if err := RemoveData(filepath.Join(dir, "none")); err != nil {
		t.Errorf("of no directory: %v", err)
	}
	for _, name := range append(own, reserveName, "myid") {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := RemoveData(dir); err != nil || InUse(dir) {
		t.Errorf("it is in use: %t, %v", InUse(dir), err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != "myid" {
		t.Errorf("left: %v, %v", left, err)
	}
}

// TestKeptBefore: a file that is kept before the log exists is found by it, and is bounded.
func TestKeptBefore(t *testing.T) {
	t.Parallel()
	m := NewMemFS()
	if err := KeepBefore(m, "data", "x", make([]byte, keptMax+1)); err == nil {
		t.Error("a file beyond the limit is kept")
	}
	if err := KeepBefore(m, "data", "x", make([]byte, keptMax)); err != nil {
		t.Fatal(err)
	}
	d := mustOpen(t, smallOptions(m, 1))
	if b, err := d.Kept("x"); err != nil || len(b) != keptMax {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	m.Hook = func(c Call) error {
		if c.Op == "mkdir" {
			return syscall.EIO
		}
		return nil
	}
	if err := KeepBefore(m, "data", "x", nil); !errors.Is(err, syscall.EIO) {
		t.Errorf("without its directory: %v", err)
	}
}
