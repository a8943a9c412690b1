package quorum

import (
	"errors"
	"fmt"

	pb "go.etcd.io/raft/v3/raftpb"

	"github.com/zooid-project/zooid/internal/storage"
)

// arrived is a peer's snapshot, complete on this server's disk and loaded. Raft hasn't
// decided yet whether it becomes this server's state.
type arrived struct {
	file    *storage.SnapshotWriter
	install func() // replaces the state; nil if raft won't want the snapshot
}

// refusedTicks is the least time between two log lines about refused snapshots.
const refusedTicks = 200

// received hands a peer's snapshot, whose file is complete on this server's disk, to
// raft. If raft accepts it, raft asks for it to be installed (see install); if it is older
// than this server's state, it is dropped. A snapshot that can't be loaded is refused
// first: once raft has accepted it there is no way back. It waits for the tasks under way.
func (l *Loop) received(e Event) {
	if l.tasks.writing || l.tasks.awaited() {
		l.writes.held = append(l.writes.held, e)
		return
	}
	l.dropArrived()
	m, err := l.vet(e)
	if err != nil {
		l.examined(e, nil, err)
		return
	}
	meta := m.GetSnapshot().GetMetadata()
	wanted := meta.GetIndex() > l.applied && m.GetTerm() >= l.node.Term()
	var install func()
	l.call(func() error {
		install, err = l.examine(e.File, meta, wanted)
		return nil
	}, func() { l.examined(e, install, err) })
}

// examined continues with a peer's snapshot after it was examined.
func (l *Loop) examined(e Event, install func(), err error) {
	if e.Taken != nil {
		e.Taken <- err == nil
	}
	if err != nil {
		e.File.Abort()
		l.refuseSnapshot(e, err)
		return
	}
	l.arrived = &arrived{e.File, install}
	if err := l.step(e); err != nil {
		l.log.Warn("a peer's snapshot was not accepted", "peer", e.From, "err", err)
	}
	l.work()
	if !l.writes.installs() {
		l.dropArrived()
	}
}

// dropArrived removes a snapshot that raft didn't accept.
func (l *Loop) dropArrived() {
	if l.arrived != nil {
		l.arrived.file.Abort()
		l.arrived = nil
	}
}

// examine checks whether a snapshot can become this server's state, and returns the
// function that makes it so, or nil if raft won't want the snapshot. It uses no part of the Loop that changes.
func (l *Loop) examine(
	file *storage.SnapshotWriter, meta *pb.SnapshotMetadata, wanted bool,
) (install func(), err error) {
	snap, err := file.Verify()
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	if snap.Index != meta.GetIndex() || snap.Term != meta.GetTerm() {
		return nil, fmt.Errorf("it was announced as of entry %d of term %d, and is of entry %d of term %d", meta.GetIndex(),
			meta.GetTerm(), snap.Index, snap.Term)
	}
	if err := meta.GetConfState().Equivalent(snap.ConfState); err != nil {
		return nil, fmt.Errorf("it was announced with another membership: %w", err)
	}
	if !wanted {
		return nil, nil // raft doesn't want it
	}
	return l.state.Load(snap.Meta, snap)
}

// refuseSnapshot logs that a snapshot can't be used, at most once in refusedTicks. If this
// server's own disk or program is the cause, it stops the server instead.
func (l *Loop) refuseSnapshot(e Event, err error) {
	if l.failed = l.disk.Err(); l.failed != nil {
		return
	}
	if unfit := (*UnfitError)(nil); errors.As(err, &unfit) {
		l.failed = err
		return
	}
	if l.ticks >= l.refusedUntil {
		l.log.Error("a peer's snapshot is refused, and this server stays behind the others; if this repeats, upgrade this server if the peer runs a newer version, "+
			"else make another server lead (restart the peer), and check the peer's disk", "peer", e.From, "err", err)
		l.refusedUntil = l.ticks + refusedTicks
	}
}

// install makes a received snapshot this server's state.
func (l *Loop) install(m *pb.Message, hs *pb.HardState) {
	a := l.arrived
	if a == nil || a.install == nil {
		panic("quorum: raft installs a snapshot that did not arrive")
	}
	l.arrived = nil
	meta := m.GetSnapshot().GetMetadata()
	l.tasks.writing, l.writes.installing = true, meta
	l.tasks.start(Task{call: func() error {
		if err := l.dir.Install(a.file, hs); err != nil {
			return err
		}
		a.install()
		return nil
	}}, func() {
		l.tasks.writing, l.writes.installing = false, nil
		l.installed(meta)
		l.deliver(m.GetResponses())
	})
}

// installed continues once a snapshot has become this server's state.
func (l *Loop) installed(meta *pb.SnapshotMetadata) {
	l.applied = meta.GetIndex()
	l.memberAt(meta.GetConfState(), l.applied)
	if contains(l.conf, l.id) {
		// Even if this server knew itself to be a member before, it may have been taken out
		// and let in again meanwhile (see joining).
		l.joining.memberSince = l.applied
	}
	l.log.Info("this server was far behind and took a peer's snapshot", "index", l.applied)
}
