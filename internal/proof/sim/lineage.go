package sim

import (
	"hash/crc32"
	"slices"

	"github.com/zooid-project/zooid/internal/quorum"
)

// The rules of beginning, in a form that can be checked by seeing all servers (docs/decisions/085-founding.md):
//
//	L1  The lineages in which a leader is elected succeed each other: the first entries of each follow the last ones
//	    of the lineage before it, which has ended. So no two lineages apply each other's entries, no two ensembles of the
//	    same lines serve at once, and nothing acknowledged is missing in a later one.
//	L2  A server founds only if each other voter of its server lines that runs, and has run since before the founder
//	    asked, agrees: it finds out too, has the same voters in its lines, holds nothing or the same data, and is
//	    recorded as a founder if it holds the same. The founder waits for a server that can't be asked, because it is
//	    switched off, refuses the proof, or has something else at its address. The lines of each founder count, but those
//	    of the one that founds decide which are recorded.
//	L3  A voter that doesn't run hasn't run for the founder's patience; its name hasn't existed for as long.
//	L4  More than half of the voters take part. The first voters are the founders; if nobody has data, all voters.
//	L5  A founder begins with what was founded and never joins it, which would take its vote away. Another server
//	    begins with it only before a leader was elected, and while all other voters run and have no more.
//
// L2 and L3 don't apply to a founding that an operator has ordered. Older copies of the data, and copies of other
// lineages that come later, wait: an ensemble goes on while they do.

// A descent is the succession of lineages in a World.
type descent struct {
	lineage uint64 // the one whose entries the ledger holds
	elected bool   // a leader was elected in it
	since   int64  // when an entry of that leader was first applied
	founded map[uint64]*quorum.Founding
	first   map[uint64][]quorum.Entry // by lineage: the entries that its founders applied before an election

	// former has, by lineage, the number of entries that an ensemble had applied when another one was made of it.
	former map[uint64]uint64

	ordered   uint64 // the server that has founded by an operator's order
	orderedAt int64  // when; others may have asked it right before
}

func sumOf(data []byte) uint32 { return crc32.Update(0, castagnoli, data) }

// follows reports whether the ledger follows the lineage of a server that is about to apply an entry. If it doesn't,
// no leader was elected in that lineage.
func (d *descent) follows(l *life, e quorum.Entry) bool {
	w, cluster := l.w, l.s.cluster
	founded := uint64(1)
	if l.founding != nil {
		founded = l.founding.Term
	}
	if n := d.former[cluster]; n > 0 && e.Index <= n {
		return false // the ledger has had it
	}
	first := e.Term <= founded
	if !first {
		l.s.elected = cluster
	}
	switch {
	case d.lineage == 0:
		d.lineage = cluster
	case d.lineage != cluster && first:
		d.first[cluster] = append(d.first[cluster], e)
		return false
	case d.lineage != cluster:
		d.succeed(l, e)
	}
	if !first && !d.elected {
		d.elected, d.since = true, w.now
	}
	return true
}

// succeed makes the ledger follow the lineage of a server that applies an entry of an elected leader.
func (d *descent) succeed(l *life, e quorum.Entry) {
	w, g, cluster := l.w, &l.w.ledger, l.s.cluster
	f := d.founded[cluster]
	switch {
	case !d.elected && f != nil && f.Base == quorum.Holding{}:
		g.entries = g.entries[:0]
		for _, e := range d.first[cluster] {
			if e.Index == uint64(len(g.entries))+1 {
				g.entries = append(g.entries, applied{term: e.Term, sum: sumOf(e.Data)})
			}
		}
		d.lineage, d.elected = cluster, false
	case d.goesOn(w, cluster):
	default:
		w.fail("L1: server %d applies entry %d of term %d of lineage %016x, founded with %+v; the ensemble's lineage is %016x, of %d entries",
			l.s.id, e.Index, e.Term, cluster, f, d.lineage, len(g.entries))
		return
	}
	w.voters, w.leaving, w.votersAt = nil, nil, 0
}

