package quorum

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/zooid-project/zooid/internal/storage"
)

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
	// EventSnapshot with the file and message. When that is over, this server gets
	// EventSent.
	SendSnapshot(to, index uint64, message []byte)
	// SetPeers sets the members of the ensemble: the members decided on, and those that a
	// change under way adds. The Shell connects to all of them except this server, at the
	// given addresses. SetPeers is called for each membership that the state machine reports.
	// A server that leaves stays connected until DropPeer, since it has yet to hear of its removal.
	SetPeers(members []Member)
	// AddPeers adds servers to connect to, which need not be members.
	AddPeers(servers []Member)
	// DropPeer ends the connecting to a server, until SetPeers or AddPeers names it again.
	DropPeer(id uint64)
	// Visit announces this server to every peer that it knows, connected or not. Each peer
	// gets an EventGuest with the announcement.
	Visit(announcement []byte)
	// AnnounceSkips sends an EventSkips with note to every peer that is connected or
	// connects later. The note replaces earlier ones.
	AnnounceSkips(note []byte)
	// WriteSnapshot writes an image to a snapshot file and closes the image. When it
	// is done, this server gets EventWritten.
	WriteSnapshot(meta storage.Meta, image Image)
	// Purge removes all snapshots but the newest keep, and the log that only the removed
	// ones needed. It runs concurrently with the loop.
	Purge(keep int)
	// Beside starts work, possibly on another goroutine. Meanwhile the caller does what
	// is independent of it, then calls wait, which returns when the work is done.
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
	// From, whose identity is proven, asks to follow without being a member; Data is its announcement
	EventGuest
	EventDeparted // Data is the Departure of a life of this server, as From has applied it
	EventWritten  // the snapshot of Meta was written (Bytes before compression), or failed with Err
)

// An Event is an input from a Shell to a Loop.
type Event struct {
	Kind  EventKind
	From  uint64
	Data  []byte
	Level uint32 // of EventLevel and EventJoin: From's feature level
	// Frames, of EventLevel, is the highest kind of frame that From knows; 0 if it is of a version that doesn't tell.
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
}

// LoopOptions configures a Loop.
type LoopOptions struct {
	ID uint64
	// Incarnation is a number that no earlier run of any server of the group had.
	Incarnation uint64

	Dir     *storage.Dir
	State   StateMachine
	Shell   Shell
	Applied uint64   // index of the last entry State holds
	Members []Member // the configured members
	// Founding, if not nil, says how the group was founded, with this server. A new group begins
	// with its voters, or without it with those among Members.
	Founding *Founding
	// JoinedAfter, if not 0, makes this server join an ensemble: it takes no part
	// in elections until an entry beyond that index makes it a member. OnJoined, if
	// not nil, is called then.
	JoinedAfter   uint64
	JoinedTerm    uint64 // with JoinedAfter: this server takes part in no earlier term
	OnJoined      func()
	ElectionTicks int
	SnapshotsKept int // how many the purge after each snapshot keeps
	// RunningOnly lets this server, while it leads, give votes by a change that was asked for only to servers that run.
	// Without it servers that don't run get one, too, if the others are a majority of the new voters.
	RunningOnly bool
	Log         *slog.Logger
}

// reportTicks is how often a follower reports to the leader (StateMachine.Report).
const reportTicks = 2

// FrameKeepBytes is the largest capacity of a message buffer that is kept for reuse.
const FrameKeepBytes = 1 << 20

