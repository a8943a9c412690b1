package sim

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/jute"
)

// The ensemble's membership as the real server reads and changes it, and disks
// that are lost and replaced.

// serverLine is a server's line in a membership.
func serverLine(id uint64, role string) string {
	return fmt.Sprintf("server.%d=s%d:2888:3888:%s;2181", id, id, role)
}

func role(observer bool) string {
	if observer {
		return "observer"
	}
	return "participant"
}

// firstMembers returns the members that the ensemble starts with.
func (w *World) firstMembers() []quorum.Member {
	var all []quorum.Member
	for i := range w.plan.Servers {
		all = append(all, member(uint64(i+1), i >= w.plan.Servers-w.plan.Observe))
	}
	return all
}

func member(id uint64, observer bool) quorum.Member {
	return quorum.Member{
		ID: id, Addrs: []string{net.JoinHostPort("s"+strconv.FormatUint(id, 10), "2888")}, Observer: observer,
	}
}

// configured returns the members that the server's loop is started with.
func (l *life) configured() []quorum.Member {
	if l.bare {
		return []quorum.Member{member(l.s.id, false)}
	}
	return l.s.config
}

// membership returns the Membership that cmd/zooid passes to the server.
func (l *life) membership() replica.Membership {
	if l.bare {
		return replica.Membership{}
	}
	var text strings.Builder
	for _, m := range l.w.firstMembers() {
		fmt.Fprintln(&text, serverLine(m.ID, role(m.Observer)))
	}
	return replica.Membership{Text: text.String(), Parse: parseMembers}
}

func parseMembers(text string) ([]quorum.Member, error) {
	m, err := config.ParseMembers(text)
	if err != nil {
		return nil, err
	}
	var all []quorum.Member
	for _, s := range m.Servers {
		all = append(all, member(uint64(s.ID), s.Observer))
	}
	return all, nil
}

func changeMembers(current string, req *jute.ReconfigRequest, _ bool) (string, jute.Code) {
	now, err := config.ParseMembers(current)
	if err != nil || req.Joining == nil || req.Leaving == nil {
		return "", jute.ErrBadArguments
	}
	next, err := now.Change(*req.Joining, *req.Leaving)
	if err != nil || next.Voters() == 0 {
		return "", jute.ErrBadArguments
	}
	text, _, _ := strings.Cut(next.String(), "version=")
	return text, jute.OK
}

// decided records the membership that was decided on.
func (w *World) decided(text string) {
	members, err := parseMembers(text)
	if err != nil {
		w.fail("/zookeeper/config holds %q: %v", text, err)
		return
	}
	w.wanted, w.unsettled = members, true
	w.elects(members)
	w.dismiss(members)
	w.stats.Reconfigs++
	w.after(0, func() {
		// Servers that were to join and never began get the present configuration:
		// the servers that their own names may be gone.
		for _, s := range w.servers {
			if _, in := find(w.wanted, s.id); !in && s.installed && !s.begun && s.life != nil {
				s.configure(false)
			}
		}
	})
}

// dismiss records the servers that must have no vote.
func (w *World) dismiss(members []quorum.Member) {
	for _, s := range w.servers {
		if m, in := find(members, s.id); !in || m.Observer {
			w.dismissed[s.id] = true
		}
	}
}

// elects records the servers that must have a vote.
func (w *World) elects(members []quorum.Member) {
	for _, m := range members {
		if !m.Observer {
			w.electorate[m.ID] = true
		}
	}
}

// members returns the hosts of the ensemble's servers that can be started.
func (w *World) members() []*host {
	wanted := w.wanted
	if wanted == nil {
		wanted = w.firstMembers()
	}
	var hosts []*host
	for _, m := range wanted {
		if s := w.servers[m.ID-1]; s.out == "" {
			hosts = append(hosts, s)
		}
	}
	return hosts
}

// guests returns the hosts of running servers that aren't members: they follow without a vote. It
// leaves out servers that know no member to ask, which an operator has to tell, and servers of an
// older version; a leader of an older version has no guests.
func (w *World) guests() (hosts []*host) {
	for _, id := range w.voters {
		if w.servers[id-1].level == levelFirst {
			return nil
		}
	}
	for _, s := range w.servers {
		if l := s.life; l == nil || l.loop == nil || s.diverged || l.level == levelFirst {
			continue
		}
		if _, in := find(w.wanted, s.id); !in && w.wanted != nil && w.informed(s) {
			hosts = append(hosts, s)
		}
	}
	return hosts
}

func find(members []quorum.Member, id uint64) (m quorum.Member, ok bool) {
	if i := slices.IndexFunc(members, func(m quorum.Member) bool { return m.ID == id }); i >= 0 {
		return members[i], true
	}
	return m, false
}

