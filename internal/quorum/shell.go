package quorum

import "github.com/zooid-project/zooid/internal/storage"

// A Shell does a Loop's input and output: it moves bytes to peers and writes
// snapshot files. Servers use peer.Peer; a simulator has its own Shell.
type Shell interface {
	// Send queues a copy of a frame for a peer, or drops it and returns false. Frames to one
	// peer arrive in order. If queued frames are lost, the peer gets EventLost and this
	// server EventConnected.
	Send(to uint64, kind FrameKind, payload []byte) bool
	// Connected reports whether this server's connection to a peer is up.
	Connected(to uint64) bool
	// Room reports whether there is room in the send queue of a peer. Requests for a
	// leader are kept until a later turn while there is none.
	Room(to uint64) bool
	// SendSnapshot sends the snapshot file at index to a peer, which gets an
	// EventSnapshot with the file and message. When the transfer ends, this server gets
	// EventSent.
	SendSnapshot(to, index uint64, message []byte)
	// SetPeers sets the members of the ensemble: the decided ones, and those that a change under
	// way adds. The Shell connects to all of them except this server, at the given addresses.
	// SetPeers is called for each membership that the state machine reports. A leaving server
	// stays connected until DropPeer, since it must still hear of its removal.
	SetPeers(members []Member)
	// AddPeers adds servers to connect to, which need not be members.
	AddPeers(servers []Member)
	// DropPeer stops connecting to a server, until SetPeers or AddPeers names it again.
	DropPeer(id uint64)
	// Visit announces this server to every known peer, connected or not. Each peer gets an
	// EventGuest with the announcement.
	Visit(announcement []byte)
	// AnnounceSkips sends an EventSkips with note to every peer that is connected or
	// connects later. The note replaces earlier ones.
	AnnounceSkips(note []byte)
	// WriteSnapshot writes an image to a snapshot file and closes the image. When it
	// is done, this server gets EventWritten.
	WriteSnapshot(meta storage.Meta, image Image)
	// Purge removes all snapshots but the newest keep, and the log that only those needed. A member
	// may need the log after an entry, 0 if none does. Purge runs concurrently with the loop.
	Purge(keep int, needed uint64)
	// Beside starts work, possibly on another goroutine. The caller meanwhile does
	// independent work, then calls wait, which returns when work is done.
	Beside(work func()) (wait func())
}

// EventKind says what an Event is.
type EventKind uint8

// The kinds of Event.
const (
	EventRaft        EventKind = iota // Data is a raft message, from From
	EventForward                      // Data is requests of From's clients
	EventReport                       // Data is From's report (StateMachine.Report)
	EventConnected                    // our connection to From is new: frames sent before may be lost
	EventLost                         // From closed or reset its connection to us
	EventSnapshot                     // From's snapshot has arrived whole in File; Data is its message
	EventSent                         // our snapshot was sent to From, or failed with Err
	EventJoin                         // From has an empty data directory and asks to join; the answer goes to Join
	EventClock                        // Data is From's time
	EventDigest                       // Data is a digest of From's state
	EventLevel                        // From announces its feature level, Level, and the frames that it knows, Frames
	EventRules                        // From announces its rules, Data
	EventDrain                        // Data is From's report on draining
	EventDrainAnswer                  // Data is the leader's answer to this server's ask to drain
	EventSkips                        // Data is a note of the entries that From has decided to skip
	EventMembers                      // Data is the members' addresses as From knows them
	// From asks to follow without being a member, with a proven identity; Data is its announcement
	EventGuest
	EventDeparted // Data is the Departure of a life of this server that From has applied
	EventWritten  // the snapshot of Meta was written (Bytes before compression), or failed with Err
)

// An Event is an input from a Shell to a Loop.
type Event struct {
	Kind  EventKind
	From  uint64
	Data  []byte
	Level uint32 // of EventLevel and EventJoin: From's feature level
	// Frames, of EventLevel, is the highest kind of frame that From knows; 0 if From's version doesn't tell.
	Frames FrameKind
	File   *storage.SnapshotWriter
	Meta   storage.Meta
	Bytes  int64
	Join   chan<- JoinReply // of EventJoin; has capacity for one reply
	Taken  chan<- bool      // of EventSnapshot, capacity 1, may be nil: gets whether the file can be used
	Life   uint32           // of EventJoin: From's life; 0 if From is of the first version
	Known  bool             // of EventJoin: this server knows an address of From
	Empty  bool             // of EventJoin: the server at From's own address says that it is empty and in that life
	// Conn is the number of the connection on which a raft message or a report on draining came. For EventJoin it
	// is the number of the newest connection at that time. Numbers are ascending.
	Conn uint64
	Err  error
	// Unread, of EventSent, says that the snapshot could not be sent because this server can't read it.
	Unread bool
}
