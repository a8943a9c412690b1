package replica

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/proposals"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// levels lets members with different versions, and different rules for the ids in ACLs, work together. It holds what
// the log has put in force, and what this server knows about the others.
type levels struct {
	*outside
	*state
	proposals *proposals.Queue

	level   atomic.Uint32              // feature level in force
	lineage atomic.Uint64              // see Lineage
	rules   atomic.Pointer[auth.Rules] // in force; nil for none
	unmet   unmetRules                 // guarded by mu

	// On the leader: what the quorum's loop has reported. The loop owns these fields.
	supported int32       // feature level that all members know
	announced []announced // by the other members; guarded by mu for other goroutines
}

// Levels returns the feature level in force, and the highest one that this server knows.
func (l *levels) Levels() (inForce, known uint32) {
	return l.level.Load(), uint32(l.settings.FeatureLevel)
}

// Supported puts level, the highest that all members know, in force.
func (l *levels) Supported(level uint32) {
	l.supported = int32(level)
	if level <= l.level.Load() {
		return
	}
	l.mu.RLock()
	leads := l.leader.IsLeader
	l.mu.RUnlock()
	if leads {
		l.log.Info("all members know a higher feature level: it is put in force", "inForce", l.level.Load(), "level", level)
		l.proposeSettings()
	}
}

// note stores the level in force, the rules and the lineage; mu is held for writing, or no other goroutine has l yet.
func (l *levels) note() {
	settings := l.tree.Settings()
	l.level.Store(uint32(settings.FeatureLevel))
	if l.rules.Store(nil); len(settings.Rules) > 0 {
		l.rules.Store(&settings.Rules)
	}
	l.lineage.Store(l.tree.Lineage())
}

// Lineage returns the lineage of this server's history, or 0 if none has been agreed on yet.
func (l *levels) Lineage() uint64 { return l.lineage.Load() }

// proposeLineage proposes a lineage for the ensemble if it has none. Standalone servers need none: an ensemble founded
// with their data has a new cluster id.
func (l *levels) proposeLineage() {
	if l.alone || l.tree.Lineage() != 0 {
		return
	}
	drawn := binary.BigEndian.Uint64(l.secret())
	l.proposals.Add(&tree.Request{Op: tree.OpLineage, Body: tree.AppendLineage(nil, max(drawn, 1))})
	l.kick()
}

// InForce reports whether a request may be put in the log at the level in force. A nil body stands
// for a request that sets no policy.
func (l *levels) InForce(code jute.Op, body []byte) bool {
	return tree.Admits(int32(l.level.Load()), code, body)
}

// withoutNewer returns forwarded records with opNever in place of each request that isn't in force.
// Such a request comes from a follower of an earlier version, which admits more. Its client waits
// for a reply, so the request can't just be dropped.
func (l *levels) withoutNewer(records []byte) []byte {
	if l.level.Load() >= uint32(tree.FeatureLevelMax) || !l.holdsNewer(records) {
		return records
	}
	l.log.Info("a follower of an earlier version forwarded a restore or a policy: it is refused until all servers are upgraded",
		"inForce", l.level.Load())
	var kept []byte
	var q tree.Request
	for batch := tree.RecordsOf(records); batch.Next(&q); {
		if q.Session != 0 && !l.InForce(q.Op, q.Body) {
			q.Op, q.Body = opNever, nil
		}
		kept = tree.AppendRecord(kept, &q)
	}
	return kept
}

func (l *levels) holdsNewer(records []byte) bool {
	var q tree.Request
	for batch := tree.RecordsOf(records); batch.Next(&q); {
		if q.Session != 0 && !l.InForce(q.Op, q.Body) {
			return true
		}
	}
	return false
}

// opNever is an operation that all versions answer with Unimplemented when it comes in a session.
// Only the session's sequence and the zxid change.
const opNever = jute.OpDeleteContainer

// forwardable returns an error if a peer may not forward q to be put in the log. Only the
// leader proposes settings, membership and its changes, the secret and the lineage.
func (l *levels) forwardable(q *tree.Request) error {
	switch {
	case q.Op == tree.OpSettings || q.Op == tree.OpMembers || q.Op == tree.OpSecret || q.Op == tree.OpChange,
		q.Op == tree.OpLineage:
		return fmt.Errorf("operation %d is for the leader alone", q.Op)
	case uint32(tree.LevelOf(q.Op)) > l.level.Load() || tree.LevelOf(q.Op) == 0:
		return fmt.Errorf("operation %d is not in force at feature level %d", q.Op, l.level.Load())
	}
	return nil
}
