package server

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/tree"
)

// TestRestoreTimeout: a restore that the ensemble doesn't decide ends by its own limit, and says so.
func TestRestoreTimeout(t *testing.T) {
	t.Parallel()
	servers, _ := threeServers(t, Options{Patience: time.Hour, restoreTimeout: 100 * time.Millisecond})
	lead := leader(t, servers)
	eventually(t, "the leader knows that all can do it",
		func() bool { return servers[lead].replica.InForce(tree.OpRestore, nil) })
	servers[(lead+1)%3].Close()
	servers[(lead+2)%3].Close()
	if _, err := servers[lead].Restore(t.Context(), []byte("znodes")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a restore without the others: %v", err)
	}
}
