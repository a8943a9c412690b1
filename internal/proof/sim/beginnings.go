package sim

import (
	"errors"
	"io"
	"math/rand/v2"
	"slices"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/internal/treeload"
)

// The profile beginnings: servers that begin, with all that can go wrong meanwhile. A plan is a story of how they are
// started, the content of their disks and lines, and faults around it. An operator (advise) follows the servers'
// messages.
//
// The stories keep to what servers can know: a server whose data counts isn't known to be absent, for as long as
// others would found without it (World.befalls). Its machine may be switched off, since others can't know what its
// silence means.

// begins is the name of the profile.
const begins = "beginnings"

// beginnings draws a story and the faults.
func beginnings(r *rand.Rand, p *Plan) {
	p.Begins, p.Spare, p.ReadOnly, p.Refuse = true, 0, false, 0
	p.Servers, p.Observe, p.Tick = pick(r, 3, 3, 3, 5), 0, pick(r, 200*millisecond, 500*millisecond)
	p.Timeout = pick[int64](r, 10, 20) * p.Tick
	p.SnapCount = pick(r, 5, 20, 100, 1000)
	all := r.Perm(p.Servers)
	for i := range all {
		all[i]++
	}
	p.Twin = chance(r, 15)
	quiet := int64(0) // until then there are no other faults
	switch n := r.IntN(100); {
	case n < 35 || p.Twin && n < 60:
		p.Observe = pick(r, 0, 0, 0, 1)
		if quiet = pick(r, 0, 0, 0, 25*second); quiet > 0 {
			p.beginTwice(r, all)
		} else {
			p.beginEmpty(r, all)
		}
	case n < 60:
		p.beginWithData(r, all, 1)
	case n < 90:
		p.beginWithData(r, all, 2+r.IntN(p.Servers-1))
	default:
		p.beginForeign(r, all)
	}
	ordinary := &profile{
		kinds: []Kind{Crash, Power, Restart, Pause, Isolate, Cut, OneWay, Reset, Loss, Transfer, Wipe, CrashAll},
		mean:  pick(r, 3*second, 8*second, 20*second),
	}
	p.Faults = append(p.Faults,
		slices.DeleteFunc(drawFaults(r, p, ordinary), func(f Fault) bool { return f.At < quiet })...)
	for at := quiet; at < p.End; at += int64(r.ExpFloat64() * float64(pick(r, 4*second, 12*second))) {
		kind := pick(r, Off, NoName, NoName, Unproven, Stranger, Order, PutBack, PutBack)
		f := Fault{At: at, Kind: kind, Server: 1 + r.IntN(p.Servers), Other: 1 + r.IntN(p.Servers)}
		f.Dur = between(r, second/2, pick(r, 3*second, 8*second, 30*second))
		f.Dur = min(f.Dur, p.End-at)
		p.Faults = append(p.Faults, f)
	}
	for at := quiet + second; p.Twin; {
		if at += int64(r.ExpFloat64() * float64(6*second)); at > p.End {
			break
		}
		f := Fault{
			At: at, Kind: Astray, Server: 1 + r.IntN(p.Servers), Other: 1, Dur: min(between(r, second/2, 12*second), p.End-at),
			Arg: int64(r.IntN(2)),
		}
		p.Faults = append(p.Faults, f)
	}
	p.sortFaults()
}

// pair adds another ensemble with the same server lines and the same secret, with little else to do.
func (w *World) pair(log io.Writer) {
	p := w.plan
	p.Seed, p.Clients, p.Faults, p.Twin = p.Seed^1<<60, min(p.Clients, 2), nil, false
	r := dice(p.Seed, "twin")
	for id := range p.Servers {
		p.begin(r, id+1, gap(r), false)
	}
	t := newWorld(p, w.timeline)
	t.log, t.second, t.twin, w.twin = log, true, w, t
}

// Values of a fault of the kind Astray, added up: all names lead astray; even before both ensembles have begun, in
// which case an empty server may unknowingly take part in the founding of the wrong one.
const (
	astrayAll = 1 << iota
	astrayEarly
)