// counted records whose votes count once a server has applied entries.
func (l *life) counted(entries []quorum.Entry) {
	w := l.w
	l.voters, l.outgoing = l.loop.Voters()
	if old := l.s.electorate; !slices.Equal(old[0], l.voters) || !slices.Equal(old[1], l.outgoing) {
		l.s.former, l.s.formerTo = old, w.lastIndex()
	}
	l.s.electorate = [2][]uint64{l.voters, l.outgoing}
	l.electorates = append(l.electorates, l.s.electorate)
	if at := entries[len(entries)-1].Index; at > w.votersAt {
		for _, v := range w.voters {
			if s := w.servers[v-1]; !slices.Contains(l.voters, v) && !w.dismissed[v] && s.begun && !s.wiped &&
				w.now-max(s.joinedAt, w.lastHeld) > lateQuestion {
				w.fail("M3: server %d loses its vote at entry %d; it was to keep it, and its disk is as it was", v, at)
			}
			if !slices.Contains(l.voters, v) { // maybe long after the decision; its clients don't know yet
				w.lastFault = max(w.lastFault, w.now+(&Fault{Kind: Leave}).aftermath())
			}
		}
		if len(l.outgoing) > 0 && len(w.leaving) == 0 && w.asked != nil {
			w.prepared(l.voters, at)
		}
		for _, v := range l.voters {
			if m, in := find(w.wanted, v); in && !m.Observer && !slices.Contains(w.voters, v) {
				delete(w.dismissed, v)
			}
			if w.votersAt > 0 && !slices.Contains(w.voters, v) && !slices.Contains(w.leaving, v) {
				w.stats.Promotions++
				if s := w.servers[v-1]; !s.begun { // it will begin as if its disk had been lost
					w.stats.Absent++
					s.replaced, s.renewed, s.countsFrom = true, true, 0
				}
				if !w.electorate[v] {
					w.fail("server %d gets a vote at entry %d, which nobody has ever decided", v, at)
				}
			}
		}
		w.voters, w.leaving, w.votersAt, w.unsettled = l.voters, l.outgoing, at, true
		w.countAgain()
	}
}

// lateQuestion is how late a question how to begin may still take effect. Time in which no majority worked doesn't
// count: earlier decisions are committed after it. A late effect does no harm: the server joins again.
const lateQuestion = 10 * second

// informed reports whether a server knows the address of a voter, or can learn one from
// servers that it knows and that know it. Otherwise an operator has to tell it. Nobody
// tells a server of the first version: it must know all voters, as any of them may lead.
func (w *World) informed(s *host) bool {
	if l := s.life; l != nil && l.level == levelFirst {
		return !slices.ContainsFunc(w.voters, func(v uint64) bool {
			voter := w.servers[v-1].life
			return v != s.id && (!l.peers[v] || voter != nil && !voter.peers[s.id])
		})
	}
	known := map[uint64]bool{s.id: true}
	for queue := []*host{s}; len(queue) > 0; queue = queue[1:] {
		l := queue[0].life
		if l == nil {
			continue
		}
		for _, h := range w.servers {
			if !known[h.id] && l.peers[h.id] && h.life != nil && h.life.peers[s.id] {
				if known[h.id] = true; slices.Contains(w.voters, h.id) {
					return true
				}
				queue = append(queue, h)
			}
		}
	}
	return slices.Contains(w.voters, s.id)
}

// AnnounceSkips implements quorum.Shell.
func (l *life) AnnounceSkips(note []byte) {
	l.skips = note
	for _, other := range l.w.servers {
		if other == l.s {
			continue
		}
		in := l.w.links[other.index][l.s.index]
		if mine := in.mine; in.up && in.peer == l {
			in.w.after(in.w.delay(), func() {
				if other.life == mine {
					mine.hear(quorum.Event{Kind: quorum.EventSkips, From: l.s.id, Data: note})
				}
			})
		}
	}
}

// SetPeers implements quorum.Shell.
func (l *life) SetPeers(members []quorum.Member) {
	for _, m := range members {
		if m.ID != l.s.id && !l.peers[m.ID] {
			l.peers[m.ID] = true
			l.w.links[l.s.index][m.ID].dial()
		}
	}
}

// AddPeers implements quorum.Shell.
func (l *life) AddPeers(servers []quorum.Member) { l.SetPeers(servers) }

// DropPeer implements quorum.Shell.
func (l *life) DropPeer(id uint64) { delete(l.peers, id) }

