package apache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/zooid-project/zooid/internal/newensemble"
	"github.com/zooid-project/zooid/internal/storage"
)

// movingName is a file in the folder unfinishedName of dataDir. It exists while an import moves its files to their
// places, and lists their names, one a line: there were no files of Zooid before, and no server starts meanwhile, so
// these files are the import's and can be removed, whatever happens to its process.
const movingName = "moving"

// place moves the files in the directories made to their places. After an error there is nothing at these places. If
// the process ends in between, the next import begins with takeBack.
func (o *ImportOptions) place(made []string, rename func(from, to string) error) error {
	var names []string
	for _, dir := range made {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return fmt.Errorf("move the data directory to its place: %w", err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
	}
	moving := filepath.Join(made[0], movingName)
	if err := writeSynced(moving, []byte(strings.Join(names, "\n")+"\n")); err != nil {
		os.Remove(moving)
		return fmt.Errorf("move the data directory to its place: %w", err)
	}
	err := func() error {
		for i, dir := range o.dirs() {
			if err := moveFiles(made[i], dir, rename); err != nil {
				return err
			}
		}
		if err := newensemble.HandOver(o.dirs()...); err != nil {
			return err
		}
		// From here on, the files are a server's. This is made durable, since that server may soon write.
		if err := os.Remove(moving); err != nil {
			return err
		}
		for _, dir := range made {
			if err := (storage.OS{}).SyncDir(dir); err != nil {
				return err
			}
		}
		return nil
	}()
	if err == nil {
		return nil
	}
	err = fmt.Errorf("move the data directory to its place: %w", err)
	if failed := o.remove(names); failed != nil {
		return errors.Join(err, failed) // the list stays for the next import
	}
	os.Remove(moving)
	return err
}

// writeSynced makes a new file durable.
func writeSynced(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close(), storage.OS{}.SyncDir(filepath.Dir(path)))
}

// moving returns the names of files that an import was moving to their places when its process ended, and maybe has
// moved.
func (o *ImportOptions) moving() ([]string, error) {
	path := filepath.Join(o.Dir, unfinishedName, movingName)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look for an import that was cut short: %w", err)
	}
	names := strings.Fields(string(b))
	for _, name := range names {
		if name != filepath.Base(name) || name == unfinishedName {
			return nil, fmt.Errorf("%s has the name %.80q, which isn't of a file of an import; remove it", path, name)
		}
	}
	return names, nil
}

// takeBack removes the files that an import had moved to their places when its process ended. The caller holds the
// directories.
func (o *ImportOptions) takeBack() error {
	names, err := o.moving()
	if err == nil {
		err = o.remove(names)
	}
	return err
}

// remove removes files of these names from the directories.
func (o *ImportOptions) remove(names []string) error {
	if len(names) == 0 {
		return nil
	}
	for _, dir := range o.dirs() {
		for _, name := range names {
			if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("remove what an import left unfinished: %w", err)
			}
		}
		if err := (storage.OS{}).SyncDir(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove what an import left unfinished: %w", err)
		}
	}
	return nil
}

// moveFiles moves files into a data directory: the snapshot first, then IDENTITY, the log last. After a crash in
// between a server refuses to start, instead of starting with an empty tree.
func moveFiles(from, to string, rename func(from, to string) error) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	var names []string
	for _, e := range entries {
		if e.Name() != movingName {
			names = append(names, e.Name())
		}
	}
	rank := func(name string) int {
		switch {
		case strings.HasSuffix(name, ".snap"):
			return 0
		case strings.HasSuffix(name, ".log"):
			return 2
		}
		return 1
	}
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	for _, name := range names {
		if err := errors.Join(rename(filepath.Join(from, name), filepath.Join(to, name)),
			storage.OS{}.SyncDir(to)); err != nil {
			return err
		}
	}
	return nil
}
