package replica

import (
	"testing"

	"github.com/zooid-project/zooid/internal/tree"
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
