package replica

import (
	"slices"
	"testing"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/tree"
)

// TestLatencies: of the times of replies, what four-letter words tell.
func TestLatencies(t *testing.T) {
	t.Parallel()
	var l latencies
	for _, of := range []struct {
		ms, n       int64
		least, most int64
		mean        float64
	}{{5, 2, 5, 5, 5}, {1, 1, 1, 5, 3.6667}, {3, 1, 1, 5, 3.5}, {0, 1, 0, 5, 2.8}, {20, 5, 0, 20, 11.4}} {
		l.observe(of.ms, of.n)
		if got, want := l.public(), (Latency{Min: of.least, Max: of.most, Avg: of.mean}); got != want ||
			l.last.Load() != of.ms {
			t.Errorf("after %d replies in %d ms: %+v, the last in %d; want %+v", of.n, of.ms, got, l.last.Load(), want)
		}
	}
	if l.reset(); l.public() != (Latency{}) || l.last.Load() != 0 || l.count.Load() != 0 {
		t.Errorf("after a reset: %+v", l.public())
	}
}

// TestSizes: of the sizes of replies, what is told.
func TestSizes(t *testing.T) {
	t.Parallel()
	var s sizes
	s.reset()
	for _, of := range []struct{ last, low, high, wantLow, wantHigh int64 }{
		{5, 5, 5, 5, 5}, {3, 2, 9, 2, 9}, {4, 4, 4, 2, 9}, {0, 0, 0, 0, 9}, {1, 1, 10, 0, 10},
	} {
		s.observe(of.last, of.low, of.high)
		if got, want := s.public(), (Sizes{of.last, of.wantLow, of.wantHigh}); got != want {
			t.Errorf("after %+v: %+v, want %+v", of, got, want)
		}
	}
}

// TestDigestsOfZxids: a digest is kept of each zxid that is due, once, but of none that begins an epoch.
func TestDigestsOfZxids(t *testing.T) {
	t.Parallel()
	p := &progress{}
	of := tree.New(tree.Options{})
	for _, zxid := range []int64{
		1, 127, digestEvery, digestEvery, 129, 2 * digestEvery, 1 << 32, 1<<32 + 1, 1<<32 + digestEvery,
	} {
		p.noteDigest(zxid, of)
	}
	var got []int64
	for _, d := range p.digests {
		if got = append(got, d.Zxid); d.Value != int64(of.Digest()) {
			t.Errorf("the digest of %#x is %x, want %x", d.Zxid, d.Value, of.Digest())
		}
	}
	if want := []int64{digestEvery, 2 * digestEvery, 1<<32 + digestEvery}; !slices.Equal(got, want) {
		t.Errorf("the digests of %#x are kept, want %#x", got, want)
	}
}

// TestProposalsArrive: an entry that is applied is the oldest one that this leader has proposed in this term. The entry
// that begins the term was proposed by nobody.
func TestProposalsArrive(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what  string
		entry quorum.Entry
		leads bool
		known bool
	}{
		{"of this term", quorum.Entry{Term: 5, Data: []byte{1}}, true, true},
		{"the one that begins the term", quorum.Entry{Term: 5}, true, false},
		{"of an earlier term", quorum.Entry{Term: 4, Data: []byte{1}}, true, false},
		{"of another leader", quorum.Entry{Term: 5, Data: []byte{1}}, false, false},
	} {
		r := newStage(t, Options{}).r
		r.leader = quorum.Leadership{Leader: 1, IsLeader: c.leads, Term: 5}
		first, second := proposal{at: 10, queued: 1}, proposal{at: 20, queued: 2}
		r.loop.proposed.waiting = []proposal{first, second}
		want, left := proposal{}, 2
		if c.known {
			want, left = first, 1
		}
		r.loop.arrives(&c.entry, 110)
		p := &r.loop.proposed
		if p.applied != want || len(p.waiting) != left || c.known && p.quorum != 100 {
			t.Errorf("%s: %+v", c.what, *p)
		}
		p.waiting = nil
		if r.loop.arrives(&c.entry, 110); p.applied != (proposal{}) {
			t.Errorf("%s: %+v is applied, though none was proposed", c.what, p.applied)
		}
	}
}
