package storage

import (
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestEmptyFrameHasNoFirst: a frame without entries has 0 for the index of its first, whatever its header was used
// for before.
func TestEmptyFrameHasNoFirst(t *testing.T) {
	t.Parallel()
	h := frameHeader{seq: 1}
	b, _ := appendFrame(nil, &h, 5, batch(7, 1, 2, 10))
	if got, ok := parseHeader(b, 5); !ok || got.first != 7 || got.count != 2 {
		t.Errorf("with entries: %+v, %t", got, ok)
	}
	b, _ = appendFrame(nil, &h, 5, nil)
	if got, ok := parseHeader(b, 5); !ok || got.first != 0 || got.count != 0 {
		t.Errorf("without entries: %+v, %t", got, ok)
	}
}

// TestMissingSegmentIsNamed: a log of which a segment in the middle is missing is refused, with the name of that
// segment.
func TestMissingSegmentIsNamed(t *testing.T) {
	t.Parallel()
	memory := NewMemFS()
	filled(t, memory, 12)
	if len(namesOf(memory)) < 4 {
		t.Fatalf("only %v", namesOf(memory))
	}
	remove(t, memory, filepath.Join("data", segmentName(2)))
	_, err := Open(smallOptions(memory.CrashClone(rand.New(rand.NewPCG(1, 1))), 1))
	damage := (*DamageError)(nil)
	if !errors.As(err, &damage) || !strings.Contains(err.Error(), "missing, later ones exist") ||
		filepath.Base(damage.File) != segmentName(2) || damage.Offset != 0 {
		t.Errorf("without segment 2: %v", err)
	}
}

// TestGapBeforeResetIsFinished: a snapshot was installed, and of the segments that this made void one in the middle
// is gone already, which a file system may do that keeps no order. The start finishes it.
func TestGapBeforeResetIsFinished(t *testing.T) {
	t.Parallel()
	memory := NewMemFS()
	d := filled(t, memory, 12)
	w := fromPeer(t, d, position{20, 3}, "x")
	image := (*MemFS)(nil)
	memory.Hook = func(c Call) error {
		if c.Op == "rename" && strings.HasSuffix(c.Name, segmentSuffix) && image == nil {
			memory.Hook = nil // the first void segment is about to become a spare
			image = memory.CrashClone(rand.New(rand.NewPCG(1, 1)))
		}
		return nil
	}
	if err := d.Install(w, hs(4, 0, 20)); err != nil {
		t.Fatal(err)
	}
	if image == nil {
		t.Fatal("no segment became a spare")
	}
	if err := Describe(io.Discard, image, "data"); err != nil {
		t.Errorf("what is void is described as %v", err)
	}
	remove(t, image, filepath.Join("data", segmentName(2)))
	if err := image.SyncDir("data"); err != nil {
		t.Fatal(err)
	}
	d = mustOpen(t, smallOptions(image, 1))
	want := model{}.installed(position{20, 3}, hardState{4, 0, 20}, []byte("x"))
	if diff := want.differs(d) + want.snapshotDiffers(d); diff != "" {
		t.Error(diff)
	}
}

// TestOtherDirectoriesStayPending: a directory that is made durable doesn't touch what waits in another one: a power
// cut may still lose it, and it is durable once that directory is synced too.
func TestOtherDirectoriesStayPending(t *testing.T) {
	t.Parallel()
	memory := NewMemFS()
	for _, dir := range []string{"a", "b"} {
		if err := memory.MkdirAll(dir); err != nil {
			t.Fatal(err)
		}
		f, err := memory.Create(dir + "/file")
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	holds := func(name string) (with, without int) {
		for seed := range uint64(32) {
			if _, err := memory.CrashClone(rand.New(rand.NewPCG(seed, 1))).OpenRead(name); err == nil {
				with++
			} else {
				without++
			}
		}
		return with, without
	}
	if err := memory.SyncDir("a"); err != nil {
		t.Fatal(err)
	}
	if _, without := holds("a/file"); without > 0 {
		t.Error("a file may be lost whose directory was synced")
	}
	if with, without := holds("b/file"); with == 0 || without == 0 {
		t.Errorf("the other file is there after %d of %d power cuts", with, with+without)
	}
	if err := memory.SyncDir("b"); err != nil {
		t.Fatal(err)
	}
	if _, without := holds("b/file"); without > 0 {
		t.Error("the other file may be lost though its directory was synced later")
	}
}

// TestSetAsideRefused: data isn't set aside where the folder can't be made, and what can't be listed isn't taken for
// empty. A directory that doesn't exist has nothing aside.
func TestSetAsideRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if n, err := Asides(filepath.Join(dir, "none")); n != 0 || err != nil {
		t.Errorf("a directory that isn't there: %d, %v", n, err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Asides(file); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file in the place of the directory: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, asidePrefix+"x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := SetAside(dir, dir, "x"); err == nil {
		t.Error("the data was set aside into a file")
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

// An unlistedFS can't list a directory, from the nth time on.
type unlistedFS struct {
	*MemFS
	after int
	err   error
}

func (f *unlistedFS) ReadDir(dir string) ([]string, error) {
	if f.after--; f.after < 0 {
		return nil, f.err
	}
	return f.MemFS.ReadDir(dir)
}

// TestIdentityOfUnlistedDirectories: a directory that can't be listed isn't taken for a new one, whichever look at it
// fails. One that doesn't exist is new.
func TestIdentityOfUnlistedDirectories(t *testing.T) {
	t.Parallel()
	memory := NewMemFS()
	filled(t, memory, 3)
	// As after a crash during the first start: the log alone names the cluster.
	remove(t, memory, filepath.Join("data", identityName))
	if cluster, err := ReadIdentity(memory, "data", ""); err != nil || cluster != testCluster {
		t.Fatalf("the log's cluster is %#x, %v", cluster, err)
	}
	for after := range 3 {
		f := &unlistedFS{MemFS: memory, after: after, err: syscall.EIO}
		if _, err := ReadIdentity(f, "data", ""); !errors.Is(err, syscall.EIO) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("look %d fails: %v", after+1, err)
		}
	}
	none := &unlistedFS{MemFS: NewMemFS(), err: fs.ErrNotExist}
	if _, err := ReadIdentity(none, "data", "log"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("directories that aren't there: %v", err)
	}
}

// TestDescribeNamesTheMissing: of a gap in the log the segment before the later one is named, and the damage is at the
// beginning of that one.
func TestDescribeNamesTheMissing(t *testing.T) {
	t.Parallel()
	memory := NewMemFS()
	filled(t, memory, 12)
	remove(t, memory, filepath.Join("data", segmentName(2)))
	err := Describe(io.Discard, memory, "data")
	damage := (*DamageError)(nil)
	if !errors.As(err, &damage) || filepath.Base(damage.File) != segmentName(3) || damage.Offset != 0 ||
		!strings.Contains(err.Error(), "log segment 2 is missing before it") {
		t.Errorf("without segment 2: %v", err)
	}
}

// TestRotBeforeTheEnd: a batch in the middle of the last segment that can't be read is damage, since a later one
// proves that it was durable, wherever the parts begin in which recovery reads the file.
func TestRotBeforeTheEnd(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		memory := NewMemFS()
		o := smallOptions(memory, seed)
		o.SegmentSize = 32 * sectorSize
		d := mustOpen(t, o)
		for i := uint64(1); i <= 8; i++ {
			if err := d.Log().Append(hs(1, 0, i-1), batch(i, 1, 1, 100), true); err != nil {
				t.Fatal(err)
			}
		}
		for lost := range 6 { // sectors from the batch on of which nothing can be read
			image := memory.Clone()
			at := segmentStart + 2*sectorSize
			image.Damage(filepath.Join("data", segmentName(1)), func(b []byte) []byte {
				clear(b[at : at+(lost+1)*sectorSize])
				return b
			})
			o.FS = image
			damage := (*DamageError)(nil)
			if _, err := Open(o); !errors.As(err, &damage) || damage.Offset != int64(at) {
				t.Errorf("read in parts of %d bytes, with %d sectors lost: %v", o.window, lost+1, err)
			}
		}
	}
}

// TestOpenRefusesOptions: options that make no directory open nothing.
func TestOpenRefusesOptions(t *testing.T) {
	t.Parallel()
	for what, change := range map[string]func(o *Options){
		"no directory": func(o *Options) { o.Dir = "" },
		"no cluster":   func(o *Options) { o.ClusterID = 0 },
	} {
		memory := NewMemFS()
		o := smallOptions(memory, 1)
		change(&o)
		if d, err := Open(o); d != nil || err == nil || len(namesOf(memory)) > 0 {
			t.Errorf("%s: opened: %t, %v, with files %v", what, d != nil, err, namesOf(memory))
		}
	}
}

// TestLogLostFromItsDirectory: a directory that was in use and has no log is damaged as a whole, from its beginning.
func TestLogLostFromItsDirectory(t *testing.T) {
	t.Parallel()
	memory := NewMemFS()
	filled(t, memory, 3)
	for _, name := range namesOf(memory) {
		if strings.HasSuffix(name, segmentSuffix) {
			remove(t, memory, filepath.Join("data", name))
		}
	}
	_, err := ReadIdentity(memory, "data", "")
	damage := (*DamageError)(nil)
	if !errors.As(err, &damage) || damage.File != "data" || damage.Offset != 0 {
		t.Errorf("without its segments: %v", err)
	}
}
