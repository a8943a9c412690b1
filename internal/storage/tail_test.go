package storage

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
)

// TestTail: everything that is appended is read once and in order, over several segments, while the server appends. A
// tail whose segments are purged says so.
func TestTail(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, err := Open(Options{Dir: dir, ClusterID: 7})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	tail, slow := NewTail(OS{}, dir), NewTail(OS{}, dir)
	defer tail.Close()
	defer slow.Close()
	var read []uint64
	segments := 0
	visit := func(s LogStep) error {
		if s.Begins {
			segments++
		}
		if s.Reset || s.Begins && len(s.Entries) > 0 || s.Cluster != 7 {
			return fmt.Errorf("a step begins: %t, resets: %t, with %d entries, of cluster %d", s.Begins, s.Reset, len(s.Entries),
				s.Cluster)
		}
		for _, e := range s.Entries {
			if !bytes.HasPrefix(e.Data, fmt.Appendf(nil, "entry %d ", e.Index)) || e.Term != 1 {
				return fmt.Errorf("entry %d of term %d: %.20q", e.Index, e.Term, e.Data)
			}
			read = append(read, e.Index)
		}
		return nil
	}
	if err := slow.Read(func(LogStep) error { return nil }); err != nil {
		t.Fatal(err)
	}
	last := uint64(0)
	for last = 1; segments < 4; last++ {
		data := append(fmt.Appendf(nil, "entry %d ", last), make([]byte, 100_000)...)
		term, index := uint64(1), last
		e := &raftpb.Entry{Term: &term, Index: &index, Data: data}
		commit := last - 1
		if err := d.Log().Append(&raftpb.HardState{Term: &term, Commit: &commit}, []*raftpb.Entry{e}, true); err != nil {
			t.Fatal(err)
		}
		if last%3 == 0 {
			if err := tail.Read(visit); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, index := range read {
		if index != uint64(i+1) {
			t.Fatalf("entry %d is read in the place of %d", index, i+1)
		}
	}
	if uint64(len(read)) < last-3 {
		t.Errorf("%d of %d entries are read", len(read), last-1)
	}
	slow.end.number, slow.end.seq = 0, 1<<40 // as if its segments were gone
	if err := slow.Read(visit); !errors.Is(err, ErrTailLost) {
		t.Errorf("of segments that are gone: %v", err)
	}
}
