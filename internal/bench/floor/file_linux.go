package floor

import (
	"os"
	"syscall"
)

// syncData makes a file's data durable, leaving its times to later.
func syncData(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }

// makeRoom gives a file n bytes of the disk, those that are new not written.
func makeRoom(f *os.File, n int64) error { return syscall.Fallocate(int(f.Fd()), 0, 0, n) }
