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

// A Shell does for a Loop what computes nothing: it moves bytes to peers and
// writes snapshot files. The real one is peer.Peer; a simulator is another.
type Shell interface {
	// Send queues a copy of a frame for a peer, or drops it and returns false. Frames to one
	// peer arrive in order, or the peer sees EventLost and this server
	// EventConnected.
	Send(to uint64, kind FrameKind, payload []byte) bool
	// Connected reports whether frames to a peer are being sent.
	Connected(to uint64) bool
	// Room reports whether a peer takes what it is sent, so that little waits here.
	// Requests for a leader that has no room are kept until a later turn.
	Room(to uint64) bool
	// SendSnapshot sends the snapshot file at index to a peer, which gets an
	// EventSnapshot with the file and message; then this server gets EventSent.
	SendSnapshot(to, index uint64, message []byte)
	// SetPeers makes members those of the ensemble: the ones decided on, and the ones that
	// a change under way adds. They are servers to be connected to, this one aside, at the
	// addresses given. It is called for each membership the state machine tells of. A server
	// that leaves stays connected: it has yet to hear of it.
	SetPeers(members []Member)
	// AddPeers adds servers to be connected to that may be no members.
	AddPeers(servers []Member)
	// Visit announces this server to every peer that it knows, connected or not: each gets
	// an EventGuest with this announcement.
	Visit(announcement []byte)
	// AnnounceSkips sends every peer that connects, from now on or did, an EventSkips with
	// this note in place of former ones.
	AnnounceSkips(note []byte)
	// WriteSnapshot writes an image to a snapshot file, closes it, and answers
	// with EventWritten.
	WriteSnapshot(meta storage.Meta, image Image)
	// Purge removes old snapshots, all but the newest keep, and the log that only they
	// needed. It takes its time beside the loop.
	Purge(keep int)
	// Beside begins work, which another goroutine may do. The caller goes on with
	// what has nothing to do with it, then calls wait, which returns when it is done.
	Beside(work func()) (wait func())
}

// EventKind says what an Event is.
type EventKind uint8

// The kinds of Event.
const (
	EventRaft      EventKind = iota // Data is a raft message, from From
	EventForward                    // Data is requests of From's clients
	EventReport                     // Data is From's report (StateMachine.Report)
	EventConnected                  // our connection to From is new: what was sent before may be lost
	EventLost                       // From closed or reset its connection to us
	EventSnapshot                   // From's snapshot has arrived whole in File; Data is its message
	EventSent                       // our snapshot was sent to From, or Err
	EventJoin                       // From has an empty data directory and asks to join; answer on Join
	EventClock                      // Data is From's time
	EventDigest                     // Data is a digest of From's state
	EventLevel                      // From announces that it knows Level
	EventSkips                      // Data is a note of the entries that From has decided to skip
	EventMembers                    // Data is the members' addresses as From knows them
	// From, which has proven who it is, asks to follow without being a member; Data is its announcement
	EventGuest
	EventWritten // a snapshot of Meta was written (Bytes before compression), or Err
)

// An Event is an input that a Shell gives to a Loop.
type Event struct {
	Kind  EventKind
	From  uint64
	Data  []byte
	Level uint32 // feature level, of EventLevel and EventJoin
	File  *storage.SnapshotWriter
	Meta  storage.Meta
	Bytes int64
	Join  chan<- JoinReply // with room for one
	Taken chan<- bool      // of EventSnapshot, with room for one, may be nil: whether the file can be used
	Life  uint32           // of From, which asks to join; 0 if it is of the first version
	Known bool             // of EventJoin: this server knows an address of From
	Empty bool             // of EventJoin: at From's own address that life says that it is empty
	// Conn is the number of the connection that a message came on, or, of EventJoin, of
	// the newest one then. They count up.
	Conn uint64
	Err  error
}

// LoopOptions says what a Loop works on.
type LoopOptions struct {
	ID uint64
	// Incarnation is a number that no life of any server of the group had before.
	Incarnation uint64

	Dir     *storage.Dir
	State   StateMachine
	Shell   Shell
	Applied uint64   // index of the last entry State holds
	Members []Member // of a new group; unused when it joins one, or goes on
	// JoinedAfter, if not 0, makes this server join an ensemble: it takes no part
	// in elections until an entry beyond that index has made it a member. Then
	// OnJoined, if not nil, is called.
	JoinedAfter   uint64
	JoinedTerm    uint64 // with JoinedAfter: it takes part in no earlier term
	OnJoined      func()
	ElectionTicks int
	SnapshotsKept int // by the purge after each snapshot
	Log           *slog.Logger
}