// vet checks a reconfig as the server does: do enough of the voters answer?
func (l *life) vet(body []byte) jute.Code {
	var q jute.ReconfigRequest
	d := jute.NewDecoder(body)
	if q.Decode(d); d.Err() != nil {
		return jute.OK
	}
	text, code := changeMembers(l.w.wantedText(), &q, true)
	members, err := parseMembers(text)
	if code != jute.OK || err != nil {
		return jute.OK
	}
	voters, answer := 0, 0
	for _, m := range members {
		s := l.w.servers[m.ID-1]
		if !m.Observer {
			voters++
			if s == l.s || s.life != nil && !s.paused() && !l.w.cut(l.s.index, s.index) {
				answer++
			}
		}
	}
	if answer <= voters/2 {
		return jute.ErrNewConfigNoQuorum
	}
	return jute.OK
}

func (w *World) wantedText() string {
	var text strings.Builder
	for _, m := range w.wanted {
		fmt.Fprintln(&text, serverLine(m.ID, role(m.Observer)))
	}
	return text.String()
}

// What may be lost.

// unfit reports whether a server's promises can't be relied on. Where servers begin, the votes of those that were let
// in may count before they have learned of it and vote, and a founder may have been overtaken. It may also believe so,
// if the names of all others lead to another ensemble before it has heard of an election in its own.
func (s *host) unfit() bool {
	return s.w.plan.Begins && (s.awaits || s.cluster != s.w.descent.lineage) || s.w.plan.Absent && s.awaits ||
		s.w.twin != nil && s.elected != s.cluster ||
		s.out != "" || s.wiped || s.disk.damaged() || !s.begun || s.diverged
}

// spares reports whether the ensemble survives the loss of a server's disk: in
// each membership that counts, or is about to while the membership changes, no
// more than a minority may have lost their disks.
func (w *World) spares(s *host) bool {
	if w.wanted == nil {
		return false
	}
	if len(w.leaving) > 0 || w.asked != nil || w.changing || w.operator.busy() {
		return w.strict && w.plan.Changing && w.outlives(s)
	}
	for _, m := range w.wanted {
		if !m.Observer != slices.Contains(w.voters, m.ID) && m.ID != s.id {
			return false
		}
	}
	if m, ok := find(w.wanted, s.id); !slices.Contains(w.voters, s.id) {
		// It may get a vote at any moment because of what it holds. And a voter that hasn't learned
		// yet that the server's vote is gone counts it, unless the change was answered under rule M2.
		return (!ok || m.Observer || s.life == nil) && (w.strict || w.knownWithout(s))
	} else if !ok || m.Observer {
		return false
	}
	var named []uint64 // soon only their votes may count
	for _, m := range w.wanted {
		if !m.Observer {
			named = append(named, m.ID)
		}
	}
	return w.majorityWithout(s, w.voters) && w.majorityWithout(s, named) && w.knownWithout(s)
}

// majorityWithout reports whether a majority of some voters is left without a server.
func (w *World) majorityWithout(s *host, voters []uint64) bool {
	fit := 0
	for _, id := range voters {
		if other := w.servers[id-1]; other != s && !other.unfit() {
			fit++
		}
	}
	return fit > len(voters)/2
}

// knownWithout reports whether, without a server, a majority is left of the voters that
// each of the others knows of. Only one disk may say that a change of voters was committed;
// if that disk is lost while all servers are down, the others miss the former voters.
func (w *World) knownWithout(s *host) bool {
	for _, id := range w.voters {
		other := w.servers[id-1]
		if other == s || other.unfit() {
			continue
		}
		for _, voters := range other.electorate {
			if len(voters) > 0 && !w.majorityWithout(s, voters) {
				return false
			}
		}
	}
	return true
}

// possible reports whether a fault has an effect and is one that the ensemble
// promises to survive.
func (w *World) possible(f Fault, s *host) bool {
	_, in := find(w.wanted, s.id)
	switch f.Kind {
	case DuplicateID:
		return in && s.installed && !s.stopped
	case Rot, Lie, Wipe:
		return s.installed && !s.unfit() && w.spares(s) && w.passed()
	case Power:
		return w.losesNothing(s) && (!w.plan.Begins || w.befalls(f, s))
	case PowerAll:
		return !slices.ContainsFunc(w.servers, func(s *host) bool { return !w.losesNothing(s) }) &&
			(!w.plan.Begins || w.befalls(f, s))
	case Diverge:
		return w.diverges(s)
	case LostMajority:
		return w.settledDown()
	case Poison:
		return w.passed() && len(w.poisons) < poisonsMax
	case Join:
		return w.wanted != nil && !in
	case Swap:
		return w.wanted != nil && !w.operator.busy()
	case Leave, Role:
		return in
	}
	return !w.plan.Begins || w.befalls(f, s)
}

