package quorum

import (
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
)

// failover shortens the time without a leader. Raft alone waits for a random election
// timeout of silence, and again after each election that it doesn't win. But when a
// process dies, its connections are reset at once. A follower that notices this
// forgets its leader. It can do so safely, because the reset is only a hint: the
// pre-vote asks the other servers, and they refuse while they hear the leader.
//
// A follower without a leader campaigns at its turns until there is one. The followers
// take turns by rank, so that their votes don't split. More than one turn may be needed:
// the first server may lack the newest entry, so that only another can win, and a
// pre-vote fails at servers that haven't noticed the loss or aren't connected yet.
type failover struct {
	turn  uint64 // tick of this server's next turn; 0 if there is a leader, or never was one
	until uint64 // last tick of the turns; after it raft's election timeout applies
	term  uint64 // raft's term when turn was set
	asked uint64 // tick of the last turn
	said  bool
}

const (
	// rankTicks is the pause between two followers' turns.
	rankTicks = 1
	// voteTicks is the time for an election that has begun, in which two servers
	// write their votes to their disks.
	voteTicks = 2
	// turnTicks is how long servers take turns: enough for a reconnection or a slow write.
	turnTicks = 40
)

// lost handles the end of a peer's connection to this server. All frames that arrived
// on the connection have been handled.
func (f *failover) lost(l *Loop, id uint64) {
	if id == l.node.Leader() && !l.node.IsLeader() && !l.sole {
		l.leadership.dropped = true
		l.node.ForgetLeader()
	}
}

// led handles a change of leader or term.
func (f *failover) led(l *Loop, was, is Leadership) {
	switch {
	case is.Leader != 0 || l.sole:
		*f = failover{}
	case was.Leader != 0 && !was.IsLeader:
		*f = failover{turn: l.ticks + 1 + f.rank(l, was.Leader), until: l.ticks + turnTicks, term: is.Term}
		if is.Term != was.Term { // another server has begun an election
			f.turn += voteTicks
		}
	}
}

// rank returns the tick of this server's turn within a round: its position among the
// voters other than the lost leader.
func (f *failover) rank(l *Loop, lost uint64) uint64 {
	voters := slices.Clone(l.conf.GetVoters())
	slices.Sort(voters)
	voters = slices.DeleteFunc(voters, func(v uint64) bool { return v == lost })
	return rankTicks * uint64(max(0, slices.Index(voters, l.id)))
}

func (f *failover) tick(l *Loop) {
	if f.turn == 0 || l.node.Leader() != 0 || !slices.Contains(l.conf.GetVoters(), l.id) {
		return
	}
	if term := l.node.Term(); term != f.term {
		f.term = term
		f.turn = max(f.turn, l.ticks+voteTicks+f.rank(l, 0))
	}
	if l.ticks < f.turn {
		return
	}
	f.asked = l.ticks
	f.turn += rankTicks * uint64(max(2, len(l.conf.GetVoters())-1))
	if f.turn > f.until {
		f.turn = 0
	}
	if !f.said {
		f.said = true
		l.log.Info("the leader is lost: asking for votes")
	}
	if err := l.campaign(); err != nil {
		l.log.Warn("an election could not be started", "err", err)
	}
}

// first reports whether this server precedes the sender of the pre-vote m: it asks for
// votes itself in this tick, has the lower id, and its log is at least as up to date. If
// delayed servers asked at the same time and granted each other the pre-vote, their votes
// would split. Leaving m unanswered is safe, and happens for one tick only.
func (f *failover) first(l *Loop, m *pb.Message) bool {
	if m.GetType() != pb.MsgPreVote || f.asked == 0 || f.asked != l.ticks || m.GetFrom() < l.id {
		return false
	}
	last, term, err := l.writes.lastEntry()
	return err == nil && (term > m.GetLogTerm() || term == m.GetLogTerm() && last >= m.GetIndex())
}
