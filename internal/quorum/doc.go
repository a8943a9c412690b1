// Package quorum makes several servers agree on one log, through
// go.etcd.io/raft/v3, and hands the committed log to a state machine. It doesn't know
// znodes: entries are opaque bytes.
//
// A [Loop] is driven by events (a tick, a peer's message, a finished write of the log),
// works on a [storage.Dir] and a [StateMachine], and asks its [Shell] for the
// rest. It has no goroutine, no clock and no socket, so a simulator can drive it;
// package peer is the shell that real servers use.
//
// # Invariants
//
//  1. An entry is applied only after a quorum has it on disk; a batch is
//     answered only after it is applied.
//  2. A promise in a Node's message (a vote, an acknowledged index) is durable before the
//     message is sent: such messages are responses of the write that makes them true.
//  3. A commit index alone needs no durability. It waits for the next write, so
//     a batch costs one write and one fsync.
//  4. A failed write ends the Loop: [Loop.Failed] says so, and nothing is
//     acknowledged afterwards.
package quorum
