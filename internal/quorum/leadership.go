package quorum

import (
	"cmp"
	"fmt"
	"slices"
)

// leadership is what a server knows about the coming end of a leadership.
type leadership struct {
	*view
	drains *drains

	dropped bool // the leader closed its connection to this server
	handing bool // this server leads and has asked another one to take over
}

// lost returns why the leader in was lost when is follows, or "" if none was lost.
func (h *leadership) lost(was, is Leadership) Loss {
	why := lossOf(was, is, h.dropped, h.handing)
	h.dropped, h.handing = false, false
	return why
}

// transferTo asks one of voters to lead, the one that has most of the log.
func (h *leadership) transferTo(voters []uint64) bool {
	best := slices.DeleteFunc(h.node.Followers(),
		func(f Progress) bool { return !f.Active || !slices.Contains(voters, f.ID) })
	if len(best) == 0 {
		return false
	}
	able := slices.DeleteFunc(slices.Clone(best), func(f Progress) bool { return h.drains.drains(f.ID) })
	if len(able) > 0 {
		best = able
	}
	to := slices.MaxFunc(best, func(a, b Progress) int { return cmp.Compare(a.Match, b.Match) })
	h.log.Info("handing leadership over", "to", to.ID)
	h.node.TransferLeadership(to.ID)
	h.handing = true
	return true
}

// TransferLeadership asks the voter that has most of the log to lead, preferring voters that don't drain. It reports
// whether a transfer has begun; on a follower it does nothing.
func (l *Loop) TransferLeadership() bool {
	return l.node.IsLeader() && l.leadership.transferTo(slices.Concat(l.conf.GetVoters(), l.conf.GetVotersOutgoing()))
}

func (l *Loop) leaderChanged() {
	lead := Leadership{Leader: l.node.Leader(), IsLeader: l.node.IsLeader(), Term: l.node.Term()}
	if lead == l.lastLead {
		return
	}
	l.failover.led(l, l.lastLead, lead)
	was := l.lastLead
	l.lastLead = lead
	lead.Lost = l.leadership.lost(was, lead)
	l.reconciler.course = course{}
	clear(l.lostDisks.admitted)
	l.guests.led()
	l.drains.led()
	l.batch = nil // the servers that sent its requests send them again
	level, announced := uint32(0), []Announcement(nil)
	if lead.IsLeader {
		level, announced = l.levels.supported(), l.levels.announcements()
		lead.InForce = l.inForce()
	}
	l.tell(func() {
		if lead.IsLeader {
			l.state.Supported(level)
			l.state.Announced(announced)
		}
		l.state.Lead(lead)
	})
	l.publish()
	l.reads.retry(l)
}

// assume makes this server lead at once if it is the only voter, without waiting for
// an election timeout. It reports whether the node then has something to do. Its vote may wait to be written.
func (l *Loop) assume() bool {
	if !l.sole || l.node.IsLeader() || l.writes.pending() {
		return false
	}
	if err := l.campaign(); err != nil {
		l.failed = fmt.Errorf("start as the only voter: %w", err)
	}
	return l.node.HasReady()
}

// campaign starts an election, unless this server must not take part in one yet, or its disk is stuck.
func (l *Loop) campaign() error {
	if l.joining.lasts() || l.Stuck() {
		return nil
	}
	return l.node.Campaign()
}
