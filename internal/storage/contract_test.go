package storage

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

var _ raft.Storage = (*Log)(nil)

// TestSameAsMemoryStorage runs random operations against raft's own MemoryStorage and compares every answer,
// also of entries that only the segments still hold, and after reopening.
func TestSameAsMemoryStorage(t *testing.T) {
	t.Parallel()
	for seed := uint64(1); seed <= 30; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			c := newContract(t, seed)
			for range 120 {
				c.step()
				c.compare()
			}
		})
	}
}

type contract struct {
	t      *testing.T
	rng    *rand.Rand
	o      Options
	d      *Dir
	mem    *raft.MemoryStorage
	hard   hardState
	snap   uint64
	purged bool // FirstIndex of the two differ from then on: segments go whole
}

func newContract(t *testing.T, seed uint64) *contract {
	o := smallOptions(NewMemFS(), seed)
	return &contract{t: t, rng: rand.New(rand.NewPCG(seed, 8)), o: o, d: mustOpen(t, o), mem: raft.NewMemoryStorage()}
}

func (c *contract) must(errs ...error) {
	c.t.Helper()
	if err := errors.Join(errs...); err != nil {
		c.t.Fatal(err)
	}
}

func (c *contract) step() {
	last, _ := c.mem.LastIndex()
	switch k := c.rng.IntN(20); {
	case k < 14:
		first := last + 1
		if c.rng.IntN(3) == 0 && last > c.hard.commit {
			first -= c.rng.Uint64N(last - c.hard.commit)
			c.hard.term++
		}
		c.hard.term = max(c.hard.term, 1)
		entries := batch(first, c.hard.term, 1+c.rng.IntN(5), c.rng.IntN(200))
		for _, e := range entries {
			if c.rng.IntN(10) == 0 {
				e.Type = raftpb.EntryConfChangeV2.Enum()
			}
		}
		h := hs(c.hard.term, c.hard.vote, c.hard.commit)
		c.must(c.d.Log().Append(h, entries, true), c.mem.Append(entries), c.mem.SetHardState(h))
	case k < 16:
		c.hard.commit += c.rng.Uint64N(last - c.hard.commit + 1)
		h := hs(c.hard.term, c.hard.vote, c.hard.commit)
		c.must(c.d.Log().Append(h, nil, c.rng.IntN(2) == 0), c.mem.SetHardState(h))
	case k < 18:
		c.snapshot()
	default:
		c.must(c.d.Close())
		c.d = mustOpen(c.t, c.o)
	}
}

func (c *contract) snapshot() {
	if c.hard.commit <= c.snap {
		return
	}
	c.snap = c.hard.commit
	cs := &raftpb.ConfState{Voters: []uint64{1, 2, c.snap}, Learners: []uint64{9}, AutoLeave: new(c.snap%2 == 0)}
	term, err := c.mem.Term(c.snap)
	c.must(err)
	w, err := c.d.CreateSnapshot(Meta{Index: c.snap, Term: term, ConfState: cs})
	c.must(err)
	c.must(w.WriteChunk([]byte("state")), w.Commit())
	_, err = c.mem.CreateSnapshot(c.snap, cs, nil)
	c.must(err)
	if c.rng.IntN(2) == 0 {
		_, n, err := c.d.Purge(1, 0)
		c.must(err)
		if first, _ := c.d.Log().FirstIndex(); n > 0 {
			c.purged = true
			if have, _ := c.mem.FirstIndex(); first > have {
				c.must(c.mem.Compact(first - 1))
			}
		}
	}
}

func (c *contract) compare() {
	c.t.Helper()
	l := c.d.Log()
	first, _ := l.FirstIndex()
	last, _ := l.LastIndex()
	memFirst, _ := c.mem.FirstIndex()
	memLast, _ := c.mem.LastIndex()
	if last != memLast || first != memFirst && !c.purged || first < memFirst {
		c.t.Fatalf("log %d..%d, MemoryStorage %d..%d", first, last, memFirst, memLast)
	}
	for i := first - 1; i <= last+2; i++ {
		c.same(fmt.Sprintf("Term(%d)", i), str(l.Term(i)), str(c.mem.Term(i)))
	}
	lo := first + c.rng.Uint64N(last-first+2)
	hi := min(last+1, lo+c.rng.Uint64N(20))
	size := c.rng.Uint64N(2000)
	if lo < hi {
		c.same(fmt.Sprintf("Entries(%d, %d, %d)", lo, hi, size), str(l.Entries(lo, hi, size)),
			str(c.mem.Entries(lo, hi, size)))
	}
	if _, err := l.Entries(first-1, hi, size); err != raft.ErrCompacted {
		c.t.Fatalf("Entries below the first: %v", err)
	}
	if _, err := l.Entries(lo, last+2, size); err != raft.ErrUnavailable {
		c.t.Fatalf("Entries above the last: %v", err)
	}
	c.same("Snapshot", str(l.Snapshot()), str(c.mem.Snapshot()))
	h, cs, err := l.InitialState()
	_, memCS, _ := c.mem.InitialState()
	c.same("ConfState", str(cs, err), str(memCS, nil))
	if h.GetTerm() != c.hard.term || h.GetVote() != c.hard.vote || h.GetCommit() != c.hard.commit {
		c.t.Fatalf("HardState %v, want %+v", h, c.hard)
	}
}

func (c *contract) same(what, got, want string) {
	c.t.Helper()
	if got != want {
		c.t.Fatalf("%s:\n got %s\nwant %s", what, got, want)
	}
}

