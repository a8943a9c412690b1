//go:build unix

package moving

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/apache/proof"
	"github.com/zooid-project/zooid/internal/config"
)

// apacheDirs are the directories of an Apache server, as the flags of a command name them.
type apacheDirs struct {
	dir, logDir string
	zooCfg      string // the server's configuration; "" to look for one next to dir
	withoutLog  bool   // by the operator's word there is no log
}

// register adds the flags to a command.
func (a *apacheDirs) register(flags *flags) {
	flags.StringVar(&a.logDir, "datalogdir", "", "")
	flags.StringVar(&a.zooCfg, "zoocfg", "", "")
	flags.BoolVar(&a.withoutLog, "without-log", false, "")
}

// base returns dataDir, even if the flag named its folder version-2.
func (a *apacheDirs) base() string {
	dir := filepath.Clean(a.dir)
	if st, err := os.Stat(filepath.Join(dir, files.Version2)); err == nil && st.IsDir() {
		return dir
	}
	if filepath.Base(dir) == files.Version2 {
		return filepath.Dir(dir)
	}
	return dir
}

// find finds the log's directory if no flag names it: the server's configuration tells it, which a flag names or which
// is next to the data. find returns what it has found as a sentence, or "".
func (a *apacheDirs) find() (found string, err error) {
	base := a.base()
	candidates := []string{a.zooCfg}
	if a.zooCfg == "" {
		for _, name := range []string{"zoo.cfg", "../zoo.cfg", "../conf/zoo.cfg"} {
			candidates = append(candidates, filepath.Join(base, name))
		}
	}
	for _, file := range candidates {
		dir, logDir, err := dirsIn(file)
		switch {
		case a.zooCfg == "" && (err != nil || !samePlace(dir, base)):
			continue
		case err != nil:
			return "", fmt.Errorf("-zoocfg: %w", err)
		case !samePlace(dir, base):
			return "", fmt.Errorf("-zoocfg: %s is of the dataDir %s%s", file, dir, whereRelative(dir))
		}
		if relative := whereRelative(logDir); relative != "" && a.logDir == "" && filepath.IsAbs(dir) {
			return "", fmt.Errorf("%s has the dataLogDir %s%s", file, logDir, relative)
		}
		if a.logDir == "" && logDir != "" && !samePlace(logDir, base) {
			a.logDir = logDir
			return fmt.Sprintf("its dataLogDir is %s, as %s says", logDir, file), nil
		}
		return "", nil
	}
	return "", nil
}

// logged returns an error if there is no log at all, as with a forgotten dataLogDir.
func (a *apacheDirs) logged() error {
	if a.withoutLog {
		return nil
	}
	snapshots, _, err := files.Files(a.dir)
	if err != nil || snapshots == 0 {
		return nil // the reading says so
	}
	logDir := a.logDir
	if logDir == "" {
		logDir = a.dir
	}
	logs, _, err := files.LogFiles(logDir)
	if err != nil || logs > 0 {
		return err
	}
	if m, err := proof.FindCopyMark(a.base()); err != nil || m != nil { // a copy that has just received a snapshot
		return err
	}
	return fmt.Errorf("%s has snapshots, and there is no log in %s: most of the data may be missing. If the server's zoo.cfg has dataLogDir, give -datalogdir DIR or -zoocfg FILE. If there is no log anywhere, as in the output of zooid export, give -without-log",
		a.dir, logDir)
}

var samePlace = config.SameDirectory

// whereRelative says what to do about a directory in a zoo.cfg that is named by a relative path; "" about others.
func whereRelative(dir string) string {
	if dir == "" || filepath.IsAbs(dir) {
		return ""
	}
	return ", relative to the directory in which Apache was started: run this command there, or give -datalogdir instead of -zoocfg, with the path of the directory that has its log"
}

// dirsIn returns dataDir and dataLogDir of an Apache server's configuration, which Apache reads as Java's properties.
func dirsIn(file string) (dir, logDir string, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", "", err
	}
	values, err := config.Properties(text)
	if err != nil {
		return "", "", fmt.Errorf("read %s: %w", file, err)
	}
	return values["dataDir"], values["dataLogDir"], nil
}

// writing returns an error if something is known to write to the directories: a follower that keeps a copy there, or a
// process with open files. unknown says why some open files can't be seen, or is "" if all can.
func (a *apacheDirs) writing(held bool) (unknown string, err error) {
	if !held {
		copied, err := proof.HoldCopy(a.base(), true)
		if err != nil {
			return "", err
		}
		defer copied.Close()
	}
	if err := earlierFollower(filepath.Join(a.base(), "follow.lock")); err != nil {
		return "", err
	}
	open, err := unheld(a.dir, a.logDir)
	if err != nil || open.Known {
		return "", err
	}
	return open.Why, nil
}

// earlierFollower returns an error if a follower of an earlier version holds its lock file.
func earlierFollower(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return nil // there is none
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return errors.New("zooid migrate follow stores its copy there")
	}
	return nil
}