// A Loop is one running member of the group without its goroutines, sockets and
// clock. It is driven by ticks and events, and carries out what the Node asks for
// on the disk, the state machine and the Shell. Only one goroutine at a time may
// use it, except for Status, which is safe for concurrent use.
type Loop struct {
	o    LoopOptions
	log  *slog.Logger
	node *Node
	disk *storage.Log

	ef          Effects
	entries     []Entry
	applied     uint64
	conf        *pb.ConfState
	hard        pb.HardState
	batch       []byte // data to propose that raft has not accepted yet
	frame       []byte // buffer for the next message
	reads       reads
	snap        snapshots
	writes      writes
	tasks       tasks
	failover    failover
	leaderCheck leaderCheck
	lost        lost
	departures  departures
	roster      roster
	guests      guests
	strays      strays
	levels      levels
	skips       skips
	doubts      doubts
	clocks      clocks
	drains      drains
	arrived     *arrived // the snapshot just handed to raft, which has yet to accept it
	failed      error
	ticks       uint64
	sole        bool // this server is the only voter
	lastLead    Leadership
	// leaderDropped says that the leader closed its connection to this server. handing says
	// that this server leads and has asked another one to take over.
	leaderDropped, handing bool

	members       []Member // named by the state machine
	change        *Change  // the change of members under way, or nil
	wanted        []Member // the members decided on: those of change, if there is one
	wantedVersion int64
	reconciler    reconciler
	known         uint64 // index of the last entry on the disk at the start; what entries up to it change is no news
	memberSince   uint64 // index of the entry that made this server a member, as far as known
	refusedUntil  uint64 // tick before which refused snapshots aren't logged
	messages      refusedMessages

	mu     sync.Mutex
	status Status
	wish   DrainWish
	wishes uint64 // number of wish
}

// NewLoop continues from what o.Dir holds, or begins a new group.
func NewLoop(o LoopOptions) (*Loop, error) {
	disk := o.Dir.Log()
	hard, conf, err := disk.InitialState()
	if err != nil {
		return nil, fmt.Errorf("read the log's state: %w", err)
	}
	l := &Loop{o: o, log: o.Log, disk: disk, conf: conf, applied: o.Applied}
	l.levels = levels{
		known: map[uint64]uint32{}, frames: map[uint64]FrameKind{}, rules: map[uint64][]byte{}, outdated: map[uint64]int{},
	}
	l.drains.ask = o.Incarnation
	l.drains.led()
	l.guests.asked, l.guests.heard = map[uint64]uint64{}, map[uint64]uint64{}
	l.strays = strays{dialled: map[uint64]bool{}, since: map[uint64]uint64{}}
	l.lost = lost{
		out: map[uint64]departure{}, tried: map[uint64]attempt{}, former: map[uint64]uint64{}, admitted: map[uint64]bool{},
	}
	if hard != nil {
		l.hard.Term, l.hard.Vote, l.hard.Commit = hard.Term, hard.Vote, hard.Commit
	}
	if err := l.beginJoining(); err != nil {
		return nil, err
	}
	if err := l.skips.open(l); err != nil {
		return nil, err
	}
	if l.node, err = NewNode(NodeOptions{
		ID: o.ID, ElectionTicks: o.ElectionTicks, Storage: disk, Applied: o.Applied,
	}); err != nil {
		return nil, err
	}
	if err := l.begin(); err != nil {
		return nil, err
	}
	l.member(conf)
	l.roster.read(l)
	l.strays.note(l, l.Peers())
	l.departures.read(l)
	l.levels.inForce, _ = o.State.Levels()
	if meta, ok := o.Dir.NewestSnapshot(); ok && contains(conf, o.ID) {
		l.memberSince = meta.Index
	}
	l.publish()
	return l, nil
}

// Failed returns the error after which the server must stop, or nil.
func (l *Loop) Failed() error { return l.failed }

// IsLeader reports whether this server leads.
func (l *Loop) IsLeader() bool { return l.node.IsLeader() }

// step hands a peer's message to the node.
func (l *Loop) step(e Event) error {
	if l.isFormer(e) {
		return nil
	}
	m, err := l.vet(e)
	if err != nil {
		return err
	}
	if l.writes.pending() && m.GetType() == pb.MsgVoteResp {
		l.writes.holdVote(e)
		return nil
	}
	l.noteAdmitted(e.From, m)
	if l.joining() && electoral(m) || l.busySince(refuseLeadTicks) && m.GetType() == pb.MsgTimeoutNow ||
		l.failover.first(l, m) || m.GetType() == pb.MsgReadIndex && !l.answersReads(e.From) {
		return nil
	}
	l.formerVoter(m)
	return l.node.Step(m)
}

// vet returns the message of an event once it is checked against this server's state.
func (l *Loop) vet(e Event) (*pb.Message, error) {
	m, err := decodeMessage(e.Data)
	if err != nil {
		return nil, err
	}
	last, _, err := l.lastEntry()
	if err != nil {
		return nil, fmt.Errorf("read the log's last index: %w", err)
	}
	v := vetting{self: l.o.ID, from: e.From, term: l.node.Term(), last: last, file: e.Kind == EventSnapshot}
	return m, v.check(m)
}

