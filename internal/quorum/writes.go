package quorum

import (
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/zooid-project/zooid/internal/storage"
)

// A disk may take seconds for a write, or hang. What a server tells the others must not wait
// for that: that it lives, which sessions it hears, that it leads no longer. So a Loop doesn't
// write its log itself. Advance returns the write that is due, and the caller makes it. If that
// takes long, the caller goes on with Tick, Handle and Advance meanwhile.
//
// While a write is under way,
//
//  1. nothing that the write makes true is told to anyone: raft's responses to an append are
//     sent once it is durable (Wrote), and later appends wait for it;
//  2. votes that others give wait as well. A candidate that led by the others' votes alone, before
//     its own was durable, could forget that after a crash and be elected in the same term again,
//     with another log;
//  3. no requests are proposed or forwarded: a server whose disk hangs starts nothing;
//  4. committed entries, which are on the disk already, are applied unless they change the
//     membership, since the commit index must then be written first;
//  5. after stuckTicks the server is stuck: a leader hands its leadership over if the disks of a
//     majority without it have what its own lacks, and another server doesn't ask for votes.

// stuckTicks is how many ticks a write may take before the disk counts as stuck. A healthy disk
// takes a few ms; half a second is also the shortest time in which followers notice that a
// leader is silent.
const stuckTicks = 10

// A Write is an append to the log that is due.
type Write struct {
	disk    *storage.Log
	hard    *pb.HardState
	message *pb.Message // of raft, which wants it
	err     error
}

// Do makes the write durable. It uses nothing of the Loop, whose methods may be called meanwhile.
func (w *Write) Do() { w.err = w.disk.Append(w.hard, w.message.GetEntries(), true) }

// writes holds what raft wants to be written and applied, and the write under way.
type writes struct {
	write    Write
	under    bool          // write is due or under way
	due      bool          // Advance has yet to return it
	since    uint64        // tick in which it became due
	appends  []*pb.Message // to be written after it, oldest first
	applies  []*pb.Message // committed entries to apply, oldest first
	beside   func()        // waits for the entries that are applied beside the write; nil if there are none
	applying *pb.Message   // these entries
	applyErr error         // what applying them returned
	held     []Event       // snapshots and votes that arrived while the write was under way
}

// holdVote keeps a vote until the write is over, with a copy of its data, which the caller of Handle uses
// again. Of each server it keeps the last one, so that what is kept is bounded.
func (w *writes) holdVote(e Event) {
	w.held = slices.DeleteFunc(w.held, func(h Event) bool { return h.Kind == EventRaft && h.From == e.From })
	e.Data = slices.Clone(e.Data)
	w.held = append(w.held, e)
}

// Turn does all work that is ready, and makes the writes that are due.
func (l *Loop) Turn() {
	for w := l.Advance(); w != nil; w = l.Advance() {
		w.Do()
		l.Wrote()
	}
}

// Advance does work that is ready until the log is to be written, and returns that write. The
// caller calls its Do, then Wrote, then Advance again. Advance returns nil if there is nothing
// left to do, or only after the write under way.
func (l *Loop) Advance() *Write {
	l.awaitApplied()
	l.work()
	if !l.writes.due || l.failed != nil {
		return nil
	}
	l.writes.due = false
	return &l.writes.write
}

// Wrote goes on after the Do of the write that Advance returned. The caller then calls Advance.
func (l *Loop) Wrote() {
	w := &l.writes
	m, err := w.write.message, w.write.err
	w.write, w.under = Write{}, false
	if l.failed == nil {
		l.failed = err
	}
	if l.failed == nil {
		l.deliver(m.GetResponses())
	}
	l.awaitApplied()
	held := w.held
	w.held = nil
	l.proceed()
	for _, e := range held {
		l.Handle(e)
	}
}

// Stuck reports whether the disk is stuck: a write has been under way for stuckTicks.
func (l *Loop) Stuck() bool { return l.writes.under && l.ticks-l.writes.since >= stuckTicks }

// take queues an append and committed entries of raft, each of which may be nil, and begins
// what can be done of them now.
func (l *Loop) take(write, apply *pb.Message) {
	w := &l.writes
	if write != nil {
		w.appends = append(w.appends, write)
	}
	if apply != nil && !l.skips.holds(apply) {
		w.applies = append(w.applies, apply)
	}
	l.proceed()
}

