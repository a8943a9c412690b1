// Package recipe implements the usual patterns of coordination on top of package zk: locks, elections, barriers,
// queues, counters, group membership, service discovery and caches.
//
// # Which recipe
//
//	Mutex, RWLock, Semaphore, LockAll   one holder at a time, or readers and writers, or a few
//	Election, Latch                     one leader
//	Barrier, DoubleBarrier              begin and end together
//	Queue, PriorityQueue                each item goes to one consumer
//	Value, Counter                      shared data that many change
//	Ephemeral, Group, Discovery         which processes are running
//	Cache, TypedCache                   a copy of znodes that follows their changes
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
// Several goroutines may use any recipe at once, except for a [DoubleBarrier]. Locks, barriers, queues and values take
// a [zk.Client], which is one session. When the session has expired, they fail, and the locks, leases and claims of the
// session are gone; barriers, items and values stay. Recipes that live as long as the process (Election, Latch,
// Ephemeral, Group, Discovery, the caches) take a [zk.Sessions], and continue with the next session by themselves. All
// users of a zk.Sessions share its session:
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
// Constructors don't check a path: an invalid one fails the first call, or Wait. As in package zk, data passed to a
// call are copied before it returns, and data that it returns belong to the caller. Exceptions are Options,
// Ephemeral.SetData, and the data of caches and groups.
//
// # Failures
//
// The connection is lost. The client can't know whether the session continues or the ensemble has expired it. A holder
// must stop relying on its lock: [Held.Context] ends with [ErrSuspended], a Latch no longer leads, a cache reports
// [CacheStale]. A waiter keeps its place and continues to wait. Unanswered requests are repeated if that is safe. After
// a lost reply the recipe finds out whether the request was applied.
//
// The connection comes back in time. Locks are still held: [Held.Confirm] confirms it, Election and Latch continue to
// lead with the same token, caches read everything again and report the differences.
//
// The session expires. Locks, leases and leadership are lost ([ErrLost]) and go to the next participant; memberships
// and claims are gone. Calls fail with [zk.ErrSessionExpired]. If the program closes the client or the zk.Sessions, the
// same is lost, and the error is [zk.ErrClosed]. What the program closes by its own Close, such as a Latch, fails with
// [ErrClosed]; the session continues. Recipes on a zk.Sessions start again in the next session. If a Ledger's commit
// lost its reply before the session expired, its outcome can't be found out; [zk.MaybeApplied] holds for its error.
//
// The client is connected to a server without quorum (zk.Options.ReadOnly). Calls that write, and Held.Confirm, wait as
// without a connection until the client has found a server with quorum. For locks and leadership the connection counts
// as lost. For a cache it counts as a connection: the cache copies the state of that server and becomes fresh.
//
// A server sheds load ([zk.ErrThrottledOp]). Calls that write try again after a pause.
//
// A context ends. The call returns at once. Its error wraps the context's Err, never its cause, as in package zk. The
// znode of a waiter or a claim is deleted in the background as soon as the ensemble can be reached, or with the
// session. What a Ledger commits isn't undone: if zk.MaybeApplied holds for the error, it may be applied.
//
// # Fencing
//
// A process that stops for a while, to collect garbage or because its virtual machine is moved, can't notice in time
// that it has lost a lock, and continues to act as the holder. Only the resource can refuse it. So every lock has a
// token that grows from holder to holder ([Held.Token], the czxid of its znode): the resource remembers the highest
// token it has seen and refuses requests with a lower one. If the resource is in ZooKeeper itself, [Held.Guard] does
// that in one step:
//
//	_, err = held.Client().Multi(ctx, held.Guard(), zk.SetOp("/state", next, zk.AnyVersion))
//
// # Programs in several languages
//
// The layout of the znodes is that of Apache Curator 5, and that of kazoo where Curator has no such recipe. So programs
// in Java, Python and Go can share a lock, an election or a queue. The comment of each type names its counterpart.
// [Mutex] and [RWLock] say which arguments kazoo's locks need. kazoo's own queues, counters and semaphores have other
// layouts than Curator's and can't be shared. Znodes of locks have names of the form "_c_UUID-lock-0000000042": the
// UUID identifies the znode after a lost reply.
//
// Directories are created as needed, as containers, which the server removes once they have been used and are empty.
// Those of queues are persistent, so that the numbers of items never restart. The ledgers of a Queue, Value or Counter
// are in a directory next to it, whose name ends with "-ledgers". That of a Barrier is in the barrier's parent, for the
// time of a call.
//
// # Reading
//
// Value.Get, Counter.Get, Queue.Len, Barrier.Wait and the calls that list participants, members or instances read from
// the connected server, which may be behind. To see all earlier changes, call zk.Client.Sync first. All these calls
// wait for a connection. After a lost reply Barrier.Wait always asks again; for the others zk.Options.Retry decides. If
// the directory doesn't exist, Queue.Len returns 0, and lists are empty.
//
// # Load
//
// In a line, each participant waits for the one znode before it, so that a release wakes one waiter. The holder of a
// lock watches its own znode. Only the first waiter watches a semaphore, each waiting consumer watches its queue, and a
// cache has one watch, however large it is. A lock and unlock without contention take four requests.
//
// Everything that a recipe starts ends with its Close, its Unlock, its context or its session, whichever comes first.
package recipe
