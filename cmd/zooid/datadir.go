//go:build unix

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/recovery"
	"github.com/zooid-project/zooid/internal/storage"
)

// logDirectory returns the directory of a server's log, given that directory or the server's zoo.cfg.
func logDirectory(name string) (string, error) {
	if st, err := os.Stat(name); err == nil && st.IsDir() {
		return name, nil
	}
	cfg, err := config.LoadAny(name, nil)
	if err != nil {
		return "", err
	}
	return cfg.Storage.DataLogDir, nil
}

// initializeFile permits one start from an empty data directory where db.autocreate=false, as with Apache.
const initializeFile = "initialize"

// checkDirs returns an error if the server would begin with an empty tree, or make a directory, against the operator's
// will.
func checkDirs(s *config.Storage) error {
	if recovery.Begun(s.DataDir, s.DataLogDir) {
		return fmt.Errorf("open the data directory %s: a recovery of it was cut short; run zooid recover -new-ensemble again to finish it", s.DataDir)
	}
	for _, dir := range []string{s.DataDir, s.DataLogDir} {
		if err := checkForApache(dir); err != nil {
			return err
		}
		if s.CreateDir {
			continue
		}
		if st, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) || err == nil && !st.IsDir() {
			return fmt.Errorf("open the data directory %s: it is no directory, and datadir.autocreate=false forbids making one; make it, or correct dataDir and dataLogDir", dir)
		}
	}
	return checkForData(s)
}

// checkForApache refuses a directory in which Apache ZooKeeper has kept a tree and Zooid hasn't.
func checkForApache(dir string) error {
	theirs := filepath.Join(dir, "version-2")
	if st, err := os.Stat(theirs); err != nil || !st.IsDir() || storage.InUse(dir) {
		return nil
	}
	return fmt.Errorf("open the data directory %s: %s is the tree of an Apache ZooKeeper server, which Zooid can't read; it would serve an empty tree instead. "+
		"Give dataDir and dataLogDir directories of their own, and copy the znodes from the running Apache server: "+
		"zooid cli -server APACHE:2181 mirror / ZOOID:2181/", dir, theirs)
}

// checkForData refuses an empty directory if db.autocreate=false, unless the operator has put the file initialize there.
func checkForData(s *config.Storage) error {
	if s.CreateDB || storage.InUse(s.DataDir) {
		return nil
	}
	marker := filepath.Join(s.DataDir, initializeFile)
	if err := os.Remove(marker); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("open the data directory %s: remove the file %s, which permits one start: %w", s.DataDir, initializeFile, err)
	}
	return fmt.Errorf("open the data directory %s: it holds no data, and db.autocreate=false forbids beginning with an empty tree. "+
		"Is its disk mounted? If the server is new, or has lost its data, permit one start: touch %s", s.DataDir, marker)
}
