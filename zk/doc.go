// Package zk is a client for ZooKeeper: for Apache's servers and for Zooid's.
//
// # Connecting
//
// [Open] takes the connect string all ZooKeeper clients share, servers first and
// an optional chroot after, and returns a connected [Client]:
//
//	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
//	defer cancel()
//	c, err := zk.Open(ctx, "zk1:2181,zk2:2181,zk3:2181/app", zk.Options{})
//	if err != nil {
//		return err // names what each server answered
//	}
//	defer c.Close()
//
// [Dial] takes the same and more as a URL, such as zk://zk1,zk2/app?session_timeout=20s, and
// zk+srv://example.com/app has DNS SRV records name the servers (Options.SRV). [ParseURL] returns
// the Options of a URL, to be completed by what no URL should have.
//
// A Client is one session. It sends pings, reconnects to another server when a
// connection is lost, authenticates again, and keeps its ephemeral znodes and watches
// meanwhile. Host names are resolved at each attempt. [New] returns at once, and
// [Client.Wait] waits for the connection. [Client.Chroot] returns a view of a subtree that
// shares the session. [Client.UpdateServers] replaces the list of servers.
//
// # Authentication
//
// A client can authenticate in three ways. It does so on every connection, before any
// other request. Znodes that it creates with [CreatorACL] are then accessible to it alone:
//
//	zk.Options{Auth: []zk.Auth{zk.DigestAuth("app", "secret")}}
//	zk.Options{SASL: zk.DigestMD5("app", "secret")} // a user of the servers' login file
//	zk.Options{TLSConfig: &tls.Config{...}} // a certificate
//
// [Client.AddAuth] adds to the first. Packages [github.com/zooid-project/zooid/zk/scram] and
// [github.com/zooid-project/zooid/zk/kerberos] have further SASL mechanisms, and a program
// can bring its own [SASLMechanism]. Credentials that a server refuses end the client with
// [ErrAuthFailed].
//
// # Calls
//
// Every call takes a context. A call that is cancelled before it was sent is never
// sent; one that was sent goes on at the server, which the error tells:
//
//	data, stat, err := c.Get(ctx, "/config")
//	...
//	_, err = c.Set(ctx, "/config", changed, stat.Version)
//	switch {
//	case errors.Is(err, zk.ErrBadVersion):
//		// someone else was first
//	case zk.MaybeApplied(err):
//		// the connection was lost, or ctx ended: read it back
//	}
//
// Without a connection calls wait for one, as long as their context and the
// session last. When a connection is lost, reads under way are sent again on the
// next (see Options.Retry); writes never are, as they may have been applied, except
// by [Client.CreateProtected], which looks first. The classes of errors:
//
//	errors.Is(err, zk.ErrNoNode) ...  the server refused; nothing was applied
//	zk.Retryable(err)                 certainly not applied, or only a read; may be sent again
//	zk.MaybeApplied(err)              a write whose reply is missing
//	zk.SessionLost(err)               the session is over: open a new client
//
// [Client.CreateAll] makes a znode and the parents it lacks, [Client.EnsurePath] a
// whole path, and [Client.DeleteAll] deletes a tree.
//
// [Client.Txn] puts several writes together, of which all are applied or none;
// [Client.Multi] does so with a list. [Client.Pipeline] sends calls
// without waiting for replies, and hands back a [Future] for each; after a lost
// connection it sends nothing more, so that nothing overtakes a lost write.
//
// [Typed] reads, writes and updates znodes whose data are values of one type, in JSON or
// by a [Codec]. [Time] makes a time.Time of a [Stat]'s Ctime or Mtime.
//
// # Watches
//
// [Client.GetW], [Client.ExistsW] and [Client.ChildrenW] leave a one-shot
// [Watch], [Client.AddWatch] a persistent one, on a znode or a whole subtree:
//
//	w, err := c.AddWatch(ctx, "/services", zk.AddWatchPersistentRecursive)
//	if err != nil {
//		return err
//	}
//	defer w.Close()
//	for e, err := range w.Events(ctx) {
//		switch {
//		case err != nil:
//			return err // ctx has ended, or the session
//		case e.Type == zk.EventResync:
//			// events may be missing: read everything again
//		default:
//			// e.Path was created, changed or deleted
//		}
//	}
//
// Events come in the order of the changes, and before any reply that shows a later
// state. A slow reader never blocks the client: a one-shot watch has one event, and a
// persistent watch that overflows gets an EventResync instead. A persistent watch also
// gets an EventResync after a lost connection, as servers don't report what it missed.
// Closing the last watch of a path removes the server's watch.
//
// # Sessions
//
// [Client.States] subscribes to changes of the client's state, and [Client.State] returns
// the current one. While the state is [StateConnecting], another client may already have
// seen this session expire: a program that holds a lock must stop relying on it. When a
// session has expired, its Client has ended: its ephemeral znodes and watches are gone, and
// every call fails with [ErrSessionExpired]. The program opens a new Client, or uses
// [Sessions], which does. Without any contact to a server, the client ends by itself after
// 4/3 of the session timeout. [Client.Detach] leaves the session for another process to
// resume (Options.Resume). With Options.ReadOnly the client uses a server that has lost its
// quorum, for reads, until it finds another.
//
// # Metrics and traces
//
// Options.Hooks are told of each request with its operation, path, zxid, error, duration and
// bytes, of each attempt to connect, change of state, and notification. Modules of their own,
// [github.com/zooid-project/zooid/zk/zkotel] and [github.com/zooid-project/zooid/zk/zkprom],
// make spans and metrics of that for OpenTelemetry and Prometheus. Without hooks nothing is measured.
//
// # Related packages
//
// Package [github.com/zooid-project/zooid/zk/recipe] has locks, elections, queues
// and caches; [github.com/zooid-project/zooid/zktest] runs real servers inside a
// test and makes them fail; [github.com/zooid-project/zooid/zk/gozk/zk] has the interface
// of go-zookeeper/zk, for programs that use that.
//
// # Limits
//
// Everything that queues is bounded: requests under way (Options.MaxOutstanding),
// their bytes, unread events, unread state changes, the size of requests and
// replies. At a bound the caller waits, or gets an error that names the bound, such as
// [ErrRequestTooLarge] or [ErrReplyTooLarge].
//
// # Differences from Apache's Java client
//
// Calls queue while there is no connection instead of failing with ConnectionLoss at
// the next failed attempt; reads are repeated by default; removing one watch removes
// it at the server too; GetEphemerals respects the chroot; replies may be larger than
// jute.maxbuffer; moving to another server voluntarily fails no call; events of a
// lost connection go to States, not to every watch.
package zk
