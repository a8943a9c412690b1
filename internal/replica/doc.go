// Package replica is one server's copy of the service: the tree, the clients connected here with
// their requests and notifications, the order of each session's requests and replies, and the end
// of sessions. It is the quorum's state machine.
//
// It only computes. It opens no sockets or files, starts no goroutines, and reads neither the clock
// nor randomness: [Options] supplies these. Package server drives a replica in production, the
// simulator drives one in tests.
//
// # The story of a write
//
// A connection's goroutine reads a frame, stamps it (session, connection, sequence number, identities), queues it among
// the connection's unanswered requests and appends it, with all writes that arrived together, to the proposals. The
// leader's quorum loop takes the oldest entry of the proposals as one batch ([Replica.Batch]), makes it durable on a
// quorum and hands it back ([Replica.Apply]). There, with the replica locked for writing, the tree evaluates each
// request once. Then its watch events are queued on the connections that wait for them, then its reply on its own
// connection, and then the reads that were queued behind it run.
//
// # The story of a read
//
// If its connection has nothing unanswered, a read runs at once on the connection's goroutine, with
// the replica locked for reading, concurrently with other reads. Its reply is queued before the
// replica is unlocked. Otherwise the read is queued, and runs right after the write ahead of it is
// applied, before anything else of that connection is applied. A long read holds back the
// connection's later writes, and is done in steps (longread.go).
//
// # Order
//
// The rules X1 to X9 of the design follow from these five:
//
//  1. A reply or notification is appended to a connection's output while the
//     replica is locked (for reading by reads, for writing by applied writes). So no
//     change slips between the state a reply shows and its place on the wire.
//  2. A write's events are queued before its reply.
//  3. A connection's unanswered requests form one queue; only its head is
//     answered.
//  4. A read queued behind a write runs before the next request of that
//     connection is applied, so it sees its session's earlier writes and none
//     of its later ones.
//  5. Only the connection that owns a session in the tree may write for it, each
//     sequence number once and in order (the tree checks that, on every replica).
//
// X10, which bounds how long a session is answered after its end elsewhere, is kept by uptodate.go.
//
// lockorder.go lists the locks in the order in which they are taken.
package replica
