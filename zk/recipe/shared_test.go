package recipe_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zk/recipe"
)

// Readers share, a writer excludes, and who comes later doesn't overtake.
func TestRWLockOrder(t *testing.T) {
	each(t, func(a *arena) {
		c := a.client()
		l := recipe.NewRWLock(c, "/rw", recipe.Options{})
		first, err := l.Reader().Lock(a.ctx)
		a.must(err)
		second, err := l.Reader().TryLock(a.ctx)
		a.must(err)
		if _, err := l.Writer().TryLock(a.ctx); !errors.Is(err, recipe.ErrTaken) {
			t.Errorf("a writer beside readers: %v", err)
		}
		var order []string
		var wg sync.WaitGroup
		queue := func(name string, side *recipe.Side) {
			n := len(a.children(c, "/rw"))
			wg.Go(func() {
				h, err := side.Lock(a.ctx)
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, name) // guarded by the lock: writers and readers alternate here
				if err := h.Unlock(a.ctx); err != nil {
					t.Error(err)
				}
			})
			a.eventually(name+" is in line", func() bool { return len(a.children(c, "/rw")) == n+1 })
		}
		queue("writer 1", l.Writer())
		queue("reader", l.Reader())
		queue("writer 2", l.Writer())
		if _, err := l.Reader().TryLock(a.ctx); !errors.Is(err, recipe.ErrTaken) {
			t.Errorf("a reader behind writers: %v", err)
		}
		if list, err := l.Participants(a.ctx); err != nil || len(list) != 5 || list[0].Token != first.Token() {
			t.Errorf("participants %+v, %v", list, err)
		}
		a.must(first.Unlock(a.ctx))
		a.must(second.Unlock(a.ctx))
		wg.Wait()
		if want := []string{"writer 1", "reader", "writer 2"}; !slices.Equal(order, want) {
			t.Errorf("order %q, want %q", order, want)
		}
	})
}

// Under cuts a writer is alone, readers are among readers, and nobody is stuck.
func TestRWLockUnderCuts(t *testing.T) {
	each(t, func(a *arena) {
		over := a.storm(a.cut)
		var readers, writers atomic.Int32
		var wg sync.WaitGroup
		for i := range 5 {
			l := recipe.NewRWLock(a.client(), "/rw", recipe.Options{})
			side, mine := l.Reader(), &readers
			if i < 2 {
				side, mine = l.Writer(), &writers
			}
			wg.Go(func() {
				for round := 0; round < 3 || !finished(over); round++ {
					h, err := side.Lock(a.ctx)
					if err != nil {
						t.Errorf("lock: %v", err)
						return
					}
					mine.Add(1)
					if w, r := writers.Load(), readers.Load(); w > 1 || w == 1 && r > 0 {
						t.Errorf("%d writers and %d readers inside", w, r)
					}
					mine.Add(-1)
					if err := h.Unlock(a.ctx); err != nil {
						t.Errorf("unlock: %v", err)
					}
				}
			})
		}
		wg.Wait()
	})
}

// Under cuts there are never more leases than allowed, and afterwards still as
// many.
func TestSemaphoreUnderCuts(t *testing.T) {
	each(t, func(a *arena) {
		const leases = 2
		over := a.storm(a.cut)
		var inside atomic.Int32
		var wg sync.WaitGroup
		for range 5 {
			s := recipe.NewSemaphore(a.client(), "/sem", leases, recipe.Options{})
			wg.Go(func() {
				for round := 0; round < 3 || !finished(over); round++ {
					h, err := s.Acquire(a.ctx)
					if err != nil {
						t.Errorf("acquire: %v", err)
						return
					}
					n := inside.Add(1)
					if n > leases {
						t.Errorf("%d leases at a time", n)
					}
					time.Sleep(2 * time.Millisecond)
					inside.Add(-1)
					if err := h.Unlock(a.ctx); err != nil {
						t.Errorf("unlock: %v", err)
					}
				}
			})
		}
		wg.Wait()
		c := a.client()
		var all []*recipe.Held
		for range leases {
			h, err := recipe.NewSemaphore(c, "/sem", leases, recipe.Options{}).Acquire(a.ctx)
			a.must(err)
			all = append(all, h)
		}
		for _, h := range all {
			a.must(h.Unlock(a.ctx))
		}
		if left := append(a.children(c, "/sem/leases"), a.children(c, "/sem/locks")...); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	})
}

