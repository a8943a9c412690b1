package peer

import (
	"log/slog"
	"sync"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
)

// snapshotWriter writes images to files, and removes old ones, each on a goroutine
// of its own.
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

// purge removes what snapshots that are kept make superfluous. Unlinking a hundred
// megabytes takes milliseconds, which clients would wait for on the loop's goroutine.
func (w *snapshotWriter) purge(keep int) {
	w.wg.Go(func() { quorum.Purge(w.dir, keep, w.log) })
}

// close ends a snapshot under way and waits for it, and for a purge.
func (w *snapshotWriter) close() {
	close(w.stop)
	w.wg.Wait()
}

// pace makes a snapshot work in short turns and rest after each, three times as
// long: a turn that took longer was in somebody's way.
type pace struct {
	stop  <-chan struct{}
	since time.Time // when this turn began
}

const (
	// snapshotTurn is how long a snapshot works before it rests. On two processors,
	// who serves clients may have to wait for that long.
	snapshotTurn = 200 * time.Microsecond
	// snapshotRestMax bounds what a busy machine, or a disk that stalls, makes of a
	// million znodes and their 4000 turns.
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
