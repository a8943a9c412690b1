package memory

import (
	"testing"
	"testing/fstest"
)

// TestDefaultLimit takes the least of the machine's memory and the limits of its control groups, of version 2 and 1.
func TestDefaultLimit(t *testing.T) {
	t.Parallel()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	machine := file("MemTotal:       1000000 kB\nMemFree: 1 kB\n")
	for _, c := range []struct {
		name string
		root fstest.MapFS
		want int64 // bytes there are
	}{
		{"nothing is known", fstest.MapFS{}, 0},
		{"no groups", fstest.MapFS{"proc/meminfo": machine}, 1_000_000 << 10},
		{"version 2", fstest.MapFS{
			"proc/meminfo": machine, "proc/self/cgroup": file("0::/system.slice/zooid.service\n"),
			"sys/fs/cgroup/system.slice/zooid.service/memory.max": file("max\n"), "sys/fs/cgroup/system.slice/memory.max": file(
				"300000000\n"),
		}, 300_000_000},
		{"version 2 in a container", fstest.MapFS{
			"proc/meminfo": machine, "proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("200000000\n"),
		}, 200_000_000},
		{"version 1", fstest.MapFS{
			"proc/meminfo": machine, "proc/self/cgroup": file("5:cpu,cpuacct:/a\n4:memory:/docker/abc\n"),
			"sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes": file("100000000\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes":            file("9223372036854771712\n"),
		}, 100_000_000},
		{"version 1 in a container", fstest.MapFS{
			"proc/meminfo": machine, "proc/self/cgroup": file("4:memory:/docker/abc\n"),
			"sys/fs/cgroup/memory/memory.limit_in_bytes": file("50000000\n"),
		}, 50_000_000},
	} {
		if got := DefaultLimit(c.root); got != c.want/100*limitShare {
			t.Errorf("%s: %d, want %d", c.name, got, c.want/100*limitShare)
		}
	}
}

// TestHeapLimit: what Go's runtime may take is what the kernel allows, less a reserve and what lies outside of the
// heap.
func TestHeapLimit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ most, limit, outside, want int64 }{
		{0, 0, 5, 0}, {1000, 0, 0, heapLeast}, {1000 << 20, -1, 0, (1000 << 20) / 100 * 90},
		{1000 << 20, 0, 300 << 20, (1000<<20)/100*90 - 300<<20}, {256 << 20, 0, 200 << 20, heapLeast},
		{1000 << 20, 700 << 20, 0, (1000 << 20) / 100 * 90}, {1000 << 20, 800 << 20, 0, (1000 << 20) / 100 * 90},
		{1000 << 20, 70 << 20, 0, 90 << 20}, {0, 140 << 20, 10 << 20, 170 << 20},
	} {
		if got := HeapLimit(c.most, c.limit, c.outside); got != c.want {
			t.Errorf("of %d with limit %d and %d outside: %d, want %d", c.most, c.limit, c.outside, got, c.want)
		}
	}
}