// answersReads reports whether this server answers a peer's request for a read index. A
// former leader doesn't: raft would forward the request in the peer's name, and the new
// leader would refuse it. The peer asks again as soon as it knows the new leader. A
// leader doesn't answer a server that has left either. If that server doesn't know that
// it has left, the missing answer tells it (see leaderCheck).
func (l *Loop) answersReads(from uint64) bool {
	return l.node.IsLeader() && contains(l.conf, from)
}

// begin writes the first entries of a new group's log.
func (l *Loop) begin() error {
	last, err := l.disk.LastIndex()
	if err != nil {
		return fmt.Errorf("read the log's last index: %w", err)
	}
	l.known = last
	if last != 0 || l.o.JoinedAfter != 0 {
		return nil
	}
	if f := l.o.Founding; f != nil {
		l.levels.founded = f.Level
		return l.node.Bootstrap(f.Voters)
	}
	return l.node.Bootstrap(voterIDs(l.o.Members))
}

// elected reports whether this server may belong to an ensemble that has elected a leader.
func (l *Loop) elected() bool {
	founded := uint64(bootstrapTerm)
	if l.o.Founding != nil {
		founded = l.o.Founding.Term
	}
	// The node knows its term only once it has something to write.
	return l.o.JoinedAfter != 0 || max(l.hard.GetTerm(), l.node.Term()) > founded
}

// Tick advances the loop's clock by one tick. The caller calls Advance afterwards. Tick does
// nothing once the loop has failed, since the state machine may be unusable.
func (l *Loop) Tick() {
	if l.failed != nil {
		return
	}
	l.ticks++
	if err := l.disk.Err(); err != nil && l.failed == nil {
		l.failed = err // it occurred outside the loop, for example while a peer's snapshot was written
	}
	l.awaitApplied()
	if !l.joining() && (l.node.IsLeader() || !l.Stuck()) {
		l.node.Tick()
	}
	l.writes.tick(l)
	l.reads.tick(l)
	l.failover.tick(l)
	l.leaderCheck.tick(l)
	l.clocks.tick(l)
	l.drains.tick(l)
	l.guests.tick(l)
	if !l.tasks.underWay() {
		l.tickState()
	}
	if l.ticks%reportTicks == 0 && !l.node.IsLeader() && l.node.Leader() != 0 {
		if b := l.o.State.Report(); len(b) > 0 {
			l.o.Shell.Send(l.node.Leader(), FrameReport, b)
		}
	}
	l.publish()
}

// tickState does the part of Tick that looks at the state machine.
func (l *Loop) tickState() {
	l.levels.tick(l)
	l.doubts.tick(l)
	l.decided()
	if l.ticks%reconcileTicks == 0 && !l.Stuck() { // the roster is kept on the disk
		l.roster.keep(l)
		l.departures.keep(l)
		l.reconcile()
		l.strays.tick(l)
	}
	if l.snap.wanted || l.ticks%snapshotLookTicks == 0 {
		l.snap.consider(l)
	}
}

// Resting reports, after a Turn, whether nothing waits for a tick: this server leads,
// no other server is a member or is to become one, and nothing was applied since the
// last tick. Ticks may then be far apart. Only an event or a new request ends the rest.
func (l *Loop) Resting() bool {
	return l.sole && len(l.conf.GetLearners()) == 0 && l.node.IsLeader() && !l.writes.under && !l.tasks.awaited() &&
		l.ticks > 0 && l.status.Applied == l.applied &&
		l.change == nil && l.batch == nil && len(l.strays.since) == 0 && l.reads.asked == 0 && l.reads.ready == 0 &&
		!l.snap.wanted &&
		!slices.ContainsFunc(l.wanted, func(m Member) bool { return m.ID != l.o.ID })
}

