package quorum

import "testing"

// TestLosses: each way to lose a leader has its name, and going on with the same one has none.
func TestLosses(t *testing.T) {
	t.Parallel()
	led, followed, none := Leadership{Leader: 1, IsLeader: true, Term: 5}, Leadership{Leader: 2, Term: 5}, Leadership{
		Term: 5,
	}
	newer := Leadership{Term: 6}
	for _, c := range []struct {
		was, is          Leadership
		dropped, handing bool
		want             Loss
	}{
		{none, followed, false, false, ""}, {followed, followed, false, false, ""},
		{led, newer, false, true, LostHandedOver}, {led, newer, false, false, LostElection},
		{led, none, false, false, LostQuorum},
		{followed, none, true, false, LostConnection}, {followed, none, false, false, LostSilent},
		{followed, newer, false, false, LostElection},
		{followed, Leadership{Leader: 3, Term: 6}, false, false, LostElection},
	} {
		if got := lossOf(c.was, c.is, c.dropped, c.handing); got != c.want {
			t.Errorf("from %+v to %+v: %q, want %q", c.was, c.is, got, c.want)
		}
	}
}
