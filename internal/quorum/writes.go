package quorum

import (
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
)

// writes holds what raft wants written and applied.
type writes struct {
	*view
	tasks *tasks

	appends  []*pb.Message // to be written after it, oldest first
	applies  []*pb.Message // committed entries to apply, oldest first
	applying *pb.Message   // entries that are being applied; nil if there are none
	beside   func()        // waits until they are applied, if a write runs meanwhile; else nil
	applyErr error         // what applying them returned
	held     []Event       // snapshots and votes that arrived during a task

	installing *pb.SnapshotMetadata // the snapshot that the write under way installs, or nil
}

// pending reports whether something that raft has handed out is not on the disk yet, such as this server's own vote.
func (w *writes) pending() bool { return w.tasks.writing || len(w.appends) > 0 }

// holdVote keeps a vote until the write ends, with a copy of its data, since the caller of Handle reuses the buffer. It
// keeps only each server's last vote, which bounds their number.
func (w *writes) holdVote(e Event) {
	w.held = slices.DeleteFunc(w.held, func(h Event) bool { return h.Kind == EventRaft && h.From == e.From })
	e.Data = slices.Clone(e.Data)
	w.held = append(w.held, e)
}

// take queues an append and committed entries of raft, either of which may be nil, and
// begins what can be done now.
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

// proceed does what is queued until a task is due. An append and the committed entries handed
// out with it run concurrently, since these entries are on the disk already. They run one after
// the other if there is hardly anything to write, often just the new commit index: another
// goroutine would then cost more than it saves. The same holds around changes of the membership
// and snapshots.
func (l *Loop) proceed() {
	w, k := &l.writes, &l.tasks
	for l.failed == nil && !k.calling && !k.due {
		write, apply := first(w.appends), first(w.applies)
		changes := slices.ContainsFunc(apply.GetEntries(), reconfigures)
		switch {
		case len(k.calls) > 0:
			l.next()
		case apply != nil && !changes && w.tasks.writing:
			drop(&w.applies)
			l.apply(apply)
		case w.tasks.writing || write == nil && apply == nil:
			return
		case write == nil || apply != nil && write.GetSnapshot() != nil:
			if drop(&w.applies); changes {
				l.apply(apply)
			} else if l.gather(apply.GetEntries()) {
				w.applying = apply
				l.tasks.start(Task{call: l.applyEntries}, nil)
			}
		case apply != nil && !changes && len(write.GetEntries()) > 0:
			drop(&w.appends)
			drop(&w.applies)
			if !l.gather(apply.GetEntries()) {
				return
			}
			w.applying = apply
			w.beside = l.shell.Beside(func() { w.applyErr = l.applyEntries() })
			l.write(write)
		default:
			drop(&w.appends)
			l.write(write)
		}
	}
}

// awaitApplied waits, while a write is under way, for the entries that are being applied meanwhile, if any.
func (l *Loop) awaitApplied() {
	if w := &l.writes; w.beside == nil || !w.tasks.writing || l.tasks.due {
		return
	}
	if err := l.awaitBeside(); l.failed == nil {
		l.failed = err
	}
	l.appliedAll()
}

// awaitBeside waits for the entries that are applied during a write.
func (l *Loop) awaitBeside() error {
	l.writes.beside()
	return l.writes.applyErr
}

// applyEntries applies l.entries.
func (l *Loop) applyEntries() error { return l.state.Apply(l.entries) }

// appliedAll does what is due after the state machine has applied entries in a task, or during one.
func (l *Loop) appliedAll() {
	w := &l.writes
	m := w.applying
	w.beside, w.applying, w.applyErr = nil, nil, nil
	l.finish(m, false)
}

// wrote does what is due after an append.
func (l *Loop) wrote(m *pb.Message) {
	w := &l.writes
	w.tasks.writing = false
	switch {
	case l.failed == nil:
		l.deliver(m.GetResponses())
		if w.beside != nil {
			l.tasks.start(Task{call: l.awaitBeside}, nil)
		}
	case w.beside != nil:
		w.beside()
	}
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
		return
	case sync:
		l.tasks.writing = true
		l.tasks.start(Task{disk: l.disk, hard: hs, message: m}, nil)
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
func (w *writes) lastEntry() (index, term uint64, err error) {
	for i := len(w.appends) - 1; i >= 0; i-- {
		if entries := w.appends[i].GetEntries(); len(entries) > 0 {
			e := entries[len(entries)-1]
			return e.GetIndex(), e.GetTerm(), nil
		}
		if s := w.appends[i].GetSnapshot(); s != nil {
			return s.GetMetadata().GetIndex(), s.GetMetadata().GetTerm(), nil
		}
	}
	if w.installing != nil {
		return w.installing.GetIndex(), w.installing.GetTerm(), nil
	}
	if entries := w.tasks.task.message.GetEntries(); w.tasks.writing && len(entries) > 0 {
		e := entries[len(entries)-1]
		return e.GetIndex(), e.GetTerm(), nil
	}
	if index, err = w.disk.LastIndex(); err != nil {
		return 0, 0, err
	}
	term, err = w.disk.Term(index)
	return index, term, err
}

// tick makes a stuck leader transfer its leadership, if a majority can do without it: voters that have acknowledged
// everything that waits for this disk, so their disks work. A voter that is stuck as well, by the same entry, refuses
// (step).
func (w *writes) tick(lead *leadership) {
	if !w.tasks.stuck() || !w.node.IsLeader() || w.node.Transferring() {
		return
	}
	last, _, err := w.lastEntry()
	if err != nil {
		return
	}
	var able []uint64
	for _, f := range w.node.Followers() {
		if f.Voter && f.Active && f.Match >= last {
			able = append(able, f.ID)
		}
	}
	if majority(w.conf.GetVoters(), able) && majority(w.conf.GetVotersOutgoing(), able) && lead.transferTo(able) {
		w.log.Info("this server has been at one write of its log, or one entry, for too long; another server is to lead",
			"ticks", w.ticks-w.tasks.since, "disk", w.tasks.writing)
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

// drop removes the first message of a queue, and keeps the queue's memory.
func drop(queue *[]*pb.Message) {
	n := copy(*queue, (*queue)[1:])
	(*queue)[n] = nil
	*queue = (*queue)[:n]
}
