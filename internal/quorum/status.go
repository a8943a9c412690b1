package quorum

import (
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

// Progress is what a leader knows of one follower.
type Progress struct {
	ID     uint64
	Match  uint64 // index of the last entry it has on disk
	Voter  bool
	Active bool // heard within the last election timeout
	Synced bool // receives entries as they come
}

// Status is a Peer's state at its last tick or change of leader.
type Status struct {
	Leadership
	Applied   uint64
	Voters    []uint64
	Observers []uint64
	Followers []Progress // on the leader only
}

// Status returns the state of the quorum as this server sees it.
func (p *Peer) Status() Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.status
}

// publish renews what Status returns.
func (p *Peer) publish() {
	s := Status{
		Leadership: p.lastLead, Applied: p.applied,
		Voters: slices.Clone(p.conf.GetVoters()), Observers: slices.Clone(p.conf.GetLearners()),
	}
	if p.node.IsLeader() {
		s.Followers = p.node.Followers()
	}
	p.mu.Lock()
	p.status = s
	p.mu.Unlock()
}

// Followers returns what a leader knows of the others, by ascending id.
func (n *Node) Followers() []Progress {
	var all []Progress
	self := n.raw.BasicStatus().ID
	n.raw.WithProgress(func(id uint64, typ raft.ProgressType, pr tracker.Progress) {
		if id != self {
			all = append(all, Progress{ID: id, Match: pr.Match, Voter: typ == raft.ProgressTypePeer, Active: pr.RecentActive, Synced: pr.State == tracker.StateReplicate})
		}
	})
	slices.SortFunc(all, func(a, b Progress) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	return all
}
