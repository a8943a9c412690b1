package storage

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// outcome is what the disk holds after a script ended badly: exactly one of the script's two models.
func (s *script) outcome(d *Dir) (model, string) {
	a, b := s.now.differs(d), s.next.differs(d)
	switch {
	case a == "":
		return s.now, ""
	case b == "":
		return s.next, ""
	}
	return model{}, "neither before the operation (" + a + ") nor after it (" + b + ")"
}

// restart opens the directory as the next process finds it, the page cache still warm, and then as a power cut
// right after leaves it: what the first recovery showed must have been made durable by it.
func (s *script) restart(fs *MemFS, rng *rand.Rand) string {
	diff := ""
	fs.Hook = func(c Call) error {
		if c.Op == "fdatasync" || c.Op == "syncdir" {
			if cut := s.powerCut(fs, rng); cut != "" {
				diff = "power cut in restart: " + cut
			}
		}
		return nil
	}
	o := s.options
	o.FS = fs.Reboot()
	d, err := Open(o)
	if err != nil {
		return "restart: " + err.Error()
	}
	if fs.Hook = nil; diff != "" {
		return diff
	}
	m, diff := s.outcome(d)
	if diff != "" {
		return "restart: " + diff
	}
	o.FS = fs.CrashClone(rng)
	after, err := Open(o)
	if err != nil {
		return "power cut after restart: " + err.Error()
	}
	defer after.Close()
	if diff := m.differs(after); diff != "" {
		return "power cut after restart: " + diff
	}
	return ""
}

// powerCut opens what a power cut leaves.
func (s *script) powerCut(fs *MemFS, rng *rand.Rand) string {
	o := s.options
	o.FS = fs.CrashClone(rng)
	d, err := Open(o)
	if err != nil {
		return "power cut: " + err.Error()
	}
	defer d.Close()
	_, diff := s.outcome(d)
	return diff
}

// countCalls runs a script undisturbed and returns its calls.
func countCalls(t *testing.T, seed uint64, steps int) []Call {
	fs := NewMemFS()
	var calls []Call
	fs.Hook = func(c Call) error {
		calls = append(calls, c)
		return nil
	}
	s := newScript(oneOrTwo(fs, seed), seed)
	s.run(steps)
	if s.err != nil {
		t.Fatalf("seed %d: %v", seed, s.err)
	}
	return calls
}

// TestEveryCallFails lets each single file system call of a script fail, by an I/O error or a short write. The
// operation reports it, the log refuses all that follows, and a restart or a power cut loses nothing that was
// acknowledged.
func TestEveryCallFails(t *testing.T) {
	t.Parallel()
	kinds := map[string]int{}
	for seed := uint64(1); seed <= atMost(5); seed++ {
		rng := rand.New(rand.NewPCG(seed, 4))
		for n, c := range countCalls(t, seed, 40) {
			kinds[c.Op]++
			var fault error = syscall.EIO
			if c.Op == "write" && n%2 == 0 {
				fault = &ShortWrite{N: rng.IntN(int(c.Bytes)), Err: syscall.EIO}
			}
			if diff := failCall(seed, n, fault, rng); diff != "" {
				t.Fatalf("seed %d, call %d (%+v) fails: %s", seed, n, c, diff)
			}
		}
	}
	for _, op := range []string{
		"open", "create", "rename", "remove", "readdir", "syncdir", "read", "write", "allocate", "fdatasync",
	} {
		if kinds[op] == 0 {
			t.Errorf("no %s call failed: the script does not do what this test is for", op)
		}
	}
}

// atMost is how many seeds are tried: one where the run is to be short.
func atMost(seeds uint64) uint64 {
	if testing.Short() {
		return 1
	}
	return seeds
}

func failCall(seed uint64, n int, fault error, rng *rand.Rand) string {
	fs := NewMemFS()
	fs.KeepCache = n%2 == 0
	s := newScript(oneOrTwo(fs, seed), seed)
	calls, op := 0, ""
	fs.Hook = func(c Call) error {
		if calls++; calls == n+1 {
			op = c.Op
			return fault
		}
		return nil
	}
	s.run(40)
	if s.err == nil {
		s.err = s.dir.Close()
	}
	if s.err == nil && op != "read" && op != "open" {
		return "nobody noticed"
	}
	if s.err != nil && !strings.Contains(s.err.Error(), syscall.EIO.Error()) {
		return "reported as: " + s.err.Error()
	}
	if changes := []string{"write", "fdatasync", "rename", "syncdir"}; s.err != nil && slices.Contains(changes, op) {
		if fatal := (*FatalError)(nil); !errors.As(s.err, &fatal) {
			return "not a FatalError: " + s.err.Error()
		}
		if s.dir != nil && s.dir.Log().Append(nil, nil, true) == nil {
			return "the log accepts more after the failure"
		}
	}
	fs.Hook = nil
	if diff := s.powerCut(fs, rng); diff != "" {
		return diff
	}
	return s.restart(fs, rng)
}

