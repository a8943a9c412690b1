package peer

import (
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
)

// TestPaceEndsASnapshotBetweenTurns stops a snapshot only where a turn is over: it would rest there.
func TestPaceEndsASnapshotBetweenTurns(t *testing.T) {
	t.Parallel()
	stop := make(chan struct{})
	p := pace{stop: stop, since: time.Now().Add(-time.Hour)}
	if err := p.pause(); err != nil || time.Since(p.since) > time.Minute {
		t.Errorf("after a turn: %v, and the next began %v ago", err, time.Since(p.since))
	}
	close(stop)
	p.since = time.Now().Add(time.Hour)
	if err := p.pause(); err != nil {
		t.Errorf("within a turn: %v", err)
	}
	p.since = time.Now().Add(-time.Hour)
	for range 20 { // the rest is short, so both may be ready
		if err := p.pause(); err == quorum.ErrStopped {
			return
		}
		p.since = time.Now().Add(-time.Hour)
	}
	t.Error("it goes on after the stop")
}
