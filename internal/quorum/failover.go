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
func (f *failover) lost(p *Peer, id uint64) {
	if id != p.node.Leader() || p.node.IsLeader() || p.sole {
		return
	}
	*f = failover{leader: id, forget: p.ticks + 1, at: p.ticks + 1 + rankTicks*f.rank(p, id)}
}

// rank is this server's place among the voters without the lost leader.
func (f *failover) rank(p *Peer, lost uint64) uint64 {
	voters := slices.Clone(p.conf.GetVoters())
	slices.Sort(voters)
	rank := uint64(0)
	for _, v := range voters {
		if v == p.o.ID {
			break
		}
		if v != lost {
			rank++
		}
	}
	return rank
}

// led ends the waiting once there is a leader again.
func (f *failover) led(l Leadership) {
	if l.Leader != 0 {
		*f = failover{}
	}
}

func (f *failover) tick(p *Peer) {
	if f.leader == 0 {
		return
	}
	if p.ticks == f.forget && p.node.Leader() == f.leader {
		p.node.ForgetLeader()
	}
	if p.ticks >= f.at {
		*f = failover{}
		if p.node.Leader() == 0 && slices.Contains(p.conf.GetVoters(), p.o.ID) {
			p.log.Info("the leader's connection ended: asking for a vote")
			if err := p.node.Campaign(); err != nil {
				p.log.Warn("an election could not be started", "err", err)
			}
		}
	}
}
