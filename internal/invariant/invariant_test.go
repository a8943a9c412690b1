//go:build (invariants || race) && (amd64 || arm64)

package invariant

import (
	"strings"
	"testing"
)

type (
	first  struct{}
	second struct{}
)

func (first) Rank() int  { return 1 }
func (second) Rank() int { return 2 }

// TestBroken breaks each invariant.
func TestBroken(t *testing.T) {
	var (
		a, b Mutex[first]
		c    Mutex[second]
		rw   RWMutex[second]
		r    Rising
	)
	for name, broken := range map[string]struct { // any order: each is a case of its own
		do   func()
		want string
	}{
		"Holds":             {func() { Holds(false, "one is two") }, "one is two"},
		"order":             {func() { c.Lock(); defer c.Unlock(); a.Lock() }, "ranks [2] takes one of rank 1"},
		"order of readers":  {func() { rw.RLock(); defer rw.RUnlock(); a.Lock() }, "ranks [2] takes one of rank 1"},
		"same rank":         {func() { a.Lock(); defer a.Unlock(); b.Lock() }, "ranks [1] takes one of rank 1"},
		"twice for reading": {func() { rw.RLock(); defer rw.RUnlock(); rw.RLock() }, "ranks [2] takes one of rank 2"},
		"not its own":       {func() { a.Unlock() }, "releases a lock of rank 1"},
		"Held":              {func() { a.Held() }, "nobody holds invariant.first"},
		"Held for writing":  {func() { rw.RLock(); defer rw.RUnlock(); rw.Held() }, "for writing"},
		"RHeld":             {func() { rw.RHeld() }, "nobody holds invariant.second"},
		"Rising":            {func() { r.Take(5, "the number"); r.Take(5, ""); r.Take(4, "the number") }, "the number: 4 after 5"},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				text, _ := recover().(string)
				if !strings.HasPrefix(text, "invariant broken: ") || !strings.Contains(text, broken.want) {
					t.Errorf("panic %q, want one that contains %q", text, broken.want)
				}
			}()
			broken.do()
		})
	}
}

// TestKept uses locks in their order, also in two goroutines at once.
func TestKept(t *testing.T) {
	var a Mutex[first]
	var rw RWMutex[second]
	a.Lock()
	done := make(chan bool)
	go func() {
		defer close(done)
		rw.RLock()
		defer rw.RUnlock()
		rw.RHeld()
		if a.TryLock() {
			t.Error("took a lock that another goroutine holds")
		}
	}()
	<-done
	rw.Lock()
	rw.Held()
	rw.RHeld()
	a.Held()
	a.Unlock() // not in the order of the locks
	rw.Unlock()
	if !a.TryLock() || !rw.TryRLock() {
		t.Fatal("a free lock can't be taken")
	}
	rw.RUnlock()
	a.Unlock()
	if !rw.TryLock() {
		t.Fatal("a free lock can't be taken")
	}
	rw.Leave()
	done = make(chan bool)
	go func() { rw.Unlock(); close(done) }()
	<-done
	rw.Lock()
	rw.Unlock()
}
