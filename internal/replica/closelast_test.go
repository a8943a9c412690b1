package replica

import (
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// TestOutstandingAfterDisconnect ends a connection while its sync is answered: that
// is counted off once. Both wait for the client, in that order, and the mutex, once
// a waiter was passed over, goes from one to the next.
func TestOutstandingAfterDisconnect(t *testing.T) {
	t.Parallel()
	s := newLocalStage(t)
	c := s.client(nil)
	b := (&pipeline{}).request(nil, jute.OpSync, func(b []byte) []byte { return jute.AppendString(b, "/") })
	if _, err := s.receive(c, b); err != nil {
		t.Fatal(err)
	}
	ticket := s.r.Syncs()
	var wg sync.WaitGroup
	c.mu.Lock()
	wg.Go(func() { s.r.Disconnected(c) })
	time.Sleep(20 * time.Millisecond)
	wg.Go(func() { s.r.Synced(ticket) })
	time.Sleep(20 * time.Millisecond)
	c.mu.Unlock()
	c.mu.Lock()
	time.Sleep(20 * time.Millisecond)
	c.mu.Unlock()
	wg.Wait()
	if n := s.r.unanswered.count(); n != 0 {
		t.Errorf("%d requests are outstanding on no connection", n)
	}
}
