package server

import (
	"runtime/debug"
	"time"

	"github.com/zooid-project/zooid/internal/memory"
)

const (
	// memoryInterval is the time between two updates of the memory account. It is memoryIntervalTight while more than
	// half of the ceiling is used, while somebody waits for room, after an interval in which more than one
	// memoryGrowthShare of it was taken, or while there is more to compact.
	memoryInterval      = time.Second
	memoryGrowthShare   = 16
	memoryIntervalTight = 100 * time.Millisecond
	// compactSteps is how many steps of compaction are done between two updates of the account, with
	// compactPause after each: they take a tenth of the time at most.
	compactSteps = 50
	compactPause = 2 * time.Millisecond
	// memoryLogPause is the least time between two log lines about memory.
	memoryLogPause = 10 * time.Second
	// heapLimitStep is how far the Go heap limit may be off before it is set again.
	heapLimitStep = 4 << 20
)

// watchMemory updates the account until the server stops; step is the step in force.
func (s *Server) watchMemory(step memory.Step) {
	defer s.wg.Done()
	var told time.Time
	var total, heap int64
	pause := memoryInterval
	for s.pause(pause) {
		more := s.compact()
		u, now := s.lookAtMemory()
		if most := memory.HeapLimit(s.opt.MemoryMost, s.opt.MemoryLimit, u.Tree); max(heap-most, most-heap) > heapLimitStep {
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
		if pause = memoryInterval; more || total > s.opt.MemoryLimit/2 || grew > s.opt.MemoryLimit/memoryGrowthShare ||
			s.replica.RoomAwaited() {
			pause = memoryIntervalTight
		}
	}
}

// compact makes the tree give back memory, in steps between which others get their turn, and
// reports whether there is more to do.
func (s *Server) compact() (more bool) {
	for range compactSteps {
		if more = s.replica.Compact(); !more || !s.pause(compactPause) {
			break
		}
	}
	return more
}

// lookAtMemory updates the account and returns the step that the limit calls for.
func (s *Server) lookAtMemory() (memory.Use, memory.Step) {
	return s.replica.AccountMemory(s.peer.Buffered(), s.opt.MemoryLimit)
}
