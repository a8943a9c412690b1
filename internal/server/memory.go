package server

import (
	"runtime/debug"
	"time"

	"github.com/zooid-project/zooid/internal/memory"
)

const (
	// memoryInterval is the time between two updates of the memory account. It is memoryIntervalTight while more than half
	// of the ceiling is used, while a client waits for room, after an interval in which more than one memoryGrowthShare of
	// the ceiling was taken, or while there is more to compact.
	memoryInterval      = time.Second
	memoryGrowthShare   = 16
	memoryIntervalTight = 100 * time.Millisecond
	// compactSteps is how many steps of compaction are done between two updates of the account, with
	// compactPause after each: they take at most a tenth of the time.
	compactSteps = 50
	compactPause = 2 * time.Millisecond
	// memoryLogPause is the least time between two log lines about memory.
	memoryLogPause = 10 * time.Second
	// heapLimitStep is how far the Go heap limit may be off before it is set again.
	heapLimitStep = 4 << 20
)

// A memoryAccount determines how much memory is used, and the step that the limit calls for.
type memoryAccount struct{ *engine }

// watch updates the account until the server stops; step is the step in force.
func (m memoryAccount) watch(step memory.Step) {
	var told time.Time
	var total, heap int64
	pause := memoryInterval
	for m.pause(pause) {
		more := m.compact()
		u, now := m.look()
		if most := memory.HeapLimit(m.opt.MemoryMost, m.opt.MemoryLimit, u.Tree); max(heap-most, most-heap) > heapLimitStep {
			heap = most
			debug.SetMemoryLimit(heap)
		}
		if now != step && time.Since(told) >= memoryLogPause {
			told = time.Now()
			memory.Report(m.log, now, &u, m.opt.MemoryLimit)
		}
		step = now
		grew := u.Total() - total
		total = u.Total()
		if pause = memoryInterval; more || total > m.opt.MemoryLimit/2 || grew > m.opt.MemoryLimit/memoryGrowthShare ||
			m.replica.RoomAwaited() {
			pause = memoryIntervalTight
		}
	}
}

// compact makes the tree release memory, in steps between which others get a turn, and
// reports whether there is more to do.
func (m memoryAccount) compact() (more bool) {
	for range compactSteps {
		if more = m.replica.Compact(); !more || !m.pause(compactPause) {
			break
		}
	}
	return more
}

// look updates the account and returns the step that the limit calls for.
func (m memoryAccount) look() (memory.Use, memory.Step) {
	var lines int64
	if m.opt.Audit != nil {
		lines = m.opt.Audit.Log.Memory()
	}
	return m.replica.AccountMemory(m.peer.Buffered(), lines, m.opt.MemoryLimit)
}
