package quorum

import "github.com/zooid-project/zooid/internal/storage"

// An Entry is one committed entry of the log. Data is empty for entries that only
// begin a leader's term or change the membership. Data is shared and must not be
// modified.
type Entry struct {
	Term, Index uint64
	Data        []byte
}

// Leadership is what this server knows about the current leader.
type Leadership struct {
	Leader   uint64 // server id, 0 if none
	IsLeader bool   // this server leads
	Term     uint64
	Lost     Loss // why the former leader lost its leadership; "" if there was none, or it still leads
	InForce  bool // set on a leader: raft's voters are those of the configuration it was started with
}

// A StateMachine is the application replicated by the log. A Loop calls its methods one at a
// time and waits for them, so they must not wait for the log.
type StateMachine interface {
	// Batch returns the data of the next entry to propose, or nil. It is called only
	// on the leader, and not again before the data that it returned is on this
	// server's disk. Until then the data must not be changed.
	Batch() []byte
	// Forward returns requests for the leader's Forwarded, or nil. It is called only
	// on a server that has a leader and a connection to it. The returned bytes must
	// not be changed until the next call.
	Forward() []byte
	// Forwarded handles what Forward returned on a follower.
	Forwarded(requests []byte) error
	// Resend makes Batch or Forward return again every request whose entry has not
	// been applied. It is called when the leader, or the connection to it, is new.
	Resend()
	// Apply applies committed entries, in order, each index once. An error stops the Loop:
	// the log holds something that the state machine didn't write.
	Apply(entries []Entry) error
	// Clock returns this server's time, ms since 1970. Correct sets, on the leader, the
	// correction to add to that time, computed from the other voters' times.
	Clock() int64
	Correct(ms int64)
	// Doubtful reports whether an entry of the last Apply carried a digest of its leader's
	// state that differs from this server's.
	Doubtful() bool
	// DigestAt returns the digest of the state after the entry at index, which must be one
	// of the last entries applied; ok is false for any other entry.
	DigestAt(index uint64) (digest uint64, ok bool)
	// Syncs returns a ticket for the reads that must see everything acknowledged so far, or
	// 0 if there are none. Tickets are ascending.
	Syncs() uint64
	// Synced reports that everything acknowledged before the ticket was taken has been
	// applied. The same holds for all smaller tickets.
	Synced(ticket uint64)
	// Moment returns the time of the state machine's own clock, for UpToDate.
	Moment() int64
	// UpToDate reports that everything acknowledged to any client before that Moment has been applied here. It is called
	// several times a second while the leader answers this server.
	UpToDate(as int64)
	// Lead is called at each change of leader or term.
	Lead(Leadership)
	// Levels returns the feature level in force, and the highest level this server knows.
	Levels() (inForce, known uint32)
	// Supported tells a leader's state machine which level may be put in force: the highest
	// one that all members know, or the one in force if a member isn't connected. It is
	// called before Lead, and regularly afterwards.
	Supported(level uint32)
	// Rules returns the rules that this server announces to its peers, by which its state machine evaluates: always the
	// same, at most NoteSizeMax bytes.
	Rules() []byte
	// Announced tells a leader's state machine which rules the other members have announced, each member once, by id. It
	// is called after each call of Supported.
	Announced(members []Announcement)
	// Lineage returns the random number, agreed through the log, that distinguishes the ensemble's
	// history from any other ensemble's; 0 if this server hasn't applied that entry yet. It may be
	// called from any goroutine.
	Lineage() uint64
	// Membership returns the decided membership and its version. m is nil if that is still
	// version known, which is 0 at first.
	Membership(known int64) (m *Membership, version int64)
	// StepChange makes Batch return a request for a step of the change of membership with
	// that id. It is called on a leader, and again if the step isn't applied. The request
	// must have no effect once another step was applied or the change is over.
	StepChange(id int64, step ChangeStep)
	// Report returns a report for the leader, or nothing. It is called every reportTicks,
	// and a lost report isn't sent again. Reported handles a report on the leader.
	Report() []byte
	Reported(report []byte)
	// SnapshotDue reports whether to take a snapshot now. logBytes bytes of log were
	// applied since the last one. It is called after each Apply, and regularly.
	SnapshotDue(logBytes int64) bool
	// Snapshot returns an image of the state at this instant, after the last
	// applied entry.
	Snapshot() Image
	// SnapshotDone is called when an image of that many bytes is on the disk.
	SnapshotDone(meta storage.Meta, bytes int64)
	// Load reads the state in a snapshot received from a peer and changes nothing yet. If
	// install is called, it replaces the current state with the one read. An error means
	// that the snapshot can't be used; an UnfitError stops the server.
	Load(meta storage.Meta, snap *storage.Snapshot) (install func(), err error)
}

// An UnfitError says that a snapshot is intact, but that this server's program can't continue from it or from later
// ones.
type UnfitError struct{ Err error }

func (e *UnfitError) Error() string { return "take over a peer's snapshot: " + e.Err.Error() }

// Unwrap returns the reason.
func (e *UnfitError) Unwrap() error { return e.Err }

// An Image is the state at one instant, which is read in chunks while newer entries
// are applied. Its methods may be called from a goroutine other than the
// StateMachine's.
type Image interface {
	// Next appends the next chunk to dst; more is false after the last chunk.
	Next(dst []byte) (chunk []byte, more bool)
	// Describe returns the description of the state for the snapshot file's header.
	Describe() storage.Meta
	// Close releases the image. It may be called before all chunks are read.
	Close()
}
