package quorum

import "github.com/zooid-project/zooid/internal/storage"

// An Entry is one committed entry of the log. Data is empty for entries that
// only begin a leader's term or change the membership. It is shared: nobody may
// change it.
type Entry struct {
	Term, Index uint64
	Data        []byte
}

// Leadership says who leads, as far as this server knows.
type Leadership struct {
	Leader   uint64 // server id, 0 if none
	IsLeader bool   // this server leads
	Term     uint64
	Lost     Loss // why the former leader lost its leadership; "" if there was none, or it still leads
	InForce  bool // told to a leader: raft's voters are those of the configuration it was started with
}

// A StateMachine is the application replicated by the log. A Loop calls its methods one at a
// time and waits for them, so they must not wait for the log.
type StateMachine interface {
	// Batch returns the next entry's data to propose, or nil. It is asked only of
	// the leader, and not again before what it returned is on this server's disk;
	// the bytes are the caller's until then.
	Batch() []byte
	// Forward returns requests to be handed to the leader's Forwarded, or nil. It
	// is asked only of a server that has a leader and a connection to it. The bytes
	// are the caller's until the next call.
	Forward() []byte
	// Forwarded takes what Forward returned on a follower.
	Forwarded(requests []byte) error
	// Resend makes Batch or Forward return again every request whose entry has
	// not been applied: the leader, or the connection to it, is a new one.
	Resend()
	// Apply applies committed entries, in order, each index once. An error ends
	// the Loop: the log is not what the state machine wrote.
	Apply(entries []Entry) error
	// Clock returns this server's time, ms since 1970. Correct tells the leader the
	// correction to add to it, computed from the other voters' times.
	Clock() int64
	Correct(ms int64)
	// Doubtful reports whether an entry of the last Apply carried a digest of its leader's
	// state that differs from this server's.
	Doubtful() bool
	// DigestAt returns the digest of the state after one of the last entries applied;
	// ok is false for another one.
	DigestAt(index uint64) (digest uint64, ok bool)
	// Syncs returns a ticket for the reads that must see everything acknowledged
	// by now, or 0; each ticket is larger than the one before.
	Syncs() uint64
	// Synced reports that everything acknowledged before the ticket was taken has been
	// applied. The same holds for all smaller tickets.
	Synced(ticket uint64)
	// Lead tells of a change of leader or term.
	Lead(Leadership)
	// Levels returns the feature level in force, and the highest this server knows.
	Levels() (inForce, known uint32)
	// Supported tells the leader the highest level that all members know, or that in
	// force if one of them isn't connected: it may be put in force. It is told before
	// Lead, and again now and then.
	Supported(level uint32)
	// Membership returns who the servers are to be and the version of that, or nil if
	// it is still the known version (0 at first).
	Membership(known int64) (m *Membership, version int64)
	// StepChange makes Batch return a request for a step of the change of membership
	// with that id. It is called on a leader, and again if the step doesn't come; once
	// another step was applied, or the change is over, it must have no effect.
	StepChange(id int64, step ChangeStep)
	// Report returns what this server has to tell the leader, empty for nothing: it is asked
	// every reportTicks, and the report isn't sent again if it gets lost. Reported takes it
	// on the leader.
	Report() []byte
	Reported(report []byte)
	// SnapshotDue says whether to take a snapshot now, logBytes having been
	// applied since the last one. It is asked after each Apply.
	SnapshotDue(logBytes int64) bool
	// Snapshot returns an image of the state at this instant, after the last
	// applied entry.
	Snapshot() Image
	// SnapshotDone says that an image of that many bytes is on the disk.
	SnapshotDone(meta storage.Meta, bytes int64)
	// Load reads the state in a snapshot received from a peer and changes nothing yet:
	// what restore, if it is called, replaces the state by. An error means that the
	// snapshot can't be used.
	Load(meta storage.Meta, snap *storage.Snapshot) (restore func(), err error)
}

// An Image is the state of one instant, to be read in chunks while newer entries
// are applied. Its methods may be called from another goroutine than the
// StateMachine's.
type Image interface {
	// Next appends the next chunk to dst; more is false once none is left.
	Next(dst []byte) (chunk []byte, more bool)
	// Describe returns what the snapshot file's header tells of the state.
	Describe() storage.Meta
	// Close ends the image; it may be called before its end.
	Close()
}