// reportTicks is how often a follower reports to the leader (StateMachine.Report).
const reportTicks = 2

// FrameKeepBytes is the largest memory of a message that is used again.
const FrameKeepBytes = 1 << 20

// A Loop is one running member of the group without its goroutines, sockets and
// clock: it is told of ticks and events, and carries out what the Node wants on
// the disk, the state machine and the Shell. One goroutine at a time may use it;
// Status is for any.
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
	batch       []byte // not accepted by raft yet
	frame       []byte // memory for the next message
	reads       reads
	snap        snapshots
	failover    failover
	leaderCheck leaderCheck
	lost        lost
	roster      roster
	guests      guests
	levels      levels
	skips       skips
	doubts      doubts
	clocks      clocks
	arrived     *arrived // handed to raft, which decides whether it wants it
	failed      error
	ticks       uint64
	sole        bool // this server is the only voter
	lastLead    Leadership
	// leaderDropped says that the leader's connection ended, handing that this server, which
	// leads, has asked another one to.
	leaderDropped, handing bool

	members       []Member // named by the state machine
	change        *Change  // of them, under way
	wanted        []Member // the members that are to be
	wantedVersion int64
	reconciler    reconciler
	known         uint64 // index of the last entry on the disk at the start: what they say is no news
	memberSince   uint64 // index of the entry that made this server a member, as far as known
	refusedUntil  uint64 // tick before which refused snapshots are not told of

	mu     sync.Mutex
	status Status
}

// NewLoop continues from what o.Dir holds, or begins a new group.
func NewLoop(o LoopOptions) (*Loop, error) {
	disk := o.Dir.Log()
	hard, conf, err := disk.InitialState()
	if err != nil {
		return nil, fmt.Errorf("read the log's state: %w", err)
	}
	l := &Loop{o: o, log: o.Log, disk: disk, conf: conf, applied: o.Applied}
	l.levels.known, l.levels.outdated = map[uint64]uint32{}, map[uint64]int{}
	l.guests.asked, l.guests.heard = map[uint64]uint64{}, map[uint64]uint64{}
	l.lost = lost{out: map[uint64]departure{}, tried: map[uint64]attempt{}, former: map[uint64]uint64{}, admitted: map[uint64]bool{}}
	if hard != nil {
		l.hard.Term, l.hard.Vote, l.hard.Commit = hard.Term, hard.Vote, hard.Commit
	}
	if err := l.beginJoining(); err != nil {
		return nil, err
	}
	if err := l.skips.open(l); err != nil {
		return nil, err
	}
	if l.node, err = NewNode(NodeOptions{ID: o.ID, ElectionTicks: o.ElectionTicks, Storage: disk, Applied: o.Applied}); err != nil {
		return nil, err
	}
	if err := l.begin(); err != nil {
		return nil, err
	}
	l.member(conf)
	l.roster.read(l)
	l.levels.inForce, _ = o.State.Levels()
	if meta, ok := o.Dir.NewestSnapshot(); ok && contains(conf, o.ID) {
		l.memberSince = meta.Index
	}
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
	l.noteAdmitted(e.From, m)
	if l.joining() && electoral(m) || l.failover.first(l, m) || m.GetType() == pb.MsgReadIndex && !l.answersReads(e.From) {
		return nil
	}
	return l.node.Step(m)
}

// vet returns the message of an event once it is checked against this server's state.
func (l *Loop) vet(e Event) (*pb.Message, error) {
	m, err := decodeMessage(e.Data)
	if err != nil {
		return nil, err
	}
	last, err := l.disk.LastIndex()
	if err != nil {
		return nil, fmt.Errorf("read the log's last index: %w", err)
	}
	v := vetting{self: l.o.ID, from: e.From, term: l.node.Term(), last: last, file: e.Kind == EventSnapshot}
	return m, v.check(m)
}

// answersReads reports whether this server answers a read index of a peer. A former
// leader doesn't: raft would pass the question on in the peer's name, which the new
// leader refuses, and the peer asks again as soon as it knows of that one. Nor does
// a leader answer a server that has left and may not know: the lack of an answer
// tells it (see leaderCheck).
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
	var voters []uint64
	for _, m := range l.o.Members {
		if !m.Observer {
			voters = append(voters, m.ID)
		}
	}
	return l.node.Bootstrap(voters)
}

