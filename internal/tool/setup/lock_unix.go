//go:build unix

package setup

import (
	"os"
	"syscall"
)

// lock waits until no other process has the file locked. Closing the file unlocks it, as the end of the process does.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }
