package storage

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// InUse reports whether a directory holds files of a data directory: an identity, a log segment or
// a snapshot. A directory that exists and can't be read counts as in use: it must not be taken for a new one.
func InUse(dir string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR)
	}
	for _, e := range entries {
		if n := e.Name(); n == identityName || strings.HasSuffix(n, segmentSuffix) || strings.HasSuffix(n, snapshotSuffix) {
			return true
		}
	}
	return false
}

// RemoveData removes the files that InUse looks for and the reserve, IDENTITY last: a server that is started in between
// refuses to run. The caller must know that no server uses the directory, and which server owns the files.
func RemoveData(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, last := range []bool{false, true} {
		for _, e := range entries {
			n := e.Name()
			own := n == identityName || n == reserveName || strings.HasSuffix(n, segmentSuffix) ||
				strings.HasSuffix(n, snapshotSuffix)
			if !own || (n == identityName) != last {
				continue
			}
			if err := os.Remove(filepath.Join(dir, n)); err != nil {
				return err
			}
		}
	}
	return OS{}.SyncDir(dir)
}