// TestKilledAtEveryCall ends the process at each call; the page cache survives, and then the power fails too.
func TestKilledAtEveryCall(t *testing.T) {
	t.Parallel()
	killed := errors.New("killed")
	for seed := uint64(20); seed < 20+atMost(6); seed++ {
		rng := rand.New(rand.NewPCG(seed, 6))
		for n, c := range countCalls(t, seed, 40) {
			fs := NewMemFS()
			s := newScript(oneOrTwo(fs, seed), seed)
			calls := 0
			fs.Hook = func(Call) error {
				if calls++; calls > n {
					return killed
				}
				return nil
			}
			s.run(40)
			if diff := s.restart(fs, rng); diff != "" {
				t.Fatalf("seed %d, killed at call %d (%+v): %s", seed, n, c, diff)
			}
		}
	}
}

// TestLyingSync shows that the simulated disk can lie, and that recovery then finds out or holds a whole prefix: it
// cannot do better, but never shows entries out of order or half a batch.
func TestLyingSync(t *testing.T) {
	t.Parallel()
	lost := 0
	for seed := uint64(1); seed <= 60; seed++ {
		fs := NewMemFS()
		d := mustOpen(t, smallOptions(fs, seed))
		m := model{}
		for i := range uint64(20) {
			fs.LieAboutSync = i >= 10
			hard, entries := hardState{term: 1}, batch(i+1, 1, 1, 100)
			m = m.append(hard, entries)
			if err := d.Log().Append(hs(1, 0, 0), entries, true); err != nil {
				t.Fatal(err)
			}
		}
		again, err := Open(smallOptions(fs.CrashClone(rand.New(rand.NewPCG(seed, 7))), seed))
		if damage := (*DamageError)(nil); errors.As(err, &damage) {
			lost++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		last, _ := again.Log().LastIndex()
		if last < 10 {
			t.Fatalf("seed %d: entry %d was durable before the disk began to lie", seed, last+1)
		}
		if last < 20 {
			lost++
		}
		if diff := m.entriesDiffer(again.Log(), 1, last); diff != "" {
			t.Fatalf("seed %d: %s", seed, diff)
		}
	}
	if lost == 0 {
		t.Error("no run lost anything: the disk did not lie")
	}
}

// TestFullDisk fills the disk, sees that the log still takes what raft needs, that it says to refuse writes, and that
// it goes on by itself when there is room.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	fs := NewMemFS()
	o := smallOptions(fs, 1)
	o.SegmentSize = 64 * sectorSize
	o.Space = SpaceLimits{WarnPercent: 50, RefusePercent: 25, RefuseBytes: 1, ReserveBytes: 128 * sectorSize}
	fs.Budget = 1024 * sectorSize
	d := mustOpen(t, o)
	level := func() SpaceLevel {
		t.Helper()
		s, err := d.SpaceState()
		if err != nil {
			t.Fatal(err)
		}
		return s.Level
	}
	seen := map[SpaceLevel]int{}
	index := uint64(1)
	add := func() {
		t.Helper()
		if err := d.Log().Append(hs(1, 0, index-1), batch(index, 1, 1, 1000), true); err != nil {
			t.Fatalf("append %d: %v", index, err)
		}
		index++
	}
	for level() != SpaceRefuse {
		seen[level()]++
		add()
	}
	if seen[SpaceOK] == 0 || seen[SpaceWarn] == 0 {
		t.Errorf("levels on the way: %v", seen)
	}
	// Something else takes all that is left. Raft still writes for a while, by the reserve.
	free, _, _ := fs.Free("")
	fs.Damage("data/foreign", func([]byte) []byte { return make([]byte, free) })
	for range 64 {
		add()
	}
	if w, err := d.CreateSnapshot(Meta{Index: 1, Term: 1}); err == nil {
		t.Error("a snapshot was begun on a full disk", w.Abort())
	} else if !errors.Is(err, syscall.ENOSPC) || d.Log().Err() != nil {
		t.Errorf("snapshot on a full disk: %v; log: %v", err, d.Log().Err())
	}
	if level() != SpaceRefuse {
		t.Error("a full disk is not refused")
	}
	fs.Damage("data/foreign", func([]byte) []byte { return nil })
	fs.Budget *= 8
	level() // the last failure to make a segment is still to be told
	if level() != SpaceOK {
		t.Error("room again, yet refused")
	}
	for range 200 {
		add()
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = mustOpen(t, o)
	if last, _ := d.Log().LastIndex(); last != index-1 {
		t.Errorf("last index %d, want %d", last, index-1)
	}
}
