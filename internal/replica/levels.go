package replica

import (
	"encoding/binary"
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

// noteLevel stores the level in force, the rules and the lineage; mu is held for writing, or no other goroutine
// has r yet.
func (r *Replica) noteLevel() {
	settings := r.tree.Settings()
	r.level.Store(uint32(settings.FeatureLevel))
	if r.rules.Store(nil); len(settings.Rules) > 0 {
		r.rules.Store(&settings.Rules)
	}
	r.lineage.Store(r.tree.Lineage())
}

// Lineage returns the lineage of this server's history, 0 if none was agreed on yet.
func (r *Replica) Lineage() uint64 { return r.lineage.Load() }

// proposeLineage proposes a lineage for the ensemble if it has none. Standalone servers need none: an
// ensemble that is founded of their data has a new cluster id.
func (r *Replica) proposeLineage() {
	if r.alone || r.tree.Lineage() != 0 {
		return
	}
	drawn := binary.BigEndian.Uint64(r.secret())
	r.outbox.add(&tree.Request{Op: tree.OpLineage, Body: tree.AppendLineage(nil, max(drawn, 1))})
	r.kick()
}

// InForce reports whether a request may be put in the log at the level in force. A nil body stands
// for a request that sets no policy.
func (r *Replica) InForce(code jute.Op, body []byte) bool {
	return tree.Admits(int32(r.level.Load()), code, body)
}

// withoutNewer returns forwarded records with opNever in place of each request that isn't in force.
// Such a request comes from a follower of an earlier version, which admits more. Its client waits
// for a reply, so the request can't just be dropped.
func (r *Replica) withoutNewer(records []byte) []byte {
	if r.level.Load() >= uint32(tree.FeatureLevelMax) || !r.holdsNewer(records) {
		return records
	}
	r.log.Info("a follower of an earlier version forwarded a restore or a policy: it is refused until all servers are upgraded",
		"inForce", r.level.Load())
	var kept []byte
	var q tree.Request
	for batch := tree.RecordsOf(records); batch.Next(&q); {
		if q.Session != 0 && !r.InForce(q.Op, q.Body) {
			q.Op, q.Body = opNever, nil
		}
		kept = tree.AppendRecord(kept, &q)
	}
	return kept
}

func (r *Replica) holdsNewer(records []byte) bool {
	var q tree.Request
	for batch := tree.RecordsOf(records); batch.Next(&q); {
		if q.Session != 0 && !r.InForce(q.Op, q.Body) {
			return true
		}
	}
	return false
}

// opNever is an operation that all versions answer with Unimplemented when it comes in a session.
// Nothing but the session's sequence and the zxid changes.
const opNever = jute.OpDeleteContainer

// forwardable returns an error if a peer may not forward q to be put in the log. Settings,
// membership and its changes, the secret and the lineage are proposed by the leader alone.
func (r *Replica) forwardable(q *tree.Request) error {
	switch {
	case q.Op == tree.OpSettings || q.Op == tree.OpMembers || q.Op == tree.OpSecret || q.Op == tree.OpChange,
		q.Op == tree.OpLineage:
		return fmt.Errorf("operation %d is for the leader alone", q.Op)
	case uint32(tree.LevelOf(q.Op)) > r.level.Load() || tree.LevelOf(q.Op) == 0:
		return fmt.Errorf("operation %d is not in force at feature level %d", q.Op, r.level.Load())
	}
	return nil
}
