package files

import (
	"os"
	"path/filepath"
	"slices"
)

// HoldsTree reports whether dataDir's, or dataLogDir's, version-2 has, or may have, something of a tree. An empty
// version-2 is what Apache's zkServer-initialize.sh makes; one with nothing but epochs is that of a server that has
// never had a tree. A directory that can't be read counts as one with a tree.
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
