package quorum

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// reportTicks is how often a follower reports to the leader (StateMachine.Report).
const reportTicks = 2

// FrameKeepBytes is the largest capacity of a message buffer that is kept for reuse.
const FrameKeepBytes = 1 << 20

// A Loop is one running member of the group without its goroutines, sockets and clock. It is driven by ticks and
// events, and carries out what the Node asks for on the disk, the state machine and the Shell. Only one goroutine at a
// time may use it, except for Status, which is safe for concurrent use.
//
// A Loop is made of parts. A part holds its own state, the view, and the other parts that it uses; it never sees the
// Loop. The exceptions begin calls of the state machine or elections: reads, leaderCheck, snap and failover.
type Loop struct {
	view
	o LoopOptions

	ef      Effects
	entries []Entry
	hard    pb.HardState
	batch   []byte // data to propose that raft has not accepted yet
	frame   []byte // buffer for the next message

	tasks        tasks
	writes       writes
	reads        reads
	snap         snapshots
	arrived      *arrived // the snapshot just handed to raft, which has yet to accept it
	refusedUntil uint64   // tick before which refused snapshots aren't logged
	messages     refusedMessages

	failover    failover
	leadership  leadership
	leaderCheck leaderCheck
	joining     joining
	lostDisks   lostDisks
	departures  departures
	roster      roster
	guests      guests
	strays      strays
	levels      levels
	skips       skips
	doubts      doubts
	clocks      clocks
	drains      drains

	wantedVersion int64 // of the membership decided on
	reconciler    reconciler

	mu     sync.Mutex
	status Status
}

// Failed returns the error after which the server must stop, or nil.
func (l *Loop) Failed() error { return l.failed }

// IsLeader reports whether this server leads.
func (l *Loop) IsLeader() bool { return l.node.IsLeader() }

// elected reports whether this server may belong to an ensemble that has elected a leader.
func (l *Loop) elected() bool {
	founded := uint64(bootstrapTerm)
	if l.o.Founding != nil {
		founded = l.o.Founding.Term
	}
	// The node knows its term only once it has something to write.
	return l.joining.after != 0 || max(l.hard.GetTerm(), l.node.Term()) > founded
}

// Tick advances the loop's clock by one tick. The caller calls Advance afterwards. After a failure, Tick does nothing,
// since the state machine may be unusable.
func (l *Loop) Tick() {
	if l.failed != nil {
		return
	}
	l.ticks++
	if err := l.disk.Err(); err != nil && l.failed == nil {
		l.failed = err // it occurred outside the loop, for example while a peer's snapshot was written
	}
	l.awaitApplied()
	if !l.joining.lasts() && (l.node.IsLeader() || !l.Stuck()) {
		l.node.Tick()
	}
	l.writes.tick(&l.leadership)
	l.reads.tick(l)
	l.failover.tick(l)
	l.leaderCheck.tick(l)
	l.clocks.tick()
	l.drains.tick()
	l.guests.tick()
	if !l.tasks.underWay() {
		l.tickState()
	}
	if l.ticks%reportTicks == 0 && !l.node.IsLeader() && l.node.Leader() != 0 {
		if b := l.state.Report(); len(b) > 0 {
			l.shell.Send(l.node.Leader(), FrameReport, b)
		}
	}
	l.publish()
}

// tickState does the part of Tick that looks at the state machine.
func (l *Loop) tickState() {
	l.levels.tick()
	l.doubts.tick()
	l.decided()
	if l.ticks%reconcileTicks == 0 && !l.Stuck() { // the roster is kept on the disk
		l.roster.keep()
		l.departures.keep()
		l.reconciler.reconcile()
		l.strays.tick()
	}
	if l.snap.wanted || l.ticks%snapshotLookTicks == 0 {
		l.snap.consider(l)
	}
}

