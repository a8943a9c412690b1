package quorum

import (
	"slices"

	pb "go.etcd.io/raft/v3/raftpb"
)

// failover makes the loss of a leader short. Raft alone waits for an election
// timeout of silence, drawn at random, and again after each vote it doesn't win.
// But when a process dies its connections are reset at once, and that is a hint
// worth following: the follower forgets its leader. It is only a hint: the
// pre-vote asks the others, and they refuse while they hear the leader.
//
// Once a follower has no leader, lost or silent, it campaigns in turns until
// there is one. The followers take their turns one after the other, by rank, or
// their votes would split. That matters: the first may lack the newest entry, so
// that only another can win, and a pre-vote may come to a server that has yet to
// notice the loss or isn't connected yet, and be in vain.
type failover struct {
	turn  uint64 // tick of this server's next turn; 0 if there is a leader, or never was
	until uint64 // last tick of the turns: then raft's own clock decides
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

// lost notes that a peer closed its connection to this server. All that it said
// on it has been handled.
func (f *failover) lost(l *Loop, id uint64) {
	if id == l.node.Leader() && !l.node.IsLeader() && !l.sole {
		l.leaderDropped = true
		l.node.ForgetLeader()
	}
}

// led takes note of a change of leader or term.
func (f *failover) led(l *Loop, was, is Leadership) {
	switch {
	case is.Leader != 0 || l.sole:
		*f = failover{}
	case was.Leader != 0 && !was.IsLeader:
		*f = failover{turn: l.ticks + 1 + f.rank(l, was.Leader), until: l.ticks + turnTicks, term: is.Term}
		if is.Term != was.Term { // somebody else's election
			f.turn += voteTicks
		}
	}
}

// rank is when this server's turn comes in each round: its place among the
// voters without the lost leader.
func (f *failover) rank(l *Loop, lost uint64) uint64 {
	voters := slices.Clone(l.conf.GetVoters())
	slices.Sort(voters)
	voters = slices.DeleteFunc(voters, func(v uint64) bool { return v == lost })
	return rankTicks * uint64(max(0, slices.Index(voters, l.o.ID)))
}

func (f *failover) tick(l *Loop) {
	if f.turn == 0 || l.node.Leader() != 0 || !slices.Contains(l.conf.GetVoters(), l.o.ID) {
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

// first reports whether m, a pre-vote, comes while this server asks for votes
// itself, comes before m's sender by rank and has as good a log. If servers that
// were held up ask at once, and each gave the other what it asks for, their
// votes would split. To leave m unanswered is safe, and it is for one tick only.
func (f *failover) first(l *Loop, m *pb.Message) bool {
	if m.GetType() != pb.MsgPreVote || f.asked == 0 || f.asked != l.ticks || m.GetFrom() < l.o.ID {
		return false
	}
	last, err := l.disk.LastIndex()
	if err != nil {
		return false
	}
	term, err := l.disk.Term(last)
	return err == nil && (term > m.GetLogTerm() || term == m.GetLogTerm() && last >= m.GetIndex())
}
