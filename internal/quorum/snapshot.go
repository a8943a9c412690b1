package quorum

import (
	"fmt"
	"time"

	"github.com/zooid-project/zooid/internal/storage"
)

// snapshots decides when the state machine's image is written to a file, and
// does so on a goroutine of its own while entries are applied. One is under way
// at a time.
type snapshots struct {
	logBytes int64 // applied since the last snapshot
	running  bool
	retryAt  uint64 // tick before which no other is tried after a failure
	finished chan snapshotResult
	stop     chan struct{}
}

type snapshotResult struct {
	meta  storage.Meta
	bytes int64 // before compression
	took  time.Duration
	err   error
}

// snapshotRetryTicks is the pause after a failed snapshot: the disk is full, most
// likely, and the log keeps growing whatever we do.
const snapshotRetryTicks = 200

func (s *snapshots) init() {
	s.finished = make(chan snapshotResult, 1)
	s.stop = make(chan struct{})
}

// consider starts a snapshot if one is due.
func (s *snapshots) consider(p *Peer) {
	if s.running || p.ticks < s.retryAt || !p.o.State.SnapshotDue(s.logBytes) {
		return
	}
	s.running, s.logBytes = true, 0
	image := p.o.State.Snapshot()
	meta := image.Describe()
	meta.ConfState = p.conf
	p.log.Debug("snapshot begins", "index", meta.Index, "zxid", fmt.Sprintf("0x%x", meta.Zxid))
	go func() {
		began := time.Now()
		n, err := writeImage(p.o.Dir, meta, image, s.stop)
		s.finished <- snapshotResult{meta, n, time.Since(began), err}
	}()
}

// writeImage writes an image to a snapshot file; it is on the disk, verified,
// when nil is returned.
func writeImage(dir *storage.Dir, meta storage.Meta, image Image, stop <-chan struct{}) (written int64, err error) {
	defer image.Close()
	w, err := dir.CreateSnapshot(meta)
	if err != nil {
		return 0, err
	}
	var chunk []byte
	for more := true; more; {
		select {
		case <-stop:
			w.Abort()
			return written, ErrStopped
		default:
		}
		if chunk, more = image.Next(chunk[:0]); len(chunk) > 0 {
			if err := w.WriteChunk(chunk); err != nil {
				w.Abort()
				return written, err
			}
			written += int64(len(chunk))
		}
	}
	return written, w.Commit()
}

// done takes the result of a snapshot and lets go of the log below it.
func (s *snapshots) done(p *Peer, r snapshotResult) {
	s.running = false
	if r.err != nil {
		s.retryAt = p.ticks + snapshotRetryTicks
		p.log.Error("a snapshot failed; the log is kept and it will be tried again", "index", r.meta.Index, "err", r.err)
		if err := p.disk.Err(); err != nil {
			p.failed = err
		}
		return
	}
	p.log.Info("snapshot written", "index", r.meta.Index, "zxid", fmt.Sprintf("0x%x", r.meta.Zxid), "bytes", r.bytes, "took", r.took.Round(time.Millisecond))
	p.o.State.SnapshotDone(r.meta, r.bytes)
	if _, _, err := p.o.Dir.Purge(p.o.SnapshotsKept); err != nil {
		p.log.Error("old snapshots and log segments could not be removed; the disk fills up if this persists", "err", err)
	}
}

// wait ends a snapshot under way and waits for it.
func (s *snapshots) wait() {
	close(s.stop)
	if s.running {
		<-s.finished
	}
}
