package quorum

// FrameKind says what a frame on a connMessages connection holds.
type FrameKind byte

// The kinds of frame.
const (
	FrameRaft    FrameKind = 1 // a raft message
	FrameForward FrameKind = 2 // requests of a follower's clients, for the leader
	FrameReport  FrameKind = 3 // what StateMachine.Report returned on a follower
	FrameMembers FrameKind = 4 // the members' addresses (introduce.go); only from feature level 2
	FrameClock   FrameKind = 6 // the sender's time, ms since 1970 (clocks.go); only from feature level 2
	FrameDigest  FrameKind = 5 // a digest of the state (doubts.go); only from feature level 2
	// FrameDrain is a follower's report on draining, FrameDrainAnswer the leader's answer (drains.go). They are sent only
	// to servers that announce that they know them (EventLevel).
	FrameDrain       FrameKind = 7
	FrameDrainAnswer FrameKind = 8
	// FrameKindMax is the highest kind that this version knows.
	FrameKindMax = FrameDrainAnswer
)

// Event returns the Loop's event for a frame of kind k that came from a peer on the
// connection with number conn; ok is false for a kind that this version doesn't know.
func (k FrameKind) Event(from, conn uint64, payload []byte) (e Event, ok bool) {
	switch k {
	case FrameRaft:
		return Event{Kind: EventRaft, From: from, Conn: conn, Data: payload}, true
	case FrameForward:
		return Event{Kind: EventForward, From: from, Data: payload}, true
	case FrameReport:
		return Event{Kind: EventReport, From: from, Data: payload}, true
	case FrameMembers:
		return Event{Kind: EventMembers, From: from, Data: payload}, true
	case FrameClock:
		return Event{Kind: EventClock, From: from, Data: payload}, true
	case FrameDigest:
		return Event{Kind: EventDigest, From: from, Data: payload}, true
	case FrameDrain:
		return Event{Kind: EventDrain, From: from, Conn: conn, Data: payload}, true
	case FrameDrainAnswer:
		return Event{Kind: EventDrainAnswer, From: from, Data: payload}, true
	}
	return Event{}, false
}

const (
	// frameSizeMax bounds a frame. A raft message with entries holds at least one, whatever
	// MessageSizeMax is, and an entry is at most a batch of requests (a few MiB).
	frameSizeMax = 64 << 20
	// smallFrameSizeMax bounds a frame of a kind that grows with the membership only: a thousand members of a few
	// long addresses.
	smallFrameSizeMax = 1 << 20
)

// SizeMax returns the largest size of a frame of kind k, in bytes.
func (k FrameKind) SizeMax() int {
	switch k {
	case FrameMembers, FrameClock, FrameDigest, FrameDrain, FrameDrainAnswer:
		return smallFrameSizeMax
	}
	return frameSizeMax
}

// NoteSizeMax bounds one frame that the accepting side of a connection sends, in bytes.
const NoteSizeMax = 1 << 10
