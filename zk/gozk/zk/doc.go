// Package zk has the interface of github.com/go-zookeeper/zk, on top of this
// project's client. A program moves over by its import path:
//
//	import "github.com/go-zookeeper/zk"                // before
//	import "github.com/zooid-project/zooid/zk/gozk/zk" // after
//
// Every exported name of version 1.0.4 is here, with its signature. Errors are the
// same variables, to be compared with == or errors.Is.
//
// # What a program can rely on
//
// Calls wait for a connection. They fail with [ErrConnectionClosed] when theirs is
// lost before the answer has come, whether the server has done what it was asked
// or not, and with [ErrNoServer] when no server can be reached. A watch's channel
// gets one event: the one watched for, or an [EventNotWatching] with the reason
// when the session ends; it is there before the answer of any later call that
// shows the change. The channel of [Connect] gets every event, in order, and loses
// those that don't fit into it; an [EventCallback] gets all. After the session has
// expired the Conn opens another one by itself, with the credentials of AddAuth.
//
// # What is different
//
// Sessions also end when no server has answered for 4/3 of their timeout: they are
// over by then, whatever the server would say. Credentials that a server has taken
// once and then refuses end the Conn, which then is in StateAuthFailed. Paths and
// ACLs are checked by the rules of Apache's Java client. FLWSrvr reads the build
// dates of today's servers too, and FLWCons takes times for the milliseconds they
// are. A Lock whose wait fails doesn't stay in line.
//
// New programs are better served by package
// github.com/zooid-project/zooid/zk itself: contexts, persistent watches, pipelines,
// SASL, and errors that tell if a write may have been applied.
package zk
