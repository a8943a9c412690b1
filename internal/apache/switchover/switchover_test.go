package switchover

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/apache/follow"
	"github.com/zooid-project/zooid/internal/apache/learner"
)

// TestReady: a copy that isn't caught up, or differs, takes nobody's place.
func TestReady(t *testing.T) {
	t.Parallel()
	good := follow.Status{Live: true, Compared: 1, Lag: LagMax}
	if err := Ready(&good, false); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		change func(*follow.Status)
		says   string
	}{
		{func(s *follow.Status) { s.Live = false }, "yet"},
		{func(s *follow.Status) { s.Live, s.LastFailed = false, errors.New("gone") }, "gone"},
		{func(s *follow.Status) { s.Ended = errors.New("disk full") }, ErrFinal.Error() + ": disk full"},
		{func(s *follow.Status) { s.Mismatch = &follow.Mismatch{Zxid: 0x10} }, "since zxid 0x10"},
		{func(s *follow.Status) { s.Lag += time.Millisecond }, "behind"},
		{func(s *follow.Status) { s.Compared = 0 }, "digest hasn't been compared"},
	} {
		s := good
		c.change(&s)
		if err := Ready(&s, false); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v; want %q", s, err, c.says)
		}
	}
	good.Compared = 0
	if err := Ready(&good, true); err != nil {
		t.Error(err)
	}
}

// TestProved: a majority of stopped voters, of whose logs the election's winner counts.
func TestProved(t *testing.T) {
	t.Parallel()
	e := follow.Ensemble{Members: []learner.Member{{ID: 1}, {ID: 2}, {ID: 3}, {ID: 4, Observer: true}}}
	tail := func(current, last int64) *files.Tail { return &files.Tail{Current: current, Last: last} }
	type tails map[int64]*files.Tail
	for _, c := range []struct {
		name     string
		tails    tails
		majority bool
		weighted bool
		best     int64 // Last of the winner
		says     string
	}{
		{"all", tails{1: tail(5, 0x500000001), 2: tail(5, 0x500000003), 3: tail(5, 0x500000002)}, false, false, 0x500000003,
			""},
		{"a later leader with a shorter log",
			tails{1: tail(6, 0x500000001), 2: tail(5, 0x500000003), 3: tail(5, 0x500000002)}, false, false, 0x500000001, ""},
		{"an observer has more", tails{1: tail(5, 1), 2: tail(5, 1), 3: tail(5, 1), 4: tail(9, 9)}, false, false, 1, ""},
		{"a majority that is permitted", tails{1: tail(5, 1), 3: tail(5, 2)}, true, false, 2, ""},
		{"a majority that isn't", tails{1: tail(5, 1), 3: tail(5, 2)}, false, false, 0,
			"servers [2] may still run. They"},
		{"a majority by number, with weights", tails{1: tail(5, 1), 3: tail(5, 2)}, true, true, 0, "all must"},
		{"a minority and an observer", tails{1: tail(5, 1), 4: tail(5, 2)}, true, false, 0, "1 of 3 voters"},
		{"nobody", nil, true, false, 0, "0 of 3 voters"},
	} {
		e.Weighted = c.weighted
		best, err := Proved(&e, c.tails, c.majority)
		if c.says != "" {
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v; want %q", c.name, err, c.says)
			}
		} else if err != nil || best.Last != c.best {
			t.Errorf("%s: %+v, %v; want %#x", c.name, best, err, c.best)
		}
	}
	if _, err := Proved(&follow.Ensemble{}, nil, true); err == nil {
		t.Error("an ensemble without voters")
	}
}
