package storage

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

// wantDamage opens a directory that must be refused, for a reason that contains text.
func wantDamage(t *testing.T, fs *MemFS, text string) {
	t.Helper()
	d, err := Open(smallOptions(fs, 5))
	if err == nil {
		last, _ := d.Log().LastIndex()
		t.Fatalf("opened with last index %d; want refusal: %s", last, text)
	}
	if damage := (*DamageError)(nil); !errors.As(err, &damage) || !strings.Contains(damage.Reason, text) {
		t.Fatalf("refused with %v; want: %s", err, text)
	}
}

func TestLostLogIsNoNewDirectory(t *testing.T) {
	t.Parallel()
	memory := NewMemFS()
	d := filled(t, memory, 5)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for _, n := range namesOf(memory) {
		if strings.HasSuffix(n, segmentSuffix) {
			memory.Damage("data/"+n, func([]byte) []byte { return nil })
		}
	}
	wantDamage(t, memory, "all log segments are missing")
}

// TestSnapshotProvesLastBatch: the last batch looks torn, but a snapshot was made of it.
func TestSnapshotProvesLastBatch(t *testing.T) {
	t.Parallel()
	memory := NewMemFS()
	d := mustOpen(t, smallOptions(memory, 1))
	if err := d.Log().Append(hs(1, 0, 1), batch(1, 1, 1, 100), true); err != nil {
		t.Fatal(err)
	}
	at := d.log.end - sectorSize
	takeSnapshot(t, d, 1, []byte("x"))
	memory = memory.Clone()
	memory.Damage("data/"+segmentName(1), func(b []byte) []byte { b[at+130] ^= 1; return b })
	wantDamage(t, memory, "before the snapshot at 1")
}

// TestCommitProvesEntries: no snapshot, but the HardState says how far the log was committed. It cannot be ahead of
// the entries by any crash, so here it is made so with valid checksums.
func TestCommitProvesEntries(t *testing.T) {
	t.Parallel()
	memory := NewMemFS()
	d := mustOpen(t, smallOptions(memory, 1))
	if err := d.Log().Append(hs(1, 0, 9), batch(1, 1, 1, 100), true); err != nil {
		t.Fatal(err)
	}
	wantDamage(t, memory.Clone(), "but 9 was committed")
}

// TestCrashBeforeSeal: the next segment exists, the seal of the one before does not. Recovery makes up for it: a loss
// of the last segment is noticed afterwards.
func TestCrashBeforeSeal(t *testing.T) {
	t.Parallel()
	memory := NewMemFS()
	d := mustOpen(t, smallOptions(memory, 1))
	killed := errors.New("killed")
	renamed := false
	memory.Hook = func(c Call) error {
		if renamed && c.Op == "write" {
			return killed
		}
		renamed = renamed || c.Op == "rename" && strings.HasSuffix(c.To, segmentName(2))
		return nil
	}
	var err error
	for i := uint64(1); err == nil; i++ {
		err = d.Log().Append(hs(1, 0, 0), batch(i, 1, 1, 600), true)
	}
	if !errors.Is(err, killed) || !renamed {
		t.Fatal(err)
	}
	memory = memory.CrashClone(rand.New(rand.NewPCG(1, 1)))
	d = mustOpen(t, smallOptions(memory, 2))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	memory.Damage("data/"+segmentName(2), func([]byte) []byte { return nil })
	wantDamage(t, memory, "the one before it is sealed")
}

// TestFrameOfAnotherHistory: two logs share a segment and differ in one batch. The one's next batch is no
// continuation of the other, though segment, number and checksums of it are right.
func TestFrameOfAnotherHistory(t *testing.T) {
	t.Parallel()
	memory := NewMemFS()
	if err := mustOpen(t, smallOptions(memory, 1)).Close(); err != nil {
		t.Fatal(err)
	}
	var d *Dir
	var images []*MemFS
	var at int64
	for _, data := range []string{"one", "two"} {
		if len(images) > 0 { // wind the log back to where the histories part
			d = mustOpen(t, smallOptions(images[0].Clone(), 1))
		} else {
			images = append(images, memory.Clone())
			d = mustOpen(t, smallOptions(memory.Clone(), 1))
		}
		for i := range uint64(2) {
			at = d.log.end
			if err := d.Log().Append(hs(1, 0, 0), batchOf(entry(i+1, 1, []byte(data))), true); err != nil {
				t.Fatal(err)
			}
		}
		images = append(images, d.fs.(*MemFS).Clone())
	}
	name := segmentName(1)
	second := images[1].content(name)[at : at+sectorSize]
	images[2].Damage("data/"+name, func(b []byte) []byte { copy(b[at:], second); return b })
	d = mustOpen(t, smallOptions(images[2], 1))
	if last, _ := d.Log().LastIndex(); last != 1 {
		t.Errorf("last index %d; the second batch belongs to another history", last)
	}
}

// TestCommitIsAtLeastTheSnapshot: a commit index that was never synced must not fall behind the snapshot it allowed.
func TestCommitIsAtLeastTheSnapshot(t *testing.T) {
	t.Parallel()
	memory := NewMemFS()
	d := mustOpen(t, smallOptions(memory, 1))
	if err := errors.Join(d.Log().Append(hs(1, 0, 0), batch(1, 1, 3, 50), true),
		d.Log().Append(hs(1, 0, 3), nil, false)); err != nil {
		t.Fatal(err)
	}
	takeSnapshot(t, d, 3, []byte("x"))
	d = mustOpen(t, smallOptions(memory.CrashClone(rand.New(rand.NewPCG(1, 1))), 1))
	if h, _, _ := d.Log().InitialState(); h.GetCommit() != 3 {
		t.Errorf("commit %d, snapshot at 3", h.GetCommit())
	}
}

// TestInstallKeepsVote: without a HardState the old one stays, and its commit index follows the snapshot.
func TestInstallKeepsVote(t *testing.T) {
	t.Parallel()
	memory := NewMemFS()
	d := mustOpen(t, smallOptions(memory, 1))
	if err := d.Log().Append(hs(4, 2, 0), nil, true); err != nil {
		t.Fatal(err)
	}
	w := fromPeer(t, d, position{20, 3}, "x")
	if err := d.Install(w, nil); err != nil {
		t.Fatal(err)
	}
	for _, d := range []*Dir{d, mustOpen(t, smallOptions(memory.CrashClone(rand.New(rand.NewPCG(1, 1))), 1))} {
		if h, _, _ := d.Log().InitialState(); h.GetTerm() != 4 || h.GetVote() != 2 || h.GetCommit() != 20 {
			t.Errorf("HardState %v", h)
		}
	}
}

// TestInstallWithEntriesBehind: raft may hand over a snapshot, entries after it and their commit index at once.
func TestInstallWithEntriesBehind(t *testing.T) {
	t.Parallel()
	memory := NewMemFS()
	d := filled(t, memory, 3)
	w := fromPeer(t, d, position{20, 3}, "x")
	hard := hs(4, 0, 22)
	if err := d.Install(w, hard); err != nil {
		t.Fatal(err)
	}
	// Power may fail right here: the commit index must not be ahead of the log.
	mustOpen(t, smallOptions(memory.CrashClone(rand.New(rand.NewPCG(1, 1))), 1))
	entries := batch(21, 4, 2, 10)
	if err := d.Log().Append(hard, entries, true); err != nil {
		t.Fatal(err)
	}
	want := model{}.installed(position{20, 3}, hardState{4, 0, 22}, []byte("x")).append(hardState{4, 0, 22}, entries)
	if diff := want.differs(d); diff != "" {
		t.Error(diff)
	}
}
