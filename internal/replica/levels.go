package replica

import (
	"fmt"

	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// Levels returns the feature level in force, and the highest this server knows.
func (r *Replica) Levels() (inForce, known uint32) {
	return r.level.Load(), uint32(r.settings.FeatureLevel)
}

// Supported puts the highest level that all members know in force.
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

// noteLevel takes note of the level in force; mu is held alone, or nobody else has r.
func (r *Replica) noteLevel() { r.level.Store(uint32(r.tree.Settings().FeatureLevel)) }

// InForce reports whether the log may hold an operation.
func (r *Replica) InForce(code jute.Op) bool {
	needs := tree.LevelOf(code)
	return needs == 1 || needs > 1 && uint32(needs) <= r.level.Load()
}

// forwardable returns why a peer may not have an operation put in the log, or nil.
// Settings, membership and secret are the leader's own to propose.
func (r *Replica) forwardable(q *tree.Request) error {
	switch {
	case q.Op == tree.OpSettings || q.Op == tree.OpMembers || q.Op == tree.OpSecret || q.Op == tree.OpChange:
		return fmt.Errorf("operation %d is for the leader alone", q.Op)
	case !r.InForce(q.Op):
		return fmt.Errorf("operation %d is not in force at feature level %d", q.Op, r.level.Load())
	}
	return nil
}
