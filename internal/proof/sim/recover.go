package sim

import (
	"errors"
	"math/bits"
	"math/rand/v2"
	"slices"

	"github.com/zooid-project/zooid/internal/newensemble"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
)

// The profile recovering: a majority of the voters is lost for good, and an operator makes a new ensemble of the best
// survivor's data, as zooid recover does (docs/decisions/041-lost-quorum.md). The others join it with empty disks. One
// of the lost disks may come back: its server must neither serve nor take part.
//
// Writes that were acknowledged by lost servers only are lost with them, and no checker could tell which may be. So
// where the best survivor lacks an entry that some server has applied, the lost disks come back instead. Otherwise
// everything that is promised elsewhere holds, and:
//
//	V1  if any survivor has everything, the one that newensemble calls the best has;
//	V2  its state is the one that the same entries lead to on other servers;
//	V3  a server of the former ensemble applies nothing that wasn't applied before the new one was made (rule L1).

// recovering is the name of the profile.
const recovering = "recovering"

// drawLosses adds losses of a majority.
func (p *Plan) drawLosses(r *rand.Rand) {
	for at := 6 * second; at < p.End; at += between(r, 10*second, 25*second) {
		f := Fault{At: at, Kind: LostMajority, Server: 1, Other: 1 + r.IntN(p.Servers), Dur: between(r, 0, 3*second)}
		for most := 1 + r.IntN((p.Servers-1)/2); bits.OnesCount64(uint64(f.Arg)) < most; {
			f.Arg |= 1 << r.IntN(p.Servers)
		}
		p.Faults = append(p.Faults, f)
	}
	p.sortFaults()
}

// settledDown reports whether all members serve as they should.
func (w *World) settledDown() bool {
	if w.wanted == nil || len(w.leaving) > 0 || !w.descent.elected || len(w.voters) != len(w.wanted) {
		return false
	}
	return !slices.ContainsFunc(w.servers, func(s *host) bool {
		return s.unfit() || s.replaced || s.outlived || s.cluster != w.descent.lineage || s.paused()
	})
}

// loseMajority ends all servers, of which only the survivors keep their disks.
func (w *World) loseMajority(f Fault) {
	for _, s := range w.servers {
		if s.life != nil && chance(w.faultDice, 50) {
			s.lostPower()
			continue
		}
		s.end(false)
		s.disk.reboot()
	}
	var best *survivor
	for _, s := range w.servers {
		if f.Arg&(1<<(s.id-1)) == 0 {
			continue
		}
		v := s.survey(nil)
		if v == nil {
			return
		}
		if best == nil || v.Better(best.Survivor) {
			best = v
		}
	}
	last := uint64(len(w.ledger.entries))
	if !best.s.holds(last, w.ledger.entries[last-1].term) {
		for _, s := range w.servers {
			if f.Arg&(1<<(s.id-1)) != 0 && s.holds(last, w.ledger.entries[last-1].term) {
				w.fail("V1: server %d is called the best survivor and lacks entry %d, which server %d has", best.s.id, last, s.id)
			}
			w.after(f.Dur, s.start)
		}
		w.stats.Unrecovered++
		return
	}
	w.recoverFrom(best.s, f)
}

// A survivor is a server that keeps its disk, and what newensemble finds there.
type survivor struct {
	*newensemble.Survivor
	s *host
}

// survey reads what a server's disk holds.
func (s *host) survey(watch newensemble.Watch) *survivor {
	dir, err := storage.Open(s.w.storageOptions(s, s.disk.fs, s.w.diskDice))
	if err != nil {
		s.w.fail("server %d's disk can't be opened: %v", s.id, err)
		return nil
	}
	v, err := newensemble.Survey(dir, s.cluster, changeMembers, watch)
	s.log = dir.Log()
	if err := errors.Join(err, dir.Close()); err != nil {
		s.w.fail("what server %d holds can't be read: %v", s.id, err)
		return nil
	}
	return &survivor{v, s}
}

// recoverFrom makes a new ensemble of a survivor's data. All other servers join it with empty disks, except that of
// f.Other, which first starts with its old one.
func (w *World) recoverFrom(s *host, f Fault) {
	w.stats.Recovered++
	former, l := s.cluster, &life{w: w, s: s}
	v := s.survey(func(term, index uint64, data []byte) func(*tree.Result) {
		e := []quorum.Entry{{Term: term, Index: index, Data: data}}
		w.ledger.replayed(l, e)
		l.record.begin(l, e)
		return l.record.observe
	})
	if w.ended {
		return
	}
	g := &w.ledger
	if have := g.entries[v.LastIndex-1]; have.known && have.digest != v.Digest() {
		w.fail("V2: server %d's survivor has digest %016x after entry %d, another server had %016x", s.id, v.Digest(),
			v.LastIndex, have.digest)
	}
	s.lives++
	cluster := 1<<62 | s.id<<32 | uint64(s.lives)
	s.cluster = cluster
	fresh := s.disk
	fresh.fs = storage.NewMemFS()
	dir, err := storage.Open(w.storageOptions(s, fresh.fs, w.diskDice))
	if err != nil {
		panic(err)
	}
	err = v.BeginIn(dir, s.id)
	meta, _ := dir.NewestSnapshot()
	s.log = dir.Log()
	if err := errors.Join(err, dir.Close()); err != nil {
		w.fail("a new ensemble can't be made of what server %d holds: %v", s.id, err)
		return
	}
	w.descent.former[former] = uint64(len(g.entries))
	for i := uint64(len(g.entries)) + 1; i <= meta.Index; i++ {
		g.entries = append(g.entries, applied{term: meta.Term - (meta.Index - i), sum: sumOf(nil)})
	}
	g.entries[meta.Index-1].digest, g.entries[meta.Index-1].known = meta.Digest, true
	w.descent.lineage, w.descent.elected = cluster, false
	w.voters, w.leaving, w.votersAt = []uint64{s.id}, nil, meta.Index
	s.disk, s.voted, s.electorate = fresh, votes{}, [2][]uint64{{s.id}}
	s.promise = promise{term: meta.Term, commit: meta.Index}
	w.after(f.Dur, s.start)
	for _, o := range w.servers {
		if o != s {
			o.joinsAgain(former, o.id == uint64(f.Other), f.Dur)
		}
	}
}

// joinsAgain makes a server of a former ensemble join the new one with an empty disk. If back is set, it is first
// started with its old disk for a while.
func (s *host) joinsAgain(former uint64, back bool, after int64) {
	w, old := s.w, s.disk.fs
	s.wipe()
	after += between(w.faultDice, 0, 5*second)
	if !back {
		w.after(after, s.start)
		return
	}
	w.stats.Former++
	s.hold(old)
	s.outlived, s.begun, s.cluster = true, true, former
	w.after(after, s.start)
	w.after(after+between(w.faultDice, second, 15*second), s.leaveFormer)
}

// leaveFormer takes a server's disk of a former ensemble away, if it has one.
func (s *host) leaveFormer() {
	if s.outlived {
		s.outlived = false
		s.wipe()
		s.start()
	}
}
