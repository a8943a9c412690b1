// Package zk has the interface of github.com/go-zookeeper/zk, implemented by this project's client. To change a
// program, replace the import path:
//
//	import "github.com/go-zookeeper/zk"                // before
//	import "github.com/zooid-project/zooid/zk/gozk/zk" // after
//
// Every exported name of version 1.0.4 is here, with its signature. Errors are variables of the same names, for
// comparison with == or errors.Is.
//
// # What stays the same
//
// Calls wait for a connection. They fail with [ErrConnectionClosed] when the connection is lost before the reply,
// whether or not the server has carried out the request, and with [ErrNoServer] when no server can be reached. A
// watch's channel gets one event and is closed: the event watched for, or an [EventNotWatching] with the reason when
// the session ends. Watches outlive a lost connection. Before a call returns a result that includes the change, the
// event is in the watch's channel. The channel of [Connect] gets events in order, but loses those that don't fit into
// it; an [EventCallback] gets all. After the session has expired, the Conn opens another one by itself, with the
// credentials of AddAuth. Data and ACLs passed to a call may be changed after it has returned, and what it returns
// belongs to the caller.
//
// # What is different
//
// Sessions also end when no server has answered for 4/3 of their timeout, with StateExpired. The ensemble may still
// have the session then, with its ephemeral znodes, or may have ended it earlier: what depends on it, such as a Lock,
// isn't certain from StateDisconnected on. A longer session timeout survives longer outages. If a server refuses
// credentials that it has accepted before, the Conn ends in StateAuthFailed: calls and watches fail with
// [ErrAuthFailed]. Paths and ACLs are checked by the rules of Apache's Java client. FLWSrvr also parses the build dates
// of today's servers, and FLWCons reads times as the milliseconds that servers send. A Lock whose wait fails leaves the
// line. While 1,000 calls are queued or unanswered, further calls wait.
//
// For new programs, package github.com/zooid-project/zooid/zk is the better choice: it has contexts, persistent
// watches, pipelines, SASL, and errors that tell whether a write may have been applied.
package zk
