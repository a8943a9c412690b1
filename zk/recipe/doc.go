// Package recipe has the things a coordination service is used for, ready made:
// locks, elections, barriers, queues, counters, group membership, service
// discovery and caches, on top of package zk.
//
// # Which recipe
//
//	Mutex, RWLock, Semaphore, LockAll   one at a time, or readers and writers, or a few
//	Election, Latch                     who leads
//	Barrier, DoubleBarrier              begin and end together
//	Queue, PriorityQueue                work handed out once each
//	Value, Counter                      something shared that many change
//	Ephemeral, Group, Discovery         who is here
//	the caches                          a copy of znodes that follows them
//	Ledger                              a transaction that is applied exactly once
//
// A lock and its use:
//
//	m := recipe.NewMutex(c, "/locks/report", recipe.Options{Data: []byte(hostname)})
//	held, err := m.Lock(ctx)
//	if err != nil {
//		return err
//	}
//	defer held.Unlock(ctx)
//	return writeReport(held.Context(), held.Token())
//
// # Sessions
//
// Locks, barriers, queues and values take a [zk.Client], which is one session: when
// it has expired, they fail, and nothing that depended on the session is left. What
// should live as long as the process (Election, Latch, Ephemeral, Group,
// Discovery, the caches) takes a [zk.Sessions], and goes on with the next session by
// itself. Everything that shares a zk.Sessions shares its session:
//
//	sessions := zk.NewSessions(func() (*zk.Client, error) {
//		return zk.New("zk1,zk2,zk3/app", zk.Options{})
//	})
//	defer sessions.Close()
//	e := recipe.NewElection(sessions, "/leader", recipe.Options{Data: []byte(hostname)})
//	err := e.Run(ctx, func(ctx context.Context, held *recipe.Held) error {
//		return work(ctx, held.Token()) // until ctx ends
//	})
//
// # Failures
//
// The connection is lost (suspended). The session may go on or be expired by the
// ensemble; the client can't know. A holder stops relying on its lock:
// [Held.Context] ends with [ErrSuspended], a Latch no longer leads, a cache reports
// [CacheStale]. A waiter keeps its place and goes on waiting. Calls under way are repeated
// where that is safe, and after a lost reply the recipe finds out whether the request was
// applied.
//
// The connection comes back in time. What was held is still held: [Held.Confirm]
// tells, Election and Latch lead on with the same token, caches read everything again
// and tell the differences.
//
// The session expires. Locks, leases and leadership are lost ([ErrLost]) and go to
// the next in line; memberships and claims are gone. Calls fail with
// [zk.ErrSessionExpired]. Recipes on a zk.Sessions begin anew in the next session. A
// Ledger's commit whose reply was lost before the expiry is the one case in which
// nobody can know what happened; its error satisfies [zk.MaybeApplied].
//
// A context ends. The call returns at once, and a half-finished change is undone in the
// background: a waiter's znode is deleted as soon as the ensemble can be reached, or with
// the session.
//
// # Fencing
//
// A process that stops for a while, to collect garbage or because its machine is
// moved, doesn't see that its lock is lost, and acts as if it weren't, no matter how
// well it listens. Only the resource can keep it out. So every lock has a token that
// grows from holder to holder ([Held.Token], the czxid of its znode): the resource
// remembers the highest it has seen and refuses what comes with a lower one. If the
// resource is in ZooKeeper itself, [Held.Guard] does that in one step:
//
//	_, err = held.Client().Multi(ctx, held.Guard(), zk.SetOp("/state", next, zk.AnyVersion))
//
// # Fleets of several languages
//
// The znodes are laid out as Apache Curator 5 does it, and as kazoo does where
// Curator has nothing, so that programs in Java, Python and Go can share a lock, an
// election or a queue. The comment of each type names its counterpart. [Mutex] and [RWLock]
// say which arguments kazoo's locks need; kazoo's own queues, counters and semaphores have
// other layouts than Curator's and can't be shared. Znodes of locks have names of the form
// "_c_UUID-lock-0000000042": the UUID identifies the znode after a lost reply.
//
// Directories are created as needed, as containers, which the server removes once they have
// been used and are empty. Those of queues are persistent, so that the numbers of items
// never restart.
//
// # Load
//
// In a line, each waits for the one znode before it, so that a release wakes one
// waiter. The holder of a lock watches its own znode. The first waiter watches a semaphore,
// each waiting consumer watches its queue, and a cache has one watch, however large it is.
// A lock and unlock without contention take four requests.
//
// Everything a recipe starts ends with its Close, its Unlock, its context or its
// session, whichever comes first.
package recipe