// beginningKinds are the kinds of fault of this profile only.
var beginningKinds = []Kind{
	Alone, Begin, Copy, PutBack, Aside, Foreign, Order, Off, NoName, Unproven, Stranger, Astray, Doom,
}

// gap draws how much later than another one a server is started.
func gap(r *rand.Rand) int64 {
	return pick(r, between(r, 0, 200*millisecond), between(r, 0, 3*second), between(r, 0, 3*second),
		between(r, 3*second, 20*second))
}

// begin adds the start of a server.
func (p *Plan) begin(r *rand.Rand, server int, at int64, mistakes bool) {
	f := Fault{At: at, Kind: Begin, Server: server, Other: 1 + r.IntN(p.Servers)}
	if mistakes && chance(r, 25) {
		f.Arg, f.Dur = between(r, 1, int64(wrongLineMax)), between(r, second, 20*second)
	}
	p.Faults = append(p.Faults, f)
}

// beginEmpty is a story of empty servers.
func (p *Plan) beginEmpty(r *rand.Rand, servers []int) {
	if chance(r, 15) {
		p.Faults = append(p.Faults, Fault{Kind: Doom, Server: 1, Other: 1, Dur: between(r, second/10, 25*second)})
	}
	if chance(r, 15) { // one doesn't find another one, which has other lines or only joins
		c := 1 + 1 + r.IntN(p.Servers-1)
		for id := 1; id <= p.Servers; id++ {
			f := Fault{At: between(r, 0, 2*second), Kind: Begin, Server: id, Other: id, Dur: between(r, 20*second, 40*second)}
			switch id {
			case 1:
				f.Other, f.Arg = c, pick(r, int64(wrongName), int64(wrongPort))
			case c:
				f.Other, f.Arg = 1+c%p.Servers, int64(wrongVoters)
			}
			p.Faults = append(p.Faults, f)
		}
		return
	}
	defer p.interrupt(r, 0)
	for _, id := range servers {
		at := gap(r)
		if chance(r, 5) {
			p.Faults = append(p.Faults, Fault{At: at, Kind: Aside, Server: id, Other: id})
		}
		p.begin(r, id, at, true)
	}
}

// beginTwice is a story of empty servers that found twice: the first founder ends before any other server knows.
func (p *Plan) beginTwice(r *rand.Rand, servers []int) {
	p.Faults = append(p.Faults, Fault{Kind: Doom, Server: 1, Other: 1, Dur: between(r, 14*second, 30*second)})
	for _, id := range servers {
		p.begin(r, id, between(r, 0, 3*second), false)
	}
}

// interrupt adds pauses of servers that are about to begin, and to some plans a refused proof or an order.
func (p *Plan) interrupt(r *rand.Rand, from int64) {
	for range r.IntN(4) {
		p.Faults = append(p.Faults, Fault{
			At: from + between(r, second, 8*second), Dur: between(r, second, 6*second), Kind: pick(r, Pause, Isolate),
			Server: 1 + r.IntN(p.Servers), Other: 1,
		})
	}
	if r := dice(p.Seed, "unproven"); chance(r, 15) { // one has another secret for long
		p.Faults = append(p.Faults, Fault{
			At: from + between(r, second, 5*second), Dur: between(r, 13*second, 30*second), Kind: Unproven,
			Server: 1 + r.IntN(p.Servers), Other: 1,
		})
	}
	if chance(r, 12) { // one is switched off for long, and an operator orders another one to found
		off := 1 + r.IntN(p.Servers)
		p.Faults = append(p.Faults,
			Fault{At: from, Dur: between(r, 25*second, 45*second), Kind: Off, Server: off, Other: off})
		for range 4 {
			p.Faults = append(p.Faults, Fault{
				At: from + between(r, 12*second, 20*second), Kind: Order, Server: 1 + r.IntN(p.Servers), Other: off,
			})
		}
	}
}

