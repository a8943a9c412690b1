package storage

import (
	"path/filepath"
	"strings"
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

// TestOSErrorsNameTheFile: each call that the system refuses says which file it is about. The files here are closed, or
// lie where a file is in the place of a directory.
func TestOSErrorsNameTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	f, err := OS{}.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	none := filepath.Join(dir, "none")
	for name, do := range map[string]func() error{
		"Size":             func() error { _, err := f.Size(); return err },
		"Fdatasync":        f.Fdatasync,
		"Allocate":         func() error { return f.Allocate(10) },
		"WriteOut":         func() error { return f.WriteOut(0, 10) },
		"DropCache":        f.DropCache,
		"ReadDir":          func() error { _, err := OS{}.ReadDir(file); return err },
		"ReadDir of none":  func() error { _, err := OS{}.ReadDir(none); return err },
		"SyncDir of none":  func() error { return OS{}.SyncDir(none) },
		"MkdirAll":         func() error { return OS{}.MkdirAll(file) },
		"MkdirAll below":   func() error { return OS{}.MkdirAll(filepath.Join(file, "a", "b")) },
		"Lock of none":     func() error { _, err := OS{}.Lock(none); return err },
		"Free of none":     func() error { _, _, err := OS{}.Free(none); return err },
		"Files of none":    func() error { _, _, err := OS{}.Files(none); return err },
		"OpenRead of none": func() error { _, err := OS{}.OpenRead(none); return err },
	} {
		if err := do(); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if f.Direct(true) {
		t.Error("writes to a closed file are direct")
	}
	if !f.InPlace(true) {
		t.Error("a closed file is said to be copied on write")
	}
	if name := CopiesOnWrite(none); name != "" {
		t.Errorf("a directory that isn't there is on %s", name)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	if name := CopiesOnWrite(dir); (name == "") != (st.Type != magicZFS && uint32(st.Type) != magicBcachefs) {
		t.Errorf("a file system of type %#x is taken for %q", st.Type, name)
	}
}
