package follow

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/apache/proof"
)

// keeper manages the files: a snapshot, and the log of what followed it. The leader has everything too, so they are
// made durable at the leader's pings rather than at each transaction.
type keeper struct {
	dir      string
	err      error // the first error; it is final
	mine     *proof.Copy
	lock     *os.File         // of lockName; nil if there is none
	log      *files.LogWriter // nil until a transaction arrives
	unsynced bool
	there    bool    // a snapshot exists
	last     lastTxn // as it was read
	size     int64   // of the last snapshot
	logged   int64   // bytes logged since that snapshot
	walk     *files.SnapshotWalk
	to       *os.File
}

// snapshotAfter is the minimum log size, in bytes, between two snapshots.
const snapshotAfter = 64 << 20

// openKeeper opens a directory, creating it if need be. The directory is locked from the first look at it until close.
func openKeeper(o *Options) (*keeper, *files.State, error) {
	k := &keeper{dir: o.Dir}
	var err error
	if k.mine, err = proof.HoldCopy(o.Dir, o.Look); err == nil {
		err = k.claim(o)
	}
	if err == nil && !o.Look {
		err = k.prepare()
	}
	var state *files.State
	if err == nil {
		state, err = k.load(o)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("follow into %s: %w", o.Dir, err), k.release())
	}
	return k, state, nil
}

// The names in a copy that are always the same, in addition to those in its mark.
const (
	lockName   = "follow.lock" // the file by which earlier versions keep each other out
	unfinished = "unfinished.tmp"
)

// fixedNames are the names in a copy that need not be in its mark.
var fixedNames = []string{
	lockName, inVersion2("acceptedEpoch"), inVersion2("acceptedEpoch.tmp"), inVersion2("currentEpoch"),
	inVersion2("currentEpoch.tmp"), inVersion2(unfinished), "switch.journal", "switch.log",
	"switch.tails",
}

func inVersion2(name string) string { return filepath.Join(files.Version2, name) }

// claim makes sure that the directory is Zooid's, and marks it if it is empty. It writes nothing in any other
// directory.
func (k *keeper) claim(o *Options) error {
	empty, err := k.mine.Empty()
	switch {
	case err != nil:
		return err
	case empty:
		return k.mine.Begin(o.Ensemble, nil)
	case k.mine.Mark() == nil && !o.Adopt:
		return k.mine.Foreign()
	case k.mine.Mark() == nil:
		found, err := adoptable(o.Dir)
		if err != nil {
			return fmt.Errorf("-adopt: %w. Nothing was changed. Give a new directory, or an empty one", err)
		}
		if err := k.keepEarlierOut(o.Look); err != nil {
			return err
		}
		o.Say(fmt.Sprintf("the copy in %s, made by an earlier version, is accepted (-adopt)", o.Dir))
		return k.mine.Begin(o.Ensemble, found)
	}
	if err := k.mine.Check(files.Version2, fixedNames...); err != nil {
		return err
	}
	return unheld(o.Dir)
}

// unheld returns an error if a process is known to have a file of a copy open.
func unheld(dir string) error {
	found, err := proof.Holders(filepath.Join(dir, files.Version2))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && found.Held != "" {
		err = fmt.Errorf("%s. Stop that process, or give another directory", found.Held)
	}
	return err
}

// keepEarlierOut takes the lock of earlier versions, which don't know the present lock.
func (k *keeper) keepEarlierOut(look bool) (err error) {
	if k.lock != nil {
		return nil
	}
	path := filepath.Join(k.dir, lockName)
	if _, err := os.Stat(path); look && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if k.lock, err = lockFile(path); err != nil {
		return fmt.Errorf("another process maintains the copy there (%s is locked): end it first", path)
	}
	return nil
}

