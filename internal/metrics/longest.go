package metrics

import (
	"sync"
	"sync/atomic"
)

// LongestWindow is the least time (ns) for which a Longest remembers a time; it remembers it for twice that at most.
const LongestWindow = int64(60e9)

// A Longest is the longest of the times noted lately: in the present window and in the one before it. Its zero value
// has none. To note a shorter time takes two loads. All methods may be called by several goroutines at once.
type Longest struct {
	window  atomic.Int64 // number of the present window
	longest atomic.Int64 // ns, in it

	mu     sync.Mutex
	before int64 // ns, in the window before the present one
}

// Note records what lasted from begun until end (ns).
func (l *Longest) Note(begun, end int64) {
	if took := end - begun; took > l.longest.Load() || end/LongestWindow != l.window.Load() {
		l.mu.Lock()
		l.turn(end)
		l.longest.Store(max(took, l.longest.Load()))
		l.mu.Unlock()
	}
}

// turn begins now's window (ns) if it is a later one; mu is held.
func (l *Longest) turn(now int64) {
	window := now / LongestWindow
	switch passed := window - l.window.Load(); {
	case passed <= 0:
		return
	case passed == 1:
		l.before = l.longest.Load()
	default:
		l.before = 0
	}
	l.longest.Store(0)
	l.window.Store(window)
}

// At returns the longest time (ns), at now (ns).
func (l *Longest) At(now int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turn(now)
	return max(l.before, l.longest.Load())
}
