package floor

import (
	"os"
	"syscall"
)

// syncData makes a file's data durable, but not its times.
func syncData(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }

// makeRoom allocates n bytes of the disk to a file without writing the new ones.
func makeRoom(f *os.File, n int64) error { return syscall.Fallocate(int(f.Fd()), 0, 0, n) }