// Handle handles an event. The caller calls Advance afterwards. Like Tick, Handle does nothing
// once the loop has failed.
func (l *Loop) Handle(e Event) {
	if l.failed != nil {
		if e.File != nil {
			e.File.Abort()
		}
		return
	}
	l.awaitApplied()
	switch e.Kind {
	case EventRaft:
		if err := l.step(e); err != nil {
			l.messages.refuse(l, e.From, err)
		}
	case EventForward:
		if l.node.IsLeader() {
			l.forward(e.From, e.Data)
		}
	case EventReport:
		if l.node.IsLeader() {
			l.o.State.Reported(e.Data)
		}
	case EventClock:
		l.clocks.heard(l, e)
	case EventDigest:
		e.Data = slices.Clone(e.Data)
		l.call(nil, func() { l.doubts.heard(l, e) })
	case EventLevel:
		l.levels.announced(e.From, e.Level, e.Frames)
		l.introduce(e.From)
	case EventRules:
		l.levels.rules[e.From] = e.Data
	case EventDrain:
		l.drains.reported(l, e)
	case EventDrainAnswer:
		l.drains.answered(l, e)
	case EventMembers:
		if err := l.introduced(e.Data); err != nil {
			l.log.Warn("a peer's list of members can't be decoded", "peer", e.From, "err", err)
		}
	case EventDeparted:
		l.departures.told(l, e)
	case EventGuest:
		l.guests.announced(l, e)
	case EventSkips:
		l.skips.heard(l, e)
	case EventConnected:
		l.levels.announced(e.From, 0, 0)
		delete(l.levels.rules, e.From)
		delete(l.skips.told, e.From)
		if e.From == l.node.Leader() {
			l.tell(l.o.State.Resend)
			l.reads.retry(l) // without a connection, earlier questions were dropped
		}
	case EventLost:
		l.failover.lost(l, e.From)
	case EventSnapshot:
		l.received(e)
	case EventJoin:
		l.join(e)
	case EventWritten:
		l.snap.written(l, e)
	case EventSent:
		status := raft.SnapshotFinish
		if e.Err != nil {
			status = raft.SnapshotFailure
		}
		l.node.ReportSnapshot(e.From, status)
	}
}

// work does all work that is ready until a write is due.
func (l *Loop) work() {
	for l.failed == nil && !l.tasks.due {
		if !l.writes.under && !l.tasks.awaited() {
			l.skips.release(l)
		}
		l.feed()
		if !l.node.Turn(&l.ef) {
			if l.assume() {
				continue
			}
			return
		}
		if l.ef.LeaderChanged {
			l.leaderChanged()
		}
		for _, rs := range l.ef.Reads {
			l.reads.answered(l, rs)
			l.leaderCheck.answered(l, rs)
		}
		for _, m := range l.ef.Send {
			l.send(m)
		}
		l.take(l.ef.Append, l.ef.Apply)
	}
}

// apply applies committed entries while nothing else runs.
func (l *Loop) apply(m *pb.Message) {
	l.keepCommit(m.GetEntries())
	l.applyInTurn(m)
}

// applyInTurn applies committed entries. After each entry that changes raft's membership it
// looks at the membership decided on, because the membership after a later entry may no
// longer name servers whose votes still count.
func (l *Loop) applyInTurn(m *pb.Message) {
	news := false
	for left := m.GetEntries(); len(left) > 0 && l.failed == nil; {
		n := slices.IndexFunc(left, reconfigures) + 1
		if n == 0 {
			n = len(left)
		}
		if l.gather(left[:n]) {
			l.failed = l.o.State.Apply(l.entries)
		}
		if left = left[n:]; l.failed == nil && len(left) > 0 {
			news = l.decided() || news
		}
	}
	l.finish(m, news)
}

// reconfigures reports whether an entry changes raft's membership.
func reconfigures(e *pb.Entry) bool { return e.GetType() != pb.EntryNormal }

// feed proposes the state machine's next batch if this server leads, and otherwise
// forwards the state machine's requests to the leader. It also asks for a read index if
// reads wait for one.
func (l *Loop) feed() {
	switch {
	case l.writes.under: // the memory of the last batch is in use (Batch)
	case l.tasks.awaited(): // the state machine is busy
	case l.node.IsLeader():
		if l.node.Transferring() {
			break
		}
		if l.batch == nil {
			l.batch = l.o.State.Batch()
		}
		if l.batch != nil {
			if err := l.node.Propose(l.batch); err == nil {
				l.batch = nil
			} else if !errors.Is(err, raft.ErrProposalDropped) {
				l.failed = fmt.Errorf("propose a batch: %w", err)
			}
		}
	case l.node.Leader() != 0 && l.o.Shell.Connected(l.node.Leader()):
		l.batch = nil
		if !l.o.Shell.Room(l.node.Leader()) {
			break
		}
		if requests := l.o.State.Forward(); len(requests) > 0 {
			l.o.Shell.Send(l.node.Leader(), FrameForward, requests)
		}
	}
	if ticket := l.o.State.Syncs(); ticket != 0 {
		l.reads.ask(l, ticket)
	}
}

