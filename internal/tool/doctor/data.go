package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/apache/proof"
	"github.com/zooid-project/zooid/internal/newensemble"
	"github.com/zooid-project/zooid/internal/quorum/peer"
	"github.com/zooid-project/zooid/internal/storage"
)

// data reports contents of the directories that keep the server from running, or that need attention.
func (e *examination) data() {
	s := &e.cfg.Storage
	for _, dir := range e.dirs() {
		theirs := filepath.Join(dir, files.Version2)
		if files.HoldsTree(dir) && !storage.InUse(dir) {
			e.fault("import it, with its sessions, ephemeral znodes and zxids, once Apache has stopped (zooid import), or move the running ensemble (zooid migrate switch): docs/migration.md",
				"%s contains the tree of an Apache ZooKeeper server, which would not be served", theirs)
		}
		if folders, _ := filepath.Glob(filepath.Join(dir, "aside-*")); len(folders) > 0 {
			e.warn("look at them, and remove those that are no longer needed",
				"%s holds %d folders of data that was set aside: %s",
				dir, len(folders), filepath.Base(folders[0]))
		}
	}
	if newensemble.Begun(s.DataDir, s.DataLogDir) {
		e.fault("run zooid recover -new-ensemble again with this zoo.cfg: it finishes", "a recovery of %s was cut short",
			s.DataDir)
		return
	}
	if m, err := proof.FindMark(s.DataDir); m != nil {
		e.fault("run zooid migrate switch again to resume it, or with -undo to remove what it made",
			"the server doesn't start on %s: a switch from Apache (try %s, %s) hasn't released it, so Apache may serve",
			s.DataDir, m.Try, m.By)
	} else if err != nil && !errors.Is(err, fs.ErrPermission) {
		e.fault("find out why the file is there: a switch from Apache writes it, and the server doesn't start while it exists",
			"%v", err)
	} else if err := proof.Unready(s.DataDir, s.DataLogDir); err != nil && !errors.Is(err, fs.ErrPermission) {
		e.fault("run the command that was cut short again, or remove the folder", "the server doesn't start: %v", err)
	}
	if reports, err := storage.Reports(storage.OS{}, s.DataLogDir); err == nil && len(reports) > 0 {
		last := reports[len(reports)-1]
		skips, err := storage.Skips(storage.OS{}, s.DataLogDir, 0)
		if err != nil || !slices.ContainsFunc(skips, func(k storage.Skip) bool { return k.Index == last.Index }) {
			e.fault("read entry-*.report beside the log, upgrade if a newer version fixes the bug, or skip the entry with zooid skip-entry", "this server stopped at log entry %d, which can't be applied",
				last.Index)
		}
	}
	for _, dir := range e.dirs() {
		if st, err := os.Stat(dir); err == nil && !st.IsDir() {
			return // directories has reported it
		}
	}
	cluster, err := storage.ReadIdentity(storage.OS{}, s.DataDir, s.DataLogDir)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !s.CreateDB && !e.marked("initialize"):
		e.fault("mount the data's disk; for a new server, or one that lost its disk, permit one start: touch "+
			filepath.Join(s.DataDir, "initialize"), "%s holds no data, and db.autocreate=false forbids beginning with an empty tree",
			s.DataDir)
	case errors.Is(err, fs.ErrNotExist): // a new server
	case err != nil:
		e.refused(err)
	default:
		if !e.running { // a running server changes its files, and has read them already
			e.readAsServer(cluster)
		}
		if _, err := os.Stat(filepath.Join(s.DataLogDir, peer.NoteName)); err == nil {
			e.warn("wait until it has caught up (zooid status); until then it has no vote", "this server is joining the ensemble")
		}
	}
}

// readAsServer reads the data directory with the same code as a starting server, but changes nothing.
func (e *examination) readAsServer(cluster uint64) {
	s := &e.cfg.Storage
	if len(e.present()) < len(e.dirs()) {
		return // directories has reported a missing directory, or the server creates it
	}
	notes, err := storage.Examine(storage.Options{Dir: s.DataDir, LogDir: s.DataLogDir, ClusterID: cluster})
	if err != nil {
		e.refused(err)
		return
	}
	for _, damage := range notes.DamagedSnapshots {
		e.warn("move that file away; look at the kernel's log for errors of the disk", "the server starts from an older snapshot, as %v",
			damage)
	}
	if notes.NewDataDir {
		e.warn("if its disk should contain snapshots, mount it before the start", "%s is empty, and the log in %s is in use: the server builds its state from the log alone",
			s.DataDir, s.DataLogDir)
	}
}

// refused reports why the server doesn't start on its data directory.
func (e *examination) refused(err error) {
	damage, missing, other := (*storage.DamageError)(nil), (*storage.MissingError)(nil), (*storage.ClusterError)(nil)
	switch {
	case errors.Is(err, fs.ErrPermission):
		e.denied(e.world.UID, "%v", err)
	case errors.As(err, &damage):
		e.fault("restore the directory from a copy, or, "+storage.DoMove, "the server doesn't start: %v", err)
	case errors.As(err, &missing):
		e.fault(missing.Do, "the server doesn't start: %s and %s do not belong together: %s", missing.Dir, missing.Other,
			missing.Reason)
	case errors.As(err, &other):
		e.fault("correct dataDir or dataLogDir: each server has directories of its own", "the server doesn't start: %v", err)
	default:
		e.fault("look at the kernel's log for errors of the disk (dmesg)",
			"the server doesn't start: the data can't be read: %v", err)
	}
}

// denied reports files that should belong to the server's user, and that this user can't open. It does so only once:
// other failures have the same cause.
func (e *examination) denied(user int, format string, args ...any) {
	if e.noAccess {
		return
	}
	e.noAccess = true
	e.fault(fmt.Sprintf("run this as the server's user; if it is user %d, give it the files: chown -R %d %s", user, user,
		strings.Join(e.dirs(), " ")), format, args...)
}

// othersFile returns a file of a directory that only a user other than the directory's owner can open; "" for none. The
// owner of a directory of root says nothing about the server's user.
func othersFile(dir string, owner int) string {
	list, err := os.ReadDir(dir)
	if err != nil || owner <= 0 {
		return ""
	}
	for _, f := range list {
		st, err := f.Info()
		if err != nil || !st.Mode().IsRegular() || st.Mode().Perm()&0o066 != 0 {
			continue
		}
		if sys, ok := st.Sys().(*syscall.Stat_t); ok && int(sys.Uid) != owner {
			return filepath.Join(dir, f.Name())
		}
	}
	return ""
}
