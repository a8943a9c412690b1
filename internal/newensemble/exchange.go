package newensemble

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

// An exchange replaces the files in a server's directories, and keeps the old ones. After a crash in between, a server
// must never start on directories that lack something:
//
//	recover-build   the new files are written here                 (crash: nothing has changed)
//	recover-ready   its name once they are durable; old segments go, the oldest
//	                first, then the other old files but IDENTITY   (crash: Finish goes on)
//	recover-moving  its name once the old files have gone; the new
//	                ones come, IDENTITY before the segments        (crash: Finish goes on)
//
// Without the oldest segments, or with IDENTITY and no segment, storage rejects the directory. The name of the folder
// in the data directory says how far the exchange has come; the folder of a separate log directory is renamed first.
type exchange struct {
	dataDir, logDir string
	newData, newLog string
	// rename renames a file; tests make it fail.
	rename func(from, to string) error
}

const (
	folderBuild  = "recover-build"
	folderReady  = "recover-ready"
	folderMoving = "recover-moving"
	// actName is the file with the Act, in the folder of the data directory.
	actName = "ACT"
	// identityName is the file that says that a directory is in use.
	identityName = "IDENTITY"
	// entryPrefix is the prefix of files about entries: reports of panics, and decisions. They belong to the old
	// cluster.
	entryPrefix = "entry-"
)

// dirsOf returns the directories in use: first the log's, if it is separate.
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
	return &exchange{dataDir, logDir, filepath.Join(dataDir, folderBuild), filepath.Join(logDir, folderBuild), os.Rename},
		nil
}

// ready makes the new files count: after it, the exchange will be finished in any case.
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

// Begun reports whether a recovery of these directories is unfinished. No server may start on them. A founding doesn't
// count: the server itself finishes it.
func Begun(dataDir, logDir string) bool { return unfinished(dataDir, logDir) && !founding(dataDir) }

// unfinished reports whether an exchange is unfinished.
func unfinished(dataDir, logDir string) bool {
	for _, dir := range dirsOf(dataDir, logDir) {
		for _, folder := range []string{folderReady, folderMoving} {
			if _, err := os.Stat(filepath.Join(dir, folder)); err == nil {
				return true
			}
		}
	}
	return false
}

// Finish finishes an exchange that a crash has interrupted, and returns its Act, nil if there is none.
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
		if unfinished(dataDir, logDir) { // only the log's folder was renamed: nothing has changed yet
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

// renameFolders renames a folder of each directory, unless that is already done.
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

// move renames a file of dir, or one that comes into it, durably.
func (e *exchange) move(dir, from, to string) error {
	if err := e.rename(from, to); err != nil {
		return err
	}
	return storage.OS{}.SyncDir(dir)
}

// moveOld moves the old files of a directory except IDENTITY: segments first, starting with the oldest.
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
		if err := e.move(dir, filepath.Join(dir, name), filepath.Join(aside, name)); err != nil {
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

// moveNotes moves the files about log entries out of a log directory.
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

// bringAll moves the new files to their places: first all except segments and IDENTITY, then IDENTITY in each
// directory, then the segments, starting with the newest.
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
		if err := e.move(dir, filepath.Join(from, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// writeDurably writes a file that doesn't exist or is left over from an earlier attempt.
func writeDurably(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Sync(), f.Close(), storage.OS{}.SyncDir(filepath.Dir(path)))
}
