// Package quorum makes several servers agree on one log, through
// go.etcd.io/raft/v3, and hands the committed log to a state machine. It knows
// no znodes: entries are opaque bytes.
//
// # Two halves
//
// [Node] is the pure half: raft, stepped by events (a tick, a message of a peer,
// a batch to propose, a finished disk write) and answering with [Effects]
// (messages to send, writes to make durable, entries to apply). It has no
// goroutine, no clock and no file, so a simulator can drive it.
//
// [Peer] is the shell around one Node: a loop that feeds it events and carries
// its effects out, on a [storage.Dir], peer connections and a [StateMachine].
//
// # What holds
//
//  1. An entry is applied only after a quorum has it on disk; a batch is
//     answered only after it is applied.
//  2. Nothing a Node promises in a message (a vote, an acknowledged index)
//     leaves before it is durable: such messages travel as responses of the
//     write that makes them true.
//  3. A commit index alone needs no durability. It waits for the next write, so
//     a batch costs one write and one fsync.
//  4. A failed write ends the Peer: [Options.Fatal] is called once and nothing
//     is acknowledged afterwards.
package quorum