// A lease of an expired session goes to the next; a waiter that gives up leaves
// nothing.
func TestSemaphoreLoss(t *testing.T) {
	each(t, func(a *arena) {
		s, other := a.source(), a.client()
		c, err := s.Client(a.ctx)
		a.must(err)
		lease, err := recipe.NewSemaphore(c, "/sem", 1, recipe.Options{Data: []byte("me")}).Acquire(a.ctx)
		a.must(err)
		waiter := recipe.NewSemaphore(other, "/sem", 1, recipe.Options{})
		short, cancel := context.WithTimeout(a.ctx, 100*time.Millisecond)
		defer cancel()
		if _, err := waiter.Acquire(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("acquire: %v", err)
		}
		a.eventually("only the lease is left", func() bool {
			return len(a.children(other, "/sem/leases")) == 1 && len(a.children(other, "/sem/locks")) == 0
		})
		if list, err := waiter.Leases(a.ctx); err != nil || len(list) != 1 || string(list[0].Data) != "me" ||
			list[0].Token != lease.Token() {
			t.Errorf("leases %+v, %v", list, err)
		}
		a.expire(s)
		got, err := waiter.Acquire(a.ctx)
		a.must(err)
		<-lease.Context().Done()
		if got.Token() <= lease.Token() {
			t.Errorf("token 0x%x after 0x%x", got.Token(), lease.Token())
		}
	})
}

// One lock given twice is refused before anything is locked. The same path in another session may be another
// ensemble's, and two readers don't wait for each other.
func TestLockAllTwice(t *testing.T) {
	each(t, func(a *arena) {
		c := a.client()
		opt := recipe.Options{}
		rw := recipe.NewRWLock(c, "/b", opt)
		for name, lockers := range map[string][]recipe.Locker{
			"one mutex":     {recipe.NewMutex(c, "/b", opt), recipe.NewMutex(c, "/a", opt), recipe.NewMutex(c, "/b", opt)},
			"both sides":    {rw.Reader(), rw.Writer()},
			"three readers": {rw.Reader(), rw.Reader(), rw.Reader()},
		} {
			ctx, cancel := context.WithCancel(a.ctx)
			if _, err := recipe.LockAll(ctx, lockers...); err == nil ||
				!strings.Contains(err.Error(), "the lock /b is given twice") {
				t.Errorf("%s: %v", name, err)
			}
			cancel()
		}
		if left := a.children(c, "/"); slices.Contains(left, "a") || slices.Contains(left, "b") {
			t.Errorf("something was locked: %v", left)
		}
		both, err := recipe.LockAll(a.ctx, recipe.NewRWLock(c, "/b", opt).Reader(),
			recipe.NewRWLock(a.client(), "/b", opt).Reader())
		a.must(err)
		a.must(both.Unlock(a.ctx))
	})
}

