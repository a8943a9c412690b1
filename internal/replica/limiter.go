package replica

import (
	"strings"
	"sync/atomic"

	"github.com/zooid-project/zooid/internal/limit"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// The limits of clients (package limit) come from a server's configuration; znodes below limit.Root
// override it on all servers. Each server enforces them on its own clients, before their requests
// reach the log: all servers apply the log alike. So requests that are still on their way to the
// tree can exceed a limit on its contents.

// limitsMax bounds the znodes below limit.Root that are read; if there are more, none is in
// force.
const limitsMax = 1000

// A limiter enforces the limits in force on this server's clients.
type limiter struct {
	*outside
	*state
	watches *watches

	addresses, identified owners
	inForce               atomic.Pointer[limit.InForce] // nil for none
	sizes                 limit.Sizes                   // of the tree

	// Guarded by state.mu.
	own     [limit.Scopes]limit.Set // of this server's configuration
	changed bool                    // the limits in the tree have changed since they were read
}

// SetLimits puts other limits in force, for places without a znode that sets limits.
func (l *limiter) SetLimits(sets [limit.Scopes]limit.Set) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.own = sets
	l.read()
}

// Limits returns the limits in force; those for limit.Path are the limits of the root.
func (l *limiter) Limits() [limit.Scopes]limit.Set {
	if b := l.inForce.Load(); b != nil {
		return b.Sets
	}
	return [limit.Scopes]limit.Set{}
}

// read puts in force the limits of the configuration and the tree; mu is held for writing.
func (l *limiter) read() {
	l.changed = false
	unfit := func(place limit.Place, err error) {
		l.log.Warn("a limit can't be parsed and is not in force", "znode", place.Znode(), "err", err)
	}
	l.inForce.Store(limit.NewInForce(l.own, l.texts(), l.inForce.Load(), unfit))
}

// texts returns the limits that the tree holds, by place; mu is held.
func (l *limiter) texts() map[limit.Place]string {
	texts := map[limit.Place]string{}
	if stat, ok := l.tree.Stat(limit.Root); !ok || stat.NumChildren == 0 {
		return texts
	} else if stat.NumChildren > limitsMax {
		l.log.Warn("there are too many limits: none of them is in force", "below", limit.Root,
			"znodes", stat.NumChildren, "most", limitsMax)
		return texts
	}
	reply, code := l.tree.AppendGetChildren(nil, limit.Root, asSuper())
	if code != jute.OK {
		return texts
	}
	for _, name := range jute.NewDecoder(reply).Strings() {
		place, ok := limit.PlaceOf(name)
		if !ok {
			l.log.Warn("a limit can't be parsed and is not in force", "znode", limit.Root+"/"+name,
				"err", "its name is neither a scope nor a path")
			continue
		}
		if data, code := l.tree.AppendGetData(nil, limit.Root+"/"+name, asSuper()); code == jute.OK {
			texts[place] = string(jute.NewDecoder(data).Buffer())
		}
	}
	return texts
}

// noteLimits records whether an event changes limits; mu is held for writing.
func (l *limiter) noteLimits(ev *tree.Event) {
	if len(ev.Path) > len(limit.Root) && strings.HasPrefix(ev.Path, limit.Root+"/") {
		l.changed = true
	}
}

// noteSizes updates the sizes that limit.InForce.Concerns checks and the version of the membership, after each Apply;
// mu is held for writing.
func (r *Replica) noteSizes() {
	r.members.version.Store(r.tree.Membership().Version())
	if r.limiter.changed {
		r.limiter.read()
	}
	r.limiter.sizes.Znodes.Store(int64(r.tree.NodeCount()))
	r.limiter.sizes.Ephemerals.Store(int64(r.tree.EphemeralsCount()))
	r.limiter.sizes.EphemeralPaths.Store(int64(r.tree.EphemeralPathBytes()))
}
