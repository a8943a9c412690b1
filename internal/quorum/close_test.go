package quorum

import (
	"log/slog"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/storage"
)

// TestCloseDuringASnapshot closes a server whose loop has ended, as it does on a
// failure, whose peers have filled the queue of events since, and whose snapshot is
// under way: what the snapshot has to tell nobody takes.
func TestCloseDuringASnapshot(t *testing.T) {
	t.Parallel()
	b := newColony(t, 1).bodies[1]
	p, err := Open(Options{
		ID: 1, Dir: b.dir, Cluster: 7, State: b, Members: []Member{{ID: 1}},
		Tick: time.Hour, ElectionTicks: 10, Log: slog.New(slog.DiscardHandler), Fatal: func(error) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.loop.failed = ErrStopped
	p.Start()
	for len(p.transport.events) < cap(p.transport.events) {
		p.transport.events <- Event{Kind: EventLost, From: 2}
	}
	p.WriteSnapshot(storage.Meta{Index: 1}, b.Snapshot())
	closed := make(chan struct{})
	go func() {
		p.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(20 * time.Second):
		t.Fatal("it waits for the snapshot, which waits for the loop")
	}
}