// Tick advances the loop's clock by one tick; Turn follows. It does nothing once the loop
// has failed: the state machine may be unusable.
func (l *Loop) Tick() {
	if l.failed != nil {
		return
	}
	l.ticks++
	if err := l.disk.Err(); err != nil && l.failed == nil {
		l.failed = err // found by others than the loop: in a peer's snapshot, say
	}
	if !l.joining() {
		l.node.Tick()
	}
	l.reads.tick(l)
	l.failover.tick(l)
	l.leaderCheck.tick(l)
	l.levels.tick(l)
	l.doubts.tick(l)
	l.clocks.tick(l)
	l.decided()
	l.guests.tick(l)
	if l.ticks%reconcileTicks == 0 {
		l.roster.keep(l)
		l.reconcile()
	}
	if l.snap.wanted || l.ticks%snapshotLookTicks == 0 {
		l.snap.consider(l)
	}
	if l.ticks%reportTicks == 0 && !l.node.IsLeader() && l.node.Leader() != 0 {
		if b := l.o.State.Report(); len(b) > 0 {
			l.o.Shell.Send(l.node.Leader(), FrameReport, b)
		}
	}
	l.publish()
}

// Resting reports, after a Turn, that nothing waits for a tick: this server leads,
// no other is a member or is to be one, and nothing was applied since the last
// tick. Ticks may then be far apart until it doesn't rest any more, for which it
// needs an event or something to agree on.
func (l *Loop) Resting() bool {
	return l.sole && len(l.conf.GetLearners()) == 0 && l.node.IsLeader() &&
		l.ticks > 0 && l.status.Applied == l.applied &&
		l.change == nil && l.batch == nil && l.reads.asked == 0 && l.reads.ready == 0 && !l.snap.wanted &&
		!slices.ContainsFunc(l.wanted, func(m Member) bool { return m.ID != l.o.ID })
}

