package storage

import (
	"errors"
	"fmt"
	"syscall"

	"go.etcd.io/raft/v3/raftpb"
)

// Install completes a snapshot that came from a peer and starts the log anew after it; hs, if not nil, becomes the
// HardState. When it returns nil, all of that is durable. After a crash on the way either nothing of
// it happened or all of it did:
//
//	snapshot durable under a temporary name
//	  → segment with the flag reset, header and HardState durable, gets its name   (crash: that segment is void)
//	  → snapshot gets its name                                                    (crash: the segments before are void)
//	  → segments before are removed
//
// On an error that is not a FatalError nothing has changed, and the log goes on.
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
	if w.meta.Index <= max(l.snapshot.Index, l.base.index) {
		return errors.Join(fmt.Errorf("install snapshot at index %d: this server has one at %d", w.meta.Index, l.snapshot.Index), w.Abort())
	}
	hard := l.hard
	if hs != nil {
		hard = hardState{hs.GetTerm(), hs.GetVote(), hs.GetCommit()}
	}
	hard.commit = max(hard.commit, w.meta.Index)
	if hard.term < l.hard.term || hard.commit > w.meta.Index {
		panic(fmt.Sprintf("storage: install at index %d: HardState %+v after %+v", w.meta.Index, hard, l.hard))
	}
	spare, err := l.spares.take(l.nextSize(), l.firstSize())
	if errors.Is(err, syscall.ENOSPC) {
		return errors.Join(fmt.Errorf("install snapshot at index %d: %w", w.meta.Index, err), w.Abort())
	}
	if err != nil {
		return l.fail(err)
	}
	return l.fail(d.install(w, spare, hard))
}

func (d *Dir) install(w *SnapshotWriter, spare string, hard hardState) error {
	l := d.log
	at := position{w.meta.Index, w.meta.Term}
	s, chain, err := l.nextSegment(spare, flagReset, at, hard)
	if err != nil {
		return err
	}
	if err := l.fs.SyncDir(l.path); err != nil {
		return &FatalError{"sync directory", l.path, err}
	}
	if err := w.rename(); err != nil {
		return err
	}
	d.addSnapshot(w.meta)
	l.files.Lock()
	defer l.files.Unlock()
	l.mu.Lock()
	void := l.segments
	l.segments, l.base, l.places, l.hard = nil, at, nil, hard
	l.tail.cut(0)
	l.mu.Unlock()
	l.activate(s, chain)
	return l.retire(void)
}

// retire closes segments that are no longer part of the log and gives their files up, the oldest first, each
// durably before the next: what a crash leaves has no gap. The caller holds files.
func (l *Log) retire(void []*segment) error {
	for _, s := range void {
		if err := s.file.Close(); err != nil {
			return &FatalError{"close", s.path, err}
		}
		if err := l.spares.retire(s.path, int64(s.size), l.target); err != nil {
			return err
		}
	}
	return nil
}