// prepare makes the folder, and finishes or drops what a crash has left unfinished.
func (k *keeper) prepare() error {
	if err := k.keepEarlierOut(false); err != nil {
		return err
	}
	if err := files.MakeDir(k.dir); err != nil {
		return err
	}
	if name := k.mine.Mark().Installing; name != "" {
		return k.install(filepath.Base(name))
	}
	err := os.Remove(filepath.Join(k.dir, inVersion2(unfinished)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// load returns the state in the directory.
func (k *keeper) load(o *Options) (*files.State, error) {
	count, _, err := files.Files(k.dir)
	_, statErr := os.Stat(filepath.Join(k.dir, files.Version2))
	switch {
	case errors.Is(statErr, fs.ErrNotExist) || err == nil && count == 0:
		return files.NewLive(), nil
	case err != nil:
		return nil, err
	}
	state, report, err := files.Load(files.Options{Dir: k.dir})
	switch {
	case err != nil:
	case k.mine.Mark().Installing != "": // not finished, as nothing is to be written
		err = errors.New("a snapshot was replacing the others")
	case report.Mismatch != nil:
		err = fmt.Errorf("the digest of the copy differs at zxid %#x", uint64(report.Mismatch.Zxid))
	case report.Uncovered != 0 || report.Orphans != 0 || len(report.Gaps) != 0:
		err = errors.New("a part of its log is missing")
	}
	if err != nil {
		o.Say(fmt.Sprintf("the copy in %s is incomplete and is fetched from the leader again: %v", k.dir, err))
		return files.NewLive(), nil
	}
	state.GoLive()
	k.there, k.last = true, lastTxn{report.Last, report.BeforeLast}
	if st, err := os.Stat(report.Snapshot); err == nil {
		k.size = st.Size()
	}
	return state, nil
}

// promised returns the epochs in the directory.
func (k *keeper) promised() (accepted, current int64, err error) {
	if _, err := os.Stat(filepath.Join(k.dir, files.Version2)); errors.Is(err, fs.ErrNotExist) {
		return 0, 0, nil
	}
	return files.ReadEpochs(k.dir)
}

// owns reports whether a file was written by Zooid: only those are removed.
func (k *keeper) owns(path string) bool {
	name, err := filepath.Rel(k.dir, path)
	return err == nil && k.mine.Owns(name)
}

// fail records the first error.
func (k *keeper) fail(err error) error {
	if err != nil && k.err == nil {
		k.err = fmt.Errorf("keep the copy in %s: %w", k.dir, err)
	}
	return k.err
}

func (k *keeper) epochs(accepted, current int64) error {
	if err := k.sync(); err != nil || k.mine.Looks() {
		return err
	}
	return k.fail(files.WriteEpochs(k.dir, accepted, current))
}

// append logs a transaction that is about to be applied to a state.
func (k *keeper) append(state *files.State, record []byte) error {
	if k.err != nil || k.mine.Looks() {
		return k.err
	}
	if k.walk == nil && k.logged > max(snapshotAfter, 2*k.size) {
		if err := k.beginWalk(state); err != nil {
			return err
		}
	}
	if k.log == nil {
		zxid, err := files.TxnZxid(record)
		if err != nil {
			return fmt.Errorf("%w: %w", errState, err)
		}
		if err = k.mine.Own(inVersion2(filepath.Base(files.LogPath(k.dir, zxid)))); err == nil {
			k.log, err = files.CreateLog(k.dir, zxid)
		}
		if err != nil {
			return k.fail(err)
		}
	}
	before := k.log.Bytes()
	if err := k.log.Append(record); err != nil {
		return k.fail(err)
	}
	k.logged += k.log.Bytes() - before
	k.unsynced = true
	return k.stepWalk()
}

// sync makes everything durable, and writes a part of a pending snapshot.
func (k *keeper) sync() error {
	if k.err != nil {
		return k.err
	}
	if k.log != nil && k.unsynced {
		if err := k.log.Sync(); err != nil {
			return k.fail(err)
		}
		k.unsynced = false
	}
	return k.stepWalk()
}

func (k *keeper) closeLog() error {
	if k.log == nil {
		return nil
	}
	err := k.log.Close()
	k.log, k.unsynced = nil, false
	return k.fail(err)
}

// beginWalk starts a snapshot, and a log of what follows it.
func (k *keeper) beginWalk(state *files.State) error {
	if err := k.closeLog(); err != nil {
		return err
	}
	to, err := files.CreateFile(filepath.Join(k.dir, files.Version2, unfinished))
	if err != nil {
		return k.fail(err)
	}
	k.walk, k.to, k.logged = state.Walk(), to, 0
	return nil
}

// stepWalk writes a part of the snapshot. The state must be between two transactions.
func (k *keeper) stepWalk() error {
	if k.walk == nil {
		return nil
	}
	more := k.walk.Step()
	if err := k.walk.Flush(k.to); err != nil {
		return k.fail(err)
	}
	if more {
		return nil
	}
	zxid := k.walk.Zxid
	_, err := k.to.Write(k.walk.Finish())
	if st, statErr := k.to.Stat(); statErr == nil {
		k.size = st.Size()
	}
	err = errors.Join(err, k.to.Sync(), k.to.Close())
	k.walk, k.to = nil, nil
	if err == nil {
		err = k.publish(zxid)
	}
	if err == nil {
		err = files.Purge(k.dir, zxid, k.owns)
	}
	return k.fail(err)
}

// publish gives a complete snapshot its name, durably.
func (k *keeper) publish(zxid int64) error {
	name := filepath.Base(files.SnapshotPath(k.dir, zxid))
	err := k.mine.Own(inVersion2(name))
	if err == nil {
		err = files.Rename(k.dir, unfinished, name)
	}
	k.there = k.there || err == nil
	return err
}

// abandon drops a pending snapshot.
func (k *keeper) abandon() {
	if k.walk != nil {
		k.walk.Abandon()
		k.to.Close()
		k.walk, k.to = nil, nil
	}
}

// begin writes a snapshot of a state that has none.
func (k *keeper) begin(state *files.State) error {
	if k.there || k.err != nil || k.mine.Looks() {
		return k.err
	}
	return k.whole(state)
}

// replace replaces the files with those of another state. The existing files belong to a history that may have ended.
func (k *keeper) replace(state *files.State) error {
	if k.mine.Looks() {
		return nil
	}
	k.abandon()
	if err := k.closeLog(); err != nil {
		return err
	}
	return k.whole(state)
}

// whole writes a complete snapshot, replacing all files.
func (k *keeper) whole(state *files.State) error {
	if err := k.beginWalk(state); err != nil {
		return err
	}
	walk, to := k.walk, k.to
	k.walk, k.to = nil, nil
	for more := true; more; {
		more = walk.Step()
		if err := walk.Flush(to); err != nil {
			return k.fail(errors.Join(err, to.Close()))
		}
	}
	_, err := to.Write(walk.Finish())
	err = errors.Join(err, to.Sync(), to.Close())
	name := filepath.Base(files.SnapshotPath(k.dir, walk.Zxid))
	if err == nil {
		err = k.mine.Own(inVersion2(name))
	}
	if err == nil {
		err = k.mine.Install(inVersion2(name))
	}
	if err == nil {
		err = k.install(name)
	}
	k.there = k.there || err == nil
	return k.fail(err)
}

// install replaces all other files with the complete snapshot, whose file is still called unfinished. The mark says so
// until install is done: after a power failure at any point, the next start continues here. The other files are removed
// once the snapshot is durable under its name; they may be of a history that has ended, and have higher zxids.
func (k *keeper) install(name string) error {
	if _, err := os.Lstat(filepath.Join(k.dir, inVersion2(unfinished))); err == nil {
		if err := files.Rename(k.dir, unfinished, name); err != nil {
			return err
		}
	}
	zxid, err := strconv.ParseInt(strings.TrimPrefix(name, "snapshot."), 16, 64)
	if err != nil {
		return fmt.Errorf("the mark names %q, which isn't a snapshot", name)
	}
	if err := files.PurgeOthers(k.dir, zxid, k.owns); err != nil {
		return err
	}
	return k.mine.Install("")
}

// close makes everything durable. The directory is complete then.
func (k *keeper) close() error {
	k.abandon()
	err := k.closeLog()
	if k.err != nil { // the log's error is the same, or comes from it
		err = k.err
	}
	return errors.Join(err, k.release())
}

// release unlocks the directory.
func (k *keeper) release() (err error) {
	if k.lock != nil {
		err = k.lock.Close()
		k.lock = nil
	}
	if k.mine != nil {
		err = errors.Join(err, k.mine.Close())
	}
	return err
}
