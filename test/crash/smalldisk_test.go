package crash

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// mountMax is the size of the small file systems below in bytes. XFS and btrfs can't be smaller than about 300 MB.
const mountMax = 320 << 20

// A smallDisk is a small file system that can be made full.
type smallDisk struct {
	name string
	make []string // makes the file system on the file whose name is appended; nil for tmpfs
	opts string   // of mount
	// hog returns what fills the file system, which is mounted at dir.
	hog func(t *testing.T, dir string) hog
	// leaves is how many bytes are left when it is filled, once after another.
	leaves []int64
	// everywhere says that CI can make it, so that a test must not be skipped there.
	everywhere bool
	nightly    bool // without -long it isn't tested
	follower   bool // without -long it is tested on a follower, too
}

// smallDisks are the ways in which a file system can have no room.
var smallDisks = []smallDisk{
	{name: "tmpfs", hog: bytesOf, leaves: []int64{0}, everywhere: true},
	{
		name: "ext4", make: []string{"mkfs.ext4", "-q", "-m", "0"}, hog: bytesOf, leaves: []int64{8 << 20, 0},
		everywhere: true,
	},
	{name: "xfs", make: []string{"mkfs.xfs", "-q"}, hog: bytesOf, leaves: []int64{8 << 20, 0}, nightly: true},
	{name: "btrfs", make: []string{"mkfs.btrfs", "-q"}, hog: allBytesOf, leaves: []int64{0}},
	{
		name: "tmpfs without inodes", opts: "nr_inodes=400", hog: filesOf, leaves: []int64{0}, everywhere: true,
		follower: true,
	},
	{
		name: "ext4 without inodes", make: []string{"mkfs.ext4", "-q", "-m", "0", "-N", "256"}, hog: filesOf,
		leaves: []int64{0}, everywhere: true, nightly: true,
	},
	{
		name: "btrfs with a quota", make: []string{"mkfs.btrfs", "-q"}, hog: quotaOf, leaves: []int64{0}, nightly: true,
		follower: true,
	},
}

// mount mounts the file system for the test and returns its path, or skips the test.
func (k *smallDisk) mount(t *testing.T) (string, hog) {
	t.Helper()
	missing := t.Skipf
	if k.everywhere && os.Getenv("CI") != "" {
		missing = t.Fatalf
	}
	if os.Getuid() != 0 {
		missing("mounting needs root")
	}
	dir := t.TempDir()
	opts, device := "size="+strconv.Itoa(mountMax), "zooid-crash"
	argv := []string{"mount", "-t", "tmpfs"}
	if k.make != nil {
		if _, err := exec.LookPath(k.make[0]); err != nil {
			missing("%s is not installed", k.make[0])
		}
		opts, device, argv = "loop", dir+".img", []string{"mount"}
		t.Cleanup(func() { os.Remove(device) })
		if err := os.WriteFile(device, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(device, mountMax); err != nil {
			t.Fatal(err)
		}
		run(t, append(k.make[:len(k.make):len(k.make)], device)...)
	}
	if k.opts != "" {
		opts += "," + k.opts
	}
	argv = append(argv, "-o", opts, device, dir)
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		missing("mount a small %s: %v: %s", k.name, err, out)
	}
	t.Cleanup(func() { run(t, "umount", dir) })
	return dir, k.hog(t, dir)
}

// A hog takes the room of a file system.
type hog interface {
	fill(left int64) // but for some bytes, if it takes bytes
	empty()          // gives it back
}

// A filler is a hog of bytes.
type filler struct {
	t   *testing.T
	dir string
	all bool // what statfs doesn't count too
	n   int
}

func bytesOf(t *testing.T, dir string) hog { return &filler{t: t, dir: dir} }

// allBytesOf also takes what statfs doesn't count as free.
func allBytesOf(t *testing.T, dir string) hog { return &filler{t: t, dir: dir, all: true} }

func (f *filler) next() *os.File {
	f.n++
	file, err := os.Create(filepath.Join(f.dir, fmt.Sprintf("filler%d", f.n)))
	if err != nil && !errors.Is(err, syscall.ENOSPC) {
		f.t.Fatal(err)
	}
	return file
}

func (f *filler) fill(left int64) {
	f.t.Helper()
	for range 100 {
		var st syscall.Statfs_t
		if err := syscall.Statfs(f.dir, &st); err != nil {
			f.t.Fatal(err)
		}
		have := int64(st.Bavail) * st.Bsize
		if have <= left+1<<20 {
			break
		}
		file := f.next()
		if file == nil {
			break
		}
		// In halves if need be: some blocks are the file system's own, and the server
		// takes some meanwhile.
		for size := have - left; size >= 1<<20 && syscall.Fallocate(int(file.Fd()), 0, 0, size) != nil; {
			size /= 2
		}
		file.Close()
	}
	if f.all && left == 0 {
		f.write()
	}
}

// write writes as much as there is room for, in smaller and smaller pieces.
func (f *filler) write() {
	for _, size := range []int{1 << 20, 64 << 10, 4 << 10} {
		file := f.next()
		if file == nil {
			return
		}
		for b := make([]byte, size); ; {
			if _, err := file.Write(b); err != nil {
				break
			}
		}
		file.Sync()
		file.Close()
	}
}

func (f *filler) empty() {
	for ; f.n > 0; f.n-- {
		os.Remove(filepath.Join(f.dir, fmt.Sprintf("filler%d", f.n)))
	}
	syscall.Sync() // btrfs has the room of removed files only then
}

// A fileHog is a hog of inodes.
type fileHog struct {
	t   *testing.T
	dir string
	n   int
}

func filesOf(t *testing.T, dir string) hog { return &fileHog{t: t, dir: dir} }

func (h *fileHog) path() string { return filepath.Join(h.dir, fmt.Sprintf("file%d", h.n)) }

func (h *fileHog) fill(int64) {
	h.t.Helper()
	for {
		h.n++
		file, err := os.Create(h.path())
		if errors.Is(err, syscall.ENOSPC) {
			h.n--
			return
		}
		if err != nil {
			h.t.Fatal(err)
		}
		file.Close()
	}
}

func (h *fileHog) empty() {
	for ; h.n > 0; h.n-- {
		os.Remove(h.path())
	}
}

// A quotaHog lowers a quota, which statfs doesn't show.
type quotaHog struct {
	t    *testing.T
	dir  string
	full bool
}

// quotaOf turns on btrfs's quotas. They hold for root too.
func quotaOf(t *testing.T, dir string) hog {
	run(t, "btrfs", "quota", "enable", dir)
	return &quotaHog{t: t, dir: dir}
}

func (h *quotaHog) fill(left int64) {
	h.t.Helper()
	run(h.t, "btrfs", "filesystem", "sync", h.dir)
	out, err := exec.Command("btrfs", "qgroup", "show", "--raw", h.dir).Output()
	if err != nil {
		h.t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "0/5" {
			used, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				h.t.Fatal(err)
			}
			out, err := exec.Command("btrfs", "qgroup", "limit", strconv.FormatInt(used+left, 10), "0/5", h.dir).CombinedOutput()
			if err != nil && !h.full { // a quota that is used up can't be lowered
				h.t.Fatalf("set a quota: %v: %s", err, out)
			}
			h.full = true
			return
		}
	}
	h.t.Fatalf("no quota group 0/5 in %s", out)
}

// empty turns quotas off: one that is used up can't always be raised.
func (h *quotaHog) empty() { run(h.t, "btrfs", "quota", "disable", h.dir) }
