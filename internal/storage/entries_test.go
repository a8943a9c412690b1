package storage

import (
	"fmt"
	"slices"
	"testing"

	"go.etcd.io/raft/v3"
)

// TestTailInMemory: which entries stay in memory, and for how many bytes these count: the newest within the budget, at
// least one, without a gap.
func TestTailInMemory(t *testing.T) {
	t.Parallel()
	const one = entryOverhead + 10 // an entry
	for _, c := range []struct {
		what    string
		budget  int
		appends [][2]uint64 // each the entries from one index to another
		want    []uint64
	}{
		{"within the budget", 3 * one, [][2]uint64{{5, 7}}, []uint64{5, 6, 7}},
		{"a byte less", 3*one - 1, [][2]uint64{{5, 7}}, []uint64{6, 7}},
		{"more", 3 * one, [][2]uint64{{5, 9}}, []uint64{7, 8, 9}},
		{"none fits", 1, [][2]uint64{{5, 9}}, []uint64{9}},
		{"the next one", 9 * one, [][2]uint64{{5, 7}, {8, 8}}, []uint64{5, 6, 7, 8}},
		{"the last one again", 9 * one, [][2]uint64{{5, 7}, {7, 7}}, []uint64{5, 6, 7}},
		{"the first one again", 9 * one, [][2]uint64{{5, 7}, {5, 5}}, []uint64{5}},
		{"before the first one", 9 * one, [][2]uint64{{5, 7}, {4, 4}}, []uint64{4}},
		{"behind a gap", 9 * one, [][2]uint64{{5, 7}, {9, 9}}, []uint64{9}},
		{"replaced, and more", 3 * one, [][2]uint64{{5, 7}, {6, 9}}, []uint64{7, 8, 9}},
	} {
		tail := tail{budget: c.budget}
		for n, a := range c.appends {
			for _, e := range batch(a[0], uint64(n+1), int(a[1]-a[0]+1), 10) {
				tail.append(e)
			}
		}
		var got []uint64
		for _, e := range tail.entries {
			got = append(got, e.GetIndex())
		}
		if !slices.Equal(got, c.want) || tail.bytes != len(c.want)*one {
			t.Errorf("%s: %v in memory, %d bytes", c.what, got, tail.bytes)
		}
	}
}

// TestEntriesOfAnySize: as many entries are read as raft's own storage gives, for each limit in bytes, of entries
// without data too.
func TestEntriesOfAnySize(t *testing.T) {
	t.Parallel()
	l := mustOpen(t, smallOptions(NewMemFS(), 1)).Log()
	mem := raft.NewMemoryStorage()
	for n, size := range []int{0, 0, 1, 127, 128, 0, 300} {
		list := batch(uint64(n+1), 1, 1, size)
		if len(list[0].Data) == 0 {
			list[0].Data = nil
		}
		if err := l.Append(hs(1, 0, 0), list, true); err != nil {
			t.Fatal(err)
		}
		if err := mem.Append(list); err != nil {
			t.Fatal(err)
		}
	}
	for limit := range uint64(700) {
		got, err := l.Entries(1, 8, limit)
		want, wantErr := mem.Entries(1, 8, limit)
		if len(got) != len(want) || err != nil || wantErr != nil {
			t.Fatalf("of %d bytes: %d entries, %v; want %d, %v", limit, len(got), err, len(want), wantErr)
		}
	}
}

// TestLargeBatchIsSplit: a batch is written as several frames if it is large, each filled as far as it goes, and the
// last one holds an entry at least.
func TestLargeBatchIsSplit(t *testing.T) {
	const half, rest = frameSizeAim / 2, frameSizeAim/2 - 2*recordHeaderSize // the records of both fill a frame
	for _, c := range []struct {
		sizes  []int
		frames int
	}{
		{[]int{half, rest - frameHeaderSize - trailerSize}, 1},
		{[]int{8, half, rest}, 2},
		{[]int{half, rest, half, rest}, 3},
	} {
		d := mustOpen(t, Options{FS: NewMemFS(), Dir: "data", ClusterID: 7, Go: func(f func()) { f() }})
		list := batch(1, 1, len(c.sizes), 0)
		for i, size := range c.sizes {
			list[i].Data = make([]byte, size)
		}
		if err := d.Log().Append(hs(1, 0, 0), list, true); err != nil {
			t.Fatal(err)
		}
		if n := d.Log().Stats().Appends; n != uint64(c.frames) {
			t.Errorf("entries of %s: %d frames, want %d", fmt.Sprint(c.sizes), n, c.frames)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
