// Package zk is a client for ZooKeeper, both Apache's servers and Zooid's.
//
// # Connecting
//
// [Open] takes the connect string that all ZooKeeper clients share, servers followed by an optional chroot, and returns
// a connected [Client]:
//
//	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
//	defer cancel()
//	c, err := zk.Open(ctx, "zk1:2181,zk2:2181,zk3:2181/app", zk.Options{})
//	if err != nil {
//		return err // names the last failure of each server
//	}
//	defer c.Close()
//
// [Dial] takes the same and more in a URL, such as zk://zk1,zk2/app?session_timeout=20s. With zk+srv://example.com/app,
// DNS SRV records list the servers (Options.SRV). [ParseURL] returns the Options of a URL; the program adds those that
// don't belong in a URL, such as credentials.
//
// A Client is one session. It sends pings, reconnects to another server when a connection is lost, and authenticates
// again; the session keeps its ephemeral znodes and watches. The client tries servers in random order and resolves host
// names at each attempt. An attempt gets the session timeout divided by the number of servers, but at least 100 ms. The
// pauses between attempts are random and grow to at most 1.6 s. A connection counts as lost when nothing has arrived on
// it for 2/3 of the session timeout. [New] returns at once, and [Client.Wait] waits for the connection. [Client.Chroot]
// returns a view of a subtree that shares the session. [Client.UpdateServers] replaces the list of servers.
//
// # Authentication
//
// A client can authenticate in three ways. It does so on every connection, before any other request. Znodes that it
// creates with [CreatorACL] are then accessible only to clients with the same identity:
//
//	zk.Options{Auth: []zk.Auth{zk.DigestAuth("app", "secret")}}
//	zk.Options{SASL: zk.DigestMD5("app", "secret")} // a user of the servers' login file
//	zk.Options{TLSConfig: &tls.Config{...}} // a certificate
//
// [Client.AddAuth] adds credentials of the first kind later. Packages [github.com/zooid-project/zooid/zk/scram] and
// [github.com/zooid-project/zooid/zk/kerberos] have further SASL mechanisms, and a program can implement its own
// [SASLMechanism]. If a server refuses the credentials of an AddAuth, that call fails, and the connection is lost but
// not the session. If it refuses others, or those that an AddAuth added earlier, the client ends with [ErrAuthFailed].
//
// # Calls
//
// Every call takes a context. If the context ends before the request was sent, the request is never sent. If the
// context ends later, the call returns, but the server may still carry out the request; the error says so. Errors of
// this package and of package recipe wrap the Err of an ended context, never its cause: the cause may be the error of
// another call, such as ErrNodeExists, and would look like this call's result. Data passed to a call are copied before
// it returns, and data that it returns belong to the caller. Each part of a result keeps the whole reply in memory.
//
//	data, stat, err := c.Get(ctx, "/config")
//	...
//	_, err = c.Set(ctx, "/config", changed, stat.Version)
//	switch {
//	case errors.Is(err, zk.ErrBadVersion):
//		// another client was faster
//	case zk.MaybeApplied(err):
//		// the connection was lost, or ctx ended: call Sync, then read the znode to find out
//	}
//
// Without a connection, calls wait for one until their context or the session ends. When a connection is lost,
// unanswered reads are sent again on the next one (see Options.Retry and Retryable). Writes aren't, since they may have
// been applied. Only [Client.CreateProtected], [Client.EnsurePath], [Client.DeleteAll] and package recipe find that out
// and then repeat theirs. The classes of errors are as follows; MaybeApplied and SessionLost can both hold:
//
//	errors.Is(err, zk.ErrNoNode) ...  the server refused; nothing was applied
//	zk.Retryable(err)                 not applied, or only a read; may be sent again
//	zk.MaybeApplied(err)              a write without a reply
//	zk.SessionLost(err)               the session has ended: open a new client
//
// Reads are answered by the server that the client is connected to. They see every acknowledged write of this client,
// but may miss recent writes of others; after [Client.Sync] they see all that were acknowledged before it. A client
// never reads an older state than it has read before, even if it reconnects to another server.
// [github.com/zooid-project/zooid/jute.CheckPath] says which paths are valid.
//
// [Client.CreateAll] makes a znode and its missing parents, [Client.EnsurePath] makes a whole path, and
// [Client.DeleteAll] deletes a tree.
//
// [Client.Txn] combines several writes; all are applied or none. [Client.Multi] does the same with a list.
// [Client.Pipeline] sends calls without waiting for replies and returns a [Future] for each. After a lost connection it
// sends nothing more, so no later write is applied when an earlier one is lost.
//
// [Typed] reads, writes and updates znodes whose data are values of one type, in JSON or in the form of a [Codec].
// [Time] converts a [Stat]'s Ctime or Mtime to a time.Time.
//
// # Watches
//
// [Client.GetW], [Client.ExistsW] and [Client.ChildrenW] set a one-shot [Watch]. [Client.AddWatch] sets a persistent
// one, on a znode or a whole subtree:
//
//	w, err := c.AddWatch(ctx, "/services", zk.AddWatchPersistentRecursive)
//	if err != nil {
//		return err
//	}
//	defer w.Close()
//	for e, err := range w.Events(ctx) {
//		switch {
//		case err != nil:
//			return err // ctx or the session has ended
//		case e.Type == zk.EventResync:
//			// events may be missing: read everything again
//		default:
//			// e.Path was created, changed or deleted
//		}
//	}
//
// Events come in the order of the changes, and before any reply that shows a later state. A slow reader never blocks
// the client: a one-shot watch has one event, and a persistent watch that overflows gets an EventResync instead. A
// persistent watch also gets an EventResync after a lost connection, since servers don't report the events that it
// missed. The EventResync comes once the next server has the watch, so what is read after it misses no change. Closing
// the last watch of a path removes the server's watch.
//
// # Sessions
//
// [Client.States] subscribes to changes of the client's state, and [Client.State] returns the current one. While the
// state is [StateConnecting], the ensemble may already have expired the session, and other clients may have seen that:
// a program that holds a lock must stop relying on it. When a session has expired, its Client has ended: its ephemeral
// znodes and watches are gone, and every call fails with [ErrSessionExpired]. The program opens a new Client, or uses
// [Sessions], which opens one for it.
//
// The client also treats the session as expired if no server has answered for 4/3 of the session timeout, as Apache's
// Java client does since 3.9.3. The ensemble may still have the session then, for example because it had no quorum to
// expire it; until it does expire it, the ephemeral znodes stay. A program that must survive longer outages sets a
// longer Options.SessionTimeout, up to the servers' maxSessionTimeout. Before its first connection a client has no such
// limit and tries until it is closed.
//
// [Client.Detach] leaves the session for another process to resume (Options.Resume). With Options.ReadOnly, the client
// reads from a server that has lost its quorum until it finds one with quorum.
//
// # Metrics and traces
//
// Options.Hooks are called for each request with its operation, path, zxid, error, duration and bytes, for each attempt
// to connect, for each change of state, and for each notification. Packages [github.com/zooid-project/zooid/zk/zkotel]
// and [github.com/zooid-project/zooid/zk/zkprom], which are modules of their own, turn them into spans and metrics for
// OpenTelemetry and Prometheus. Without hooks nothing is measured.
//
// # Related packages
//
// Package [github.com/zooid-project/zooid/zk/recipe] has locks, elections, queues and caches.
// [github.com/zooid-project/zooid/zktest] runs real servers inside a test and makes them fail.
// [github.com/zooid-project/zooid/zk/gozk/zk] has the interface of go-zookeeper/zk.
//
// # Servers
//
// The tests of the client and its recipes run with Zooid's servers and Apache's 3.9.5 (make clients). The tests of
// migration also use it with Apache's 3.5.10, 3.6.4, 3.7.2 and 3.8.4. Servers before 3.6 lack AddWatch, MultiRead,
// GetEphemerals and AllChildrenNumber, and those before 3.7 lack WhoAmI: they refuse the call with [ErrUnimplemented]
// and close the connection. The session continues.
//
// # Limits
//
// Every queue is bounded: unanswered requests (Options.MaxOutstanding), their bytes, unread events, unread state
// changes, and the sizes of requests and replies. At a bound the caller waits, or gets an error that names the bound,
// such as [ErrRequestTooLarge] or [ErrReplyTooLarge], or one event replaces those that are unread.
//
// # Differences from Apache's Java client
//
// Without a connection, calls wait instead of failing with ConnectionLoss at the next failed attempt. Reads are
// repeated by default. Closing a path's last Watch removes it at the server too. GetEphemerals respects the chroot.
// Replies may be larger than jute.maxbuffer. When the client moves to another server by choice, calls answered within
// two seconds don't fail. Lost connections are reported by States, not to every watch.
package zk
