package storage

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// TestKept replaces a kept file, cuts the power at each moment of that, and fails each
// call: what is found is one content or the other, whole, and the new one once Keep has
// returned nil.
func TestKept(t *testing.T) {
	before, after := []byte("before"), bytes.Repeat([]byte("after"), 1000)
	open := func(fs *MemFS) *Dir {
		d, err := Open(Options{
			FS: fs, Dir: "/data", LogDir: "/log", ClusterID: 7, Rand: rand.NewChaCha8([32]byte{}), Go: func(f func()) { f() },
			SegmentSize: 64 << 10, Space: SpaceLimits{ReserveBytes: -1},
		})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	fs := NewMemFS()
	d := open(fs)
	if b, err := d.Kept("x"); b != nil || err != nil {
		t.Fatalf("a file that was never kept: %q, %v", b, err)
	}
	if err := d.Keep("x", before); err != nil {
		t.Fatal(err)
	}
	dice := rand.New(rand.NewPCG(1, 2))
	look := func(when string, wants ...[]byte) {
		for range 5 {
			found, err := open(fs.CrashClone(dice)).Kept("x")
			if err != nil || !slices.ContainsFunc(wants, func(want []byte) bool { return bytes.Equal(found, want) }) {
				t.Fatalf("after a power cut %s: %.20q, %v", when, found, err)
			}
		}
	}
	look("before", before)
	calls := 0
	fs.Hook = func(c Call) error {
		calls++
		look("at "+string(c.Op), before, after)
		return nil
	}
	if err := d.Keep("x", after); err != nil {
		t.Fatal(err)
	}
	fs.Hook = nil
	look("afterwards", after)
	if calls < 5 {
		t.Fatalf("only %d calls", calls)
	}
	if err := d.Keep("x", make([]byte, keptMax+1)); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Fatalf("a file beyond the limit: %v", err)
	}
	if err := d.Keep("x", make([]byte, keptMax)); err != nil {
		t.Fatal(err)
	}
	if b, err := d.Kept("x"); err != nil || len(b) != keptMax {
		t.Fatalf("a file at the limit: %d bytes, %v", len(b), err)
	}
}

// TestSmallFileIsNotSyncedAgain: the disk fails a sync of a small file or of its directory once. The next attempt would
// succeed and prove nothing, so there is none: the log has ended. Without room for the file, the next attempt succeeds.
func TestSmallFileIsNotSyncedAgain(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(*Dir) error{
		"Keep":       func(d *Dir) error { return d.Keep("x", []byte("y")) },
		"KeepSkip":   func(d *Dir) error { return d.KeepSkip(skipForTests(7)) },
		"DropSkip":   func(d *Dir) error { return d.DropSkip(6) },
		"KeepReport": func(d *Dir) error { _, _, err := d.KeepReport(Report{Index: 7, Text: "it panics"}); return err },
	} {
		for _, c := range []struct {
			op    string
			cause error
			ends  bool
		}{{"fdatasync", syscall.EIO, true}, {"syncdir", syscall.EIO, true}, {"fdatasync", syscall.ENOSPC, false},
			{"syncdir", syscall.ENOSPC, true}} {
			memory := NewMemFS()
			d := filled(t, memory, 3)
			if err := d.KeepSkip(skipForTests(6)); err != nil {
				t.Fatal(err)
			}
			failed := false
			memory.Hook = func(call Call) error {
				if failed || call.Op != c.op {
					return nil
				}
				failed = true
				return c.cause
			}
			first := do(d)
			if !failed {
				continue // nothing to sync
			}
			if again := do(d); !errors.Is(first, c.cause) || c.ends != errors.Is(again, c.cause) ||
				c.ends != errors.Is(d.Log().Err(), c.cause) {
				t.Errorf("%s, %s fails: %v, then %v; the log: %v", name, c.op, first, again, d.Log().Err())
			}
			if names, err := memory.ReadDir("data"); !c.ends &&
				(err != nil || slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, tmpSuffix) })) {
				t.Errorf("%s leaves %v, %v", name, names, err)
			}
		}
	}
}