// str renders an answer of either storage by value.
func str(v any, err error) string {
	switch v := v.(type) {
	case []*raftpb.Entry:
		s := ""
		for _, e := range v {
			s += fmt.Sprintf("%d/%d/%v/%x ", e.GetIndex(), e.GetTerm(), e.GetType(), e.GetData())
		}
		return fmt.Sprint(s, err)
	case *raftpb.Snapshot:
		m := v.GetMetadata()
		return fmt.Sprint(m.GetIndex(), m.GetTerm(), str(m.GetConfState(), err))
	case *raftpb.ConfState:
		return fmt.Sprint(v.GetVoters(), v.GetLearners(), v.GetVotersOutgoing(), v.GetLearnersNext(), v.GetAutoLeave(), err)
	}
	return fmt.Sprint(v, err)
}

// TestAppendOfManyLargeEntries writes more in one Append than a frame takes, its
// commit among the entries, and finds all of it again.
func TestAppendOfManyLargeEntries(t *testing.T) {
	t.Parallel()
	o := smallOptions(NewMemFS(), 1)
	d := mustOpen(t, o)
	entries := batch(1, 1, 5, frameSizeAim/3)
	entries = append(entries, batch(6, 1, 3, 100)...)
	for _, e := range entries[:5] {
		for i := range e.Data {
			e.Data[i] = byte(e.GetIndex())
		}
	}
	if err := d.Log().Append(hs(1, 2, 7), entries, true); err != nil {
		t.Fatal(err)
	}
	if n := d.Log().Stats().Appends; n != 3 {
		t.Errorf("%d frames instead of 3", n)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = mustOpen(t, o)
	got, err := d.Log().Entries(1, 9, 1<<40)
	if err != nil || len(got) != len(entries) {
		t.Fatalf("%d of %d entries: %v", len(got), len(entries), err)
	}
	for i, e := range got {
		if !bytes.Equal(e.GetData(), entries[i].GetData()) {
			t.Errorf("entry %d is another one", e.GetIndex())
		}
	}
	if hard, _, err := d.Log().InitialState(); err != nil || hard.GetCommit() != 7 || hard.GetVote() != 2 {
		t.Errorf("the state is %v, %v", hard, err)
	}
}

// TestChunkTooLarge refuses a chunk that no reader takes.
func TestChunkTooLarge(t *testing.T) {
	d := mustOpen(t, smallOptions(NewMemFS(), 1))
	w, err := d.CreateSnapshot(Meta{Index: 1, Term: 1, ConfState: &raftpb.ConfState{Voters: []uint64{1}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.WriteChunk(make([]byte, ChunkSizeMax+1)); err == nil {
		t.Error("a chunk of more than ChunkSizeMax bytes was written")
	}
	if err := w.WriteChunk(make([]byte, ChunkSizeMax)); err != nil {
		t.Errorf("the largest chunk: %v", err)
	}
	if err := w.Abort(); err != nil {
		t.Error(err)
	}
	if err := w.WriteChunk([]byte{1}); !errors.Is(err, ErrClosed) {
		t.Errorf("a chunk of a snapshot that was given up: %v", err)
	}
}

// TestHeaderTooLarge writes the largest membership that a snapshot's header has room for, and refuses one more member.
func TestHeaderTooLarge(t *testing.T) {
	d := mustOpen(t, smallOptions(NewMemFS(), 1))
	meta := Meta{Index: 1, Term: 1, ConfState: &raftpb.ConfState{}}
	for range (snapHeaderMax-len(meta.append(nil)))/8 + 1 {
		meta.ConfState.Voters = append(meta.ConfState.Voters, uint64(len(meta.ConfState.Voters)+1))
	}
	if w, err := d.CreateSnapshot(meta); err == nil {
		w.Abort()
		t.Errorf("a header of %d bytes is written", len(meta.append(nil)))
	}
	meta.ConfState.Voters = meta.ConfState.Voters[:len(meta.ConfState.Voters)-1]
	w, err := d.CreateSnapshot(meta)
	if err != nil {
		t.Fatalf("a header of %d bytes: %v", len(meta.append(nil)), err)
	}
	if err := w.Abort(); err != nil {
		t.Error(err)
	}
}

// TestBrokenInvariantsPanic: what raft never does is not written down.
func TestBrokenInvariantsPanic(t *testing.T) {
	t.Parallel()
	d := mustOpen(t, smallOptions(NewMemFS(), 1))
	if err := d.Log().Append(hs(3, 0, 2), batch(1, 3, 4, 8), true); err != nil {
		t.Fatal(err)
	}
	cases := map[string]func(){
		"a gap":              func() { d.Log().Append(nil, batch(6, 3, 1, 8), true) },
		"index 0":            func() { d.Log().Append(nil, batch(0, 3, 1, 8), true) },
		"committed replaced": func() { d.Log().Append(nil, batch(2, 3, 1, 8), true) },
		"term goes back":     func() { d.Log().Append(nil, batch(5, 2, 1, 8), true) },
		"vote's term back":   func() { d.Log().Append(hs(2, 0, 2), nil, true) },
		"install's term back": func() {
			w, err := d.CreateSnapshot(Meta{Index: 9, Term: 3, ConfState: &raftpb.ConfState{Voters: []uint64{1}}})
			if err != nil {
				t.Fatal(err)
			}
			d.Install(w, hs(2, 0, 9))
		},
		"hole in the batch": func() { d.Log().Append(nil, append(batch(5, 3, 1, 8), batch(7, 3, 1, 8)...), true) },
	}
	for name, do := range cases {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("accepted")
				}
			}()
			do()
		})
	}
}
