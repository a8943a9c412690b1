//go:build unix

package setup

import (
	"errors"
	"os"
	"syscall"
)

// lock waits until no other process has the file or folder locked, and locks it. Closing f or ending the process
// unlocks it. Not every file system can lock folders.
func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	if st, statErr := f.Stat(); statErr == nil && st.IsDir() && errors.Is(err, syscall.EBADF) { // NFS
		return errors.ErrUnsupported
	}
	return err
}
