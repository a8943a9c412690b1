package replica

import (
	"fmt"

	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// Levels returns the feature level in force, and the highest one that this server knows.
func (r *Replica) Levels() (inForce, known uint32) {
	return r.level.Load(), uint32(r.settings.FeatureLevel)
}

// Supported puts level, the highest that all members know, in force.
func (r *Replica) Supported(level uint32) {
	r.supported = int32(level)
	if level <= r.level.Load() {
		return
	}
	r.mu.RLock()
	leads := r.leader.IsLeader
	r.mu.RUnlock()
	if leads {
		r.log.Info("all members know a higher feature level: it is put in force", "inForce", r.level.Load(), "level", level)
		r.proposeSettings()
	}
}

// noteLevel stores the level in force; mu is held for writing, or no other goroutine has r yet.
func (r *Replica) noteLevel() { r.level.Store(uint32(r.tree.Settings().FeatureLevel)) }

// InForce reports whether an operation may be put in the log.
func (r *Replica) InForce(code jute.Op) bool {
	needs := tree.LevelOf(code)
	return needs == 1 || needs > 1 && uint32(needs) <= r.level.Load()
}

// forwardable returns an error if a peer may not forward q to be put in the log. Settings,
// membership and its changes, and the secret are proposed by the leader alone.
func (r *Replica) forwardable(q *tree.Request) error {
	switch {
	case q.Op == tree.OpSettings || q.Op == tree.OpMembers || q.Op == tree.OpSecret || q.Op == tree.OpChange:
		return fmt.Errorf("operation %d is for the leader alone", q.Op)
	case !r.InForce(q.Op):
		return fmt.Errorf("operation %d is not in force at feature level %d", q.Op, r.level.Load())
	}
	return nil
}
