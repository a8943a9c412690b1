package replica

import "testing"

// TestSyncsOfTheGone: syncs of clients that are gone are dropped once they are more than half of all, or when their
// turn comes.
func TestSyncsOfTheGone(t *testing.T) {
	t.Parallel()
	var s syncs
	stays, goes, late := &Client{}, &Client{}, &Client{}
	if s.take() != 0 {
		t.Error("there is a sync before one was asked for")
	}
	for i, c := range []*Client{stays, goes, stays, goes, late} {
		if n := s.ask(c, i == 4); n != uint64(i+1) {
			t.Errorf("sync %d has the number %d", i+1, n)
		}
	}
	if first, again := s.take(), s.take(); first != 5 || again != 0 {
		t.Errorf("the last sync is %d, and once more %d", first, again)
	}
	if s.forget(goes); len(s.waiting) != 5 || s.dead != 2 {
		t.Errorf("two of five are gone: %d wait, %d are dead", len(s.waiting), s.dead)
	}
	if ready := s.done(2); len(ready) != 1 || ready[0].c != stays || s.dead != 1 || len(s.waiting) != 3 {
		t.Errorf("of the first two %d are ready; %d wait, %d are dead", len(ready), len(s.waiting), s.dead)
	}
	if s.forget(late); len(s.waiting) != 1 || s.dead != 0 {
		t.Errorf("two of three are gone: %d wait, %d are dead", len(s.waiting), s.dead)
	}
	if s.forget(stays); s.waiting != nil {
		t.Errorf("all are gone, and %d wait", len(s.waiting))
	}
}
