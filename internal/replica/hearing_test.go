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

// TestExcusesEnd: stalls of a leader, one after the other, prolong a silent session for a while only, and one that is
// heard between them for as long as they last.
func TestExcusesEnd(t *testing.T) {
	t.Parallel()
	const timeout, tick = 6000, 100
	now := int64(1_000_000)
	e := newExpiry(tick, now)
	e.heard(1, timeout, now)
	e.heard(2, timeout, now)
	began := now
	ended := map[int64]int64{}
	for now < began+600_000 {
		now += 3000
		e.touch(2, now)
		now += tick
		e.excuse(now, 3000)
		for _, id := range e.due(now, func(int64) int64 { return 0 }) {
			ended[id] = now - began
			e.forget(id)
		}
	}
	if at := ended[1]; at < excusableMs || at > excusableMs+2*timeout+reportLagMs {
		t.Errorf("a silent session ends after %d ms", at)
	}
	if at, over := ended[2]; over {
		t.Errorf("a session that is heard every three seconds ends after %d ms", at)
	}
	e.heard(3, timeout, now)
	now += 3_600_000 // the machine slept
	e.excuse(now, 3_600_000-tick)
	if dead := e.due(now, func(int64) int64 { return 0 }); len(dead) > 0 {
		t.Errorf("after a stall of an hour %v end at once", dead)
	}
	now += timeout + reportLagMs + 2*tick
	if dead := e.due(now, func(int64) int64 { return 0 }); len(dead) != 2 { // 2 was last heard when 3 began
		t.Errorf("after the timeout %v end", dead)
	}
}
