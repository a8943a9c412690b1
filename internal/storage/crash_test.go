package storage

import (
	"flag"
	"math/rand/v2"
	"testing"
)

var crashImages = flag.Int("crashimages", 4000, "how many disks after a power cut TestPowerCutAtEveryCall recovers; the long form is 100000")

// TestPowerCutAtEveryCall runs scripts of random operations and, before every single file system call of theirs, cuts
// the power several times with different survivals. Each disk left behind must recover to exactly what was
// acknowledged, or to that and the whole of the operation in progress. One disk in four loses power again during that
// recovery.
func TestPowerCutAtEveryCall(t *testing.T) {
	t.Parallel()
	images, most := 0, *crashImages
	if testing.Short() {
		most /= 20
	}
	for seed := uint64(1); images < most && !t.Failed(); seed++ {
		images += cutScript(t, seed)
	}
	t.Logf("%d crash images", images)
}

func cutScript(t *testing.T, seed uint64) (images int) {
	fs := NewMemFS()
	s := newScript(oneOrTwo(fs, seed), seed)
	rng := rand.New(rand.NewPCG(seed, 3))
	calls := 0
	fs.Hook = func(c Call) error {
		calls++
		if c.Op == "read" || c.Op == "open" {
			return nil // changes nothing: the disk is that of the call after
		}
		for range 3 {
			images++
			if diff := recoverImage(s, fs.CrashClone(rng), rng); diff != "" {
				t.Errorf("seed %d, power cut before call %d (%+v): %s", seed, calls, c, diff)
			}
		}
		return nil
	}
	s.run(40)
	if s.err != nil {
		t.Errorf("seed %d: %v", seed, s.err)
	}
	return images
}

// recoverImage says how what recovers from a disk differs from what the script is owed.
func recoverImage(s *script, fs *MemFS, rng *rand.Rand) string {
	o := s.options
	o.FS = fs
	if rng.IntN(4) == 0 {
		calls, at := 0, rng.IntN(30)
		var second *MemFS
		fs.Hook = func(Call) error {
			if calls++; calls == at {
				second = fs.CrashClone(rng)
			}
			return nil
		}
		if d, err := Open(o); err == nil {
			d.Close()
		}
		fs.Hook = nil
		if second != nil {
			o.FS = second
		} else {
			o.FS = fs.CrashClone(rng)
		}
	}
	d, err := Open(o)
	if err != nil {
		return err.Error()
	}
	defer d.Close()
	a, b := s.now.differs(d), s.next.differs(d)
	if a != "" && b != "" {
		return "neither before the operation (" + a + ") nor after it (" + b + ")"
	}
	if rng.IntN(20) == 0 {
		if a == "" && s.now.snapshotDiffers(d) != "" || a != "" && s.next.snapshotDiffers(d) != "" {
			return "snapshot content differs"
		}
	}
	return goesOn(d, o)
}

// goesOn appends to a recovered directory, cuts the power, and looks for what was appended.
func goesOn(d *Dir, o Options) string {
	l := d.Log()
	last, _ := l.LastIndex()
	hard := l.hard
	hard.term++
	if err := l.Append(hs(hard.term, 0, hard.commit), batch(last+1, hard.term, 1, 40), true); err != nil {
		return "append after recovery: " + err.Error()
	}
	o.FS = o.FS.(*MemFS).CrashClone(rand.New(rand.NewPCG(last, 5)))
	again, err := Open(o)
	if err != nil {
		return "recovery after recovery: " + err.Error()
	}
	defer again.Close()
	if end, _ := again.Log().LastIndex(); end != last+1 || again.Log().hard.term != hard.term {
		return "what was appended after recovery is gone"
	}
	return ""
}
