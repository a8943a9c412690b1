package recovery

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/internal/quorum/peer"
	"github.com/zooid-project/zooid/internal/storage"
)

// An exchange replaces the files of a server's directories by new ones, and keeps the old
// ones. A crash on the way must never leave directories that a server starts with though
// something is missing:
//
//	recover-build   the new files are written here                 (crash: nothing has changed)
//	recover-ready   its name once they are durable; old segments go, the oldest
//	                first, then the other old files but IDENTITY   (crash: Finish goes on)
//	recover-moving  its name once the old files have gone; the new
//	                ones come, IDENTITY before the segments        (crash: Finish goes on)
//
// Without the oldest segments, or with IDENTITY and no segment, storage refuses the
// directory. The folder in the data directory decides how far it has come; that of a log
// directory gets each name first.
type exchange struct {
	dataDir, logDir string
	newData, newLog string
	// rename renames a file; tests have it fail.
	rename func(from, to string) error
}

const (
	folderBuild  = "recover-build"
	folderReady  = "recover-ready"
	folderMoving = "recover-moving"
	// actName is the file of the data directory's folder that holds the Act.
	actName = "ACT"
	// identityName is the file that says that a directory is in use.
	identityName = "IDENTITY"
	// entryPrefix is that of reports of entries that panic and of decisions about them. They
	// are of the old cluster.
	entryPrefix = "entry-"
)

// dirs are the directories in use: the log's first, if it has one of its own.
func dirsOf(dataDir, logDir string) []string {
	if filepath.Clean(dataDir) == filepath.Clean(logDir) {
		return []string{dataDir}
	}
	return []string{logDir, dataDir}
}

func beginExchange(dataDir, logDir string) (*exchange, error) {
	for _, dir := range dirsOf(dataDir, logDir) {
		if err := os.RemoveAll(filepath.Join(dir, folderBuild)); err != nil {
			return nil, fmt.Errorf("remove what an earlier attempt left: %w", err)
		}
	}
	return &exchange{dataDir, logDir, filepath.Join(dataDir, folderBuild), filepath.Join(logDir, folderBuild), os.Rename}, nil
}

// ready makes the new files count: from here on the exchange is finished, sooner or later.
func (e *exchange) ready(a *Act) error {
	b, err := json.Marshal(a)
	if err == nil {
		err = writeDurably(filepath.Join(e.newData, actName), b)
	}
	if err != nil {
		return fmt.Errorf("note what is to be done: %w; nothing was changed", err)
	}
	return e.renameFolders(folderBuild, folderReady)
}

// Begun reports whether an exchange of these directories isn't finished. No server may start
// with them.
func Begun(dataDir, logDir string) bool {
	for _, dir := range dirsOf(dataDir, logDir) {
		for _, folder := range []string{folderReady, folderMoving} {
			if _, err := os.Stat(filepath.Join(dir, folder)); err == nil {
				return true
			}
		}
	}
	return false
}

// Finish finishes an exchange that a crash has cut short, and returns what it was about, nil
// if there is none.
func Finish(dataDir, logDir string) (*Act, error) {
	e := exchange{dataDir: dataDir, logDir: logDir, rename: os.Rename}
	return e.finish()
}

