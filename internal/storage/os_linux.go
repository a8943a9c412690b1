package storage

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// uninterrupted repeats a call that a signal interrupted; on some file systems, the Go runtime's own signals do. That
// isn't a retry of a failed sync: an interrupted one has not reported anything yet.
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
	return on && err == nil
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

// Magic numbers of file systems that copy on write, as statfs shows them.
const (
	magicBcachefs = 0xca451a4e
	magicZFS      = 0x2fc12fc1
)

// flagNoCOW is FS_NOCOW_FL of linux/fs.h, which chattr calls C.
const flagNoCOW = 0x00800000

// InPlace reports whether overwriting needs no more room. On btrfs that holds for files with the attribute C, which can
// be set while a file is empty; systemd's journal has it too. The attribute turns off btrfs's checksums of the file,
// but this package has its own. After a snapshot of the subvolume or a reflink (on XFS too), the next write of each
// block needs room all the same; InPlace can't see that.
func (f osFile) InPlace(ask bool) bool {
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil {
		return true
	}
	switch uint64(st.Type) & 0xffffffff {
	case magicBcachefs, magicZFS:
		return false
	case unix.BTRFS_SUPER_MAGIC:
	default:
		return true
	}
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil || flags&flagNoCOW != 0 || !ask {
		return err == nil && flags&flagNoCOW != 0
	}
	return unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags|flagNoCOW)) == nil
}

// CopiesOnWrite returns the name of dir's file system if overwriting a file there always needs room, so that the log
// may stop growing while it still has written space; else "".
func CopiesOnWrite(dir string) string {
	st, err := statfs(dir)
	if err != nil {
		return ""
	}
	switch uint64(st.Type) & 0xffffffff {
	case magicBcachefs:
		return "bcachefs"
	case magicZFS:
		return "ZFS"
	}
	return ""
}
