package storage

import (
	"os"

	"golang.org/x/sys/unix"
)

// Fdatasync is os.File.Sync, which on this system also flushes the drive's cache.
func (f osFile) Fdatasync() error { return f.Sync() }

func (f osFile) Allocate(size int64) error {
	have, err := f.Size()
	if err != nil || have >= size {
		return err
	}
	return f.Truncate(size)
}

// WriteOut does nothing: this system has no such call.
func (f osFile) WriteOut(off, size int64) error { return nil }

// Direct returns false: this system has no such call.
func (f osFile) Direct(on bool) bool { return false }

// DropCache does nothing: this system has no such call.
func (f osFile) DropCache() error { return nil }

func flock(d *os.File) error {
	return unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB)
}

func unflock(d *os.File) error { return unix.Flock(int(d.Fd()), unix.LOCK_UN) }

// InPlace returns true: as long as nobody takes snapshots, this system overwrites in place.
func (f osFile) InPlace(bool) bool { return true }

// Files returns how many files can still be created in dir's file system, and how many it can have.
func (OS) Files(dir string) (free, total uint64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return st.Ffree, st.Files, nil
}

// CopiesOnWrite returns "": as long as nobody takes snapshots, this system overwrites in place.
func CopiesOnWrite(string) string { return "" }

// Free returns how many bytes this process may still use in dir's file system, and the size of
// that.
func (OS) Free(dir string) (free, total uint64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return st.Bavail * uint64(st.Bsize), st.Blocks * uint64(st.Bsize), nil
}
