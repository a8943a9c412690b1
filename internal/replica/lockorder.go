package replica

import "github.com/zooid-project/zooid/internal/invariant"

// The locks of this package, in the order in which a goroutine takes them: one that holds a lock takes only locks
// further down, and never two of one rank. The locks of other packages,
// such as that of the proposals, come last.
type (
	heavyRank    struct{} // long work in steps
	replicaRank  struct{} // the replica
	expiringRank struct{} // the clients whose credentials expire
	clientRank   struct{} // one client
	partRank     struct{} // watches, syncs, unanswered, hearing, withholding: none of these calls another
	ownersRank   struct{} // the owners of one scope
)

func (heavyRank) Rank() int    { return 1 }
func (replicaRank) Rank() int  { return 2 }
func (expiringRank) Rank() int { return 3 }
func (clientRank) Rank() int   { return 4 }
func (partRank) Rank() int     { return 5 }
func (ownersRank) Rank() int   { return 6 }

type (
	heavyLock    = invariant.Mutex[heavyRank]
	replicaLock  = invariant.RWMutex[replicaRank]
	expiringLock = invariant.Mutex[expiringRank]
	clientLock   = invariant.Mutex[clientRank]
	partLock     = invariant.Mutex[partRank]
	ownersLock   = invariant.Mutex[ownersRank]
)
