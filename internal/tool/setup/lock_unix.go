//go:build unix

package setup

import (
	"errors"
	"os"
	"syscall"
)

// lock waits until no other process has the file or folder locked. Closing it unlocks it, as the end of the process
// does. Not every file system has locks for folders.
func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	if st, statErr := f.Stat(); statErr == nil && st.IsDir() && errors.Is(err, syscall.EBADF) { // NFS
		return errors.ErrUnsupported
	}
	return err
}
