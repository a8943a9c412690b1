package proof

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/zooid-project/zooid/internal/storage"
)

// A Mark is in a data directory that a switch is making. It exists from before the first file until the switch releases
// the directory: no server starts on the directory meanwhile, whatever happens to the switch. All files of Zooid next
// to a mark belong to the try: there were none when the mark was written, and no server has run since.
type Mark struct {
	Try    Try       `json:"try"`
	At     time.Time `json:"at"`
	By     string    `json:"by"`               // the machine and the command that releases it
	LogDir string    `json:"logDir,omitempty"` // the log's directory, if it is another
}

// The files of a mark, before and after the release. The second is kept as a record, and makes a second release of the
// same try succeed.
const (
	markName     = "switch-unreleased"
	releasedName = "switch-released"
)

// unfinished are the folders in which package apache writes before it moves files into a directory.
var unfinished = []string{"import-unfinished", "seed-unfinished"}

// FindMark returns the mark of a directory that isn't released, nil if it has none.
func FindMark(dir string) (*Mark, error) { return readMark(filepath.Join(dir, markName)) }

// Unready returns why no server may use a data directory: a switch hasn't released it, or what was writing its data was
// cut short, so that a server would begin with an empty tree.
func Unready(dir, logDir string) error {
	m, err := FindMark(dir)
	if err != nil {
		return err
	}
	if m != nil {
		return fmt.Errorf("the switch from Apache (try %s, %s, begun %s) hasn't released it, so Apache may serve. "+
			"To continue, run zooid migrate switch again there; to undo, start Apache's servers and run it with -undo",
			m.Try, m.By, m.At.Format(time.RFC3339))
	}
	for _, d := range []string{dir, cmp.Or(logDir, dir)} {
		for _, name := range unfinished {
			path := filepath.Join(d, name)
			switch entries, err := os.ReadDir(path); {
			case err == nil && len(entries) > 0:
				also := ""
				if storage.InUse(dir) || storage.InUse(cmp.Or(logDir, dir)) {
					also = " and the files that it had moved to their places (IDENTITY, *.snap, *.log)"
				}
				return fmt.Errorf("%s has files of an import, a switch or a seed that was cut short. Run the same command again, which starts over; or remove this folder%s, if you don't want that data",
					path, also)
			case err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
				return fmt.Errorf("look for the files of an import that was cut short: %w", err)
			}
		}
	}
	return nil
}

func readMark(path string) (*Mark, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	m := &Mark{}
	if err == nil {
		err = json.Unmarshal(b, m)
	}
	if err != nil {
		return nil, fmt.Errorf("read the mark in %s: %w", path, err)
	}
	return m, nil
}

// Put marks a directory, which the caller holds. It fails if the directory has data of Zooid's.
func (m *Mark) Put(dir string) error {
	for _, d := range []string{dir, m.logDir(dir)} {
		if storage.InUse(d) {
			return fmt.Errorf("%s is in use as a Zooid data directory; give a new directory, or an empty one", d)
		}
	}
	b, err := json.Marshal(m)
	if err == nil {
		err = writeDurably(filepath.Join(dir, markName), b)
	}
	if err != nil {
		return fmt.Errorf("mark %s as not released: %w", dir, err)
	}
	return nil
}

func (m *Mark) logDir(dir string) string {
	if m.LogDir == "" {
		return dir
	}
	return m.LogDir
}

// Released reports whether a directory was released by a try.
func Released(dir string, try Try) (bool, error) {
	m, err := readMark(filepath.Join(dir, releasedName))
	return m != nil && m.Try == try, err
}

// Release lets a server start on a directory that a try has made. The caller holds it.
func Release(dir string, try Try) error {
	if done, err := Released(dir, try); done || err != nil {
		return err
	}
	m, err := FindMark(dir)
	switch {
	case err != nil:
		return err
	case m == nil || m.Try != try:
		return fmt.Errorf("release %s: it has no data of the try %s", dir, try)
	case !storage.InUse(dir):
		return fmt.Errorf("release %s: its data hasn't been written yet", dir)
	}
	err = os.Rename(filepath.Join(dir, markName), filepath.Join(dir, releasedName))
	if err = errors.Join(err, storage.OS{}.SyncDir(dir)); err != nil {
		return fmt.Errorf("release %s: %w", dir, err)
	}
	return nil
}

// Recall undoes Release. The caller holds the directory, and knows that no server has served from it.
func Recall(dir string, try Try) error {
	if done, err := Released(dir, try); !done || err != nil {
		return errors.Join(err, fmt.Errorf("recall %s: it has no released data of the try %s", dir, try))
	}
	err := os.Rename(filepath.Join(dir, releasedName), filepath.Join(dir, markName))
	if err = errors.Join(err, storage.OS{}.SyncDir(dir)); err != nil {
		return fmt.Errorf("recall %s: %w", dir, err)
	}
	return nil
}

// Drop removes the data of a directory that wasn't released, and reports whether there was any. The caller holds it.
func Drop(dir string) (bool, error) {
	m, err := FindMark(dir)
	if m == nil || err != nil {
		return false, err
	}
	for _, d := range []string{m.logDir(dir), dir} {
		err := storage.RemoveData(d)
		for _, name := range unfinished {
			err = errors.Join(err, os.RemoveAll(filepath.Join(d, name)))
		}
		if err != nil {
			return false, fmt.Errorf("remove what wasn't released: %w", err)
		}
	}
	if err := errors.Join(os.Remove(filepath.Join(dir, markName)), storage.OS{}.SyncDir(dir)); err != nil {
		return false, fmt.Errorf("remove what wasn't released: %w", err)
	}
	return true, nil
}

// writeDurably writes a file atomically.
func writeDurably(path string, b []byte) error {
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(path+".new", path)
	}
	return errors.Join(err, storage.OS{}.SyncDir(filepath.Dir(path)))
}