// Two who take the same locks in opposite order don't block each other, and all is
// given back when one lock can't be had.
func TestLockAll(t *testing.T) {
	each(t, func(a *arena) {
		var wg sync.WaitGroup
		for i := range 2 {
			c := a.client()
			x, y := recipe.NewMutex(c, "/x", recipe.Options{}), recipe.NewRWLock(c, "/y", recipe.Options{}).Writer()
			lockers := []recipe.Locker{x, y}
			if i == 1 {
				lockers = []recipe.Locker{y, x}
			}
			wg.Go(func() {
				for range 20 {
					all, err := recipe.LockAll(a.ctx, lockers...)
					if err != nil {
						t.Error(err)
						return
					}
					if err := all.Unlock(a.ctx); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		c := a.client()
		x, y := recipe.NewMutex(c, "/x", recipe.Options{}), recipe.NewMutex(a.client(), "/z", recipe.Options{})
		held, err := y.Lock(a.ctx)
		a.must(err)
		short, cancel := context.WithTimeout(a.ctx, 100*time.Millisecond)
		defer cancel()
		if _, err := recipe.LockAll(short, y, x); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("lock all: %v", err)
		}
		a.eventually("nothing but the other's lock is left", func() bool {
			return len(a.children(c, "/x")) == 0 && len(a.children(c, "/z")) == 1
		})
		a.must(held.Unlock(a.ctx))
		all, err := recipe.LockAll(a.ctx, x, y)
		a.must(err)
		before := []context.Context{all.Context(), all.Locks[0].Context(), all.Locks[1].Context()}
		a.cut()
		for _, sure := range before { // a loss that is noticed later would end the new context
			<-sure.Done()
		}
		a.eventually("all are confirmed", func() bool {
			a.must(all.Confirm(a.ctx))
			return all.Context().Err() == nil
		})
		_, err = c.Multi(a.ctx, all.Guards()...)
		a.must(err)
		a.must(c.Delete(a.ctx, all.Locks[0].Path(), zk.AnyVersion))
		<-all.Context().Done()
		if err := all.Confirm(a.ctx); !errors.Is(err, recipe.ErrLost) {
			t.Errorf("confirm: %v", err)
		}
		if cause := context.Cause(all.Context()); !errors.Is(cause, recipe.ErrLost) {
			t.Errorf("cause %v", cause)
		}
		if _, err := c.Multi(a.ctx, all.Guards()...); !errors.Is(err, zk.ErrNoNode) {
			t.Errorf("guarded: %v", err)
		}
		if err := all.Unlock(a.ctx); !errors.Is(err, recipe.ErrLost) {
			t.Errorf("unlock: %v", err)
		}
	})
}

func TestBarrier(t *testing.T) {
	each(t, func(a *arena) {
		c := a.client()
		b := recipe.NewBarrier(c, "/deep/barrier", recipe.Options{})
		a.must(b.Wait(a.ctx))
		a.must(b.Set(a.ctx))
		a.must(b.Set(a.ctx))
		var wg sync.WaitGroup
		var through atomic.Int32
		for range 3 {
			other := recipe.NewBarrier(a.client(), "/deep/barrier", recipe.Options{})
			wg.Go(func() {
				if err := other.Wait(a.ctx); err != nil {
					t.Error(err)
				}
				through.Add(1)
			})
		}
		for range 5 {
			a.cut()
			a.must(c.Sync(a.ctx, "/"))
		}
		if through.Load() > 0 {
			t.Error("somebody passed")
		}
		a.must(b.Remove(a.ctx))
		a.must(b.Remove(a.ctx))
		wg.Wait()
	})
}

// All begin together and end together, whatever happens to connections.
func TestDoubleBarrier(t *testing.T) {
	each(t, func(a *arena) {
		const members = 4
		over := a.storm(a.cut)
		clients := make([]*zk.Client, members)
		for i := range clients {
			clients[i] = a.client()
		}
		for round := 0; round < 2 || !finished(over); round++ {
			path := "/rounds/" + string(rune('a'+round%26)) + time.Now().Format("150405.000000000")
			var entered, leaving atomic.Int32
			var wg sync.WaitGroup
			for _, c := range clients {
				wg.Go(func() {
					b := recipe.NewDoubleBarrier(c, path, members, recipe.Options{})
					entered.Add(1)
					if err := b.Enter(a.ctx); err != nil {
						t.Errorf("enter: %v", err)
					}
					if n := entered.Load(); n != members {
						t.Errorf("entered when %d of %d had come", n, members)
					}
					leaving.Add(1)
					if err := b.Leave(a.ctx); err != nil {
						t.Errorf("leave: %v", err)
					}
					if n := leaving.Load(); n != members {
						t.Errorf("left when %d of %d wanted to", n, members)
					}
				})
			}
			wg.Wait()
			if left := a.children(clients[0], path); len(left) > 0 {
				t.Errorf("left behind: %q", left)
			}
			if t.Failed() {
				return
			}
		}
	})
}

// A member that gives up, or whose session expires, is no member.
func TestDoubleBarrierLoss(t *testing.T) {
	each(t, func(a *arena) {
		c, s := a.client(), a.source()
		short, cancel := context.WithTimeout(a.ctx, 50*time.Millisecond)
		defer cancel()
		if err := recipe.NewDoubleBarrier(c, "/b", 2, recipe.Options{}).Enter(short); !errors.Is(err,
			context.DeadlineExceeded) {
			t.Errorf("enter: %v", err)
		}
		a.eventually("nobody is left", func() bool { return len(a.children(c, "/b")) == 0 })
		lost, err := s.Client(a.ctx)
		a.must(err)
		result := make(chan error, 1)
		go func() { result <- recipe.NewDoubleBarrier(lost, "/b", 3, recipe.Options{}).Enter(a.ctx) }()
		a.eventually("the member has come", func() bool { return len(a.children(c, "/b")) == 1 })
		a.expire(s)
		if err := <-result; !errors.Is(err, zk.ErrSessionExpired) {
			t.Errorf("enter: %v", err)
		}
		if left := a.children(c, "/b"); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	})
}
