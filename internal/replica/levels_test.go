package replica

import (
	"testing"

	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// TestNothingAboveTheLevelIsLogged refuses operations that some member's version
// doesn't know, of clients and of followers, and what only a leader may propose.
func TestNothingAboveTheLevelIsLogged(t *testing.T) {
	t.Parallel()
	var r Replica
	for _, test := range []struct {
		op            jute.Op
		first, second bool // in force at level 1, at level 2
		forwarded     bool
	}{
		{jute.OpCreate, true, true, true},
		{tree.OpEnter, true, true, true},
		{tree.OpSecret, false, true, false},
		{tree.OpSettings, true, true, false},
		{tree.OpMembers, true, true, false},
		{7777, false, false, false},
	} {
		r.level.Store(1)
		if got := r.InForce(test.op); got != test.first {
			t.Errorf("operation %d is in force at level 1: %t", test.op, got)
		}
		r.level.Store(2)
		if got := r.InForce(test.op); got != test.second {
			t.Errorf("operation %d is in force at level 2: %t", test.op, got)
		}
		if got := r.forwardable(&tree.Request{Op: test.op}) == nil; got != test.forwarded {
			t.Errorf("a follower may forward operation %d: %t", test.op, got)
		}
	}
}
