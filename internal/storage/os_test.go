package storage

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"go.etcd.io/raft/v3/raftpb"
)

// TestRealDisk runs the whole of it once on the machine's own file system, with goroutines.
func TestRealDisk(t *testing.T) {
	t.Parallel()
	o := Options{Dir: filepath.Join(t.TempDir(), "a", "b"), ClusterID: testCluster, SegmentSize: 64 << 10,
		CacheSize: 4 << 10,
		Space:     SpaceLimits{ReserveBytes: 64 << 10, RefusePercent: -1, RefuseBytes: -1}}
	d := mustOpen(t, o)
	m := model{}
	for i := uint64(1); i <= 200; i++ {
		hard, entries := hardState{1, 1, i - 1}, batch(i, 1, 1, 2000)
		m = m.append(hard, entries)
		if err := d.Log().Append(hs(1, 1, i-1), entries, true); err != nil {
			t.Fatal(err)
		}
		if i%50 == 0 {
			m = takeRealSnapshot(t, d, m, i-1)
		}
	}
	if _, n, err := d.Purge(2, 0); err != nil || n == 0 {
		t.Fatalf("purged %d segments: %v", n, err)
	}
	if diff := m.differs(d) + m.snapshotDiffers(d); diff != "" {
		t.Error(diff)
	}
	if _, err := Open(o); err == nil {
		t.Error("two processes share the directory")
	}
	if s, err := d.SpaceState(); err != nil || s.Total == 0 || s.Free > s.Total {
		t.Errorf("space %+v: %v", s, err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = mustOpen(t, o)
	defer d.Close()
	if diff := m.differs(d) + m.snapshotDiffers(d); diff != "" {
		t.Error(diff)
	}
	checkModes(t, o.Dir)
}

func takeRealSnapshot(t *testing.T, d *Dir, m model, index uint64) model {
	t.Helper()
	content := make([]byte, 5000)
	w, err := d.CreateSnapshot(Meta{Index: index, Term: 1, ConfState: &raftpb.ConfState{Voters: []uint64{1}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := writeChunks(w, content); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
	return m.withSnapshot(position{index, 1}, content)
}

func checkModes(t *testing.T, dir string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		st, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		if st.Mode().Perm() != fileMode {
			t.Errorf("%s has mode %v", e.Name(), st.Mode())
		}
	}
	if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != dirMode {
		t.Errorf("directory has mode %v, %v", st.Mode(), err)
	}
}

// TestEmptyDirectoryIsSmall: what a server that never wrote anything keeps on the disk.
func TestEmptyDirectoryIsSmall(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := Options{Dir: dir, ClusterID: 1, Space: SpaceLimits{ReserveBytes: -1}}
	d := mustOpen(t, o)
	defer d.Close()
	size := int64(0)
	list, _ := os.ReadDir(dir)
	for _, e := range list {
		st, err := e.Info()
		if err != nil {
			t.Fatal(err)
		}
		size += st.Size()
	}
	if size > 2<<20 {
		t.Errorf("%d bytes", size)
	}
}

// TestLogDirectory puts the log on a directory of its own.
func TestLogDirectory(t *testing.T) {
	t.Parallel()
	fs := NewMemFS()
	o := smallOptions(fs, 1)
	o.LogDir = "log"
	s := newScript(o, 9)
	s.run(80)
	if s.err != nil {
		t.Fatal(s.err)
	}
	snaps, _ := fs.ReadDir("data")
	log, _ := fs.ReadDir("log")
	for _, n := range snaps {
		if _, ok := numbered(n, snapshotSuffix); !ok && n != identityName {
			t.Errorf("data/%s", n)
		}
	}
	if len(snaps) < 2 || len(log) == 0 {
		t.Errorf("data %v, log %v", snaps, log)
	}
}

// TestSpareIsZeros: whatever the disk says to writes past the system's memory, a spare is written whole.
func TestSpareIsZeros(t *testing.T) {
	t.Parallel()
	for _, size := range []int64{pageSize / 2, pageSize, zeroStep + 3*pageSize, 2*zeroStep + sectorSize} {
		for name, fs := range map[string]FS{"system": OS{}, "refusing": &refusingFS{}} {
			path := filepath.Join(t.TempDir(), "spare")
			if err := makeSpare(fs, path, size); err != nil {
				t.Fatalf("%s, %d bytes: %v", name, size, err)
			}
			got, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, make([]byte, size)) {
				t.Errorf("%s: a spare of %d bytes holds %d bytes, or other than zeros", name, size, len(got))
			}
			if r, ok := fs.(*refusingFS); ok && (r.refused > 1 || r.refused == 0 && size%pageSize == 0) {
				t.Errorf("%d direct writes of a spare of %d bytes were refused; one says it all", r.refused, size)
			}
			if r, ok := fs.(*refusingFS); ok && r.written != size {
				t.Errorf("%d of %d bytes were written", r.written, size)
			}
		}
	}
}

// refusingFS takes no direct write, as a disk does that wants more than whole pages.
type refusingFS struct {
	OS
	refused int
	written int64
}

type refusingFile struct {
	File
	fs     *refusingFS
	direct bool
}

func (r *refusingFS) Create(name string) (File, error) {
	f, err := r.OS.Create(name)
	return &refusingFile{File: f, fs: r}, err
}

func (f *refusingFile) Direct(on bool) bool {
	f.direct = on
	return on
}

func (f *refusingFile) WriteAt(p []byte, off int64) (int, error) {
	if f.direct {
		f.fs.refused++
		return 0, &os.PathError{Op: "write", Path: "spare", Err: syscall.EINVAL}
	}
	f.fs.written += int64(len(p))
	return f.File.WriteAt(p, off)
}

// TestPageAligned: direct writes want their memory on a page.
func TestPageAligned(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, pageSize, 3 * pageSize, zeroStep} {
		if b := pageAligned(n); len(b) != n || uintptr(unsafe.Pointer(unsafe.SliceData(b)))%pageSize != 0 {
			t.Errorf("%d bytes asked for: %d bytes at %p", n, len(b), b)
		}
	}
}

// TestUnlockIsForAllCopies: a child process may hold a copy of the descriptor for a moment.
func TestUnlockIsForAllCopies(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock, err := OS{}.Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (OS{}).Lock(dir); err == nil {
		t.Fatal("locked twice")
	}
	copied, err := syscall.Dup(int(lock.(dirLock).Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(copied)
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := OS{}.Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestLockFailure: only a lock that another process holds is reported as one.
func TestLockFailure(t *testing.T) {
	t.Parallel()
	for cause, held := range map[error]bool{syscall.EWOULDBLOCK: true, syscall.ENOLCK: false, syscall.ENOTSUP: false} {
		err := lockFailure("data", cause)
		if says := strings.Contains(err.Error(), "another process holds"); says != held || !errors.Is(err, cause) {
			t.Errorf("%v is reported as: %v", cause, err)
		}
	}
}