// send sends a raft message to a peer.
func (l *Loop) send(m *pb.Message) {
	if l.levels.withholds(l, m) || l.skips.withholds(l, m) {
		if m.GetType() == pb.MsgSnap {
			l.node.ReportSnapshot(m.GetTo(), raft.SnapshotFailure)
		} else {
			l.node.ReportUnreachable(m.GetTo())
		}
		return
	}
	b, err := proto.MarshalOptions{}.MarshalAppend(l.frame[:0], m)
	if err != nil {
		l.failed = fmt.Errorf("encode a raft message for server %d: %w", m.GetTo(), err)
		return
	}
	if m.GetType() == pb.MsgSnap {
		if !contains(m.GetSnapshot().GetMetadata().GetConfState(), m.GetTo()) {
			// Raft refuses a snapshot whose membership lacks the receiver.
			l.snap.wanted = true
			l.node.ReportSnapshot(m.GetTo(), raft.SnapshotFailure)
			return
		}
		if !l.doubts.mayGive(l) {
			l.node.ReportSnapshot(m.GetTo(), raft.SnapshotFailure) // raft tries again
			return
		}
		l.o.Shell.SendSnapshot(m.GetTo(), m.GetSnapshot().GetMetadata().GetIndex(), slices.Clone(b))
		return
	}
	if cap(b) <= FrameKeepBytes {
		l.frame = b
	}
	if !l.o.Shell.Send(m.GetTo(), FrameRaft, b) && m.GetType() == pb.MsgApp {
		l.node.ReportUnreachable(m.GetTo())
	}
}

// deliver hands the responses to a finished write, or to applied entries, to their receivers.
func (l *Loop) deliver(responses []*pb.Message) {
	for _, m := range responses {
		if m.GetTo() != l.o.ID {
			l.send(m)
		} else if err := l.node.Step(m); err != nil {
			l.failed = fmt.Errorf("deliver raft's own response %s: %w", m.GetType(), err)
		}
	}
}

// gather prepares committed entries for the state machine, in l.entries. It carries out changes
// of raft's membership. It returns false if it fails the loop.
func (l *Loop) gather(entries []*pb.Entry) bool {
	l.entries = l.entries[:0]
	for _, e := range entries {
		if e.GetIndex() != l.applied+1 {
			panic(fmt.Sprintf("quorum: entry %d is to be applied after %d", e.GetIndex(), l.applied))
		}
		l.applied = e.GetIndex()
		l.reconciler.ready = l.reconciler.ready || l.lastLead.IsLeader && e.GetTerm() == l.lastLead.Term
		l.snap.logged(len(e.GetData()))
		entry := Entry{Term: e.GetTerm(), Index: e.GetIndex(), Data: e.GetData()}
		if reconfigures(e) {
			conf, err := l.node.ApplyConfChange(e)
			if err != nil {
				l.failed = err
				return false
			}
			l.memberAt(conf, e.GetIndex())
			l.left(e)
			entry.Data = nil
		}
		if l.skips.skipped(l, e) {
			entry.Data = nil
		}
		if l.failed != nil {
			return false
		}
		l.entries = append(l.entries, entry)
	}
	return true
}

// finish does what is due after the state machine has applied m's entries. news says that
// the membership decided on has changed while they were applied.
func (l *Loop) finish(m *pb.Message, news bool) {
	if l.failed != nil {
		return
	}
	clear(l.entries)
	l.deliver(m.GetResponses())
	l.reads.applied(l)
	l.leaderCheck.applied(l)
	if l.o.State.Doubtful() {
		l.doubts.begin(l)
	}
	if news = l.decided() || news; (news || l.change != nil && slices.ContainsFunc(m.GetEntries(), reconfigures)) &&
		l.knowsAll() {
		l.reconcile()
	}
	l.snap.consider(l)
}

