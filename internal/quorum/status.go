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
	Guest  bool // follows without a vote, and is no member; set by Status alone
	Active bool // heard within the last election timeout
	Synced bool // receives entries as they come
}

// Status is a Loop's state at its last tick or change of leader.
type Status struct {
	Leadership
	Applied   uint64
	Voters    []uint64
	Observers []uint64
	Guests    []uint64   // they follow without a vote, and are no members
	Followers []Progress // on the leader only
	// Unanswered is for how many ticks the leader, though heard, has not answered
	// this server: what it says doesn't arrive.
	Unanswered uint64
}

// Status returns the state of the quorum as this server sees it.
func (l *Loop) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status
}

// Voters returns the servers whose votes count, and while they change by joint
// consensus those whose votes counted before. It is for those who watch a server,
// such as a simulator, and for the loop's goroutine only.
func (l *Loop) Voters() (now, before []uint64) {
	return slices.Clone(l.conf.GetVoters()), slices.Clone(l.conf.GetVotersOutgoing())
}

// publish renews what Status returns.
func (l *Loop) publish() {
	s := Status{
		Leadership: l.lastLead, Applied: l.applied, Unanswered: l.leaderCheck.unanswered(l),
		Voters: slices.Clone(l.conf.GetVoters()),
	}
	for _, id := range l.conf.GetLearners() {
		if l.isGuest(id) {
			s.Guests = append(s.Guests, id)
		} else {
			s.Observers = append(s.Observers, id)
		}
	}
	if l.node.IsLeader() {
		s.Followers = l.node.Followers()
		for i, f := range s.Followers {
			s.Followers[i].Guest = slices.Contains(s.Guests, f.ID)
		}
	}
	l.mu.Lock()
	l.status = s
	l.mu.Unlock()
}

// Followers returns what a leader knows of the others, by ascending id.
func (n *Node) Followers() []Progress {
	var all []Progress
	self := n.raw.BasicStatus().ID
	n.raw.WithProgress(func(id uint64, typ raft.ProgressType, pr tracker.Progress) {
		if id != self {
			all = append(all, Progress{ID: id, Match: pr.Match, Voter: typ == raft.ProgressTypePeer, Active: pr.RecentActive || slices.Contains(n.heard, id), Synced: pr.State == tracker.StateReplicate})
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