// Resting reports, after a Turn, whether nothing waits for a tick: this server leads, no other server is or will be a
// member, and nothing was applied since the last tick. Ticks may then be far apart. Only an event or a new request ends
// the rest.
func (l *Loop) Resting() bool {
	return l.sole && len(l.conf.GetLearners()) == 0 && l.node.IsLeader() && !l.tasks.writing && !l.tasks.awaited() &&
		l.ticks > 0 && l.status.Applied == l.applied &&
		l.change == nil && l.batch == nil && len(l.strays.since) == 0 && l.reads.asked == 0 && l.reads.ready == 0 &&
		!l.snap.wanted &&
		!slices.ContainsFunc(l.wanted, func(m Member) bool { return m.ID != l.id })
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
			l.state.Reported(e.Data)
		}
	case EventClock:
		l.clocks.heard(e)
	case EventDigest:
		e.Data = slices.Clone(e.Data)
		l.call(nil, func() { l.doubts.heard(e) })
	case EventLevel:
		l.levels.announced(e.From, e.Level, e.Frames)
		l.roster.introduce(e.From)
	case EventRules:
		l.levels.rules[e.From] = e.Data
	case EventDrain:
		l.drains.reported(e)
	case EventDrainAnswer:
		l.drains.answered(e)
	case EventMembers:
		if err := l.roster.introduced(e.Data); err != nil {
			l.log.Warn("a peer's list of members can't be decoded", "peer", e.From, "err", err)
		}
	case EventDeparted:
		l.departures.told(e)
	case EventGuest:
		l.guests.announced(e)
	case EventSkips:
		l.skips.heard(e)
	case EventConnected:
		l.levels.announced(e.From, 0, 0)
		delete(l.levels.rules, e.From)
		delete(l.skips.told, e.From)
		if e.From == l.node.Leader() {
			l.tell(l.state.Resend)
			l.reads.retry(l) // without a connection, earlier questions were dropped
		}
	case EventLost:
		l.failover.lost(l, e.From)
	case EventSnapshot:
		l.received(e)
	case EventJoin:
		l.lostDisks.join(e)
	case EventWritten:
		l.snap.written(l, e)
	case EventSent:
		status := raft.SnapshotFinish
		if e.Err != nil {
			status = raft.SnapshotFailure
			l.snap.notSent(l, e)
		}
		l.node.ReportSnapshot(e.From, status)
	}
}

// work does all work that is ready until a write is due.
func (l *Loop) work() {
	for l.failed == nil && !l.tasks.due {
		if !l.tasks.writing && !l.tasks.awaited() {
			l.applyHeld()
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

// feed proposes the state machine's next batch if this server leads, and otherwise
// forwards the state machine's requests to the leader. It also asks for a read index if
// reads wait for one.
func (l *Loop) feed() {
	switch {
	case l.tasks.writing: // the memory of the last batch is in use (Batch)
	case l.tasks.awaited(): // the state machine is busy
	case l.node.IsLeader():
		if l.node.Transferring() {
			break
		}
		if l.batch == nil {
			l.batch = l.state.Batch()
		}
		if l.batch != nil {
			if err := l.node.Propose(l.batch); err == nil {
				l.batch = nil
			} else if !errors.Is(err, raft.ErrProposalDropped) {
				l.failed = fmt.Errorf("propose a batch: %w", err)
			}
		}
	case l.node.Leader() != 0 && l.shell.Connected(l.node.Leader()):
		l.batch = nil
		if !l.shell.Room(l.node.Leader()) {
			break
		}
		if requests := l.state.Forward(); len(requests) > 0 {
			l.shell.Send(l.node.Leader(), FrameForward, requests)
		}
	}
	if ticket := l.state.Syncs(); ticket != 0 {
		l.reads.ask(l, ticket)
	}
}

// send sends a raft message to a peer.
func (l *Loop) send(m *pb.Message) {
	if l.levels.withholds(m) || l.skips.withholds(m) {
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
		if !l.doubts.mayGive() {
			l.node.ReportSnapshot(m.GetTo(), raft.SnapshotFailure) // raft tries again
			return
		}
		index := m.GetSnapshot().GetMetadata().GetIndex()
		l.snap.sent[m.GetTo()] = index
		l.shell.SendSnapshot(m.GetTo(), index, slices.Clone(b))
		return
	}
	if cap(b) <= FrameKeepBytes {
		l.frame = b
	}
	if !l.shell.Send(m.GetTo(), FrameRaft, b) && m.GetType() == pb.MsgApp {
		l.node.ReportUnreachable(m.GetTo())
	}
}

// deliver hands the responses to a finished write, or to applied entries, to their receivers.
func (l *Loop) deliver(responses []*pb.Message) {
	for _, m := range responses {
		if m.GetTo() != l.id {
			l.send(m)
		} else if err := l.node.Step(m); err != nil {
			l.failed = fmt.Errorf("deliver raft's own response %s: %w", m.GetType(), err)
		}
	}
}

// ErrStopped is returned by an operation that ends because the server is stopping.
var ErrStopped = errors.New("the server is stopping")
