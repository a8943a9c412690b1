package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Setting aside moves the files of this package out of a data directory, so that an operator can
// examine them and the server starts as with an empty disk. Nothing is deleted, and files that
// aren't this package's (myid, secrets, notes) stay.
//
// A crash in between would leave only a part of the files moved, or those of only one of two directories. So a mark in
// each directory says that the move isn't finished, and FinishSetAside continues it. The mark in the data directory is
// the first to be made and the first to be removed: while it exists, everything in both directories must be moved.

const (
	asidePrefix = "aside-"
	asideMark   = "MOVING"
)

// SetAside moves the files of this package in dataDir and logDir, which may be the same directory,
// into a folder aside-name within each. The directories must not be in use.
func SetAside(dataDir, logDir, name string) error {
	if err := markAside(dataDir, asidePrefix+name); err != nil {
		return err
	}
	return FinishSetAside(dataDir, logDir)
}

// markAside creates a folder in a directory and marks it as the target of a move.
func markAside(dir, folder string) error {
	to := filepath.Join(dir, folder)
	err := errors.Join(OS{}.MkdirAll(to), os.WriteFile(filepath.Join(to, asideMark), nil, 0o600), OS{}.SyncDir(to),
		OS{}.SyncDir(dir))
	if err != nil {
		return fmt.Errorf("set the data in %s aside: %w", dir, err)
	}
	return nil
}

// FinishSetAside finishes a SetAside that was interrupted by a crash, if there is one.
func FinishSetAside(dataDir, logDir string) error {
	dirs := directories(dataDir, logDir)
	begun, err := marked(dataDir)
	if err != nil {
		return err
	}
	for _, folder := range begun { // the crash may have come before the log directory was marked
		if err := markAside(dirs[len(dirs)-1], folder); err != nil {
			return err
		}
	}
	var marks []string
	for _, dir := range dirs {
		folders, err := marked(dir)
		if err != nil {
			return err
		}
		for _, folder := range folders {
			to := filepath.Join(dir, folder)
			if err := moveAside(dir, to); err != nil {
				return fmt.Errorf("set the data in %s aside: %w", dir, err)
			}
			marks = append(marks, filepath.Join(to, asideMark))
		}
	}
	for _, mark := range marks {
		if err := errors.Join(os.Remove(mark), OS{}.SyncDir(filepath.Dir(mark))); err != nil {
			return fmt.Errorf("note that the data was set aside: %w", err)
		}
	}
	return nil
}

// marked returns the folders of a directory that have a mark.
func marked(dir string) (folders []string, err error) {
	all, err := asides(dir)
	for _, folder := range all {
		switch _, err := os.Stat(filepath.Join(dir, folder, asideMark)); {
		case err == nil:
			folders = append(folders, folder)
		case !errors.Is(err, fs.ErrNotExist):
			return nil, fmt.Errorf("look whether data is being set aside: %w", err)
		}
	}
	return folders, err
}

// Asides returns the number of folders in a directory that hold data set aside.
func Asides(dataDir string) (int, error) {
	all, err := asides(dataDir)
	return len(all), err
}

func asides(dir string) (folders []string, err error) {
	list, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("look for data that was set aside: %w", err)
	}
	for _, e := range list {
		if e.IsDir() && strings.HasPrefix(e.Name(), asidePrefix) {
			folders = append(folders, e.Name())
		}
	}
	return folders, nil
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

// OwnFile reports whether a file name in a data directory is one of this package's, and whether it is a log segment's.
func OwnFile(name string) (segment, own bool) {
	_, segment = numbered(name, segmentSuffix)
	return segment, ours(name)
}

// ours reports whether a file name is one of this package's. The reserve doesn't count, because it holds no data.
func ours(name string) bool {
	_, segment := numbered(name, segmentSuffix)
	_, snapshot := numbered(name, snapshotSuffix)
	return segment || snapshot || name == identityName || strings.HasPrefix(name, sparePrefix) ||
		strings.HasSuffix(name, keptSuffix) || strings.HasSuffix(name, tmpSuffix)
}