// beginWithData is a story of a standalone server's data, of which there are copies in the end.
func (p *Plan) beginWithData(r *rand.Rand, servers []int, copies int) {
	slices.Sort(servers)
	end := between(r, 4*second, 12*second)
	p.Faults = append(p.Faults, Fault{At: between(r, 0, second/2), Kind: Alone, Server: 1, Other: 1})
	keepers, others := servers[:copies], servers[copies:]
	kept := between(r, 3*second, end-second/2) // when an older copy is made
	for _, id := range keepers[1:] {
		at := end
		if chance(r, 20) {
			at = kept
		}
		p.Faults = append(p.Faults, Fault{At: at, Kind: Copy, Server: 1, Other: id})
		if at < end {
			p.Faults = append(p.Faults, Fault{At: at + between(r, 1, 100*millisecond), Kind: Alone, Server: 1, Other: 1})
		}
	}
	if copies > 1 && chance(r, 30) { // the data was moved to another server
		p.Faults = append(p.Faults, Fault{At: end + 1, Kind: Copy, Server: 1, Other: keepers[1], Arg: 1})
		keepers, others = keepers[1:], append(others, 1)
	}
	for _, id := range keepers {
		p.begin(r, id, end+2+between(r, 0, 2*second), copies < p.Servers/2 || id == keepers[0])
	}
	p.interrupt(r, end)
	for range r.IntN(4) { // an old disk comes back
		p.Faults = append(p.Faults, Fault{
			At: between(r, 25*second, 55*second), Kind: PutBack, Server: 1 + r.IntN(p.Servers), Other: 1,
			Dur: between(r, second/5, 5*second),
		})
	}
	if len(others) > 0 && chance(r, 30) { // one of the empty ones doesn't find the data
		p.Faults = append(p.Faults, Fault{
			At: end + 2 + between(r, 0, 2*second), Kind: Begin, Server: slices.Min(others), Other: keepers[0],
			Arg: int64(wrongPort), Dur: between(r, 15*second, 25*second),
		})
	}
	for _, id := range others {
		at := end + 2 + pick(r, -between(r, 0, 3*second), gap(r))
		if chance(r, 20) {
			at = max(at-between(r, 0, 10*second), 0)
			p.Faults = append(p.Faults, Fault{At: at, Kind: Aside, Server: id, Other: id})
		}
		p.begin(r, id, at, false)
	}
}

// beginForeign is a story of empty servers, one of which has a disk of another ensemble.
func (p *Plan) beginForeign(r *rand.Rand, servers []int) {
	for i, id := range servers {
		at := gap(r)
		if i == 0 {
			at = pick(r, 0, between(r, 0, 3*second), between(r, 5*second, 40*second))
			p.Faults = append(p.Faults, Fault{At: at, Kind: Foreign, Server: id, Other: id})
		}
		p.begin(r, id, at, false)
	}
}

// befalls reports whether a fault may happen to a server that begins.
func (w *World) befalls(f Fault, s *host) bool {
	other, v := w.servers[f.Other-1], s.life
	switch f.Kind {
	case Alone:
		return v == nil && !s.begun || len(s.config) == 0
	case Copy:
		return s.keeps && !w.refounded() && other.life == nil && !other.begun
	case Begin:
		return v == nil || v.bare
	case Aside, Foreign:
		return v == nil && !s.begun && !s.keeps
	case Order:
		return w.mayOrder(s)
	case Doom:
		return !slices.ContainsFunc(w.servers, func(s *host) bool { return s.keeps })
	case Astray:
		return f.Arg&astrayEarly != 0 || w.twin != nil && w.refounded() && w.twin.refounded()
	case PutBack:
		return other.kept != nil && s.installed && !s.unfit() && w.spares(s) && w.refounded()
	case Unproven:
		return v != nil && !v.bare
	case CrashAll, PowerAll:
		return w.refounded() || !slices.ContainsFunc(w.servers, func(s *host) bool { return s.keeps })
	case Crash, Power:
		// One that is down for longer is absent, and the others may found without its data.
		return !s.keeps || w.refounded() || v != nil && v.bare && f.Dur < foundingPatience/2
	case NoName, Stranger:
		return w.refounded() || !w.willKeep(s)
	case Off:
		return w.losesNothing(s) && (v == nil || !v.bare)
	}
	return true
}

