package follow

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/internal/apache/files"
)

// adoptable returns the snapshots and logs of a copy that was made by a version without marks. Such a copy looks like
// the directory of an Apache server, and that version may also have been run on a real one. In addition to the
// operator's confirmation (-adopt), these facts distinguish a copy from a server's directory:
//
//   - It has the lock file of those versions, and nothing that a server needs or leaves: no myid, no process id, no
//     other folder.
//   - It has snapshots. A dataLogDir has none.
//   - No log ends with a zero. Apache fills its logs with zeros, ahead of what it writes.
//   - No process is known to have its files open.
func adoptable(dir string) (found []string, err error) {
	if err := onlyNames(dir, lockName, files.Version2); err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, lockName)); err != nil {
		return nil, fmt.Errorf("no version of Zooid made a copy here: %w", err)
	}
	if err := unheld(dir); err != nil {
		return nil, err
	}
	folder := filepath.Join(dir, files.Version2)
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	snapshots := 0
	for _, e := range entries {
		name := inVersion2(e.Name())
		switch {
		case slices.Contains(fixedNames, name):
			continue
		case strings.HasPrefix(e.Name(), "snapshot."):
			snapshots++
		case strings.HasPrefix(e.Name(), "log."):
			if err := unpadded(filepath.Join(dir, name)); err != nil {
				return nil, err
			}
		default:
			return nil, fmt.Errorf("%s doesn't belong to a copy", filepath.Join(dir, name))
		}
		found = append(found, name)
	}
	if snapshots == 0 {
		return nil, fmt.Errorf("there is no snapshot in %s", folder)
	}
	return found, nil
}

// onlyNames returns an error if a directory has another name than these in it.
func onlyNames(dir string, names ...string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !slices.Contains(names, e.Name()) {
			return fmt.Errorf("%s doesn't belong to a copy", filepath.Join(dir, e.Name()))
		}
	}
	return nil
}

// unpadded returns an error if a log ends with a zero.
func unpadded(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || st.Size() == 0 {
		return err
	}
	var last [1]byte
	if _, err := f.ReadAt(last[:], st.Size()-1); err != nil {
		return err
	}
	if last[0] == 0 {
		return errors.New(path + " ends with zeros, as the logs of an Apache server do")
	}
	return nil
}
