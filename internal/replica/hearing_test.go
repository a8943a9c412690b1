package replica

import (
	"testing"
	"time"
)

// TestReportsDontWait holds the replica as a long request does. What the quorum's loop tells the leader of this
// server's clients, what it hears of others', and the closing of connections don't wait for that.
func TestReportsDontWait(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	c := s.client(nil)
	s.apply(s.forward()...)
	s.asOf(0)
	s.now += int64(c.timeout)/2 + 1
	c.lastHeard.Store(s.now)
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	done := make(chan []byte)
	go func() {
		s.r.Reported(make([]byte, sessionSize))
		s.r.members.Membership(0)
		s.r.freshness.LetOutdatedGo(s.now * 1e6)
		done <- s.r.Report()
	}()
	select {
	case report := <-done:
		if len(report) != sessionSize {
			t.Errorf("the report is % x, and should be of one session", report)
		}
	case <-time.After(time.Minute):
		t.Fatal("a report waits for the replica")
	}
	if c.Ending() == "" {
		t.Error("a connection goes on of whose session nothing has been known for half of its timeout")
	}
}