// Handle takes what the shell brings; Turn follows. As Tick, it does nothing once the loop
// has failed.
func (l *Loop) Handle(e Event) {
	if l.failed != nil {
		if e.File != nil {
			e.File.Abort()
		}
		return
	}
	switch e.Kind {
	case EventRaft:
		if err := l.step(e); err != nil {
			l.log.Warn("a peer's raft message was not accepted", "peer", e.From, "err", err)
		}
	case EventForward:
		if l.node.IsLeader() {
			if err := l.o.State.Forwarded(e.Data); err != nil {
				l.log.Error("a peer forwarded requests that can't be read", "peer", e.From, "err", err)
			}
		}
	case EventReport:
		if l.node.IsLeader() {
			l.o.State.Reported(e.Data)
		}
	case EventClock:
		l.clocks.heard(l, e)
	case EventDigest:
		l.doubts.heard(l, e)
	case EventLevel:
		l.levels.announced(e.From, e.Level)
		l.introduce(e.From)
	case EventMembers:
		if err := l.introduced(e.Data); err != nil {
			l.log.Warn("what a peer told of the members can't be read", "peer", e.From, "err", err)
		}
	case EventGuest:
		l.guests.announced(l, e)
	case EventSkips:
		l.skips.heard(l, e)
	case EventConnected:
		l.levels.announced(e.From, 0)
		delete(l.skips.told, e.From)
		if e.From == l.node.Leader() {
			l.o.State.Resend()
			l.reads.retry(l) // what was asked before had no connection to go by
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

// Turn carries out what there is to do until nothing is left.
func (l *Loop) Turn() {
	for l.failed == nil {
		l.skips.release(l)
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
		l.carryOut(l.ef.Append, l.ef.Apply)
	}
}

// carryOut writes what raft wants on the disk and applies what is committed; each
// may be nil. What is committed is on the disk already, and what is written is
// applied in a later turn: so neither waits for the other, unless one of them is
// about more than plain entries. A write without entries is next to nothing, often
// nothing but the new commit index: another goroutine would only cost its waking.
func (l *Loop) carryOut(write, apply *pb.Message) {
	if l.skips.holds(apply) {
		apply = nil
	}
	if apply == nil || len(write.GetEntries()) == 0 || write.GetSnapshot() != nil || slices.ContainsFunc(apply.GetEntries(), reconfigures) {
		if write != nil {
			l.write(write)
		}
		if apply != nil {
			l.apply(apply)
		}
		return
	}
	if !l.gather(apply.GetEntries()) {
		return
	}
	var err error
	wait := l.o.Shell.Beside(func() { err = l.o.State.Apply(l.entries) })
	l.write(write)
	wait()
	if l.failed == nil {
		l.failed = err
	}
	l.finish(apply, false)
}

// apply applies what is committed, with nothing beside it.
func (l *Loop) apply(m *pb.Message) {
	l.keepCommit(m.GetEntries())
	l.applyInTurn(m)
}

// applyInTurn applies committed entries, and looks at the membership decided on after
// each that changes raft's: a later one may not name servers any more whose votes count
// still.
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

// reconfigures reports whether raft's membership changes with an entry.
func reconfigures(e *pb.Entry) bool { return e.GetType() != pb.EntryNormal }

// feed gives the node what the state machine wants to be agreed on, or sends it
// to the leader.
func (l *Loop) feed() {
	switch {
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
			// Raft takes no snapshot that doesn't know its receiver.
			l.snap.wanted = true
			l.node.ReportSnapshot(m.GetTo(), raft.SnapshotFailure)
			return
		}
		if !l.doubts.mayGive(l) {
			l.node.ReportSnapshot(m.GetTo(), raft.SnapshotFailure) // it is tried again
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

// write makes one append durable and delivers its responses.
func (l *Loop) write(m *pb.Message) {
	if l.failed != nil {
		return
	}
	var hs *pb.HardState
	sync := len(m.GetEntries()) > 0
	if m.Term != nil {
		hs = &pb.HardState{Term: m.Term, Vote: m.Vote, Commit: m.Commit}
		sync = sync || hs.GetTerm() != l.hard.GetTerm() || hs.GetVote() != l.hard.GetVote()
		l.hard.Term, l.hard.Vote, l.hard.Commit = hs.Term, hs.Vote, hs.Commit
	}
	switch {
	case m.GetSnapshot() != nil:
		l.install(m, hs)
	case hs != nil || len(m.GetEntries()) > 0:
		if err := l.disk.Append(hs, m.GetEntries(), sync); err != nil {
			l.failed = err
		}
	}
	if l.failed == nil {
		l.deliver(m.GetResponses())
	}
}

// deliver hands the responses of a local write to those they are for.
func (l *Loop) deliver(responses []*pb.Message) {
	for _, m := range responses {
		if m.GetTo() != l.o.ID {
			l.send(m)
		} else if err := l.node.Step(m); err != nil {
			l.failed = fmt.Errorf("deliver raft's own response %s: %w", m.GetType(), err)
		}
	}
}

// gather makes committed entries ready for the state machine; false is a failure.
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

// finish does what follows when the state machine has applied m's entries. news says that
// the membership decided on was another one meanwhile.
func (l *Loop) finish(m *pb.Message, news bool) {
	if l.failed != nil {
		return
	}
	clear(l.entries)
	l.deliver(m.GetResponses())
	l.reads.applied(l)
	if l.o.State.Doubtful() {
		l.doubts.begin(l)
	}
	if news = l.decided() || news; (news || l.change != nil && slices.ContainsFunc(m.GetEntries(), reconfigures)) && l.knowsAll() {
		l.reconcile()
	}
	l.snap.consider(l)
}

// memberAt takes note of the membership in force from the entry at index on.
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
}

// contains reports whether a server is a member; while voters change by joint
// consensus those before are members too.
func contains(conf *pb.ConfState, id uint64) bool {
	return slices.Contains(conf.GetVoters(), id) || slices.Contains(conf.GetLearners(), id) || slices.Contains(conf.GetVotersOutgoing(), id)
}

// member takes note of the membership in force.
func (l *Loop) member(conf *pb.ConfState) {
	l.conf = conf
	l.reconciler.proposed = 0
	l.sole = soleVoter(conf, l.o.ID)
}

// assume makes the only voter lead: nobody else can, so it needn't wait for the
// clock to find out. It reports whether that gave the node something to do.
func (l *Loop) assume() bool {
	if !l.sole || l.node.IsLeader() {
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
	l.batch = nil // its requests are sent again by the servers they came from
	if lead.IsLeader {
		l.o.State.Supported(l.levels.supported(l))
		lead.InForce = l.inForce()
	}
	l.o.State.Lead(lead)
	l.publish()
	l.reads.retry(l)
}

// TransferLeadership asks the voter that has most of the log to lead, if this server does. It
// reports whether there is something to wait for.
func (l *Loop) TransferLeadership() bool {
	return l.node.IsLeader() && l.transferLeadershipTo(slices.Concat(l.conf.GetVoters(), l.conf.GetVotersOutgoing()))
}

// transferLeadershipTo is TransferLeadership to one of some voters.
func (l *Loop) transferLeadershipTo(voters []uint64) bool {
	best := slices.DeleteFunc(l.node.Followers(), func(f Progress) bool { return !f.Active || !slices.Contains(voters, f.ID) })
	if len(best) == 0 {
		return false
	}
	to := slices.MaxFunc(best, func(a, b Progress) int { return cmp.Compare(a.Match, b.Match) })
	l.log.Info("handing leadership over", "to", to.ID)
	l.node.TransferLeadership(to.ID)
	l.handing = true
	return true
}

// ErrStopped is returned by what a stopping server was doing.
var ErrStopped = errors.New("the server is stopping")
