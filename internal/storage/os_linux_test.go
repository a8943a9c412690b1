package storage

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDirectIsSaidTruly: a file says that its writes are direct only if the system was told so. They aren't once that
// is turned off.
func TestDirectIsSaidTruly(t *testing.T) {
	t.Parallel()
	f, err := OS{}.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	direct := func() bool {
		flags, err := unix.FcntlInt(f.(osFile).Fd(), unix.F_GETFL, 0)
		if err != nil {
			t.Fatal(err)
		}
		return flags&unix.O_DIRECT != 0
	}
	if said := f.Direct(true); said != direct() {
		t.Errorf("it says that writes are direct: %t; they are: %t", said, direct())
	} else if !said {
		t.Skip("the file system of temporary files has no direct writes")
	}
	if f.Direct(false) || direct() {
		t.Error("turned off, writes are direct")
	}
}
