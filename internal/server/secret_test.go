package server

import (
	"testing"
)

// TestSecretOfTheTree: the first leader of an ensemble draws a secret for the tree's
// hashes, which all servers use from the same entry on, and again after a restart.
func TestSecretOfTheTree(t *testing.T) {
	t.Parallel()
	servers, opts := threeServers(t, Options{Serving: Serving{SnapCount: 5}})
	caughtUp(t, opts)
	for i := range servers {
		var err error
		servers[i].Close()
		if servers[i], err = Open(opts[i]); err != nil {
			t.Fatal(err)
		}
		caughtUp(t, opts)
		for j, s := range servers {
			keyed := s.replica.View().Keyed
			digest, again := s.replica.Recompute()
			if !keyed || digest != again {
				t.Fatalf("after %d restarts server %d: keyed %t, digest %x instead of %x", i+1, j+1, keyed, digest, again)
			}
		}
	}
}
