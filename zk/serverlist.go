package zk

import (
	"math/rand/v2"
	"slices"
)

// A serverList returns the servers to try, in turn. When the list changes, it decides whether this client should move,
// in such a way that many clients that decide independently are spread evenly over the new list. The algorithm is
// Apache's:
//
//	S servers before, N after; mine is the one we're connected to.
//	N > S, mine stays:  move to a new server with probability 1 - S/N
//	N > S, mine goes:   move to a new server
//	N <= S, mine stays: stay
//	N <= S, mine goes:  move; to an old server with probability
//	                    |old|*(S-N) / (N*(S-|old|)), else to a new one
//
// A list from SRV records has an order. There the client stays on its server as long as the list has it, and otherwise
// begins at the front of the list.
//
// A serverList has no lock; the session's lock guards it.
type serverList struct {
	servers []string
	order   []string // the servers in the order of SRV records; nil if the list isn't in order
	at      int      // index of the last server returned, -1 before the first
	full    int      // index at which a round is complete: the server of the last connection

	// moving is true from an update until each server of both lists was tried.
	moving   bool
	pOld     float64 // probability of an old server while servers of both kinds are left
	old, new []string

	rand *rand.Rand
}

func newServerList(servers []string, r *rand.Rand) *serverList {
	l := &serverList{at: -1, full: -1, rand: r}
	l.servers = l.shuffled(servers)
	return l
}

// newOrderedList returns an ordered list without servers; update sets them.
func newOrderedList() *serverList { return &serverList{at: -1, full: -1, order: []string{}} }

func (l *serverList) shuffled(servers []string) []string {
	v := slices.Clone(servers)
	l.rand.Shuffle(len(v), func(i, j int) { v[i], v[j] = v[j], v[i] })
	return v
}

// next returns the server to try. round reports whether all others were tried since the last connection, so that the
// caller should pause first.
func (l *serverList) next() (server string, round bool) {
	if l.moving {
		if server, ok := l.nextMoving(); ok {
			l.at = slices.Index(l.servers, server)
			return server, false
		}
		l.moving = false
	}
	l.at = (l.at + 1) % len(l.servers)
	round = l.at == l.full
	if l.full < 0 {
		l.full = l.at
	}
	return l.servers[l.at], round
}

func (l *serverList) nextMoving() (string, bool) {
	take := func(v *[]string) (string, bool) {
		server := (*v)[0]
		*v = (*v)[1:]
		return server, true
	}
	switch {
	case len(l.old) == 0 && len(l.new) == 0:
		return "", false
	case len(l.old) == 0, len(l.new) > 0 && l.rand.Float64() >= l.pOld:
		return take(&l.new)
	default:
		return take(&l.old)
	}
}

// lost records that the connection to server was lost. An ordered list then starts again from its front, with that
// server last.
func (l *serverList) lost(server string) {
	if i := slices.Index(l.order, server); i >= 0 {
		l.servers = append(slices.Delete(slices.Clone(l.order), i, i+1), server)
		l.at, l.full = -1, -1
	}
}

// connected records that the last server returned has accepted the session.
func (l *serverList) connected() {
	l.full = l.at
	l.moving = false
}

// prefer makes server the next one to be returned, if the list has it.
func (l *serverList) prefer(server string) {
	if i := slices.Index(l.servers, server); i >= 0 {
		l.moving = false
		l.at = i - 1
	}
}

// update replaces the list. It reports whether the client should leave its server, mine, which is "" if there is none.
func (l *serverList) update(servers []string, mine string) (move bool) {
	if l.order != nil {
		l.order, l.servers = servers, servers
		l.at = slices.Index(servers, mine)
		l.full = l.at
		return mine != "" && l.at < 0
	}
	before := l.servers
	if mine == "" && l.at >= 0 {
		mine = before[l.at]
	}
	l.servers = l.shuffled(servers)
	l.old, l.new = nil, nil
	for _, s := range l.servers {
		if slices.Contains(before, s) {
			l.old = append(l.old, s)
		} else {
			l.new = append(l.new, s)
		}
	}
	stays := slices.Contains(l.servers, mine)
	s, n, old := float64(len(before)), float64(len(l.servers)), float64(len(l.old))
	switch {
	case n > s && stays:
		l.pOld, move = 0, l.rand.Float64() <= 1-s/n
	case n > s:
		l.pOld, move = 0, true
	case stays:
		move = false
	default:
		l.pOld, move = 1, true
		if s > old {
			l.pOld = old * (s - n) / (n * (s - old))
		}
	}
	l.moving = move
	l.at, l.full = slices.Index(l.servers, mine), slices.Index(l.servers, mine)
	return move
}
