package storage

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
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
