package memory

import (
	"bytes"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// limitShare of the machine's memory, in percent, or of what its control group may
// have, is the default of the ceiling.
const limitShare = 70

// DefaultLimit returns the memory (bytes) that a server may use by default, 0
// if the system doesn't say how much there is. root is its file system: os.DirFS("/").
func DefaultLimit(root fs.FS) int64 { return Most(root) / 100 * limitShare }

// Most returns the memory (bytes) that a process can have before the kernel ends it, 0 if the system doesn't say.
func Most(root fs.FS) int64 {
	least := machineMemory(root)
	for _, n := range groupLimits(root) {
		if n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// heapShare of what the process can have, in percent and less what lies outside of Go's heap, is all that its runtime
// takes before it collects garbage at any price (GOMEMLIMIT). heapLeast is left to it in any case.
const (
	heapShare = 90
	heapLeast = 64 << 20
)

// HeapLimit returns the limit of Go's runtime, 0 for none, where most is what the process can have and outside what
// lies outside of the heap.
func HeapLimit(most, outside int64) int64 {
	if most <= 0 {
		return 0
	}
	return max(most/100*heapShare-outside, heapLeast)
}

// machineMemory reads the size of the machine's memory, 0 if there is no telling.
func machineMemory(root fs.FS) int64 {
	b, _ := fs.ReadFile(root, "proc/meminfo")
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "MemTotal:"); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return n << 10
		}
	}
	return 0
}

// groupLimits returns the limits of this process's control group and of those above
// it, of version 2 and 1. In a container the process sees its own group as the
// topmost one, whatever path it is told.
func groupLimits(root fs.FS) (limits []int64) {
	b, _ := fs.ReadFile(root, "proc/self/cgroup")
	for line := range bytes.Lines(b) {
		parts := strings.SplitN(strings.TrimSpace(string(line)), ":", 3)
		if len(parts) != 3 {
			continue
		}
		switch {
		case parts[1] == "":
			limits = append(limits, limitsAbove(root, "sys/fs/cgroup", parts[2], "memory.max")...)
		case strings.Contains(","+parts[1]+",", ",memory,"):
			limits = append(limits, limitsAbove(root, "sys/fs/cgroup/memory", parts[2], "memory.limit_in_bytes")...)
		}
	}
	return limits
}

// limitsAbove reads a file of a group and of each above it; "max" and what isn't
// there count for nothing.
func limitsAbove(root fs.FS, mount, group, file string) (limits []int64) {
	for dir := path.Clean("/" + group); ; dir = path.Dir(dir) {
		b, err := fs.ReadFile(root, path.Join(mount, dir, file))
		if n, parseErr := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && parseErr == nil {
			limits = append(limits, n)
		}
		if dir == "/" {
			return limits
		}
	}
}
