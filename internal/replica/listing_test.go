package replica

import (
	"fmt"
	"testing"

	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

func TestDigestsAreBounded(t *testing.T) {
	t.Parallel()
	var p progress
	none := tree.New(tree.Options{})
	for zxid := range int64(digestEvery * (digestsMax + 7)) {
		p.noteDigest(zxid, none)
		p.noteDigest(zxid, none) // of a request that took no zxid
	}
	if n := len(p.digests); n != digestsMax || p.digests[0].Zxid != 7*digestEvery ||
		p.digests[n-1].Zxid != (digestsMax+6)*digestEvery {
		t.Errorf("%d digests, from %d to %d", n, p.digests[0].Zxid, p.digests[n-1].Zxid)
	}
}

// TestListsOfEphemeralsEnd: a list is cut off behind the session whose paths reach the limit, and says that it was.
func TestListsOfEphemeralsEnd(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	for i := range 3 {
		s.session() // has none
		s.write(s.session(), fmt.Sprint("/e", i), jute.ModeEphemeral)
		s.apply(s.forward()...)
	}
	const each = sessionLineBytes + len("\t/e0\n")
	for limit, want := range map[int]int{
		0: 0, 1: 1, each: 1, each + 1: 2, 2 * each: 2, 2*each + 1: 3, 3 * each: 3, 3*each + 1: 3,
	} {
		list, more := s.r.Ephemerals(limit)
		if len(list) != want || more != (limit <= 3*each) {
			t.Errorf("up to %d bytes: %v, more %t; want %d of 3 sessions", limit, list, more, want)
		}
	}
}
