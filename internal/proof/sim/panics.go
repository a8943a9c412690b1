package sim

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
)

// A fault of the program makes all servers panic at one entry (Poison). Operators decide, on one server after the
// other, that the ensemble goes on without it, as `zooid skip-entry` does. If one server runs a program without the
// fault, it applies the entry: then no other server may skip it, and in the end all get that program. A server whose
// disk is lost comes back with a program that would apply the earlier ones.
//
//	K1  If one server skips an entry, none applies it.

// A poison is an entry at which servers panic.
type poison struct {
	index      uint64
	sound      *host     // it applies the entry; nil for none
	mended     bool      // all servers apply it
	applied    [2]uint64 // a server that has applied the entry, and one that has skipped it, 0 for none
	panickedAt int64
}

// panics is the profile in which servers panic.
const panics = "panics"

// drawPanics adds entries at which servers panic.
func (p *Plan) drawPanics(r *rand.Rand) {
	for at := 3 * second; at < p.End; at += between(r, 5*second, 20*second) {
		id := 1 + r.IntN(p.Servers)
		p.Faults = append(p.Faults, Fault{At: at, Kind: Poison, Server: id, Other: id, Arg: pick[int64](r, 0, 1)})
	}
	p.sortFaults()
}

// poisonsMax bounds the entries at which servers panic in one World: there is a bound on the decisions.
const poisonsMax = storage.SkipsMax / 2

// poisonCause is the cause of the panics.
const poisonCause = "the simulated program can't apply this entry"

// arm chooses the next entry at which servers panic: e, if a fault asks for one and nobody has applied e. All servers
// have begun: one with an empty disk could join only after the decision, which lacks that server's.
func (l *life) arm(e quorum.Entry) {
	w := l.w
	if len(w.armed) == 0 || e.Index <= uint64(len(w.ledger.entries)) || len(e.Data) <= entryHead ||
		slices.ContainsFunc(w.servers, func(s *host) bool { return !s.begun }) {
		return
	}
	f := w.armed[0]
	w.armed = w.armed[1:]
	p := &poison{index: e.Index}
	if f.Arg == 1 {
		p.sound = w.servers[f.Other-1]
	}
	w.poisons = append(w.poisons, p)
}

// poisonAt returns what makes servers panic at the entry, nil if nothing does.
func (w *World) poisonAt(index uint64) *poison {
	i := slices.IndexFunc(w.poisons, func(p *poison) bool { return p.index == index })
	if i < 0 {
		return nil
	}
	return w.poisons[i]
}

// passed reports whether all servers are beyond the entries at which they panic. Until then there is no other such
// entry, and no disk may be lost: a server with an empty one can join only after the decision, which lacks that
// server's.
func (w *World) passed() bool {
	return len(w.armed) == 0 && !slices.ContainsFunc(w.poisons, func(p *poison) bool {
		return slices.ContainsFunc(w.servers, func(s *host) bool { return s.installed && s.lastIndex < p.index })
	})
}

// poisoned panics if the server's program can't apply the entry.
func (l *life) poisoned(index uint64) {
	if p := l.w.poisonAt(index); p != nil && p.sound != l.s && !p.mended && index > l.s.soundTo {
		panic(poisonCause)
	}
}

// panicked keeps the report of a panic at an entry, as quorum.Panicked does, without the stack.
func (l *life) panicked(e quorum.Entry, cause any, about string) error {
	if cause != poisonCause {
		return quorum.Panicked(l.dir, e, cause, about)
	}
	l.dir.KeepReport(storage.Report{Index: e.Index, Term: e.Term, Data: e.Data, Text: poisonCause})
	return &quorum.PanicError{Index: e.Index, Term: e.Term, Cause: poisonCause}
}

// passes checks K1 after the server has applied or skipped entries.
func (l *life) passes(entries []quorum.Entry) {
	for _, e := range entries {
		p := l.w.poisonAt(e.Index)
		if p == nil {
			continue
		}
		how := 0
		if len(e.Data) == 0 {
			how = 1
			l.w.stats.Skipped++
		}
		if p.applied[how] = l.s.id; p.applied[1-how] != 0 {
			l.w.fail("K1: server %d has applied entry %d, which server %d has skipped", p.applied[0], e.Index, p.applied[1])
		}
	}
}

