package main

import (
	"time"

	"golang.org/x/sys/unix"
)

// Limits of a process with a mutant, which may loop, allocate, or write forever.
const (
	memoryMax = 6 << 30
	fileMax   = 2 << 30
)

// bound limits a process: its processor time, in whole seconds beyond most, memory, and the size of files. It returns
// the processor time.
func bound(pid int, most time.Duration) time.Duration {
	spin := uint64(most.Seconds()) + 1
	_ = unix.Prlimit(pid, unix.RLIMIT_CPU, &unix.Rlimit{Cur: spin, Max: spin + 1}, nil)
	_ = unix.Prlimit(pid, unix.RLIMIT_AS, &unix.Rlimit{Cur: memoryMax, Max: memoryMax}, nil)
	_ = unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: fileMax, Max: fileMax}, nil)
	return time.Duration(spin) * time.Second
}
