package newensemble

import (
	"crypto/rand"
	"encoding/binary"
	"runtime"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
)

// termsAhead is how many terms, and with them epochs of zxids, the new ensemble skips beyond those that the survivor
// knows: the lost servers may have continued without it. No zxid may stand for two transactions, and a server rejects
// clients that have seen a later zxid than its own.
const termsAhead = 1000

// Renew makes the survivor's state the beginning of a new ensemble in which only server id votes: the others join with
// empty directories. The former files are kept in a folder aside-NAME of each directory. After a crash in between,
// Finish continues.
func (s *Survivor) Renew(id uint64, a *Act) error {
	return Refound(s.Place, newCluster(s.Cluster), a, func(dir *storage.Dir) error { return s.BeginIn(dir, id) })
}

// newCluster returns a random id that differs from the old one.
func newCluster(old uint64) uint64 {
	for {
		var b [8]byte
		rand.Read(b[:]) // never fails (crypto/rand)
		if id := binary.BigEndian.Uint64(b[:]); id != 0 && id != old {
			return id
		}
	}
}

// BeginIn starts the log of the new ensemble, in which only server id votes, with a snapshot of the state. dir belongs
// to the new ensemble's cluster.
func (s *Survivor) BeginIn(dir *storage.Dir, id uint64) error {
	t := s.tree
	defer runtime.KeepAlive(t)
	for i := range uint64(termsAhead) {
		if err := t.NewTerm(s.Term+1+i, s.LastIndex+1+i); err != nil {
			return err
		}
	}
	return Begin(dir, t, id)
}

// Begin starts the log of dir with a snapshot of t, in an ensemble of these voters. Each of them may start with the
// same snapshot: it is as if all had applied a single entry. A voter that starts without it counts as one that has
// lost its disk.
func Begin(dir *storage.Dir, t *tree.Tree, voters ...uint64) error {
	w, err := dir.CreateSnapshot(storage.Meta{
		Index: t.LastIndex(), Term: t.LastTerm(), Zxid: t.LastZxid(), Digest: t.Digest(),
		ConfState:    &raftpb.ConfState{Voters: voters},
		FeatureLevel: uint32(t.Settings().FeatureLevel), BodyFormat: tree.BodyFormat,
	})
	if err != nil {
		return err
	}
	defer w.Abort()
	img := t.BeginSnapshot()
	defer img.Close()
	for more := true; more; {
		var chunk []byte
		if chunk, more = img.Next(nil); len(chunk) > 0 {
			if err := w.WriteChunk(chunk); err != nil {
				return err
			}
		}
	}
	term, index := t.LastTerm(), t.LastIndex()
	return dir.Install(w, &raftpb.HardState{Term: &term, Vote: new(uint64), Commit: &index})
}
