package server

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// TestRestoreTimeout: a restore that the ensemble doesn't decide ends by its own limit, and says so.
func TestRestoreTimeout(t *testing.T) {
	t.Parallel()
	servers, _ := threeServers(t, Options{Patience: time.Hour, restoreTimeout: 100 * time.Millisecond})
	lead := leader(t, servers)
	eventually(t, "the leader knows that all can do it, and serves",
		func() bool { return servers[lead].replica.InForce(tree.OpRestore, nil) && servers[lead].serving() })
	servers[(lead+1)%3].Close()
	servers[(lead+2)%3].Close()
	if _, err := servers[lead].Restore(t.Context(), "", nil, []byte("znodes")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a restore without the others: %v", err)
	}
}

// TestRestoreDuringAnother: a restore whose session another one ends says so, when it waits for an answer as well as
// when it sends the next request.
func TestRestoreDuringAnother(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	eventually(t, "the server serves", s.serving)
	ctx, why := t.Context(), "an administrator restored a snapshot"
	waits, err := connectSelf(ctx, s.engine, s.newID)
	if err != nil {
		t.Fatal(err)
	}
	defer waits.close()
	if _, err := s.Restore(ctx, "", nil, s.replica.Znodes(nil)); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"the next request", "one more"} {
		if _, _, err := waits.do(ctx, jute.OpGetData, nil); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want why its session ended: %s", when, err, why)
		}
	}
	if _, err := waits.next(ctx); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("an answer: %v, want why its session ended: %s", err, why)
	}
}
