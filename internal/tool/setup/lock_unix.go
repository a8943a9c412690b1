//go:build unix

package setup

import (
	"os"
	"syscall"
)

// lock waits until nobody else has the file locked. Closing it unlocks it, as the end of the process does.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }
