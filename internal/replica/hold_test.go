package replica

import (
	"testing"
	"time"

	"github.com/zooid-project/zooid/jute"
)

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
