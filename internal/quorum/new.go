package quorum

import (
	"fmt"
	"log/slog"

	"github.com/zooid-project/zooid/internal/storage"
)

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
	// with Founding's voters, or without Founding with the voters among Members.
	Founding *Founding
	// JoinedAfter, if not 0, makes this server join an ensemble: it takes no part
	// in elections until an entry beyond that index makes it a member. OnJoined, if
	// not nil, is called then.
	JoinedAfter   uint64
	JoinedTerm    uint64 // with JoinedAfter: this server takes part in no earlier term
	OnJoined      func()
	ElectionTicks int
	SnapshotsKept int // how many the purge after each snapshot keeps
	// RunningOnly restricts the votes that a requested change gives, while this server leads, to servers that run. Without
	// it, servers that don't run get a vote, too, if the others are a majority of the new voters.
	RunningOnly bool
	Log         *slog.Logger
}

// NewLoop continues from what o.Dir holds, or begins a new group.
func NewLoop(o LoopOptions) (*Loop, error) {
	disk := o.Dir.Log()
	hard, conf, err := disk.InitialState()
	if err != nil {
		return nil, fmt.Errorf("read the log's state: %w", err)
	}
	l := &Loop{o: o, view: view{
		id: o.ID, configured: o.Members, dir: o.Dir, disk: disk, state: o.State, shell: o.Shell, log: o.Log,
		conf: conf, applied: o.Applied,
	}}
	l.assemble()
	if hard != nil {
		l.hard.Term, l.hard.Vote, l.hard.Commit = hard.Term, hard.Vote, hard.Commit
	}
	if err := l.beginJoining(); err != nil {
		return nil, err
	}
	if err := l.skips.open(); err != nil {
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
	l.roster.read()
	l.strays.note(l.Peers())
	if err := l.departures.read(); err != nil {
		return nil, err
	}
	l.levels.inForce, _ = o.State.Levels()
	if meta, ok := o.Dir.NewestSnapshot(); ok && contains(conf, o.ID) {
		l.joining.memberSince = meta.Index
	}
	l.publish()
	return l, nil
}

// assemble makes the parts, and gives each the parts that it uses.
func (l *Loop) assemble() {
	v := &l.view
	l.tasks.view, l.snap.sent = v, sent{}
	l.writes.view, l.writes.tasks = v, &l.tasks
	l.leadership.view, l.leadership.drains = v, &l.drains
	l.joining = joining{view: v, after: l.o.JoinedAfter, onJoined: l.o.OnJoined}
	l.lostDisks = lostDisks{
		view: v, levels: &l.levels, departures: &l.departures,
		out: map[uint64]departure{}, tried: map[uint64]attempt{}, former: map[uint64]uint64{}, admitted: map[uint64]bool{},
	}
	l.departures = departures{view: v, roster: &l.roster, writes: &l.writes, joinedAfter: l.o.JoinedAfter}
	l.roster = roster{view: v, levels: &l.levels, strays: &l.strays}
	l.guests = guests{
		view: v, levels: &l.levels, roster: &l.roster, strays: &l.strays, joining: &l.joining, leaderCheck: &l.leaderCheck,
		asked: map[uint64]uint64{}, heard: map[uint64]uint64{},
	}
	l.strays = strays{
		view: v, guests: &l.guests, joining: &l.joining, leaderCheck: &l.leaderCheck,
		dialled: map[uint64]bool{}, since: map[uint64]uint64{},
	}
	l.levels = levels{
		view: v, known: map[uint64]uint32{}, frames: map[uint64]FrameKind{}, rules: map[uint64][]byte{},
		outdated: map[uint64]int{},
	}
	l.skips.view = v
	l.doubts.view, l.doubts.levels, l.doubts.tasks = v, &l.levels, &l.tasks
	l.clocks.view, l.clocks.levels = v, &l.levels
	l.drains.view, l.drains.levels, l.drains.tasks, l.drains.ask = v, &l.levels, &l.tasks, l.o.Incarnation
	l.drains.led()
	l.reconciler = reconciler{
		view: v, lostDisks: &l.lostDisks, guests: &l.guests, writes: &l.writes, leadership: &l.leadership,
		runningOnly: l.o.RunningOnly,
	}
}

// begin writes the first entries of a new group's log.
func (l *Loop) begin() error {
	last, err := l.disk.LastIndex()
	if err != nil {
		return fmt.Errorf("read the log's last index: %w", err)
	}
	l.atStart = last
	if last != 0 || l.joining.after != 0 {
		return nil
	}
	if f := l.o.Founding; f != nil {
		l.levels.founded = f.Level
		return l.node.Bootstrap(f.Voters)
	}
	return l.node.Bootstrap(voterIDs(l.configured))
}
