package quorum

import (
	pb "go.etcd.io/raft/v3/raftpb"
)

// received hands a peer's snapshot, whose file is complete on this disk, to
// raft. If raft wants it, it comes back as a write (install); if it is behind
// what this server has, it is dropped.
func (l *Loop) received(e Event) {
	if l.arrived != nil {
		l.arrived.Abort()
	}
	l.arrived = e.File
	if err := l.step(e); err != nil {
		l.log.Warn("a peer's snapshot was not accepted", "peer", e.From, "err", err)
	}
	l.Turn()
	if l.arrived != nil {
		l.arrived.Abort()
		l.arrived = nil
	}
}

// install makes a received snapshot this server's state.
func (l *Loop) install(m *pb.Message, hs *pb.HardState) {
	meta := m.GetSnapshot().GetMetadata()
	if l.arrived == nil {
		panic("quorum: raft installs a snapshot that did not arrive")
	}
	w := l.arrived
	l.arrived = nil
	if err := l.o.Dir.Install(w, hs); err != nil {
		l.failed = err
		return
	}
	snap, err := l.o.Dir.OpenSnapshot(meta.GetIndex())
	if err != nil {
		l.failed = err
		return
	}
	defer snap.Close()
	described, _ := l.o.Dir.NewestSnapshot()
	if err := l.o.State.Restore(described, snap); err != nil {
		l.failed = err
		return
	}
	l.applied = meta.GetIndex()
	l.memberAt(meta.GetConfState(), l.applied)
	if contains(l.conf, l.o.ID) {
		// A member already as far as this server knew: it may have been taken out and let
		// in again meanwhile (see joining).
		l.memberSince = l.applied
	}
	l.log.Info("this server was far behind and took a peer's snapshot", "index", l.applied)
}
