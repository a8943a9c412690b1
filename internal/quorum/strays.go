package quorum

import (
	"maps"
	"slices"
)

// strays are the servers that the Shell connects to without a reason any more. A server is
// connected to because it is a member, has a vote, follows as a guest, or has asked to. Once it was
// removed, or was never added because the change that asked for it was given up, it may be gone for
// good: nobody should go on dialling its address.
//
// Only a server that knows the present members can tell: it has a leader that answers it. One that
// was away goes on dialling everybody, because one of them may tell it who the members are.
type strays struct {
	dialled map[uint64]bool   // servers that the Shell was told to connect to
	since   map[uint64]uint64 // by server without a reason: the tick from which it had none
}

// strayTicks is how long a server without a reason is dialled. A removed server that starts again
// within that time hears of its removal from those that dial it; later it has to ask (guests.go).
const strayTicks = 200

// note records servers that the Shell is told to connect to.
func (s *strays) note(l *Loop, servers []Member) {
	for _, m := range servers {
		if m.ID != l.o.ID {
			s.dialled[m.ID] = true
		}
	}
}

// tick has the Shell drop the servers that have been strays for strayTicks and don't answer.
func (s *strays) tick(l *Loop) {
	if l.node.Leader() == 0 || l.joining() || l.leaderCheck.unanswered(l) > leaderCheckTicks || len(l.wanted) == 0 {
		clear(s.since)
		return
	}
	for _, id := range slices.Sorted(maps.Keys(s.dialled)) {
		since, counts := s.since[id]
		switch {
		case l.wants(id):
			delete(s.since, id)
		case !counts:
			s.since[id] = l.ticks
		case l.ticks-since >= strayTicks && !l.o.Shell.Connected(id):
			delete(s.dialled, id)
			delete(s.since, id)
			l.o.Shell.DropPeer(id)
		}
	}
}

// wants reports whether this server has a reason to connect to another one.
func (l *Loop) wants(id uint64) bool {
	asked, ok := l.guests.asked[id]
	return contains(l.conf, id) || isMember(l.membersNamed(), id) || ok && l.ticks-asked <= guestAskedTicks
}