// goesOn makes the ledger follow a lineage that was founded with all that it holds, if the lineage was.
func (d *descent) goesOn(w *World, cluster uint64) bool {
	g, f := &w.ledger, d.founded[cluster]
	if f == nil || f.Base.Lineage != d.lineage || f.Base.Index != uint64(len(g.entries))+1 {
		return false
	}
	g.entries = append(g.entries, applied{term: f.Base.Term, sum: sumOf(nil), digest: f.Base.Digest, known: true})
	d.lineage, d.elected = cluster, false
	return true
}

// begins checks how a server is about to begin.
func (w *World) begins(l *life, b quorum.Beginning) {
	d, s := &w.descent, l.s
	if !w.plan.Begins {
		if b.Founding != nil {
			d.founded[b.Founding.Lineage] = b.Founding
		}
		return
	}
	self := quorum.Founder{ID: s.id, Life: l.number()}
	f := b.Founding
	ordered := s.ordered
	s.ordered = false
	switch {
	case f == nil:
		if f := d.founded[b.Cluster]; f != nil && slices.Contains(f.With, self) {
			w.fail("L5: server %d, a founder of lineage %016x, joins it, and its vote is taken away", s.id, b.Cluster)
		}
	case f.Lineage == l.inquiry.Lineage:
		w.stats.Foundings++
		if f.Base != (quorum.Holding{}) {
			w.stats.WithData++
		}
		d.founded[f.Lineage] = f
		if ordered {
			d.ordered, d.orderedAt = s.id, w.now
		} else {
			w.founds(l, f)
		}
	case slices.Contains(f.With, self):
	case d.lineage == f.Lineage && d.elected && d.since < l.rounds[0]:
		w.fail("L5: server %d begins with lineage %016x, which has elected a leader without it", s.id, f.Lineage)
	default:
		for _, id := range votersOf(l.inquiry.Members) {
			if o := w.atNameOf(id); id != s.id && (o.life == nil || o.life.bare) && o.stoppedAt < l.rounds[0] {
				w.fail("L5: server %d begins with lineage %016x, founded without it, and server %d doesn't run", s.id,
					f.Lineage, id)
			}
		}
	}
}

// founds checks the decision of a server to found an ensemble.
func (w *World) founds(l *life, f *quorum.Founding) {
	d, s, voters := &w.descent, l.s, votersOf(l.inquiry.Members)
	if s.joinsOnly {
		w.fail("L4: server %d founds an ensemble, and was only to join one", s.id)
	}
	var with []uint64
	for _, founder := range f.With {
		with = append(with, founder.ID)
	}
	part := 0
	for _, id := range voters {
		o := w.atNameOf(id)
		if p := o.life; p != nil && p.inquiry != nil && p.loop == nil && (!o.joinsOnly || f.Base != quorum.Holding{}) ||
			o.stoppedAt > l.rounds[len(l.rounds)-1] || id == d.ordered && d.orderedAt > l.rounds[len(l.rounds)-1] {
			part++
		}
		if id != s.id {
			w.agreed(l, id, f, l.rounds[len(l.rounds)-1])
		}
	}
	// A founder that was paused decides on the others' earlier answers.
	told := l.rounds[len(l.rounds)-1] - youngest
	for _, founder := range f.With {
		p := w.servers[founder.ID-1]
		if o := w.twin; o != nil && o.servers[p.id-1].life != nil && o.servers[p.id-1].life.number() == founder.Life {
			continue // its name leads there; it begins with its own ensemble
		}
		if p.life == nil || p.life.number() != founder.Life {
			if p.stoppedAt < l.rounds[len(l.rounds)-1] {
				w.fail("L2: server %d founds with server %d, which has been started again since", s.id, p.id)
			}
			continue
		}
		for _, id := range voters {
			if id != p.id && id != s.id && p != s {
				w.agreed(p.life, id, f, min(p.life.rounds[0], told))
			}
		}
	}
	switch firsts := with; {
	case part <= len(voters)/2:
		w.fail("L4: server %d founds with %d of %d voters", s.id, part, len(voters))
	case !slices.Contains(with, s.id):
		w.fail("L4: server %d founds without itself: %v", s.id, with)
	default:
		if f.Base == (quorum.Holding{}) {
			slices.Sort(voters)
			firsts = voters
		}
		if !slices.Equal(f.Voters, firsts) {
			w.fail("L4: server %d founds with the first voters %v, not %v", s.id, f.Voters, firsts)
		}
	}
}

