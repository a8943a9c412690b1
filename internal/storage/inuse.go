package storage

import (
	"os"
	"strings"
)

// InUse reports whether a directory holds files of a data directory: an identity, a log segment or
// a snapshot.
func InUse(dir string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if n := e.Name(); n == identityName || strings.HasSuffix(n, segmentSuffix) || strings.HasSuffix(n, snapshotSuffix) {
			return true
		}
	}
	return false
}
