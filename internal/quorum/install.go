package quorum

import (
	pb "go.etcd.io/raft/v3/raftpb"
)

// received hands a peer's snapshot, whose file is complete on this disk, to
// raft. If raft wants it, it comes back as a write (install); if it is behind
// what this server has, it is dropped.
func (p *Peer) received(e event) {
	if p.arrived != nil {
		p.arrived.Abort()
	}
	p.arrived = e.file
	if err := p.node.Step(e.msg); err != nil {
		p.log.Warn("a peer's snapshot was not accepted", "peer", e.from, "err", err)
	}
	p.turn()
	if p.arrived != nil {
		p.arrived.Abort()
		p.arrived = nil
	}
}

// install makes a received snapshot this server's state.
func (p *Peer) install(m *pb.Message, hs *pb.HardState) {
	meta := m.GetSnapshot().GetMetadata()
	if p.arrived == nil {
		panic("quorum: raft installs a snapshot that did not arrive")
	}
	w := p.arrived
	p.arrived = nil
	if err := p.o.Dir.Install(w, hs); err != nil {
		p.failed = err
		return
	}
	snap, err := p.o.Dir.OpenSnapshot(meta.GetIndex())
	if err != nil {
		p.failed = err
		return
	}
	defer snap.Close()
	described, _ := p.o.Dir.NewestSnapshot()
	if err := p.o.State.Restore(described, snap); err != nil {
		p.failed = err
		return
	}
	p.applied = meta.GetIndex()
	p.member(meta.GetConfState())
	p.log.Info("this server was far behind and took a peer's snapshot", "index", p.applied)
}
