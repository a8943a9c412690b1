package replica

import (
	"maps"
	"slices"

	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// restored closes the connections of the sessions that an OpRestore has ended, and ends the local sessions that have
// not entered, because the znodes that their clients watched and read are gone. A local session that is just entering
// lives on; its client reconnects. mu is held for writing.
func (r *Replica) restored(res *tree.Result) {
	if res.Outcome != tree.Applied || res.Err != jute.OK {
		return
	}
	r.limiter.changed = true
	const why = "an administrator restored a snapshot, which ends all sessions"
	for _, id := range res.Ended {
		r.expiry.Forget(id)
		r.counts.uncount(id)
		if c := r.hearing.attached[id]; c != nil {
			r.hearing.detach(id)
			c.CloseAfter(why)
		}
	}
	local := slices.Sorted(maps.Keys(r.locals.sessions))
	for _, id := range local {
		c := r.hearing.attached[id]
		if r.locals.here(id) {
			r.locals.end(id)
			r.hearing.detach(id)
		}
		if c != nil {
			c.CloseAfter(why)
		}
	}
	r.log.Info("an administrator restored a snapshot: the tree was replaced, and all sessions ended", "zxid", res.Zxid,
		"sessions", len(res.Ended)+len(local))
}

// Znodes appends the contents of the tree in the encoding of tree.OpRestore.
func (s *state) Znodes(b []byte) []byte {
	s.mu.RLock()
	defer s.mu.RUnlock()
	s.tree.Znodes(func(z *tree.Foreign) bool {
		b = tree.AppendZnode(b, z)
		return true
	})
	return b
}
