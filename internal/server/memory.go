package server

import (
	"runtime/debug"
	"time"

	"github.com/zooid-project/zooid/internal/memory"
)

const (
	// memoryInterval is the time between two looks at the account; beyond half of the
	// ceiling, or after one in which a memoryGrowthShare of it was taken, it is
	// memoryIntervalTight.
	memoryInterval      = time.Second
	memoryGrowthShare   = 16
	memoryIntervalTight = 100 * time.Millisecond
	// compactSteps, with a compactPause behind each, are done between two looks at the
	// account: a tenth of the time at the most.
	compactSteps = 50
	compactPause = 2 * time.Millisecond
	// memoryLogPause is the least time between two lines of the log about it.
	memoryLogPause = 10 * time.Second
	// heapLimitStep is how far the limit of Go's heap must be from the right one to be set anew.
	heapLimitStep = 4 << 20
)

// watchMemory looks at the account until the server stops; step is the one in force.
func (s *Server) watchMemory(step memory.Step) {
	defer s.wg.Done()
	var told time.Time
	var total, heap int64
	pause := memoryInterval
	for s.pause(pause) {
		more := s.compact()
		u, now := s.lookAtMemory()
		if most := memory.HeapLimit(s.opt.MemoryMost, u.Tree); max(heap-most, most-heap) > heapLimitStep {
			heap = most
			debug.SetMemoryLimit(heap)
		}
		if now != step && time.Since(told) >= memoryLogPause {
			told = time.Now()
			memory.Report(s.log, now, &u, s.opt.MemoryLimit)
		}
		step = now
		grew := u.Total() - total
		total = u.Total()
		if pause = memoryInterval; more || total > s.opt.MemoryLimit/2 || grew > s.opt.MemoryLimit/memoryGrowthShare {
			pause = memoryIntervalTight
		}
	}
}

// compact has the tree give memory back, in steps that others get their turn between, and
// reports whether there is more to do.
func (s *Server) compact() (more bool) {
	for range compactSteps {
		if more = s.replica.Compact(); !more || !s.pause(compactPause) {
			break
		}
	}
	return more
}

// lookAtMemory adds the account up and takes the step that follows.
func (s *Server) lookAtMemory() (memory.Use, memory.Step) {
	return s.replica.AccountMemory(s.peer.Buffered(), s.opt.MemoryLimit)
}
