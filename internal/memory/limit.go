package memory

import (
	"bytes"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// limitShare is the default of the ceiling: a share, in percent, of the machine's memory or of the control group's
// limit.
const limitShare = 70

// DefaultLimit returns the memory, in bytes, that a server may use by default; 0 if the system doesn't say how much
// there is. root is the root file system: os.DirFS("/").
func DefaultLimit(root fs.FS) int64 { return Most(root) / 100 * limitShare }

// Most returns the memory, in bytes, that a process can use before the kernel kills it; 0 if the system doesn't say.
func Most(root fs.FS) int64 {
	least := machineMemory(root)
	for _, n := range groupLimits(root) {
		if n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// heapShare limits the memory of Go's runtime (GOMEMLIMIT): it is a share, in percent, of the memory that the process
// can use, minus the memory outside Go's heap. The runtime gets at least heapLeast in any case.
const (
	heapShare = 90
	heapLeast = 64 << 20
)

// HeapLimit returns the memory limit for Go's runtime, 0 for none. most is the memory that the process can use, 0 if
// unknown; limit is memory.limit, 0 or less for none; and outside is the memory outside the heap. A limit counts as its
// default: a limitShare of the memory that the process can use.
func HeapLimit(most, limit, outside int64) int64 {
	if of := limit / limitShare * 100; of > 0 && (of < most || most <= 0) {
		most = of
	}
	if most <= 0 {
		return 0
	}
	return max(most/100*heapShare-outside, heapLeast)
}

// machineMemory returns the size of the machine's memory, 0 if it is unknown.
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

// groupLimits returns the limits of this process's control group and its parents, in cgroup versions 2 and 1. In a
// container the process's own group appears as the root, whatever path /proc reports.
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

// limitsAbove reads a file of a group and of each of its parents; it skips "max" and missing files.
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
