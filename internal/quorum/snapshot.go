package quorum

import (
	"fmt"
	"log/slog"

	"github.com/zooid-project/zooid/internal/storage"
)

// snapshots decides when the state machine's image is written to a file. Only one
// snapshot is under way at a time.
type snapshots struct {
	logBytes int64 // bytes of log applied since the last snapshot
	running  bool
	wanted   bool   // a member needs another snapshot: it isn't in the newest one's membership, or that can't be read
	began    uint64 // tick when the last snapshot began
	retryAt  uint64 // after a failure: tick before which no other snapshot is tried
	sent     sent
}

// snapshotRetryTicks is the pause after a failed snapshot. Most likely the disk is full,
// and the log keeps growing meanwhile.
const snapshotRetryTicks = 200

// snapshotLookTicks is the time between two checks whether a snapshot is due while
// nothing is applied: the disk may be filling up.
const snapshotLookTicks = 10

// frameOverhead is roughly the bytes that an entry takes in the log beyond its data, if
// it is a batch of its own. Such a batch begins at a multiple of frameSector.
const (
	frameOverhead = 64
	frameSector   = 512
)

// logged counts an applied entry with that many bytes of data.
func (s *snapshots) logged(data int) {
	s.logBytes += int64((data + frameOverhead + frameSector - 1) &^ (frameSector - 1))
}

// consider starts a snapshot if one is due. A state in doubt isn't saved, so that a
// restart computes it again from the log.
func (s *snapshots) consider(l *Loop) {
	if s.running || l.doubts.open || l.ticks < s.retryAt || !s.wanted && !l.state.SnapshotDue(s.logBytes) {
		return
	}
	s.running, s.wanted, s.logBytes, s.began = true, false, 0, l.ticks
	var image Image
	l.call(func() error { image = l.state.Snapshot(); return nil }, func() {
		meta := image.Describe()
		meta.ConfState = l.conf
		l.shell.WriteSnapshot(meta, image)
	})
}

// written handles the result of a snapshot, and starts a purge.
func (s *snapshots) written(l *Loop, e Event) {
	s.running = false
	zxid := fmt.Sprintf("0x%x", e.Meta.Zxid)
	if e.Err != nil {
		s.retryAt = l.ticks + snapshotRetryTicks
		l.log.Error("a snapshot could not be written; it will be tried again, and the log is kept until then",
			"index", e.Meta.Index, "zxid", zxid, "err", e.Err)
		if err := l.disk.Err(); err != nil {
			l.failed = err
		}
		return
	}
	l.log.Info("snapshot written", "index", e.Meta.Index, "zxid", zxid, "bytes", e.Bytes)
	l.tell(func() { l.state.SnapshotDone(e.Meta, e.Bytes) })
	l.shell.Purge(l.o.SnapshotsKept, s.sent.needed(l, e.Meta.Index))
}

// notSent handles the failure to send a snapshot to a member. If this server can't read its newest snapshot, it writes
// another one, or else the member would wait forever.
func (s *snapshots) notSent(l *Loop, e Event) {
	index := s.sent[e.From]
	delete(s.sent, e.From)
	if newest, _ := l.dir.NewestSnapshot(); !e.Unread || s.running || s.wanted || newest.Index != index {
		return
	}
	s.wanted, s.retryAt = true, max(s.retryAt, s.began+snapshotRetryTicks)
	l.log.Error("this server can't read its newest snapshot, which another server needs; it writes a new one. Check the disk",
		"index", index, "err", e.Err)
}

// sent holds, by member, the index of the snapshot that was sent to it. The log after that index is kept until the
// member has caught up. Otherwise a member that takes longer to receive and load a snapshot than the leader takes to
// write a few would need one snapshot after another, forever.
type sent map[uint64]uint64

// needed returns the entry after which the log is needed, or 0, and forgets the members that have all entries up to
// index. If this server doesn't lead, nobody waits for its snapshots.
func (s sent) needed(l *Loop, index uint64) (after uint64) {
	match := map[uint64]uint64{}
	if l.node.IsLeader() {
		for _, f := range l.node.Followers() {
			match[f.ID] = f.Match
		}
	}
	for id, snapshot := range s { // any order: the least is returned
		has, member := match[id]
		if !member || has >= index {
			delete(s, id)
		} else if has = max(has, snapshot); after == 0 || has < after {
			after = has
		}
	}
	return after
}

// Purge does the work of a Shell's Purge and returns when it is done. If an error makes the
// log unusable, the loop finds it at its next tick.
func Purge(dir *storage.Dir, keep int, needed uint64, log *slog.Logger) {
	if _, _, err := dir.Purge(keep, needed); err != nil {
		log.Error("old snapshots and log segments could not be removed; the disk fills up if this persists", "err", err)
	}
}

// WriteImage writes an image to a snapshot file and closes the image. If err is nil,
// the file is durable and verified. pause, if not nil, is called between small pieces
// of the work; if it returns an error, the work ends early with that error.
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
