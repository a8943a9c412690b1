package quorum

import (
	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/zooid-project/zooid/internal/storage"
)

// A disk may take seconds for a write, or hang. The state machine may take seconds as well: for an entry, or because a
// client's request holds its lock. A server's messages to the others must not wait for that: they say that it lives,
// which sessions it hears, or that it no longer leads. So a Loop leaves writes of its log, and those methods of the
// state machine that may take long, to its caller. Advance returns the task that is due, and the caller does it. If the
// task takes long, the caller calls Tick, Handle and Advance meanwhile.
//
// While a write is under way,
//
//  1. nothing that depends on the write is sent: raft's responses to an append are sent once
//     it is durable (Done), and later appends wait for it;
//  2. no requests are proposed or forwarded: a server whose disk hangs starts nothing;
//  3. committed entries, which are on the disk already, are applied unless they change the
//     membership, since the commit index must then be written first.
//
// While a call of the state machine is under way, the Loop calls no other of its methods except Report, Reported,
// Syncs, Levels, Lineage and Moment, and nothing is written. Other calls wait, in order.
//
// After stuckTicks of a task the server is stuck: a leader transfers its leadership if a majority without it has what
// its own log lacks, and any other server asks for no votes.

const (
	// stuckTicks is how many ticks a task may take before the server counts as stuck. A healthy disk
	// takes a few ms; half a second is also the shortest time in which followers notice that a
	// leader is silent.
	stuckTicks = 10
	// A server whose own task has taken refuseLeadTicks doesn't take over from a stuck leader. The bound is less than
	// stuckTicks: an entry that takes long takes long everywhere, and began about as long ago here.
	refuseLeadTicks = 5
	// forwardedWaitMax bounds the requests of followers that wait for a busy state machine, in bytes. Beyond that the loop
	// takes no events (Full), so that requests stay with their senders.
	forwardedWaitMax = 64 << 20
	// forwardedSpares is how many buffers of forwarded requests are kept for later ones. Between two turns each follower
	// of a usual ensemble sends one or two frames.
	forwardedSpares = 4
)

// A Task is an append to the log, or a call of the state machine, that is due.
type Task struct {
	disk    *storage.Log
	hard    *pb.HardState
	message *pb.Message // of raft, which wants the append

	call func() error // nil for an append
	err  error
}

// Do does the task. It uses nothing of the Loop, whose methods may be called meanwhile.
func (t *Task) Do() {
	if t.call != nil {
		t.err = t.call()
		return
	}
	t.err = t.disk.Append(t.hard, t.message.GetEntries(), true)
}

// Appends reports whether the task is an append to the log.
func (t *Task) Appends() bool { return t.call == nil }

// tasks holds the task that is due or under way, and the calls that wait for their turn.
type tasks struct {
	*view

	task    Task
	due     bool   // Advance has yet to return it
	since   uint64 // tick in which it became due
	calling bool   // it is a call of the state machine
	writing bool   // an append, or the installation of a snapshot, is due or under way
	then    func() // called after that call if it succeeded; may be nil
	calls   []call

	forwarded int      // bytes of followers' requests in calls
	spare     [][]byte // buffers for followers' requests, at most forwardedSpares of FrameKeepBytes
}

// A call is a call of the state machine: do, if not nil, and then the function to call afterwards.
type call struct {
	do   func() error
	then func()
}

// start makes a task due.
func (k *tasks) start(t Task, then func()) {
	k.task, k.due, k.since, k.calling, k.then = t, true, k.ticks, t.call != nil, then
}

// underWay reports whether the state machine is being called.
func (k *tasks) underWay() bool { return k.calling && !k.due }

// awaited reports whether calls of the state machine are due, under way, or wait.
func (k *tasks) awaited() bool { return k.calling || len(k.calls) > 0 }

// call lets the state machine do something that may take long, after all calls before it. Either function may be nil.
func (l *Loop) call(do func() error, then func()) {
	l.tasks.calls = append(l.tasks.calls, call{do, then})
	l.proceed()
}

