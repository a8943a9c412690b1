package files

import (
	"os"
	"path/filepath"
	"slices"
)

// HoldsTree reports whether the folder version-2 of a dataDir or dataLogDir holds, or may hold, a part of a tree.
// Apache's zkServer-initialize.sh makes an empty version-2, and a server that has never had a tree leaves only epochs
// there. A directory that can't be read counts as one with a tree.
func HoldsTree(dir string) bool {
	path := filepath.Join(dir, Version2)
	if st, err := os.Stat(path); err != nil || !st.IsDir() {
		return false
	}
	entries, err := os.ReadDir(path)
	return err != nil || slices.ContainsFunc(entries, func(e os.DirEntry) bool {
		return !slices.Contains([]string{acceptedEpoch, currentEpoch, "lost+found"}, e.Name())
	})
}
