package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/storage"
)

// TestLogExitCodes: 0 means that all of it is whole, and damage isn't the same as a
// directory that can't be read.
func TestLogExitCodes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, err := storage.Open(storage.Options{Dir: dir, ClusterID: 1, SegmentSize: 4096})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	segments, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(segments) == 0 {
		t.Fatalf("%q, %v", segments, err)
	}
	want := func(code int, says string, args ...string) {
		t.Helper()
		var out bytes.Buffer
		if got := run(append([]string{"log"}, args...), &out, &out); got != code || !strings.Contains(out.String(), says) {
			t.Errorf("zooid log %q: exit %d, %s; want %d and %q", args, got, out.String(), code, says)
		}
	}
	want(0, "", dir)
	want(0, "segment", "-files", dir)
	want(0, "", "-json", "-from", "0x200000001", "-to", "0x2ffffffff", dir)
	want(0, "nothing to repair", "-repair", dir)
	want(1, "there is no snapshot", "-snapshot", dir)
	want(2, "exclude each other", "-files", "-repair", dir)
	want(2, "isn't a zxid", "-from", "17", dir)
	want(2, "work only with transactions", "-repair", "-json", dir)
	want(2, "not defined", "-nonsense", dir)
	want(1, "no log segments", t.TempDir())
	want(1, "no such file", filepath.Join(dir, "none"))
	want(2, "usage", dir, dir, dir)
	b, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	b[20] ^= 1
	if err := os.WriteFile(segments[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	want(4, "damaged at offset 0", dir)
	want(4, "damaged at offset 0", "-files", dir)
	want(4, "nothing was changed", "-repair", dir)
}

// TestOutputToFullDisk: where the output goes is at fault, not the data directory, which has room.
func TestOutputToFullDisk(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	dir := t.TempDir()
	d, err := storage.Open(storage.Options{Dir: dir, ClusterID: 1, SegmentSize: 4096})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for says, args := range map[string][]string{ // any order: each case stands alone
		"zooid log: write the list: ":      {"log", "-files", dir},
		"zooid digest: print the digest: ": {"digest", "a:b"},
	} {
		var said bytes.Buffer
		if code := run(args, full, &said); code != 1 || !strings.HasPrefix(said.String(), says) ||
			strings.Contains(said.String(), "ZD-") {
			t.Errorf("zooid %q: exit %d, %s; want 1 and %q", args, code, said.String(), says)
		}
	}
}