// willKeep reports whether a server has, or is to have, a standalone server's data.
func (w *World) willKeep(s *host) bool {
	return s.keeps || slices.ContainsFunc(w.plan.Faults, func(f Fault) bool {
		return f.Kind == Alone && f.Server == int(s.id) || f.Kind == Copy && f.Other == int(s.id)
	})
}

// refounded reports whether an ensemble with server lines has elected a leader.
func (w *World) refounded() bool {
	return w.descent.elected && w.descent.founded[w.descent.lineage] != nil
}

// mayOrder reports whether an operator may order a server to found: it waits because of one that is away and will be,
// its data is all that there is, no other server was ordered, and none is about to found by itself according to the
// rules: among those that run, that is the one with the lowest id. Otherwise there may be two foundings, which wait for
// each other.
func (w *World) mayOrder(s *host) bool {
	v, d := s.life, &w.descent
	if v == nil || v.inquiry == nil || v.loop != nil || len(d.founded) > 0 || w.orders > 0 {
		return false
	}
	away := false
	for _, o := range w.servers {
		away = away || o.dark.on() && o.dark.until > w.now+5*second
		if o.foreign || o.id < s.id && o.life != nil {
			return false
		}
	}
	return away && (d.lineage == 0 || w.newest(v))
}

// newest reports whether a server holds all of the data of the lineage that the ledger follows.
func (w *World) newest(v *life) bool {
	h := v.inquiry.Holds
	return h.Lineage == w.descent.lineage && h.Index == uint64(len(w.ledger.entries))+1
}

// mishap inflicts a fault of a kind that only befalls servers that begin.
func (w *World) mishap(f Fault, s, other *host) {
	switch f.Kind {
	case Alone:
		s.installed, s.stopped, s.keeps, s.config = true, false, true, nil
		s.start()
	case Begin:
		s.installed, s.stopped = true, false
		s.config = w.lines(s.id, wrongLine(f.Arg), uint64(f.Other))
		if s.again(); s.keeps {
			s.begun = false
			s.kept = s.disk.fs.Clone()
		}
		if f.Arg != 0 {
			w.after(f.Dur, s.correct)
		}
	case Copy:
		s.end(false)
		s.disk.reboot()
		s.stopped = true
		other.hold(s.disk.fs.Clone())
		other.keeps, other.begun, s.begun = true, false, false
		if s.kept = s.disk.fs.Clone(); f.Arg == 1 {
			s.hold(storage.NewMemFS())
			s.keeps = false
		}
	case PutBack:
		s.wipe()
		s.disk.fs = other.kept.Clone()
		w.after(f.Dur, s.start)
	case Aside:
		s.joinsOnly = true
	case Foreign:
		s.foreignDisk()
	case Doom:
		w.doom = f.Dur
	case Order:
		w.orders++
		s.ordered = true
	case Off:
		if s.life != nil {
			s.lostPower()
		}
		s.dark.during(w, f.Dur, s.start)
	case Astray:
		for _, o := range w.servers {
			if o == s || f.Arg&astrayAll != 0 {
				o.astray.during(w, f.Dur, nil)
			}
		}
	case NoName:
		s.unnamed.during(w, f.Dur, nil)
	case Unproven:
		s.kill(restartPause / 4)
		s.secret.during(w, f.Dur, func() { s.kill(restartPause / 4) })
	case Stranger:
		s.end(false)
		s.disk.reboot()
		s.stranger.during(w, f.Dur, s.start)
	default:
		panic("sim: unknown kind of fault " + string(f.Kind))
	}
}

// again starts a server, or restarts it if it runs.
func (s *host) again() {
	if s.life != nil {
		s.end(false)
		s.disk.reboot()
	}
	s.start()
}

// correct acts as an operator and corrects a server's lines.
func (s *host) correct() {
	s.config = s.w.lines(s.id, rightLine, 0)
	if s.life != nil && s.life.loop == nil {
		s.again()
	}
}

// hold gives a server that doesn't run another disk.
func (s *host) hold(fs *storage.MemFS) {
	s.disk = disk{fs: fs, w: s.w, s: s}
	s.promise, s.log, s.electorate = promise{}, nil, [2][]uint64{}
}