// stopsForPanic handles a process that stopped at an entry that its program can't apply, and reports whether it had to.
func (l *life) stopsForPanic(err error) bool {
	var panicked *quorum.PanicError
	if !errors.As(err, &panicked) {
		return false
	}
	s, w := l.s, l.w
	p := w.poisonAt(panicked.Index)
	if p == nil {
		return false
	}
	w.stats.Panics++
	s.end(false)
	s.disk.reboot()
	w.lastFault = max(w.lastFault, w.now+panicAftermath)
	if p.panickedAt == 0 {
		w.after(watchPause, func() { w.watchPoison(p) })
	}
	p.panickedAt = w.now
	w.after(between(w.faultDice, restartPause, decisionMax), func() { s.decides(p) })
	return true
}

const (
	// decisionMax is how long an operator takes to decide on a server at most.
	decisionMax = 3 * second
	// panicAftermath is how long after a panic all servers have decided and a leader again.
	panicAftermath = decisionMax + 8*second
	// watchPause is how often an operator looks at the servers that wait, and namingPause how long after the last panic a
	// server is told of an entry that it hasn't got.
	watchPause, namingPause = 2 * second, 8 * second
)

// decides acts as an operator does on a server that has stopped at an entry: it is started once it is to skip that.
func (s *host) decides(p *poison) {
	w := s.w
	if s.life != nil || p.mended {
		s.start()
		return
	}
	reports, err := storage.Reports(s.disk.fs, w.logDir())
	if err != nil {
		w.fail("server %d's reports can't be read: %v", s.id, err)
	}
	i := slices.IndexFunc(reports, func(r storage.Report) bool { return r.Index == p.index })
	if k := s.skipAt(p.index); i < 0 || k != nil {
		s.start()
		return
	}
	r := &reports[i]
	s.skips(storage.Skip{
		Cluster: r.Cluster, Index: r.Index, Term: r.Term, Hash: r.Hash, At: time.UnixMilli(s.wall()).UTC(), By: "operator",
		Why: poisonCause,
	})
}

// skipAt returns the server's decision about the entry, nil if there is none.
func (s *host) skipAt(index uint64) *storage.Skip {
	skips, err := storage.Skips(s.disk.fs, s.w.logDir(), 0)
	if err != nil {
		s.w.fail("server %d's decisions can't be read: %v", s.id, err)
	}
	i := slices.IndexFunc(skips, func(k storage.Skip) bool { return k.Index == index })
	if i < 0 {
		return nil
	}
	return &skips[i]
}

// watchPoison acts as an operator who looks at the servers now and then, until all have passed the entry: once one has
// applied it, all get that program; and if one doesn't get the entry while all others wait for its decision, it is
// named there.
func (w *World) watchPoison(p *poison) {
	var last *host // without a decision
	missing := 0
	for _, s := range w.servers {
		if s.lastIndex < p.index && s.skipAt(p.index) == nil {
			last = s
			missing++
		}
	}
	switch {
	case w.passed() || p.mended:
		return
	case p.applied[0] != 0:
		w.mend(p)
		return
	case missing == 1 && w.now-p.panickedAt > namingPause:
		for _, s := range w.servers {
			if k := s.skipAt(p.index); k != nil {
				named := *k
				named.Agreed, named.From = false, 0
				last.skips(named)
				break
			}
		}
	}
	w.after(watchPause, func() { w.watchPoison(p) })
}

// skips gives the server a decision while it is stopped.
func (s *host) skips(k storage.Skip) {
	w := s.w
	w.lastFault = max(w.lastFault, w.now+panicAftermath)
	if s.life != nil {
		s.end(false)
		s.disk.reboot()
	}
	s.disk.fs.Hook = nil
	if err := storage.WriteSkip(s.disk.fs, w.logDir(), k); err != nil {
		w.fail("server %d can't be told to skip entry %d: %v", s.id, k.Index, err)
	}
	s.start()
}

// mend acts as an operator who stops all servers, takes the decisions back that not all have made, and starts all with
// the program that has applied the entry.
func (w *World) mend(p *poison) {
	p.mended = true
	w.lastFault = max(w.lastFault, w.now+panicAftermath)
	for _, s := range w.servers {
		k := s.skipAt(p.index)
		if s.life != nil {
			s.kill(restartPause)
		}
		s.disk.fs.Hook = nil
		if k == nil {
			continue
		}
		if k.Agreed {
			w.fail("K1: server %d is to skip entry %d, which server %d has applied", s.id, p.index, p.applied[0])
		}
		if err := storage.RemoveSkip(s.disk.fs, w.logDir(), p.index); err != nil {
			w.fail("server %d can't be told not to skip entry %d: %v", s.id, p.index, err)
		}
	}
}
