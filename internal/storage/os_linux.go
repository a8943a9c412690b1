package storage

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// uninterrupted repeats a call that a signal interrupted; on some file systems, the Go runtime's
// own signals do. That isn't a retry of a failed sync: an interrupted one has not reported anything
// yet.
func uninterrupted(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (f osFile) Fdatasync() error {
	if err := uninterrupted(func() error { return unix.Fdatasync(int(f.Fd())) }); err != nil {
		return &os.PathError{Op: "fdatasync", Path: f.Name(), Err: err}
	}
	return nil
}

// Allocate falls back to setting the length if the file system doesn't support fallocate.
func (f osFile) Allocate(size int64) error {
	err := uninterrupted(func() error { return unix.Fallocate(int(f.Fd()), 0, 0, size) })
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		have, err := f.Size()
		if err != nil || have >= size {
			return err
		}
		return f.Truncate(size)
	}
	if err != nil {
		return &os.PathError{Op: "fallocate", Path: f.Name(), Err: err}
	}
	return nil
}

// Direct sets or clears O_DIRECT, which some file systems refuse.
func (f osFile) Direct(on bool) bool {
	flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err != nil {
		return false
	}
	if flags &^= unix.O_DIRECT; on {
		flags |= unix.O_DIRECT
	}
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETFL, flags)
	return err == nil
}

// WriteOut uses sync_file_range, which writes no metadata and doesn't flush the drive's cache: for
// small pieces Fdatasync costs too much.
func (f osFile) WriteOut(off, size int64) error {
	const wait = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	err := uninterrupted(func() error { return unix.SyncFileRange(int(f.Fd()), off, size, wait) })
	if err == nil || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return &os.PathError{Op: "sync_file_range", Path: f.Name(), Err: err}
}

func (f osFile) DropCache() error {
	err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	if err != nil {
		return &os.PathError{Op: "fadvise", Path: f.Name(), Err: err}
	}
	return nil
}

func flock(d *os.File) error {
	return unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB)
}

func unflock(d *os.File) error { return unix.Flock(int(d.Fd()), unix.LOCK_UN) }

// Free returns how many bytes this process may still use in dir's file system, and the size of
// that.
func (OS) Free(dir string) (free, total uint64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return st.Bavail * uint64(st.Bsize), st.Blocks * uint64(st.Bsize), nil
}
