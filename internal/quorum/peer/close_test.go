package peer

import (
	"errors"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
)

// TestCloseDuringASnapshot closes a server whose loop has ended, as it does on a
// failure, whose peers have filled the queue of events since, and whose snapshot is
// under way: what the snapshot has to tell nobody takes.
func TestCloseDuringASnapshot(t *testing.T) {
	t.Parallel()
	state := &list{sick: errors.New("the state machine is ill")}
	p, fatal := alone(t, disk(t, storage.NewMemFS()), state, time.Millisecond)
	p.Start()
	if err := <-fatal; !errors.Is(err, state.sick) {
		t.Fatal(err)
	}
	for len(p.transport.events) < cap(p.transport.events) {
		p.transport.events <- quorum.Event{Kind: quorum.EventLost, From: 2}
	}
	p.WriteSnapshot(storage.Meta{Index: 1}, state.Snapshot())
	closed := make(chan struct{})
	go func() {
		p.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(patience):
		t.Fatal("it waits for the snapshot, which waits for the loop")
	}
}
