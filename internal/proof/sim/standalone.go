package sim

import (
	"errors"
	"slices"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/treeload"
)

// A standalone server's data that becomes that of an ensemble, as internal/server/founding.go does it.

// standaloneID is the id that a server without server lines has in its log.
const standaloneID = 1

// standalone reports whether the disk holds a standalone server's data, or can't be read. If it holds such data, the
// server asks its peers how to begin with it.
func (l *life) standalone(cluster uint64) bool {
	s, w := l.s, l.w
	s.cluster = cluster
	dir, err := storage.Open(w.storageOptions(s, s.disk.fs, w.diskDice))
	if err != nil {
		l.refused(err)
		return true
	}
	l.image, err = l.soleState(dir)
	if err = errors.Join(err, dir.Close()); err != nil {
		l.refused(err)
		return true
	}
	if l.image == nil {
		return false
	}
	s.begun, s.log = false, nil
	meta := l.image.Describe()
	l.inquire(quorum.Holding{
		Lineage: cluster, Index: meta.Index, Term: meta.Term, Digest: meta.Digest, Zxid: meta.Zxid, Znodes: l.znodes,
	})
	return true
}

// soleState returns the whole state of a standalone server's log, nil if the log is one of an ensemble.
func (l *life) soleState(dir *storage.Dir) (quorum.Image, error) {
	newest, _ := dir.NewestSnapshot()
	var entries []quorum.Entry
	var term uint64
	sole := false
	for _, id := range []uint64{standaloneID, l.s.id} {
		var err error
		if entries, term, sole, err = quorum.SoleLog(dir, id, newest.Index); err != nil {
			return nil, err
		} else if sole {
			break
		}
	}
	if !sole || slices.ContainsFunc(entries, func(e quorum.Entry) bool { return replica.NamesMembers(e.Data) }) {
		return nil, nil
	}
	treeOptions := l.treeOptions()
	state, err := treeload.Newest(dir, treeOptions, nil)
	if err != nil {
		return nil, err
	}
	o := l.replicaOptions(dir, state, treeOptions)
	o.Kick, o.Observe = func() {}, nil
	if d := &l.w.descent; d.lineage == l.s.cluster || d.goesOn(l.w, l.s.cluster) {
		l.w.ledger.replayed(l, entries)
		l.record.begin(l, entries)
		o.Observe = l.record.observe
	}
	last := state.LastIndex() + uint64(len(entries)) + 1
	r := replica.New(o)
	if text, _ := r.Members(); text != "" {
		return nil, nil
	}
	if err := r.Apply(append(entries, quorum.Entry{Term: term + 1, Index: last})); err != nil {
		return nil, err
	}
	l.znodes = uint64(r.View().Nodes)
	return r.Snapshot(), nil
}

// replayed records the entries at the end of a standalone server's log. All that its only voter has written is
// committed, also what it had no time to apply.
func (g *ledger) replayed(l *life, entries []quorum.Entry) {
	for _, e := range entries {
		if e.Index == uint64(len(g.entries))+1 {
			g.entries = append(g.entries, applied{term: e.Term, sum: sumOf(e.Data)})
		} else if have := g.entries[e.Index-1]; have.term != e.Term || have.sum != sumOf(e.Data) {
			l.w.fail("server %d holds entry %d of term %d, another one was applied, of term %d", l.s.id, e.Index, e.Term,
				have.term)
		}
	}
}

// refound replaces the disk by one that begins with the data under the new lineage. Package recovery does it, and is
// tested, so that a crash leaves the former files or the new ones.
func (l *life) refound(b quorum.Beginning) error {
	s, w := l.s, l.w
	meta := l.image.Describe()
	s.cluster, s.voted = b.Cluster, votes{}
	fresh := s.disk
	fresh.fs = storage.NewMemFS()
	dir, err := storage.Open(w.storageOptions(s, fresh.fs, w.diskDice))
	if err == nil {
		err = errors.Join(quorum.Restart(dir, l.image, b.Founding.Voters...),
			dir.Keep(quorum.FoundingName, quorum.EncodeFounding(b.Founding)), dir.Close())
	}
	l.image.Close()
	l.image = nil
	if err != nil {
		return err
	}
	s.disk = fresh
	s.disk.begin(l)
	s.promise = promise{term: meta.Term, commit: meta.Index}
	return nil
}

// registry returns the authentication schemes of a server.
func registry() *auth.Registry {
	r, err := auth.New(auth.Options{SuperDigest: superDigest()})
	if err != nil {
		panic(err)
	}
	return r
}