// toldLate fails the World if a server waits with its data though it is a founder of the ensemble, and could have been
// told so by another founder.
func (w *World) toldLate(v *life) {
	d, s := &w.descent, v.s
	f := d.founded[d.lineage]
	if f == nil || !slices.Contains(f.With, quorum.Founder{ID: s.id, Life: v.number()}) {
		return
	}
	for _, o := range w.servers {
		if p := o.life; p != nil && p.loop != nil && p.founding != nil && p.founding.Lineage == f.Lineage &&
			p.joinedIn < v.rounds[0] && w.uncut(s.index, o.index, v.rounds[0]) && !o.paused() && !s.paused() && !o.dark.on() &&
			!o.unnamed.on() && !o.astray.on() && proves(s, o) {
			w.fail("L5: server %d, a founder of lineage %016x, waits, and server %d has begun with it", s.id, f.Lineage, o.id)
		}
	}
}

// youngest is how long a process must have run for others to have noticed it between two rounds of questions.
const youngest = 3 * second

// agreed checks, by the server lines of one of the founders, that another voter agreed or couldn't be asked; since is
// when the questions were asked.
func (w *World) agreed(by *life, id uint64, f *quorum.Founding, since int64) {
	fail := func(rule, what string) {
		w.fail("%s: an ensemble is founded (lineage %016x, voters %v, with %v, data %v), and by the lines of server %d, server %d %s",
			rule, f.Lineage, f.Voters, f.With, f.Base, by.s.id, id, what)
	}
	d := w.resolve(by.s.addressOf(id))
	if s := w.servers[id-1]; s.unnamed.changed(since) || s.astray.changed(since) {
		return
	}
	if d.noName {
		n := w.servers[id-1].unnamed
		unseen := n.over > 0 && n.since-n.over < youngest // between two rounds the name may have come and gone
		if n.on() && w.now-n.since < namePatience*999/1000 && !unseen {
			fail("L3", "has lost its name just now")
		}
		return
	}
	if d.at == nil || d.closed || d.at.id != id {
		return
	}
	s, v := d.at, d.at.life
	in := slices.ContainsFunc(f.With, func(p quorum.Founder) bool { return p.ID == id })
	switch running := v != nil && !v.bare; {
	case s.dark.lasts(since):
		fail("L2", "is switched off: nobody knows what it holds")
	case s.stranger.lasts(since):
		fail("L2", "has something else at its address")
	case running && s.secret.lasts(since) && !by.s.secret.on():
		fail("L2", "refuses the proof")
	case !running:
		if s.lasted > youngest && s.stoppedAt < since && w.now-s.stoppedAt < foundingPatience*999/1000 {
			fail("L3", "has stopped just now")
		}
	case v.began > since:
	case s.paused() && s.pauses[len(s.pauses)-1].from < since:
		fail("L2", "is paused: nobody knows what it holds")
	case s.w == w && w.cut(by.s.index, s.index) && w.cutSince(by.s.index, s.index) < since:
		fail("L2", "can't be reached")
	case v.loop != nil && v.joinedIn > since:
	case v.loop != nil:
		if s.cluster != f.Lineage {
			fail("L2", "belongs to an ensemble")
		}
	case !v.inquiry.Empty() && !same(v.inquiry.Holds, f.Base):
		fail("L2", "holds other data: "+v.inquiry.Holds.String())
	case !sameVoters(s.config, by.s.config):
		fail("L2", "has other voters in its lines")
	case !in && by.inquiry.Lineage == f.Lineage && !s.joinsOnly && same(v.inquiry.Holds, f.Base):
		fail("L2", "holds the same and isn't recorded as a founder")
	}
}

// same reports whether two holdings are copies of the same data.
func same(a, b quorum.Holding) bool {
	return a.Lineage == b.Lineage && a.Index == b.Index && a.Term == b.Term && a.Digest == b.Digest
}

func sameVoters(a, b []quorum.Member) bool {
	x, y := votersOf(a), votersOf(b)
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(x, y)
}
