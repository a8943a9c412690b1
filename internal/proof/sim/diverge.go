package sim

import (
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
)

// A replica may diverge because of a bug or a hardware fault. The simulated one
// also changes a setting when it applies the next entry with requests. Clients
// see no effect, but the digest differs. The majority must find out, and that
// server alone must give up its data.

// drawDivergence adds a divergence to the faults of some plans.
func (p *Plan) drawDivergence(r *rand.Rand) {
	if p.Servers < 3 || !chance(r, 30) {
		return
	}
	id := 1 + r.IntN(p.Servers)
	p.Faults = append(p.Faults, Fault{At: between(r, 3*second, p.End), Kind: Diverge, Server: id, Other: id})
	p.sortFaults()
}

// diverges reports whether a server may be made to diverge: nothing is wrong
// with it, and all voters run and are new enough to ask each other.
func (w *World) diverges(s *host) bool {
	if s.life == nil || s.life.loop == nil || s.unfit() || !slices.Contains(w.voters, s.id) || !w.spares(s) {
		return false
	}
	for _, id := range w.voters {
		if l := w.servers[id-1].life; l == nil || l.loop == nil || l.level < tree.FeatureLevelMax ||
			w.servers[id-1].diverged {
			return false
		}
	}
	return true
}

// told reports whether a majority of the voters, not counting s, would contradict s at once:
// all voters reach each other, and these have applied nearly as much. A divergence while others
// are away can be undecidable: a returning server may have only the state that s gives it.
func (w *World) told(s *host) bool {
	const nearly = 5 // entries
	if !w.diverges(s) {
		return false
	}
	others := slices.DeleteFunc(slices.Clone(w.voters), func(id uint64) bool { return id == s.id })
	for _, id := range w.voters {
		for _, other := range w.voters {
			if w.cut(w.servers[id-1].index, w.servers[other-1].index) {
				return false
			}
		}
	}
	first := s.life.loop.Status().Applied
	near := 0
	for _, id := range others {
		if w.servers[id-1].life.loop.Status().Applied+nearly >= first {
			near++
		}
	}
	return near > len(w.voters)/2
}

// twist returns entries with a change of a setting added to the first that has requests.
func (l *life) twist(entries []quorum.Entry) []quorum.Entry {
	for i, e := range entries {
		if len(e.Data) == 0 {
			continue
		}
		settings := l.settings()
		settings.EnforceQuota, settings.Rules = true, l.rep.View().Rules // those in force, not its own program's
		entries = slices.Clone(entries)
		entries[i].Data = tree.AppendRecord(slices.Clone(e.Data),
			&tree.Request{Op: tree.OpSettings, Body: settings.Append(nil)})
		l.twisted, l.s.diverged, l.s.twistedAt = false, true, e.Index
		return entries
	}
	return entries
}

// inherit records whether a server that loads a snapshot takes over the state of one that has diverged. A diverged
// server may be elected before the log tells the others.
func (l *life) inherit(meta *storage.Meta) {
	g := &l.w.ledger
	if meta.Index > uint64(len(g.entries)) || l.s.cluster != l.w.descent.lineage {
		return
	}
	if e := &g.entries[meta.Index-1]; !e.known || e.digest == meta.Digest {
		return
	}
	for _, s := range l.w.servers {
		if s.diverged {
			l.s.diverged, l.s.twistedAt = true, s.twistedAt
		}
	}
}

// gaveUp handles a server that stopped because replicas differ, and reports whether it
// had to. The diverged server takes the others' data. If none can be singled out, all
// begin again, the diverged one without its data if that can be spared: the log message
// asks the operator to do so. The log keeps the diverged server's digests: a server
// that replays it later is in doubt too, and may find too few to ask.
func (l *life) gaveUp(err error) bool {
	s, w := l.s, l.w
	var diverged *quorum.DivergedError
	var undecided *quorum.UndecidedError
	switch {
	case errors.As(err, &diverged) && s.diverged:
		w.stats.Healed++
		s.wipe()
	case errors.As(err, &undecided) && s.diverged && w.spares(s):
		w.stats.Healed++
		s.wipe()
	case errors.As(err, &undecided) && w.stats.Faults[Diverge] > 0:
		s.end(false)
		s.disk.reboot()
	default:
		return false
	}
	w.after(restartPause, s.start)
	return true
}
