package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Setting aside moves the files of this package out of a data directory, for a person
// to look at, so that the server begins as one with an empty disk. Nothing is deleted,
// and what isn't this package's (myid, secrets, notes) stays.
//
// A crash on the way would leave half a directory, so a mark says that the moving isn't
// done; FinishSetAside goes on.

const (
	asidePrefix = "aside-"
	asideMark   = "MOVING"
)

// SetAside moves the files of this package in dataDir and logDir, which may be the
// same, into folders of that name within each. The directories must not be in use.
func SetAside(dataDir, logDir, name string) error {
	name = asidePrefix + name
	// The mark must be everywhere before the first file moves.
	for _, dir := range directories(dataDir, logDir) {
		to := filepath.Join(dir, name)
		mark := filepath.Join(to, asideMark)
		if err := errors.Join(OS{}.MkdirAll(to), os.WriteFile(mark, nil, 0o600), OS{}.SyncDir(to)); err != nil {
			return fmt.Errorf("set the data in %s aside: %w", dir, err)
		}
	}
	return FinishSetAside(dataDir, logDir)
}

// FinishSetAside finishes what SetAside began before a crash, if it did.
func FinishSetAside(dataDir, logDir string) error {
	var marks []string
	for _, dir := range directories(dataDir, logDir) {
		found, err := filepath.Glob(filepath.Join(dir, asidePrefix+"*", asideMark))
		if err != nil {
			return err
		}
		for _, mark := range found {
			if err := moveAside(dir, filepath.Dir(mark)); err != nil {
				return fmt.Errorf("set the data in %s aside: %w", dir, err)
			}
		}
		marks = append(marks, found...)
	}
	for _, mark := range marks {
		if err := errors.Join(os.Remove(mark), OS{}.SyncDir(filepath.Dir(mark))); err != nil {
			return fmt.Errorf("note that the data was set aside: %w", err)
		}
	}
	return nil
}

// Asides returns how many folders with data that was set aside a directory has.
func Asides(dataDir string) (int, error) {
	found, err := filepath.Glob(filepath.Join(dataDir, asidePrefix+"*"))
	return len(found), err
}

func directories(dataDir, logDir string) []string {
	if logDir == "" || filepath.Clean(logDir) == filepath.Clean(dataDir) {
		return []string{dataDir}
	}
	return []string{dataDir, logDir}
}

func moveAside(dir, to string) error {
	names, err := OS{}.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range names {
		if ours(name) {
			if err := os.Rename(filepath.Join(dir, name), filepath.Join(to, name)); err != nil {
				return err
			}
		}
	}
	return errors.Join(OS{}.SyncDir(to), OS{}.SyncDir(dir))
}

// ours reports whether a file is one that this package makes. The reserve stays: it
// says nothing.
func ours(name string) bool {
	_, segment := numbered(name, segmentSuffix)
	_, snapshot := numbered(name, snapshotSuffix)
	return segment || snapshot || name == identityName || strings.HasPrefix(name, sparePrefix) || strings.HasSuffix(name, keptSuffix) || strings.HasSuffix(name, tmpSuffix)
}
