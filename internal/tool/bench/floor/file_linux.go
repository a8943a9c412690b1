package floor

import (
	"os"
	"syscall"
)

// syncData makes a file's data durable, but not its times.
func syncData(f *os.File) error { return syscall.Fdatasync(int(f.Fd())) }

// makeRoom allocates disk space so that the file has n bytes. It doesn't write the new ones.
func makeRoom(f *os.File, n int64) error { return syscall.Fallocate(int(f.Fd()), 0, 0, n) }
