package storage

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// TestReadersBesideWriter appends, rolls, takes snapshots and purges while others read: what they get is always either
// the entry they asked for or the word that it is compacted.
func TestReadersBesideWriter(t *testing.T) {
	t.Parallel()
	o := smallOptions(NewMemFS(), 1)
	o.Go = nil // real goroutines for the spares
	d := mustOpen(t, o)
	var done atomic.Bool
	var wg sync.WaitGroup
	for reader := range uint64(3) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(reader, 9))
			for !done.Load() {
				readSome(t, d.Log(), rng)
			}
		})
	}
	for i := uint64(1); i <= 600; i++ {
		if err := d.Log().Append(hs(1, 0, i-1), batch(i, 1, 1, int(i%300)), true); err != nil {
			t.Error(err)
			break
		}
		if i%50 == 0 {
			snapshotAndPurge(t, d, i-1)
		}
	}
	done.Store(true)
	wg.Wait()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func readSome(t *testing.T, l *Log, rng *rand.Rand) {
	first, _ := l.FirstIndex()
	last, _ := l.LastIndex()
	if last < first {
		return
	}
	lo := first + rng.Uint64N(last-first+1)
	list, err := l.Entries(lo, min(last+1, lo+10), 5000)
	if errors.Is(err, raft.ErrCompacted) {
		return
	}
	if err != nil || len(list) == 0 {
		t.Errorf("entries from %d: %d, %v", lo, len(list), err)
		return
	}
	for i, e := range list {
		if index := lo + uint64(i); e.GetIndex() != index || len(e.GetData()) != int(index%300) {
			t.Errorf("entry %d where %d belongs", e.GetIndex(), index)
		}
	}
}

func snapshotAndPurge(t *testing.T, d *Dir, index uint64) {
	t.Helper()
	w, err := d.CreateSnapshot(Meta{Index: index, Term: 1, ConfState: &raftpb.ConfState{Voters: []uint64{1}}})
	if err != nil {
		t.Error(err)
		return
	}
	if err := errors.Join(w.WriteChunk([]byte("x")), w.Commit()); err != nil {
		t.Error(err)
	}
	if _, _, err := d.Purge(2, 0); err != nil {
		t.Error(err)
	}
}