// foreignTerm and foreignIndex are the term and the length of a foreign log. Both are ahead of the ensemble's.
const (
	foreignTerm  = 60
	foreignIndex = 5000
)

// foreignDisk gives a server the disk of a member of another ensemble, which has the same server lines.
func (s *host) foreignDisk() {
	w := s.w
	s.hold(storage.NewMemFS())
	s.foreign, s.cluster = true, 0xf0<<56|w.plan.Seed
	t := tree.New(treeload.Options(s.cluster, changeMembers, s.level))
	dir, err := storage.Open(w.storageOptions(s, s.disk.fs, w.diskDice))
	if err == nil {
		err = t.NewTerm(foreignTerm, foreignIndex)
	}
	if err == nil {
		img := &foreignImage{t.BeginSnapshot(), t}
		err = errors.Join(quorum.Restart(dir, img, votersOf(w.firstMembers())...), dir.Close())
		img.Close()
	}
	if err != nil {
		panic(err)
	}
}

// A foreignImage is the image of a tree that no replica has.
type foreignImage struct {
	*tree.Image
	t *tree.Tree
}

// Describe implements quorum.Image.
func (i *foreignImage) Describe() storage.Meta {
	return storage.Meta{
		Index: foreignIndex, Term: foreignTerm, Zxid: i.t.LastZxid(), Digest: i.t.Digest(),
		FeatureLevel: uint32(i.t.Settings().FeatureLevel), BodyFormat: tree.BodyFormat,
	}
}

// adviceTime is how long a server waits before the operator follows its messages.
const adviceTime = 12 * second

// advise acts as an operator and reads what servers wait for: data that no ensemble takes over, or that is older than
// another server's, is set aside, and of servers that must only join one is ordered to found.
func (w *World) advise() {
	patience := int64(adviceTime)
	if w.healed {
		patience = 6 * second
	}
	var newest, begun *life
	var data, empty []*life
	for _, s := range w.servers {
		v := s.life
		if v != nil && v.loop != nil && !v.bare {
			begun = v
		}
		if v == nil || v.bare || w.now-v.began < patience {
			continue
		}
		switch finds := v.inquiry != nil && v.loop == nil; {
		case s.foreign && v.loop != nil:
			s.setAside()
		case finds && !v.inquiry.Empty():
			if data = append(data, v); w.newest(v) {
				newest = v
			}
		case finds:
			empty = append(empty, v)
		}
	}
	for _, v := range data {
		w.toldLate(v)
		if w.refounded() || newest != nil && !same(v.inquiry.Holds, newest.inquiry.Holds) {
			v.s.setAside()
		}
	}
	if w.healed && w.tied() {
		for _, s := range w.servers {
			if s.life != nil && s.life.loop != nil {
				s.setAside()
			}
		}
	}
	if w.healed && begun == nil && len(data) == 0 && len(empty) > 0 && w.barred() {
		empty[0].s.ordered = true
	}
	w.after(second, w.advise)
}

// tied reports whether all voters have begun, in two ensembles of which none has elected a leader, and had the time to.
// The operator is told so (ZD-3229).
func (w *World) tied() bool {
	clusters := map[uint64]bool{}
	for _, id := range votersOf(w.firstMembers()) {
		s := w.servers[id-1]
		if s.life == nil || s.life.loop == nil || w.now-max(s.life.joinedIn, w.plan.End) < 6*second {
			return false
		}
		clusters[s.cluster] = true
	}
	return !w.descent.elected && len(clusters) > 1
}

// barred reports whether too few voters may found an ensemble.
func (w *World) barred() bool {
	voters, free := votersOf(w.firstMembers()), 0
	for _, id := range voters {
		if !w.servers[id-1].joinsOnly {
			free++
		}
	}
	return free <= len(voters)/2
}

// setAside sets a server's data aside: it joins only.
func (s *host) setAside() {
	s.w.logger(s.id).Info("its data is set aside")
	s.end(false)
	s.hold(storage.NewMemFS())
	s.joinsOnly, s.keeps, s.foreign, s.begun = true, false, false, false
	s.w.lastFault = max(s.w.lastFault, s.w.now+(&Fault{Kind: Wipe}).aftermath())
	s.start()
}
