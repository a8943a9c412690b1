package quorum

import (
	"maps"
	"slices"
)

// strays are the servers that the Shell no longer has a reason to connect to. The reasons are that
// a server is a member, has a vote, follows as a guest, or has asked to. A server that was removed,
// or was never added because the change was dropped, may be gone for good: its address should not
// be dialled forever.
//
// Only a server with a leader that answers it knows the present members. A server that was away
// keeps dialling every server, because one of them may introduce the members.
type strays struct {
	*view
	guests      *guests
	joining     *joining
	leaderCheck *leaderCheck

	dialled map[uint64]bool   // servers that the Shell was told to connect to
	since   map[uint64]uint64 // by server: the tick since when there is no reason
}

// strayTicks is how long a stray is still dialled. A removed server that restarts within that
// time hears of its removal from those that dial it; later it has to ask (guests.go).
const strayTicks = 200

// note records servers that the Shell is told to connect to.
func (s *strays) note(servers []Member) {
	for _, m := range servers {
		if m.ID != s.id {
			s.dialled[m.ID] = true
		}
	}
}

// tick has the Shell drop the servers that have been strays for strayTicks and don't answer.
func (s *strays) tick() {
	if s.node.Leader() == 0 || s.joining.lasts() || s.leaderCheck.unanswered(s.ticks) > leaderCheckTicks ||
		len(s.wanted) == 0 {
		clear(s.since)
		return
	}
	for _, id := range slices.Sorted(maps.Keys(s.dialled)) {
		since, counts := s.since[id]
		switch {
		case s.wants(id):
			delete(s.since, id)
		case !counts:
			s.since[id] = s.ticks
		case s.ticks-since >= strayTicks && !s.shell.Connected(id):
			delete(s.dialled, id)
			delete(s.since, id)
			s.shell.DropPeer(id)
		}
	}
}

// wants reports whether this server has a reason to connect to another one.
func (s *strays) wants(id uint64) bool {
	asked, ok := s.guests.asked[id]
	return contains(s.conf, id) || isMember(s.membersNamed(), id) || ok && s.ticks-asked <= guestAskedTicks
}