// losesNothing reports whether a server may lose its power: if its disk lies, it loses
// its writes, which the ensemble must survive.
func (w *World) losesNothing(s *host) bool { return !s.disk.fs.LieAboutSync || w.spares(s) }

// wipe replaces the disk with an empty one.
func (s *host) wipe() {
	s.w.logger(s.id).Info("its disk is replaced by an empty one")
	s.end(false)
	held := s.promise.acked
	if s.log != nil {
		if last, err := s.log.LastIndex(); err == nil {
			held = max(held, last) // a leader sends no acknowledgment of its own entries
		}
	}
	for _, run := range s.disk.hung.beside { // what waits for the old disk finds that the process has ended
		s.w.after(0, run)
	}
	s.disk = disk{fs: storage.NewMemFS(), w: s.w, s: s}
	s.promise, s.log, s.out, s.electorate = promise{}, nil, "", [2][]uint64{}
	s.diverged, s.awaits, s.joinsOnly, s.keeps, s.foreign = false, false, false, false, false
	s.wiped, s.lost, s.begun = true, max(held, s.lost), false
	s.soundTo = uint64(len(s.w.ledger.entries))
	s.replaced, s.renewed, s.countsFrom, s.w.unsettled = true, true, 0, true
	s.w.lostAt = len(s.w.ledger.entries)
	s.config = s.w.configOf(s.id, false)
	s.w.after(0, s.leftOut)
}

// leftOut acts as an operator: it removes this server, whose disk is empty, from the configurations
// of others that wait with an empty disk for an ensemble to admit them (see configOf).
func (s *host) leftOut() {
	for _, o := range s.w.servers {
		if _, named := find(o.config, s.id); named && o != s && !s.begun && o.installed && !o.begun && o.life != nil {
			o.configure(false)
		}
	}
}

// replacePause is how long a damaged disk stays in use.
const replacePause = 5 * second

// replace acts as an operator and replaces a damaged disk once the ensemble doesn't need
// it.
func (s *host) replace() {
	switch {
	case !s.disk.damaged() || s.w.ended:
	case s.w.spares(s):
		s.w.repairedAt = s.w.now
		s.wipe()
		s.start()
	default:
		s.w.after(second, s.replace)
	}
}

// configure rewrites the server's configuration and starts the server with it.
// A server that was away may know none of the present members.
func (s *host) configure(observer bool) {
	s.config = s.w.configOf(s.id, observer)
	if l := s.life; l != nil {
		if !slices.ContainsFunc(s.config, func(m quorum.Member) bool { return m.ID != s.id && !l.peers[m.ID] }) {
			return
		}
		s.end(false)
		s.disk.reboot()
	}
	s.start()
}

// configOf returns the configuration that an operator writes for a server: the
// members decided on and, as voters, those that vote until the change is
// complete, one of which leads. A server whose configuration names no other voter begins
// an ensemble of its own while the others are down, as a first server does: the ensemble
// isn't promised to survive that.
func (w *World) configOf(id uint64, observer bool) []quorum.Member {
	if w.plan.Begins {
		return w.lines(id, rightLine, 0)
	}
	members := slices.Clone(w.wanted)
	if members == nil {
		members = w.firstMembers()
	}
	if _, ok := find(members, id); !ok {
		members = append(members, member(id, observer))
	}
	for _, v := range slices.Concat(w.voters, w.leaving) {
		if i := slices.IndexFunc(members, func(m quorum.Member) bool { return m.ID == v }); i < 0 {
			members = append(members, member(v, false))
		} else if v != id {
			members[i].Observer = false
		}
	}
	if len(w.ledger.leaders) == 0 {
		return members // the first servers haven't met yet; servers with other lists belong to another ensemble
	}
	// Leave out servers that are as empty as this one: a majority of empty servers
	// would begin an ensemble of their own while the others are down.
	running := slices.DeleteFunc(slices.Clone(members),
		func(m quorum.Member) bool { return m.ID != id && !w.servers[m.ID-1].begun })
	if !slices.ContainsFunc(running, func(m quorum.Member) bool { return m.ID != id && !m.Observer }) {
		return members
	}
	return running
}

// Visit implements quorum.Shell.
func (l *life) Visit(announcement []byte) {
	w, s := l.w, l.s
	for _, other := range w.servers {
		if other == s || !l.peers[other.id] || l.level == levelFirst {
			continue
		}
		w.after(4*w.delay(), func() {
			if peer := other.life; peer != nil && peer.loop != nil && peer.level > levelFirst && !l.ended && !other.paused() &&
				!w.cut(s.index, other.index) {
				peer.hear(quorum.Event{Kind: quorum.EventGuest, From: s.id, Data: announcement})
			}
		})
	}
}
