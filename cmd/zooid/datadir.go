//go:build unix

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/apache/proof"
	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/newensemble"
	"github.com/zooid-project/zooid/internal/runbook"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tool/terminal"
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

// checkDirs returns an error if the server would begin with an empty tree, or make a directory, and the configuration
// forbids it. alone says that the server has no server lines: in an ensemble an empty server may still join.
func checkDirs(s *config.Storage, alone bool) error {
	if newensemble.Begun(s.DataDir, s.DataLogDir) {
		return runbook.Errorf("ZD-1124", "open the data directory %s: a recovery of it was cut short; run zooid recover -new-ensemble again to finish it",
			s.DataDir)
	}
	if err := proof.Unready(s.DataDir, s.DataLogDir); err != nil {
		return runbook.Errorf("ZD-1126", "open the data directory %s: %w", s.DataDir, err)
	}
	if err := checkForApache(s.DataDir, s.DataLogDir, alone); err != nil {
		return err
	}
	for _, dir := range []string{s.DataDir, s.DataLogDir} {
		if s.CreateDir {
			continue
		}
		if st, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) || err == nil && !st.IsDir() {
			return runbook.Errorf("ZD-1120", "open the data directory %s: it isn't a directory, and datadir.autocreate=false forbids creating one; create it, or correct dataDir and dataLogDir",
				dir)
		}
	}
	if !alone {
		return nil
	}
	return checkForData(s)
}

// joinsOnly reports whether a server with server lines may only join an ensemble if its directory is empty: its data
// was set aside for that, or nothing permits it to begin with an empty tree.
func joinsOnly(s *config.Storage) (bool, error) {
	err := newensemble.FinishMoves(s.DataDir, s.DataLogDir) // until then it seems to be in use
	if err != nil || storage.InUse(s.DataDir) {
		return false, err
	}
	if aside, err := newensemble.SetAsideLast(s.DataDir); aside || err != nil {
		return aside, err
	}
	_, err = os.Stat(filepath.Join(s.DataDir, initializeFile))
	return !s.CreateDB && err != nil, nil
}

// removeInitialize removes the file initialize where it has served its purpose.
func removeInitialize(s *config.Storage) error {
	if s.CreateDB {
		return nil
	}
	err := os.Remove(filepath.Join(s.DataDir, initializeFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// checkForApache refuses directories in which Apache ZooKeeper has kept a tree and Zooid hasn't. alone says that the
// server has no server lines.
func checkForApache(dir, logDir string, alone bool) error {
	for _, d := range []string{dir, logDir} {
		theirs := filepath.Join(d, files.Version2)
		if !files.HoldsTree(d) || storage.InUse(d) {
			continue
		}
		command := "zooid import "
		if logDir != dir {
			command += fmt.Sprintf("-datalogdir %s -todatalogdir %s ", terminal.Quoted(logDir), terminal.Quoted(logDir))
		}
		command += terminal.Quoted(dir) + " " + terminal.Quoted(dir)
		where := ""
		if !alone {
			where = " on one server of the ensemble, the one with the highest zxid (each import starts a separate history; the others join with new directories)"
		}
		return runbook.Errorf("ZD-1121", "open the data directory %s: %s contains the tree of an Apache ZooKeeper server (%s). "+
			"Zooid would serve an empty tree instead. To keep that tree, stop Apache and import it%s, which leaves Apache's files unchanged: %s. "+
			"To begin with an empty tree, set dataDir and dataLogDir to other directories", dir, theirs, apacheHas(dir,
			logDir), where, command)
	}
	return nil
}

// apacheHas describes Apache's files.
func apacheHas(dir, logDir string) string {
	snapshots, newest, err := files.Files(dir)
	_, logged, logErr := files.LogFiles(logDir)
	switch {
	case err != nil || snapshots == 0 && logErr != nil:
		return "its files can't be listed"
	case snapshots == 0:
		return "without a snapshot"
	}
	return fmt.Sprintf("%d snapshots, the newest at zxid %#x; the newest log begins with zxid %#x", snapshots,
		uint64(newest), uint64(logged))
}

// checkForData refuses an empty directory if db.autocreate=false, unless the operator has put the file initialize
// there.
func checkForData(s *config.Storage) error {
	if s.CreateDB || storage.InUse(s.DataDir) {
		return nil
	}
	marker := filepath.Join(s.DataDir, initializeFile)
	if _, err := os.Stat(marker); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return runbook.Errorf("ZD-1122", "open the data directory %s: look for the file %s, which permits one start: %w",
			s.DataDir, initializeFile, err)
	}
	return runbook.Errorf("ZD-1123", "open the data directory %s: it holds no data, and db.autocreate=false forbids beginning with an empty tree. "+
		"Is its disk mounted? If the server is new, or has lost its data, permit one start: touch %s", s.DataDir, marker)
}