// tell is call for a method without an error.
func (l *Loop) tell(do func()) { l.call(func() error { do(); return nil }, nil) }

// forward hands the state machine a copy of requests that a follower forwards.
func (l *Loop) forward(from uint64, requests []byte) {
	requests = append(l.tasks.buffer(), requests...) // the caller of Handle uses them again
	l.tasks.forwarded += len(requests)
	l.call(func() error {
		if err := l.state.Forwarded(requests); err != nil {
			l.log.Error("a peer forwarded requests that can't be decoded", "peer", from, "err", err)
		}
		return nil
	}, func() {
		l.tasks.forwarded -= len(requests)
		l.tasks.reuse(requests)
	})
}

// buffer returns an empty buffer for forwarded requests.
func (k *tasks) buffer() (b []byte) {
	if n := len(k.spare); n > 0 {
		b, k.spare = k.spare[n-1][:0], k.spare[:n-1]
	}
	return b
}

// reuse keeps the buffer of forwarded requests that the state machine has handled, since it retains none of their
// bytes.
func (k *tasks) reuse(b []byte) {
	if len(k.spare) < forwardedSpares && cap(b) <= FrameKeepBytes {
		k.spare = append(k.spare, b)
	}
}

// Full reports whether so much waits for the state machine that no event should be handled before the task under way
// ends.
func (l *Loop) Full() bool { return l.tasks.forwarded > forwardedWaitMax }

// next makes the next waiting call. While the log is being written, it makes the call at once: only a caller that
// continues during the write gets here.
func (l *Loop) next() {
	k := &l.tasks
	c := k.calls[0]
	k.calls[0] = call{}
	if k.calls = k.calls[1:]; len(k.calls) == 0 {
		k.calls = nil
	}
	switch {
	case c.do != nil && !l.tasks.writing:
		l.tasks.start(Task{call: c.do}, c.then)
		return
	case c.do != nil:
		l.failed = c.do()
	}
	if c.then != nil && l.failed == nil {
		c.then()
	}
}

// Turn does all work that is ready, and the tasks that are due.
func (l *Loop) Turn() {
	for t := l.Advance(); t != nil; t = l.Advance() {
		t.Do()
		l.Done()
	}
}

// Advance does work that is ready until a task is due, and returns the task. The caller calls its Do, then Done, then
// Advance again. Advance returns nil if nothing is left to do, or if the rest must wait for the task under way.
func (l *Loop) Advance() *Task {
	l.awaitApplied()
	l.work()
	if !l.tasks.due || l.failed != nil {
		return nil
	}
	l.tasks.due = false
	return &l.tasks.task
}

// Done continues after the Do of the task that Advance returned. The caller then calls Advance.
func (l *Loop) Done() {
	k := &l.tasks
	t, then := k.task, k.then
	k.task, k.then = Task{}, nil
	if l.failed == nil {
		l.failed = t.err
	}
	switch {
	case t.Appends():
		l.wrote(t.message)
	case l.writes.applying != nil:
		k.calling = false
		l.appliedAll()
	default:
		k.calling = false
		if then != nil && l.failed == nil {
			then()
		}
		if l.failed == nil {
			l.reads.applied(l) // what became known during the call
		}
	}
	l.proceed()
	if !l.writes.pending() && !k.awaited() {
		held := l.writes.held
		l.writes.held = nil
		for _, e := range held {
			l.Handle(e)
		}
	}
}

// Stuck reports whether a task has been under way for stuckTicks.
func (l *Loop) Stuck() bool { return l.tasks.stuck() }

func (k *tasks) stuck() bool { return k.busySince(stuckTicks) }

// busySince reports whether a task has been under way for that many ticks.
func (k *tasks) busySince(ticks uint64) bool {
	return (k.writing || k.calling) && k.ticks-k.since >= ticks
}
