package follow

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/zooid-project/zooid/internal/migrate/apachefiles"
)

// keeper manages the files: a snapshot, and the log of what followed it. The leader has everything too, so they are
// made durable at the leader's pings rather than at each transaction.
type keeper struct {
	dir      string
	err      error // the first error; it is final
	lock     *os.File
	log      *apachefiles.LogWriter // nil until a transaction arrives
	unsynced bool
	there    bool  // a snapshot exists
	size     int64 // of the last snapshot
	logged   int64 // bytes logged since that snapshot
	walk     *apachefiles.SnapshotWalk
	to       *os.File
}

// snapshotAfter is the minimum log size, in bytes, between two snapshots.
const snapshotAfter = 64 << 20

// unfinished is the name of a snapshot that is being written.
const unfinished = "unfinished.tmp"

// openKeeper opens a directory, creating it if need be.
func openKeeper(dir string, say func(string)) (*keeper, *apachefiles.State, error) {
	version2 := filepath.Join(dir, apachefiles.Version2)
	if err := apachefiles.MakeDir(dir); err != nil {
		return nil, nil, fmt.Errorf("follow into %s: %w", dir, err)
	}
	lock, err := lockFile(filepath.Join(dir, "follow.lock"))
	if err != nil {
		return nil, nil, fmt.Errorf("follow into %s: another process has it: %w", dir, err)
	}
	k := &keeper{dir: dir, lock: lock}
	if err := os.Remove(filepath.Join(version2, unfinished)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, errors.Join(err, lock.Close())
	}
	count, _, err := apachefiles.Files(dir)
	if err != nil {
		return nil, nil, errors.Join(err, lock.Close())
	}
	if count == 0 {
		return k, apachefiles.NewLive(), nil
	}
	state, report, err := apachefiles.Load(apachefiles.Options{Dir: dir})
	switch {
	case err != nil:
	case report.Mismatch != nil:
		err = fmt.Errorf("the digest of the copy differs at zxid %#x", uint64(report.Mismatch.Zxid))
	case report.Uncovered != 0 || report.Orphans != 0 || len(report.Gaps) != 0:
		err = errors.New("a part of its log is missing")
	}
	if err != nil {
		say(fmt.Sprintf("the copy in %s isn't whole and is taken from the leader again: %v", dir, err))
		return k, apachefiles.NewLive(), nil
	}
	state.GoLive()
	k.there = true
	if st, err := os.Stat(report.Snapshot); err == nil {
		k.size = st.Size()
	}
	return k, state, nil
}

// fail records the first error.
func (k *keeper) fail(err error) error {
	if err != nil && k.err == nil {
		k.err = fmt.Errorf("keep the copy in %s: %w", k.dir, err)
	}
	return k.err
}

func (k *keeper) epochs(accepted, current int64) error {
	if err := k.sync(); err != nil {
		return err
	}
	return k.fail(apachefiles.WriteEpochs(k.dir, accepted, current))
}

// append logs a transaction that is about to be applied to a state.
func (k *keeper) append(state *apachefiles.State, record []byte) error {
	if k.err != nil {
		return k.err
	}
	if k.walk == nil && k.logged > max(snapshotAfter, 2*k.size) {
		if err := k.beginWalk(state); err != nil {
			return err
		}
	}
	if k.log == nil {
		zxid, err := apachefiles.TxnZxid(record)
		if err != nil {
			return fmt.Errorf("%w: %w", errState, err)
		}
		if k.log, err = apachefiles.CreateLog(k.dir, zxid); err != nil {
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
func (k *keeper) beginWalk(state *apachefiles.State) error {
	if err := k.closeLog(); err != nil {
		return err
	}
	to, err := apachefiles.CreateFile(filepath.Join(k.dir, apachefiles.Version2, unfinished))
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
		err = apachefiles.Purge(k.dir, zxid)
	}
	return k.fail(err)
}

func (k *keeper) publish(zxid int64) error {
	err := os.Rename(filepath.Join(k.dir, apachefiles.Version2, unfinished), apachefiles.SnapshotPath(k.dir, zxid))
	k.there = err == nil
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
func (k *keeper) begin(state *apachefiles.State) error {
	if k.there || k.err != nil {
		return k.err
	}
	return k.whole(state)
}

// replace replaces the files by those of another state. The existing files belong to a history that may have ended,
// and are removed first.
func (k *keeper) replace(state *apachefiles.State) error {
	k.abandon()
	if err := k.closeLog(); err != nil {
		return err
	}
	return k.whole(state)
}

// whole writes a complete snapshot, replacing all files.
func (k *keeper) whole(state *apachefiles.State) error {
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
	if err == nil {
		err = apachefiles.Purge(k.dir, -1)
	}
	if err == nil {
		err = k.publish(walk.Zxid)
	}
	return k.fail(err)
}

// close makes everything durable. The directory is complete then.
func (k *keeper) close() error {
	k.abandon()
	err := errors.Join(k.closeLog(), k.err)
	return errors.Join(err, k.lock.Close())
}
