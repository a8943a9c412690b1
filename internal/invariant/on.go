//go:build invariants || race

package invariant

import (
	"fmt"
	"sync"
)

// Checked reports whether the checks are compiled in.
const Checked = true

// Holds panics with text if ok is false.
func Holds(ok bool, text string) {
	if !ok {
		panic("invariant broken: " + text)
	}
}

// A Rank is a lock's place in the order in which locks are taken. A goroutine that holds a lock takes only locks of a
// higher rank, so a lock of the same rank is never taken twice.
type Rank interface{ Rank() int }

// A Mutex is a sync.Mutex with a place in the order of locks.
type Mutex[R Rank] struct{ mu sync.Mutex }

// Lock is sync.Mutex.Lock.
func (m *Mutex[R]) Lock() {
	taking(*new(R))
	m.mu.Lock()
}

// TryLock is sync.Mutex.TryLock.
func (m *Mutex[R]) TryLock() bool {
	if !m.mu.TryLock() {
		return false
	}
	taking(*new(R))
	return true
}

// Unlock is sync.Mutex.Unlock.
func (m *Mutex[R]) Unlock() {
	released(*new(R))
	m.mu.Unlock()
}

// Held panics unless some goroutine holds m.
func (m *Mutex[R]) Held() {
	if m.mu.TryLock() {
		m.mu.Unlock()
		Holds(false, fmt.Sprintf("nobody holds %T", *new(R)))
	}
}

// An RWMutex is a sync.RWMutex with a place in the order of locks.
type RWMutex[R Rank] struct {
	mu   sync.RWMutex
	left bool // no goroutine counts as its holder
}

// Lock is sync.RWMutex.Lock.
func (m *RWMutex[R]) Lock() {
	taking(*new(R))
	m.mu.Lock()
}

// RLock is sync.RWMutex.RLock.
func (m *RWMutex[R]) RLock() {
	taking(*new(R))
	m.mu.RLock()
}

// TryLock is sync.RWMutex.TryLock.
func (m *RWMutex[R]) TryLock() bool {
	if !m.mu.TryLock() {
		return false
	}
	taking(*new(R))
	return true
}

// TryRLock is sync.RWMutex.TryRLock.
func (m *RWMutex[R]) TryRLock() bool {
	if !m.mu.TryRLock() {
		return false
	}
	taking(*new(R))
	return true
}

// Unlock is sync.RWMutex.Unlock.
func (m *RWMutex[R]) Unlock() {
	if !m.left {
		released(*new(R))
	}
	m.left = false
	m.mu.Unlock()
}

// Leave says that the caller, which holds m for writing, leaves it to another goroutine to unlock m.
func (m *RWMutex[R]) Leave() {
	m.left = true
	released(*new(R))
}

// RUnlock is sync.RWMutex.RUnlock.
func (m *RWMutex[R]) RUnlock() {
	released(*new(R))
	m.mu.RUnlock()
}

// Held panics unless some goroutine holds m for writing.
func (m *RWMutex[R]) Held() {
	if m.mu.TryRLock() {
		m.mu.RUnlock()
		Holds(false, fmt.Sprintf("nobody holds %T for writing", *new(R)))
	}
}

// RHeld panics unless some goroutine holds m, at least for reading.
func (m *RWMutex[R]) RHeld() {
	if m.mu.TryLock() {
		m.mu.Unlock()
		Holds(false, fmt.Sprintf("nobody holds %T", *new(R)))
	}
}

// A Rising is a number that never falls. Its zero value has no number yet.
type Rising struct {
	last int64
	set  bool
}

// Take panics with text if n is smaller than the number taken before.
func (r *Rising) Take(n int64, text string) {
	if r.set && n < r.last {
		Holds(false, fmt.Sprintf("%s: %d after %d", text, n, r.last))
	}
	r.last, r.set = n, true
}
