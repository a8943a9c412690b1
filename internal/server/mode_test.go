package server

import (
	"testing"

	"github.com/zooid-project/zooid/internal/fourletter"
)

// TestMode: srvr, mntr and status say what a server is in the membership in force, not in the one it was started with.
func TestMode(t *testing.T) {
	t.Parallel()
	member := func(id uint64, observer bool) Member { return Member{ID: id, Observer: observer} }
	for name, c := range map[string]struct {
		members           []Member
		voters, observers []uint64
		leads             bool
		want              string
	}{
		"alone":              {nil, []uint64{1}, nil, true, fourletter.ModeStandalone},
		"an ensemble of one": {[]Member{member(1, false)}, []uint64{1}, nil, true, fourletter.ModeLeader},
		"grown from one":     {nil, []uint64{1, 2, 3}, nil, true, fourletter.ModeLeader},
		"grown, follows":     {[]Member{member(1, false)}, []uint64{1, 2, 3}, nil, false, fourletter.ModeFollower},
		"demoted": {
			[]Member{member(1, false), member(2, false), member(3, false)}, []uint64{2, 3}, []uint64{1}, false,
			fourletter.ModeObserver,
		},
		"promoted": {
			[]Member{member(1, true), member(2, false), member(3, false)}, []uint64{1, 2, 3}, nil, false,
			fourletter.ModeFollower,
		},
		"promoted, leads": {
			[]Member{member(1, true), member(2, false), member(3, false)}, []uint64{1, 2, 3}, nil, true, fourletter.ModeLeader,
		},
		"not yet in it": {[]Member{member(1, true), member(2, false)}, nil, nil, false, fourletter.ModeObserver},
	} {
		if got, _ := modeOf(1, c.members, c.voters, c.observers, c.leads); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