func (e *exchange) finish() (*Act, error) {
	dataDir, logDir, dirs := e.dataDir, e.logDir, dirsOf(e.dataDir, e.logDir)
	folder := folderMoving
	if exists(filepath.Join(dataDir, folderReady)) {
		folder = folderReady
	} else if !exists(filepath.Join(dataDir, folderMoving)) {
		if Begun(dataDir, logDir) { // the log's folder alone has its name: nothing has changed yet
			return nil, os.RemoveAll(filepath.Join(logDir, folderReady))
		}
		return nil, nil
	}
	act, err := readAct(filepath.Join(dataDir, folder, actName))
	if err != nil {
		return nil, err
	}
	if folder == folderReady {
		for _, dir := range dirs {
			if err := e.moveOld(dir, filepath.Join(dir, act.Aside)); err != nil {
				return nil, fmt.Errorf("set the old data in %s aside: %w; run the command again", dir, err)
			}
		}
		if err := peer.RemoveNote(logDir, dataDir); err != nil {
			return nil, err
		}
		if err := e.renameFolders(folderReady, folderMoving); err != nil {
			return nil, err
		}
	}
	if err := act.record(dataDir); err != nil {
		return nil, err
	}
	if err := e.bringAll(dirs); err != nil {
		return nil, fmt.Errorf("put the new data in its place: %w; run the command again", err)
	}
	return act, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// renameFolders renames a folder of each directory, where that isn't done yet.
func (e *exchange) renameFolders(from, to string) error {
	for _, dir := range dirsOf(e.dataDir, e.logDir) {
		err := e.rename(filepath.Join(dir, from), filepath.Join(dir, to))
		if err != nil && !(errors.Is(err, fs.ErrNotExist) && exists(filepath.Join(dir, to))) {
			return err
		}
		if err := (storage.OS{}).SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// moveOld moves the old files of a directory but IDENTITY: segments first, the oldest first.
func (e *exchange) moveOld(dir, aside string) error {
	if err := os.MkdirAll(aside, 0o700); err != nil {
		return err
	}
	names, err := ownFiles(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == identityName {
			continue
		}
		if err := e.rename(filepath.Join(dir, name), filepath.Join(aside, name)); err != nil {
			return err
		}
		if err := (storage.OS{}).SyncDir(dir); err != nil {
			return err
		}
	}
	if !exists(filepath.Join(aside, identityName)) {
		b, err := os.ReadFile(filepath.Join(dir, identityName))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err == nil {
			if err := writeDurably(filepath.Join(aside, identityName), b); err != nil {
				return err
			}
		}
	}
	return storage.OS{}.SyncDir(aside)
}

// moveNotes moves what a log directory has about entries of its log.
func moveNotes(dir, aside string) error {
	names, err := ownFiles(dir)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(aside, 0o700); err != nil {
		return err
	}
	for _, name := range names {
		if _, own := storage.OwnFile(name); own {
			continue
		}
		if err := os.Rename(filepath.Join(dir, name), filepath.Join(aside, name)); err != nil {
			return err
		}
	}
	return storage.OS{}.SyncDir(dir)
}

// ownFiles lists storage's files in a directory and those about its entries: segments
// first, by number.
func ownFiles(dir string) (names []string, err error) {
	all, err := storage.OS{}.ReadDir(dir) // sorted
	if err != nil {
		return nil, err
	}
	var others []string
	for _, name := range all {
		segment, own := storage.OwnFile(name)
		switch {
		case segment:
			names = append(names, name)
		case own || strings.HasPrefix(name, entryPrefix):
			others = append(others, name)
		}
	}
	return append(names, others...), nil
}

// bringAll moves the new files to their places: all but segments and IDENTITY, then IDENTITY
// in each directory, then the segments, the newest first.
func (e *exchange) bringAll(dirs []string) error {
	kinds := []func(name string) bool{
		func(name string) bool { segment, _ := storage.OwnFile(name); return !segment && name != identityName },
		func(name string) bool { return name == identityName },
		func(name string) bool { segment, _ := storage.OwnFile(name); return segment },
	}
	for _, kind := range kinds {
		for _, dir := range dirs {
			if err := e.bring(dir, kind); err != nil {
				return err
			}
		}
	}
	for _, dir := range dirs {
		if err := errors.Join(os.RemoveAll(filepath.Join(dir, folderMoving)), storage.OS{}.SyncDir(dir)); err != nil {
			return err
		}
	}
	return nil
}

func (e *exchange) bring(dir string, kind func(string) bool) error {
	from := filepath.Join(dir, folderMoving)
	names, err := ownFiles(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range slices.Backward(names) {
		if !kind(name) {
			continue
		}
		if err := e.rename(filepath.Join(from, name), filepath.Join(dir, name)); err != nil {
			return err
		}
		if err := (storage.OS{}).SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// writeDurably writes a file that is not there or of an earlier attempt.
func writeDurably(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close(), storage.OS{}.SyncDir(filepath.Dir(path)))
}
