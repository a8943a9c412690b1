package peer

import (
	"log/slog"
	"sync"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
)

// snapshotWriter writes images to files, and purges old files, each on a goroutine of
// its own.
type snapshotWriter struct {
	dir  *storage.Dir
	log  *slog.Logger
	tell func(quorum.Event)
	stop chan struct{}
	wg   sync.WaitGroup
}

func (w *snapshotWriter) start(meta storage.Meta, image quorum.Image) {
	w.wg.Go(func() {
		p := pace{stop: w.stop, since: time.Now()}
		n, err := quorum.WriteImage(w.dir, meta, image, p.pause)
		w.tell(quorum.Event{Kind: quorum.EventWritten, Meta: meta, Bytes: n, Err: err})
	})
}

// purge removes snapshots and log that are no longer needed. Unlinking a hundred
// megabytes takes milliseconds; clients would wait for that on the loop's goroutine.
func (w *snapshotWriter) purge(keep int, needed uint64) {
	w.wg.Go(func() { quorum.Purge(w.dir, keep, needed, w.log) })
}

// close stops a snapshot under way, and waits for it and for a purge to end.
func (w *snapshotWriter) close() {
	close(w.stop)
	w.wg.Wait()
}

// pace makes a snapshot work in short turns and rest three times as long after each. A longer turn is followed by a
// longer rest, because it kept others waiting longer.
type pace struct {
	stop  <-chan struct{}
	since time.Time // when this turn began
}

const (
	// snapshotTurn is how long a snapshot works before it rests. On two processors, the
	// goroutines that serve clients may have to wait that long.
	snapshotTurn = 200 * time.Microsecond
	// snapshotRestMax bounds a rest, so that a snapshot also ends on a busy machine or a
	// stalling disk: a million znodes take 4000 turns.
	snapshotRestMax = 3 * time.Millisecond
)

// pause rests at the end of a turn. It returns ErrStopped once stop is closed.
func (p *pace) pause() error {
	worked := time.Since(p.since)
	if worked < snapshotTurn {
		return nil
	}
	select {
	case <-p.stop:
		return quorum.ErrStopped
	case <-time.After(min(3*worked, snapshotRestMax)):
	}
	p.since = time.Now()
	return nil
}
