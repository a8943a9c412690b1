//go:build !invariants && !race

package invariant

import "sync"

// Checked reports whether the checks are compiled in.
const Checked = false

// Holds panics with text if ok is false.
func Holds(ok bool, text string) {}

// A Rank is a lock's place in the order in which locks are taken. A goroutine that holds a lock takes only locks of a
// higher rank, so a lock of the same rank is never taken twice.
type Rank interface{ Rank() int }

// A Mutex is a sync.Mutex with a place in the order of locks.
type Mutex[R Rank] struct{ sync.Mutex }

// Held panics unless some goroutine holds m.
func (m *Mutex[R]) Held() {}

// An RWMutex is a sync.RWMutex with a place in the order of locks.
type RWMutex[R Rank] struct{ sync.RWMutex }

// Leave says that the caller, which holds m for writing, leaves it to another goroutine to unlock m.
func (m *RWMutex[R]) Leave() {}

// Held panics unless some goroutine holds m for writing.
func (m *RWMutex[R]) Held() {}

// RHeld panics unless some goroutine holds m, at least for reading.
func (m *RWMutex[R]) RHeld() {}

// A Rising is a number that never falls. Its zero value has no number yet.
type Rising struct{}

// Take panics with text if n is smaller than the number taken before.
func (r *Rising) Take(n int64, text string) {}
