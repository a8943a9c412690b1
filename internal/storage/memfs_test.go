package storage

import (
	"bytes"
	"math/rand/v2"
	"syscall"
	"testing"
)

// TestPowerCutKeepsAnything: of what was written and not synced, a power cut keeps nothing, all or a part: each of
// these happens. Nothing else changes.
func TestPowerCutKeepsAnything(t *testing.T) {
	t.Parallel()
	memory, f := oldSectors(t, 8)
	if _, err := f.WriteAt(bytes.Repeat([]byte{'n'}, 4*sectorSize), sectorSize); err != nil {
		t.Fatal(err)
	}
	none, part, all := 0, 0, 0
	for seed := range uint64(64) {
		b := memory.CrashClone(rand.New(rand.NewPCG(seed, 1))).content("file")
		if len(b) != 8*sectorSize || bytes.IndexByte(b[:sectorSize], 'n') >= 0 ||
			bytes.IndexByte(b[5*sectorSize:], 'n') >= 0 {
			t.Fatal("a sector changed that nobody had written to")
		}
		switch bytes.Count(b, []byte{'n'}) {
		case 0:
			none++
		case 4 * sectorSize:
			all++
		default:
			part++
		}
	}
	if none == 0 || part == 0 || all == 0 {
		t.Errorf("nothing is kept in %d cases, a part in %d, all in %d", none, part, all)
	}
}

// TestFailedSyncStaysLost: what a failed sync dropped isn't written by a later one, even if that writes the sector
// before.
func TestFailedSyncStaysLost(t *testing.T) {
	t.Parallel()
	memory, f := oldSectors(t, 3)
	if _, err := f.WriteAt(bytes.Repeat([]byte{'n'}, 3*sectorSize), 0); err != nil {
		t.Fatal(err)
	}
	memory.Hook = func(c Call) error {
		if c.Op == "fdatasync" {
			return syscall.EIO
		}
		return nil
	}
	if err := f.Fdatasync(); err == nil {
		t.Fatal("the sync doesn't fail")
	}
	memory.Hook = nil
	if _, err := f.WriteAt(bytes.Repeat([]byte{'m'}, sectorSize), sectorSize); err != nil {
		t.Fatal(err)
	}
	if err := f.Fdatasync(); err != nil {
		t.Fatal(err)
	}
	b := memory.CrashClone(rand.New(rand.NewPCG(1, 1))).content("file")
	want := append(append(bytes.Repeat([]byte{'o'}, sectorSize), bytes.Repeat([]byte{'m'}, sectorSize)...),
		bytes.Repeat([]byte{'o'}, sectorSize)...)
	if !bytes.Equal(b, want) {
		t.Errorf("the sectors hold %c, %c and %c", b[0], b[sectorSize], b[2*sectorSize])
	}
}

// oldSectors makes a file of sectors that are on the disk.
func oldSectors(t *testing.T, n int) (*MemFS, File) {
	t.Helper()
	memory := NewMemFS()
	if err := memory.MkdirAll("data"); err != nil {
		t.Fatal(err)
	}
	f, err := memory.Create("data/file")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(bytes.Repeat([]byte{'o'}, n*sectorSize), 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Fdatasync(); err != nil {
		t.Fatal(err)
	}
	if err := memory.SyncDir("data"); err != nil {
		t.Fatal(err)
	}
	return memory, f
}
