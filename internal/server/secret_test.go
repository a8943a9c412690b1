package server

import (
	"testing"

	"github.com/zooid-project/zooid/internal/tree"
)

// TestSecretOfTheTree: the first leader of an ensemble draws a secret for the tree's
// hashes, which all servers use from the same entry on, and again after a restart.
func TestSecretOfTheTree(t *testing.T) {
	t.Parallel()
	servers, opts := threeServers(t, Options{SnapCount: 5})
	caughtUp(t, opts)
	for i := range servers {
		var err error
		servers[i].Close()
		if servers[i], err = Open(opts[i]); err != nil {
			t.Fatal(err)
		}
		caughtUp(t, opts)
		for j, s := range servers {
			s.replica.mu.RLock()
			keyed, digest, again := s.replica.tree.Keyed(), s.replica.tree.Digest(), s.replica.tree.RecomputeDigest()
			s.replica.mu.RUnlock()
			if !keyed || digest != again {
				t.Fatalf("after %d restarts server %d: keyed %t, digest %x instead of %x", i+1, j+1, keyed, digest, again)
			}
		}
	}
	if err := servers[0].replica.forwardable(&tree.Request{Op: tree.OpSecret}); err == nil {
		t.Error("a leader takes a secret from a follower")
	}
}
