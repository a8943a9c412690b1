package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/memory"
	"github.com/zooid-project/zooid/internal/storage"
)

const (
	// fsyncProbes is how many writes measure the disk; the second slowest is the 99th percentile.
	fsyncProbes = 100
	// fsyncSlow is longer than most writes take on any disk that is fit for a log, and fsyncFault is longer than elections
	// tolerate.
	fsyncSlow  = 25 * time.Millisecond
	fsyncFault = 500 * time.Millisecond

	mib = 1 << 20
	gib = 1 << 30

	descriptorsMin = 4096
	memoryMin      = 256 * mib
)

// disk measures how long a small write takes to become durable.
func (e *examination) disk() {
	dirs := e.present()
	if e.noDisk || len(dirs) == 0 {
		return
	}
	dir := dirs[len(dirs)-1]
	if s, err := e.world.Space(dir); err == nil && s.KindName != "" {
		if s.KindsUnstable {
			e.fault("put dataDir and dataLogDir on a disk", "%s is on %s: acknowledged writes are lost in a power failure",
				dir, s.KindName)
		} else {
			e.warn("put dataDir and dataLogDir on a local disk with ext4 or XFS", "%s is on %s, which makes writes durable slowly, or not at all",
				dir, s.KindName)
		}
	}
	if s, err := e.world.Space(dir); err == nil && s.Copies != "" {
		e.warn("put dataLogDir on ext4, XFS or btrfs, or reserve space for it", "%s is on %s, which copies data on overwrite: when it is full, sessions can't begin or end (ZD-2025)",
			dir, s.Copies)
	}
	took, err := e.fsyncs(dir)
	if errors.Is(err, errHangs) {
		e.fault("see the kernel's log and the disk's state (dmesg, iostat -x 1); move the data to another disk", "%s: %d small writes were not durable within %v: the disk hangs, or is far too slow",
			dir, fsyncProbes, e.world.FsyncPatience)
		return
	}
	if errors.Is(err, fs.ErrPermission) {
		e.denied(e.world.UID, "%s: %v", dir, err)
		return
	}
	if err != nil {
		e.fault("let the server's user write there, and look at the kernel's log for errors of the disk", "%s: a write can't be made durable: %v",
			dir, err)
		return
	}
	p99 := took[len(took)*99/100]
	const do = "give the log a disk of its own (dataLogDir), an SSD with power-loss protection; find out what else writes to it: iostat -x 1"
	switch {
	case p99 > fsyncFault:
		e.fault(do, "%s: one write in a hundred takes %v to be durable; that makes servers lose their leader", dir,
			p99.Round(time.Millisecond))
	case p99 > fsyncSlow:
		e.warn(do, "%s: one write in a hundred takes %v to be durable, and every write of the ensemble waits for it", dir,
			p99.Round(time.Millisecond))
	}
}

// errHangs is returned by fsyncs if the disk hangs.
var errHangs = errors.New("the disk hangs")

// fsyncs measures the disk for at most World.FsyncPatience. If that isn't enough, the attempt continues on its
// goroutine: nothing can end a write that the disk holds.
func (e *examination) fsyncs(dir string) (took []time.Duration, err error) {
	type measured struct {
		took []time.Duration
		err  error
	}
	done := make(chan measured, 1)
	go func() {
		took, err := e.world.Fsync(dir, fsyncProbes)
		done <- measured{took, err}
	}()
	select {
	case m := <-done:
		return m.took, m.err
	case <-time.After(e.world.FsyncPatience):
		return nil, errHangs
	}
}

// space reports disks that are nearly full.
func (e *examination) space() {
	for _, dir := range e.dirs() {
		at := dir
		for !e.readable(at) && at != filepath.Dir(at) {
			at = filepath.Dir(at)
		}
		s, err := e.world.Space(at)
		if err != nil || s.Total == 0 {
			continue
		}
		const do = "free space on it, or give the data a larger disk"
		limits := storage.SpaceLimitsOf(s.Total)
		switch limits.Level(s.Free, s.Total, 0, 0) {
		case storage.SpaceRefuse:
			e.fault(do, "%s: %d MiB of %d MiB are free: the server refuses writes", dir, s.Free/mib, s.Total/mib)
		case storage.SpaceWarn:
			e.warn(do, "%s: %d MiB of %d MiB are free", dir, s.Free/mib, s.Total/mib)
		}
		const remove = "remove small files on it"
		switch limits.Level(s.Total, s.Total, s.InodesFree, s.Inodes) {
		case storage.SpaceRefuse:
			e.fault(remove, "%s: the file system has inodes for %d more files only: the server refuses writes", dir, s.InodesFree)
		case storage.SpaceWarn:
			e.warn(remove, "%s: the file system has inodes for %d more files only", dir, s.InodesFree)
		}
	}
}

// descriptors reports a limit of open files that is too low.
func (e *examination) descriptors() {
	n := e.world.OpenFiles()
	wanted := int64(descriptorsMin)
	if c := int64(e.cfg.Limits.MaxCnxns); c > 0 {
		wanted = c + c/10 + 1024
	}
	if n > 0 && n < wanted {
		e.warn(fmt.Sprintf("raise it: LimitNOFILE=%d in the unit, or ulimit -n", max(wanted, 65536)), "this user may open %d files, but a server with this configuration needs %d: connections beyond the limit are refused",
			n, wanted)
	}
}

// memory reports memory limits that contradict each other or are too low, and memory that may be swapped.
func (e *examination) memory() {
	usable := memory.DefaultLimit(e.world.System)
	if usable == 0 {
		return
	}
	if own := e.cfg.Limits.Memory; own > usable/8*10 {
		e.fault("set memory.limit below it, or leave it out: the default follows the control group", "memory.limit=%d MiB, but machine and control group leave %d MiB: the kernel would kill the server",
			own/mib, usable/mib)
	}
	if usable < memoryMin {
		e.warn("give the service at least 512 MiB (MemoryMax in the unit, resources.limits.memory in Kubernetes)", "machine and control group leave the server %d MiB",
			usable/mib)
	}
	swaps, err := fs.ReadFile(e.world.System, "proc/swaps")
	swappiness, _ := fs.ReadFile(e.world.System, "proc/sys/vm/swappiness")
	if err == nil && strings.Count(strings.TrimSpace(string(swaps)), "\n") > 0 &&
		strings.TrimSpace(string(swappiness)) != "0" && strings.TrimSpace(string(swappiness)) != "1" {
		e.warn("set vm.swappiness=1, or MemorySwapMax=0 in the unit", "memory may be swapped to disk (vm.swappiness=%s): a server that is swapped out loses its sessions",
			strings.TrimSpace(string(swappiness)))
	}
}

// hugePages reports transparent huge pages if they are on for all memory.
func (e *examination) hugePages() {
	b, err := fs.ReadFile(e.world.System, "sys/kernel/mm/transparent_hugepage/enabled")
	if err == nil && strings.Contains(string(b), "[always]") {
		e.warn("echo madvise > /sys/kernel/mm/transparent_hugepage/enabled, also at boot", "transparent huge pages are on for all memory: the server holds more memory than it uses, and the kernel pauses it to assemble them")
	}
}
