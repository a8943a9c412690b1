package quorum

import "slices"

// failover makes the loss of a leader short. Raft alone waits for an election
// timeout of silence; but when a process dies its connections are reset at once,
// and that is a hint worth following. It is only a hint: the pre-vote asks the
// others, and they refuse while they hear the leader.
//
// A follower whose leader's connection ended waits a little, so that the
// leader's last messages, on their way still, don't make it follow again; then it
// forgets the leader and campaigns. The followers take turns by rank, or their
// votes would split.
type failover struct {
	leader uint64 // lost; 0 if none
	at     uint64 // tick at which to campaign
	forget uint64 // tick at which to forget the leader
}

// rankTicks is the pause between two followers' turns.
const rankTicks = 1

// lost notes that a peer closed its connection to this server.
func (f *failover) lost(l *Loop, id uint64) {
	if id != l.node.Leader() || l.node.IsLeader() || l.sole {
		return
	}
	*f = failover{leader: id, forget: l.ticks + 1, at: l.ticks + 1 + rankTicks*f.rank(l, id)}
}

// rank is this server's place among the voters without the lost leader.
func (f *failover) rank(l *Loop, lost uint64) uint64 {
	voters := slices.Clone(l.conf.GetVoters())
	slices.Sort(voters)
	rank := uint64(0)
	for _, v := range voters {
		if v == l.o.ID {
			break
		}
		if v != lost {
			rank++
		}
	}
	return rank
}

// led ends the waiting once there is a leader again.
func (f *failover) led(lead Leadership) {
	if lead.Leader != 0 {
		*f = failover{}
	}
}

func (f *failover) tick(l *Loop) {
	if f.leader == 0 {
		return
	}
	if l.ticks == f.forget && l.node.Leader() == f.leader {
		l.node.ForgetLeader()
	}
	if l.ticks >= f.at {
		*f = failover{}
		if l.node.Leader() == 0 && slices.Contains(l.conf.GetVoters(), l.o.ID) {
			l.log.Info("the leader's connection ended: asking for a vote")
			if err := l.node.Campaign(); err != nil {
				l.log.Warn("an election could not be started", "err", err)
			}
		}
	}
}