// memberAt sets raft's membership as of the entry at index.
func (l *Loop) memberAt(conf *pb.ConfState, index uint64) {
	was, is := contains(l.conf, l.o.ID), contains(conf, l.o.ID)
	if is && !was {
		l.memberSince = index
	}
	learned := slices.Contains(l.conf.GetLearners(), l.o.ID)
	if learned && index > l.known && slices.Contains(conf.GetVoters(), l.o.ID) {
		l.log.Info("this server has joined the ensemble: it is a member and votes")
	}
	l.member(conf)
	l.publish() // whoever is answered now may ask who votes
}

// contains reports whether a server is in raft's membership. During joint consensus
// the outgoing voters are too.
func contains(conf *pb.ConfState, id uint64) bool {
	return slices.Contains(conf.GetVoters(), id) || slices.Contains(conf.GetLearners(), id) ||
		slices.Contains(conf.GetVotersOutgoing(), id)
}

// member sets raft's membership.
func (l *Loop) member(conf *pb.ConfState) {
	l.conf = conf
	l.reconciler.proposed = 0
	if conf.GetAutoLeave() { // raft proposes to leave joint consensus at once
		l.reconciler.proposed = l.ticks
	}
	l.sole = soleVoter(conf, l.o.ID)
}

// assume makes this server lead at once if it is the only voter, without waiting for
// an election timeout. It reports whether the node has something to do then. Its vote may be waiting to be written.
func (l *Loop) assume() bool {
	if !l.sole || l.node.IsLeader() || l.writes.pending() {
		return false
	}
	if err := l.campaign(); err != nil {
		l.failed = fmt.Errorf("start as the only voter: %w", err)
	}
	return l.node.HasReady()
}

func (l *Loop) leaderChanged() {
	lead := Leadership{Leader: l.node.Leader(), IsLeader: l.node.IsLeader(), Term: l.node.Term()}
	if lead == l.lastLead {
		return
	}
	l.failover.led(l, l.lastLead, lead)
	was := l.lastLead
	l.lastLead = lead
	lead.Lost = lossOf(was, lead, l.leaderDropped, l.handing)
	l.leaderDropped, l.handing = false, false
	l.reconciler = reconciler{}
	clear(l.lost.admitted)
	l.guests.led()
	l.drains.led()
	l.batch = nil // the servers that its requests came from send them again
	level, announced := uint32(0), []Announcement(nil)
	if lead.IsLeader {
		level, announced = l.levels.supported(l), l.levels.announcements(l)
		lead.InForce = l.inForce()
	}
	l.tell(func() {
		if lead.IsLeader {
			l.o.State.Supported(level)
			l.o.State.Announced(announced)
		}
		l.o.State.Lead(lead)
	})
	l.publish()
	l.reads.retry(l)
}

// TransferLeadership asks the voter that has most of the log to lead, one that doesn't drain if there is one. It does
// nothing if this server doesn't lead.
// It reports whether a transfer has begun.
func (l *Loop) TransferLeadership() bool {
	return l.node.IsLeader() && l.transferLeadershipTo(slices.Concat(l.conf.GetVoters(), l.conf.GetVotersOutgoing()))
}

// transferLeadershipTo asks the one of voters that has most of the log to lead.
func (l *Loop) transferLeadershipTo(voters []uint64) bool {
	best := slices.DeleteFunc(l.node.Followers(),
		func(f Progress) bool { return !f.Active || !slices.Contains(voters, f.ID) })
	if len(best) == 0 {
		return false
	}
	able := slices.DeleteFunc(slices.Clone(best), func(f Progress) bool { return l.drains.drains(f.ID) })
	if len(able) > 0 {
		best = able
	}
	to := slices.MaxFunc(best, func(a, b Progress) int { return cmp.Compare(a.Match, b.Match) })
	l.log.Info("handing leadership over", "to", to.ID)
	l.node.TransferLeadership(to.ID)
	l.handing = true
	return true
}

// ErrStopped is returned by an operation that ends because the server is stopping.
var ErrStopped = errors.New("the server is stopping")
