package replica

import (
	"testing"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// TestLongestHold: the longest hold counts until the end of the window after its own.
func TestLongestHold(t *testing.T) {
	var h longestHold
	at := 5 * holdWindow
	for _, c := range []struct{ end, took, want int64 }{
		{at + 10, 10, 10}, {at + 20, 30, 30}, {at + 30, 20, 30},
		{at + holdWindow, 5, 30}, {at + holdWindow + 1, 7, 30},
		{at + 2*holdWindow, 1, 7}, {at + 9*holdWindow, 2, 2},
	} {
		h.note(c.end-c.took, c.end)
		if got := h.at(c.end); got != c.want {
			t.Errorf("after a hold of %d until %d the longest is %d, want %d", c.took, c.end, got, c.want)
		}
	}
	h = longestHold{}
	h.note(30, 60)
	h.note(holdWindow-5, holdWindow)
	if got := h.at(2 * holdWindow); got != 5 {
		t.Errorf("of holds of 30 and 5, the second is in the window before: %d is the longest", got)
	}
	if got := h.at(at + 20*holdWindow); got != 0 {
		t.Errorf("much later the longest is %d", got)
	}
}

// TestHoldsAreNoted: entries and reads are noted, each in its place, and not the time in which a client's
// write waits between two reads.
func TestHoldsAreNoted(t *testing.T) {
	s := newStage(t, Options{})
	c := s.session()
	now := int64(1e12)
	s.r.now = func() int64 { now += 1e6; return now } // each look at the clock is a millisecond later
	s.write(c, "/a", jute.ModePersistent)
	s.apply(s.forward()...)
	apply, reads := s.r.LongestHolds()
	if apply < time.Millisecond || apply > 20*time.Millisecond || reads != 0 {
		t.Errorf("an entry held the replica for %v, reads for %v", apply, reads)
	}
	raw := pipeline{}
	read := raw.request(nil, jute.OpExists, (&jute.PathWatchRequest{Path: "/a"}).Append)
	if used, err := s.receive(c, read); err != nil || used != len(read) {
		t.Fatal(used, err)
	}
	if _, reads = s.r.LongestHolds(); reads < time.Millisecond || reads > 20*time.Millisecond {
		t.Errorf("a read held the replica for %v", reads)
	}
}
