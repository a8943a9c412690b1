package proof

import (
	"fmt"
	"os"
	"path/filepath"
)

// Files says which process has a directory's files open.
type Files struct {
	Held  string `json:"held,omitempty"`  // a process that has one open; "" if none is known to
	Known bool   `json:"known,omitempty"` // with Held empty: no process has
	Why   string `json:"why,omitempty"`   // it isn't known
}

// regular returns the regular files in directories. It leaves out files that vanish meanwhile.
func regular(dirs []string) (paths []string, err error) {
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("list the files that no process may have open: %w", err)
		}
		for _, e := range entries {
			if e.Type().IsRegular() {
				paths = append(paths, filepath.Join(dir, e.Name()))
			}
		}
	}
	return paths, nil
}
