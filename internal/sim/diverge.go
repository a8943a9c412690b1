package sim

import (
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/tree"
)

// A replica that diverges, as a bug or a fault of its machine might make it: the next
// entry with requests also changes a setting there. Nothing that clients see follows
// from that, but the digest is another one. The majority must find it out, and that
// server alone must give its data up.

// drawDivergence adds a divergence to the faults of some plans.
func (p *Plan) drawDivergence(r *rand.Rand) {
	if p.Servers < 3 || !chance(r, 30) {
		return
	}
	id := 1 + r.IntN(p.Servers)
	p.Faults = append(p.Faults, Fault{At: between(r, 3*second, p.End), Kind: Diverge, Server: id, Other: id})
	p.sortFaults()
}

// diverges reports whether a server may diverge: it has nothing wrong, and all voters
// are there and know how to ask.
func (w *World) diverges(s *host) bool {
	if s.life == nil || s.life.loop == nil || s.unfit() || !slices.Contains(w.voters, s.id) || !w.spares(s) {
		return false
	}
	for _, id := range w.voters {
		if l := w.servers[id-1].life; l == nil || l.loop == nil || l.level < tree.FeatureLevelMax || w.servers[id-1].diverged {
			return false
		}
	}
	return true
}

// told reports whether a majority of the voters beside s would contradict it at once:
// they reach each other and s, and have come nearly as far. A divergence while others
// are away can be undecidable: who comes back may have only what s gives it.
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

// twist returns entries of which the first with requests changes a setting too.
func (l *life) twist(entries []quorum.Entry) []quorum.Entry {
	for i, e := range entries {
		if len(e.Data) == 0 {
			continue
		}
		settings := l.settings()
		settings.EnforceQuota = true
		entries = slices.Clone(entries)
		entries[i].Data = tree.AppendRecord(slices.Clone(e.Data), &tree.Request{Op: tree.OpSettings, Body: settings.Append(nil)})
		l.twisted, l.s.diverged, l.s.twistedAt = false, true, e.Index
		return entries
	}
	return entries
}

// gaveUp handles a server that stopped because replicas differ, and reports whether
// that is what it had to do: the odd one takes the others' data, and where it can't be
// told all begin again. The log keeps the odd one's digests: who replays it later is in doubt
// too, and may find too few to ask.
func (l *life) gaveUp(err error) bool {
	s, w := l.s, l.w
	var diverged *quorum.DivergedError
	var undecided *quorum.UndecidedError
	switch {
	case errors.As(err, &diverged) && s.diverged:
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
