// Package proposals holds the requests of one server that wait to be proposed, in the form of the log entries that they
// become. It imports no clock and knows neither connections nor the quorum: what it needs is in [Options].
//
// # Who owns what
//
// A [Queue] has a lock of its own, which is the last in the order of locks: while it is held, nothing else is locked,
// and only the functions of Options are called. Any goroutine may add requests, drop those of a client that is gone,
// and ask how long the oldest has waited. The Queue also counts what gone clients have left (left.go).
//
// What is added is copied. An entry that [Queue.Take] returns belongs to its caller, which may give the memory back
// ([Queue.Reuse]). Only the quorum's loop takes entries and writes their heads, clears the Queue, and tells it of
// snapshots. The goroutine that applies entries reports each of their requests ([Queue.Applied]). The loop waits for
// it.
//
// # The order
//
// The requests of a connection are taken in the order in which they were added, except those of [Queue.AddFirst], which
// go ahead of all. Entries of large requests take turns with the others (largelane.go), and only so many of them are
// under way. On a follower, only so many bytes of all requests are under way to the leader (inflight.go).
package proposals
