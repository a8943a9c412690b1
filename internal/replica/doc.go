// Package replica is one server's copy of the service: the tree, the clients connected
// here with what they wait for and what they are told, the order of each session's
// requests and replies, and the end of sessions. It is the quorum's state machine.
//
// It computes. It opens no socket and no file, starts no goroutine and asks neither the
// clock nor chance: [Options] brings what it needs of them. Package server is one shell
// over it, the simulator another.
//
// # The story of a write
//
// A connection's goroutine reads a frame, stamps it (session, connection,
// sequence number, identities), notes it in the connection's queue of
// unanswered requests and appends it, with all writes that arrived together, to
// the outbox. The leader's quorum loop takes the whole outbox as one batch
// ([Replica.Batch]), makes it durable on a quorum and hands it back
// ([Replica.Apply]). There, holding the replica alone, each request is evaluated
// once by the tree; its watch events are queued on the connections that wait for
// them, then its reply on its own, then the reads that were queued behind it run.
//
// # The story of a read
//
// If nothing of its connection is unanswered, a read runs at once on the
// connection's goroutine, sharing the replica with other reads, and its reply
// is queued before the replica is let go. Otherwise it is queued, and runs
// right after the write before it is applied and before anything else of that
// connection is. A long read holds back the connection's writes behind it, and is
// done in steps (longread.go).
//
// # Order
//
// The rules X1 to X9 of the design follow from these five:
//
//  1. A reply or notification is appended to a connection's output while the
//     replica is held (shared for reads, alone for applied writes). So no
//     change slips between the state a reply shows and its place on the wire.
//  2. A write's events are queued before its reply.
//  3. A connection's unanswered requests form one queue; only its head is
//     answered.
//  4. A read queued behind a write runs before the next request of that
//     connection is applied, so it sees its session's earlier writes and none
//     of its later ones.
//  5. Only the connection that owns a session in the tree may write for it, each
//     sequence number once and in order (the tree checks, on every replica).
//
// # Locks
//
// Replica.mu, then Client.mu, then Replica.watchMu or outbox.mu. Each may be
// taken while those before it are held, never the other way.
package replica
