package quorum

import (
	"errors"
	"maps"
	"slices"
)

// A guest follows the ensemble without being a member: a server that its operator has
// started before reconfig adds it, or one that reconfig has removed and that still runs
// (docs/decisions/081-servers-without-a-vote.md).
//
//   - A guest is a raft learner that the membership doesn't name. It has no vote, so it
//     counts for no entry, election, digest or clock. Decisions to skip entries don't
//     wait for it either. It doesn't hold the feature level back: a guest that doesn't
//     know the level in force is removed.
//   - A server that wants to be a guest regularly announces itself, with its address, to
//     all servers that it knows. They connect to it from then on, and the leader makes it
//     a learner.
//   - A change that removes a server makes it a learner in the same step if it was a voter, and leaves it a learner if
//     it was an observer, as long as the server answers.
//   - A guest that has not answered its leader for guestSilentTicks is removed. It comes
//     back by announcing itself.
type guests struct {
	*view
	levels      *levels
	roster      *roster
	strays      *strays
	joining     *joining
	leaderCheck *leaderCheck

	own     []string          // this server's addresses in the last membership that named it
	asked   map[uint64]uint64 // by server: tick of its last announcement
	heard   map[uint64]uint64 // while this server leads, by server: tick when it was last active
	visited uint64            // tick when this server last announced itself
	lost    uint64            // tick since which this server has known no leader; 0 while it knows one
	full    bool              // the limit strangersMax was logged
}

const (
	// guestsMax bounds the number of guests at a time.
	guestsMax = 16
	// strangersMax bounds the servers that may announce themselves while this server
	// runs, because this server connects to each of them.
	strangersMax = 64
	// guestTicks is the pause between two announcements of a server that no leader answers,
	// and guestRenewTicks that of a server that follows already: a restarted member has to
	// learn the guest's address again.
	guestTicks      = 10
	guestRenewTicks = 60
	// guestSilentTicks is the silence after which a leader removes a guest.
	guestSilentTicks = 200
	// guestAskedTicks is how long an announcement is valid. It is less than guestSilentTicks, so
	// that a guest removed for its silence isn't let in again by an old announcement.
	guestAskedTicks = 2 * guestRenewTicks
	// guestLeaderlessTicks is the time without a leader after which a member announces
	// itself too: it may have been removed while it was away.
	guestLeaderlessTicks = 100
	// AnnouncementMax is the maximum size of an announcement, in bytes.
	AnnouncementMax = 9 + introducedAddrs*(2+introducedAddr)
)

var errAnnouncement = errors.New("it doesn't name its sender, and nobody else, with an address")

// ReadAnnouncement decodes server from's announcement: an introduction that names only from.
func ReadAnnouncement(from uint64, b []byte) (m Member, err error) {
	members, err := readIntroduction(b)
	switch {
	case err != nil:
		return m, err
	case len(members) != 1 || members[0].ID != from || from == 0 || len(members[0].Addrs) == 0:
		return m, errAnnouncement
	}
	return members[0], nil
}

// tick announces this server if it isn't a member. On a leader it also records which
// guests answer.
func (g *guests) tick() {
	if g.node.Leader() != 0 {
		g.lost = 0
	} else if g.lost == 0 {
		g.lost = g.ticks
	}
	if g.node.IsLeader() {
		maps.DeleteFunc(g.heard, func(id, _ uint64) bool { return !contains(g.conf, id) })
		for _, f := range g.node.Followers() {
			if _, counts := g.heard[f.ID]; f.Active && g.mayGuest(f.ID) || !counts {
				g.heard[f.ID] = g.ticks
			}
		}
	}
	pause := uint64(guestTicks)
	if g.node.Leader() != 0 && g.leaderCheck.since == 0 && !g.joining.lasts() {
		pause = guestRenewTicks
	}
	if g.ticks-g.visited < pause || !g.visits() {
		return
	}
	own := g.own
	for _, m := range g.configured {
		if m.ID == g.id && len(own) == 0 {
			own = m.Addrs
		}
	}
	if g.visited = g.ticks; len(own) > 0 {
		g.shell.Visit(appendIntroduction(nil, []Member{{ID: g.id, Addrs: own}}))
	}
}

