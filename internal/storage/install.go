package storage

import (
	"errors"
	"fmt"

	"go.etcd.io/raft/v3/raftpb"
)

// Install completes a snapshot that came from a peer and restarts the log after it. hs, if not
// nil, becomes the HardState. When Install returns nil, all of that is durable. After a crash
// during Install, either all or none of it has happened:
//
//	snapshot durable under a temporary name
//	  → segment with the flag reset, header and HardState durable, gets its name   (crash: that segment is void)
//	  → snapshot gets its name                                                    (crash: the segments before are void)
//	  → segments before are removed
//
// After an error that is not a FatalError nothing has changed, and the log remains usable.
func (d *Dir) Install(w *SnapshotWriter, hs *raftpb.HardState) error {
	d.maintain.Lock()
	defer d.maintain.Unlock()
	if w.done {
		return ErrClosed
	}
	if err := w.finish(); err != nil {
		return errors.Join(err, w.Abort())
	}
	l := d.log
	l.write.Lock()
	defer l.write.Unlock()
	if err := l.Err(); err != nil {
		return errors.Join(err, w.Abort())
	}
	if have := max(l.snapshot.Index, l.base.index, l.hard.commit); w.meta.Index <= have {
		return errors.Join(fmt.Errorf("install snapshot at index %d: this server has all up to %d", w.meta.Index, have),
			w.Abort())
	}
	hard := l.hard
	if hs != nil {
		hard = hardState{hs.GetTerm(), hs.GetVote(), hs.GetCommit()}
	}
	if hard.term < l.hard.term {
		panic(fmt.Sprintf("storage: log invariant 3: install with HardState term %d after %d", hard.term, l.hard.term))
	}
	// Together with the snapshot, raft may deliver later entries that are committed already. They are
	// appended next, with their commit index; until then the log ends at the snapshot.
	hard.commit = w.meta.Index
	if err := l.ample(w.takeSpare); lacksRoom(err) {
		return errors.Join(fmt.Errorf("install snapshot at index %d: %w", w.meta.Index, err), w.Abort())
	} else if err != nil {
		return l.fail(err)
	}
	return l.fail(d.install(w, hard))
}

func (d *Dir) install(w *SnapshotWriter, hard hardState) error {
	l := d.log
	at := position{w.meta.Index, w.meta.Term}
	var s *segment
	var chain uint64
	err := l.ample(func() (err error) {
		if err := w.takeSpare(); err != nil {
			return err
		}
		spare := w.spare
		w.spare = "" // the spare becomes the segment, or is a spare again
		s, chain, err = l.nextSegment(spare, flagReset, at, hard)
		return err
	})
	if err != nil {
		return err
	}
	if err := syncDir(l.fs, l.path); err != nil {
		return err
	}
	if err := l.ample(w.rename); err != nil {
		return err
	}
	d.addSnapshot(w.meta)
	l.files.Lock()
	l.mu.Lock()
	void := l.segments
	l.segments, l.base, l.places, l.hard = nil, at, nil, hard
	l.tail.cut(0)
	l.mu.Unlock()
	l.activate(s, chain)
	w.lent(false)
	err = closeAll(void)
	l.files.Unlock()
	if err != nil {
		return err
	}
	return l.retire(void)
}

// closeAll closes segments that are no longer part of the log. The caller holds files.
func closeAll(void []*segment) error {
	for _, s := range void {
		if err := s.file.Close(); err != nil {
			return &FatalError{"close", s.path, err}
		}
	}
	return nil
}

// retire releases the files of closed segments, oldest first, each durably before the next one, so
// that a crash leaves no gap.
func (l *Log) retire(void []*segment) error {
	for _, s := range void {
		if err := l.spares.retire(s.path, int64(s.size), l.target, s.inPlace); err != nil {
			return err
		}
	}
	return nil
}
