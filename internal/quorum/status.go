package quorum

import (
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/tracker"
)

// Progress is what a leader knows about one follower.
type Progress struct {
	ID     uint64
	Match  uint64 // index of the last entry that the follower is known to have on disk
	Voter  bool
	Guest  bool // follows without a vote and isn't a member; set only by Status
	Active bool // heard from within the last election timeout
	Synced bool // gets entries as they come
}

// Status is a Loop's state at its last tick, change of leader or change of raft's membership.
type Status struct {
	Leadership
	Elected   bool // there may have been an election in the ensemble that this server belongs to
	Applied   uint64
	Voters    []uint64
	Observers []uint64
	Guests    []uint64   // servers that follow without a vote and aren't members
	Followers []Progress // on the leader only
	// Unheard lists, on the leader only, the voters that it hasn't heard from since it leads.
	Unheard []uint64
	// Departed holds, by server, the last entry known here that took out a life of it. It is shared and must not be
	// modified.
	Departed map[uint64]Departure
	// Lost, if not 0, is the index of a log entry that this server, according to a leader, has acknowledged and doesn't
	// have: an older copy of its disk was put back.
	Lost uint64
	// Unanswered is the number of ticks for which the leader has not answered this server,
	// though this server hears it: this server's messages don't arrive.
	Unanswered uint64
	// Draining says whether this server drains. Drained lists the servers known here to drain: a leader knows them all, a
	// follower only itself.
	Draining Draining
	Drained  []uint64
	// Needed says that this server's disk is stuck, and that the leader has said for drainAgeTicks that no majority of the
	// voters serves without it.
	Needed bool
}

// Status returns the state of the quorum as this server sees it.
func (l *Loop) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.status
}

// Voters returns the servers whose votes count and, during joint consensus, those
// whose votes counted before. It is for programs that watch a server, such as a
// simulator. Only the loop's goroutine may call it.
func (l *Loop) Voters() (now, before []uint64) {
	return slices.Clone(l.conf.GetVoters()), slices.Clone(l.conf.GetVotersOutgoing())
}

// publish updates what Status returns.
func (l *Loop) publish() {
	s := Status{
		Leadership: l.lastLead, Elected: l.elected(), Applied: l.applied, Unanswered: l.leaderCheck.unanswered(l.ticks),
		Departed: l.departures.of, Lost: l.lostEntry(),
		Voters: slices.Clone(l.conf.GetVoters()), Drained: l.drains.known(),
		Needed: l.drains.needed(),
		Draining: Draining{
			Drained: l.drains.drained, Wish: l.drains.wishNumber, Refusal: l.drains.refusal, Final: l.drains.final,
		},
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
			if f.Voter && f.Match == 0 && !f.Active {
				s.Unheard = append(s.Unheard, f.ID)
			}
		}
	}
	l.mu.Lock()
	l.status = s
	l.mu.Unlock()
}

// Followers returns what a leader knows about the other servers, by ascending id.
func (n *Node) Followers() []Progress {
	var all []Progress
	self := n.raw.BasicStatus().ID
	n.raw.WithProgress(func(id uint64, typ raft.ProgressType, pr tracker.Progress) {
		if id != self {
			all = append(all,
				Progress{
					ID: id, Match: pr.Match, Voter: typ == raft.ProgressTypePeer, Active: pr.RecentActive ||
						slices.Contains(n.heard, id), Synced: pr.State == tracker.StateReplicate,
				})
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