// visits reports whether this server announces itself. It does if it is not a member as far
// as it knows. It also does if it has known no leader, or its leader hasn't answered, for so
// long that it may have been removed: in raft an observer never gives up its leader.
func (g *guests) visits() bool {
	switch {
	case g.node.IsLeader():
		return false
	case g.joining.lasts(), g.lost != 0 && g.ticks-g.lost > guestLeaderlessTicks,
		g.leaderCheck.unanswered(g.ticks) > guestLeaderlessTicks:
		return true
	}
	return len(g.wanted) > 0 && !isMember(g.membersNamed(), g.id)
}

// named records this server's addresses from the membership, before that changes.
func (g *guests) named(members []Member) {
	for _, m := range members {
		if m.ID == g.id {
			g.own = m.Addrs
		}
	}
}

// announced handles a server's announcement. From now on this server connects to that server,
// and sends it the members, since all the members that it knows may have left. A member's
// announcement is ignored: members' addresses come only from the membership.
func (g *guests) announced(e Event) {
	m, err := ReadAnnouncement(e.From, e.Data)
	if err != nil {
		g.log.Warn("a request to follow, by a server that isn't a member, can't be decoded", "peer", e.From, "err", err)
		return
	}
	if m.ID == g.id || isMember(g.membersNamed(), m.ID) {
		return
	}
	if other := g.sameLastByte(m.ID); other != 0 {
		g.log.Warn("a server that isn't a member asks to follow, but its id ends with the same byte as another server's, so their sessions would have the same ids; give it another myid",
			"server", m.ID, "other", other)
		return
	}
	if _, known := g.asked[m.ID]; !known && len(g.asked) >= strangersMax {
		if !g.full {
			g.log.Warn("too many servers that aren't members have asked to follow since this server started; no more are accepted",
				"server", m.ID, "most", strangersMax)
		}
		g.full = true
		return
	}
	g.asked[m.ID] = g.ticks
	g.shell.AddPeers([]Member{m})
	g.strays.note([]Member{m})
	g.roster.guest(m)
	g.roster.introduce(m.ID)
}

// sameLastByte returns a member or another guest whose id ends with the same byte, or 0.
// Session ids begin with that byte.
func (g *guests) sameLastByte(id uint64) uint64 {
	for _, m := range g.roster.membersKnown() {
		if m.ID != id && byte(m.ID) == byte(id) {
			return m.ID
		}
	}
	for _, other := range slices.Sorted(maps.Keys(g.asked)) {
		if other != id && byte(other) == byte(id) {
			return other
		}
	}
	return 0
}

// led is called when the leader changes. It resets the guests' silence.
func (g *guests) led() {
	clear(g.heard)
}

// stays reports whether a server that the membership doesn't name becomes or remains a
// guest. A guest must answer the leader.
func (g *guests) stays(id uint64) bool {
	if id == g.id {
		return true // this leader hands leadership over first, or loses it
	}
	if slices.Contains(g.conf.GetVoters(), id) {
		return g.count() < guestsMax &&
			slices.ContainsFunc(g.node.Followers(), func(f Progress) bool { return f.ID == id && f.Active }) && g.mayGuest(id)
	}
	heard, counts := g.heard[id]
	return !counts || g.ticks-heard <= guestSilentTicks
}

// mayGuest reports whether a server knows the highest feature level that this one knows.
// One that doesn't would keep the ensemble from reaching that level, or would be sent
// nothing more once the ensemble reaches it.
func (g *guests) mayGuest(id uint64) bool {
	_, highest := g.state.Levels()
	return g.levels.of(id) >= highest
}

// count returns the number of guests in raft's membership.
func (g *guests) count() (n int) {
	for _, id := range slices.Concat(g.conf.GetLearners(), g.conf.GetLearnersNext()) {
		if g.isGuest(id) {
			n++
		}
	}
	return n
}

// arriving returns a server that is to become a guest, or 0.
func (g *guests) arriving() uint64 {
	if g.count() >= guestsMax {
		return 0
	}
	for _, id := range slices.Sorted(maps.Keys(g.asked)) {
		if g.ticks-g.asked[id] <= guestAskedTicks && !contains(g.conf, id) && !isMember(g.membersNamed(), id) &&
			g.shell.Connected(id) && g.mayGuest(id) {
			return id
		}
	}
	return 0
}
