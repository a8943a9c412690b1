package quorum

import (
	"fmt"
	"log/slog"

	"github.com/zooid-project/zooid/internal/storage"
)

// snapshots decides when the state machine's image is written to a file. One is
// under way at a time.
type snapshots struct {
	logBytes int64 // applied since the last snapshot
	running  bool
	wanted   bool   // by a member that is not in the newest one's membership, and needs one
	began    uint64 // tick
	retryAt  uint64 // tick before which no other is tried after a failure
}

// snapshotRetryTicks is the pause after a failed snapshot: the disk is full, most
// likely, and the log keeps growing whatever we do.
const snapshotRetryTicks = 200

// snapshotLookTicks is the time between two looks whether one is due where nothing
// is applied: the disk may fill up meanwhile.
const snapshotLookTicks = 10

// frameOverhead is about what an entry takes in the log beside its data, where it
// is a batch of its own; such a batch begins on a sector.
const (
	frameOverhead = 64
	frameSector   = 512
)

// logged notes an entry that was applied.
func (s *snapshots) logged(data int) {
	s.logBytes += int64((data + frameOverhead + frameSector - 1) &^ (frameSector - 1))
}

// consider starts a snapshot if one is due. A state that is in doubt isn't kept: a
// restart makes another one of the log.
func (s *snapshots) consider(l *Loop) {
	if s.running || l.doubts.open || l.ticks < s.retryAt || !s.wanted && !l.o.State.SnapshotDue(s.logBytes) {
		return
	}
	s.running, s.wanted, s.logBytes, s.began = true, false, 0, l.ticks
	image := l.o.State.Snapshot()
	meta := image.Describe()
	meta.ConfState = l.conf
	l.o.Shell.WriteSnapshot(meta, image)
}

// written takes the result of a snapshot and lets go of the log below it.
func (s *snapshots) written(l *Loop, e Event) {
	s.running = false
	zxid := fmt.Sprintf("0x%x", e.Meta.Zxid)
	if e.Err != nil {
		s.retryAt = l.ticks + snapshotRetryTicks
		l.log.Error("a snapshot failed; the log is kept and it will be tried again", "index", e.Meta.Index, "zxid", zxid, "err", e.Err)
		if err := l.disk.Err(); err != nil {
			l.failed = err
		}
		return
	}
	l.log.Info("snapshot written", "index", e.Meta.Index, "zxid", zxid, "bytes", e.Bytes)
	l.o.State.SnapshotDone(e.Meta, e.Bytes)
	l.o.Shell.Purge(l.o.SnapshotsKept)
}

// Purge does the work of a Shell's Purge and waits for it. The loop finds an error that ends
// the log at its next tick.
func Purge(dir *storage.Dir, keep int, log *slog.Logger) {
	if _, _, err := dir.Purge(keep); err != nil {
		log.Error("old snapshots and log segments could not be removed; the disk fills up if this persists", "err", err)
	}
}

// WriteImage writes an image to a snapshot file and closes it; the file is on
// the disk, verified, when nil is returned. pause, if not nil, is called between
// small pieces of the work; its error ends it early.
func WriteImage(dir *storage.Dir, meta storage.Meta, image Image, pause func() error) (written int64, err error) {
	defer image.Close()
	w, err := dir.CreateSnapshot(meta)
	if err != nil {
		return 0, err
	}
	defer w.Abort() // does nothing after Commit
	w.Pause = pause
	if written, err = writeChunks(w, image); err != nil {
		return written, err
	}
	return written, w.Commit()
}

// writeChunks writes an image's chunks.
func writeChunks(w *storage.SnapshotWriter, image Image) (written int64, err error) {
	var chunk []byte
	for more := true; more; {
		if chunk, more = image.Next(chunk[:0]); len(chunk) > 0 {
			if err := w.WriteChunk(chunk); err != nil {
				return written, err
			}
			written += int64(len(chunk))
		}
	}
	return written, nil
}