// proceed does what is queued until a write is due. An append and the committed entries handed
// out with it run concurrently, since these entries are on the disk already. They run one after
// the other if there is hardly anything to write, often just the new commit index: another
// goroutine would then cost more than it saves. So they do around changes of the membership and
// snapshots.
func (l *Loop) proceed() {
	w := &l.writes
	for l.failed == nil {
		write, apply := first(w.appends), first(w.applies)
		changes := slices.ContainsFunc(apply.GetEntries(), reconfigures)
		switch {
		case apply != nil && !changes && w.under:
			drop(&w.applies)
			l.apply(apply)
		case w.under || write == nil && apply == nil:
			return
		case write == nil || apply != nil && write.GetSnapshot() != nil:
			drop(&w.applies)
			l.apply(apply)
		case apply != nil && !changes && len(write.GetEntries()) > 0:
			drop(&w.appends)
			drop(&w.applies)
			if !l.gather(apply.GetEntries()) {
				return
			}
			w.applying = apply
			w.beside = l.o.Shell.Beside(func() { w.applyErr = l.o.State.Apply(l.entries) })
			l.write(write)
		default:
			drop(&w.appends)
			l.write(write)
		}
	}
}

// awaitApplied waits for the entries that are applied beside the write, if there are any.
func (l *Loop) awaitApplied() {
	w := &l.writes
	if w.beside == nil || w.due {
		return
	}
	w.beside()
	m, err := w.applying, w.applyErr
	w.beside, w.applying, w.applyErr = nil, nil, nil
	if l.failed == nil {
		l.failed = err
	}
	l.finish(m, false)
}

// write begins an append of raft. If it needs the disk, it becomes due; otherwise its responses
// are delivered at once.
func (l *Loop) write(m *pb.Message) {
	var hs *pb.HardState
	sync := len(m.GetEntries()) > 0
	if m.Term != nil {
		hs = &pb.HardState{Term: m.Term, Vote: m.Vote, Commit: m.Commit}
		sync = sync || hs.GetTerm() != l.hard.GetTerm() || hs.GetVote() != l.hard.GetVote()
		l.hard.Term, l.hard.Vote, l.hard.Commit = hs.Term, hs.Vote, hs.Commit
	}
	l.reconciler.logged(m.GetEntries())
	switch {
	case m.GetSnapshot() != nil:
		l.install(m, hs)
	case sync:
		w := &l.writes
		w.write, w.under, w.due, w.since = Write{disk: l.disk, hard: hs, message: m}, true, true, l.ticks
		return
	case hs != nil:
		l.failed = l.disk.Append(hs, nil, false)
	}
	if l.failed == nil {
		l.deliver(m.GetResponses())
	}
}

// installs reports whether a snapshot is among the appends.
func (w *writes) installs() bool {
	return slices.ContainsFunc(w.appends, func(m *pb.Message) bool { return m.GetSnapshot() != nil })
}

// lastEntry returns index and term of the last entry that raft has handed out to be written.
func (l *Loop) lastEntry() (index, term uint64, err error) {
	w := &l.writes
	for i := len(w.appends) - 1; i >= 0; i-- {
		if entries := w.appends[i].GetEntries(); len(entries) > 0 {
			e := entries[len(entries)-1]
			return e.GetIndex(), e.GetTerm(), nil
		}
	}
	if entries := w.write.message.GetEntries(); w.under && len(entries) > 0 {
		e := entries[len(entries)-1]
		return e.GetIndex(), e.GetTerm(), nil
	}
	if index, err = l.disk.LastIndex(); err != nil {
		return 0, 0, err
	}
	term, err = l.disk.Term(index)
	return index, term, err
}

// tick makes a leader whose disk is stuck hand its leadership over, if a majority can do without it:
// voters that have acknowledged everything that waits for this disk, so their disks work.
func (w *writes) tick(l *Loop) {
	if !l.Stuck() || !l.node.IsLeader() || l.node.Transferring() {
		return
	}
	last, _, err := l.lastEntry()
	if err != nil {
		return
	}
	var able []uint64
	for _, f := range l.node.Followers() {
		if f.Voter && f.Active && f.Match >= last {
			able = append(able, f.ID)
		}
	}
	if majority(l.conf.GetVoters(), able) && majority(l.conf.GetVotersOutgoing(), able) && l.transferLeadershipTo(able) {
		l.log.Info("the disk of this server has not finished a write; another server is to lead", "ticks", l.ticks-w.since)
	}
}

// majority reports whether able has more than half of voters, or there are none.
func majority(voters, able []uint64) bool {
	n := 0
	for _, id := range voters {
		if slices.Contains(able, id) {
			n++
		}
	}
	return len(voters) == 0 || n > len(voters)/2
}

// first returns the first message of a queue, nil if it is empty.
func first(queue []*pb.Message) *pb.Message {
	if len(queue) == 0 {
		return nil
	}
	return queue[0]
}

// drop removes the first message of a queue, and keeps the memory.
func drop(queue *[]*pb.Message) {
	n := copy(*queue, (*queue)[1:])
	(*queue)[n] = nil
	*queue = (*queue)[:n]
}
