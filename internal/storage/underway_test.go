package storage

import (
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.etcd.io/raft/v3/raftpb"
)

// TestSnapshotWritingFor has the disk hang in each operation of a snapshot: for how long is known meanwhile, without
// waiting for it, and afterwards nothing is under way.
func TestSnapshotWritingFor(t *testing.T) {
	t.Parallel()
	chunk := make([]byte, writeOutStep/2)
	rand.NewChaCha8([32]byte{}).Read(chunk) // it doesn't get smaller
	for _, op := range []string{"create", "write", "writeout", "fdatasync", "read", "rename", "syncdir"} {
		t.Run(op, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				fs, armed, hung, free := NewMemFS(), false, make(chan bool), make(chan bool)
				fs.Hook = func(c Call) error {
					if armed && c.Op == op && (strings.HasSuffix(c.Name, tmpSuffix) || op == "syncdir") {
						armed = false
						close(hung)
						<-free
					}
					return nil
				}
				o := smallOptions(fs, 1)
				o.Go = func(work func()) { work() }
				d := mustOpen(t, o)
				if err := d.Log().Append(hs(1, 0, 4), batch(1, 1, 4, 8), true); err != nil {
					t.Fatal(err)
				}
				if took := d.SnapshotWritingFor(); took != 0 {
					t.Errorf("before there is a snapshot, one is written for %v", took)
				}
				armed = true
				done := make(chan bool)
				go func() {
					defer close(done)
					w, err := d.CreateSnapshot(Meta{Index: 4, Term: 1, ConfState: &raftpb.ConfState{Voters: []uint64{1}}})
					for range 4 {
						if err == nil {
							err = w.WriteChunk(chunk)
						}
					}
					if err == nil {
						err = w.Commit()
					}
					if err != nil {
						t.Error(err)
					}
				}()
				<-hung
				time.Sleep(30 * time.Second)
				if took := d.SnapshotWritingFor(); took < 30*time.Second-1 || took > 30*time.Second {
					t.Errorf("30 s later it has been under way for %v", took)
				}
				close(free)
				<-done
				if took := d.SnapshotWritingFor(); took != 0 || len(d.snapshotWork) != 0 {
					t.Errorf("afterwards it is %v, of %d snapshots", took, len(d.snapshotWork))
				}
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}
