package recipe_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk/recipe"
	"github.com/zooid-project/zooid/zktest"
)

// restart stops server i, if there is one, for a moment.
func restart(e *zktest.Ensemble, i int) {
	if i < 0 {
		return
	}
	e.Stop(i)
	time.Sleep(100 * time.Millisecond)
	e.Start(i)
}

// rolling returns a fault that restarts one server of three after the other.
func rolling(e *zktest.Ensemble) func() {
	next := 0
	return func() {
		next = (next + 1) % 3
		restart(e, next)
	}
}

// While the leader of an ensemble stops again and again, connections are cut and the sessions of holders and waiters
// expire, guarded writes work as if the lock were never lost, and no caller waits forever.
func TestEnsembleGuards(t *testing.T) {
	t.Parallel()
	e := zktest.Start(t, zktest.Options{Servers: 3})
	guardedCount(newArena(t, e.Connect(), e.Cut, nil), e.Cut, func() { restart(e, e.Leader()) })
}

// While servers of an ensemble restart one after the other, including the leader, and connections are cut: no two
// clients hold a lock, no item of a queue is lost or duplicated, a sum is exact, and a cache ends with the correct
// content.
func TestEnsembleUnderFaults(t *testing.T) {
	t.Parallel()
	const servers, workers = 3, 3
	e := zktest.Start(t, zktest.Options{Servers: servers})
	a := newArena(t, e.Connect(), e.Cut, nil)
	k := recipe.NewTreeCache(a.source(), "/q")
	defer k.Close()
	over := a.storm(e.Cut, rolling(e), func() { restart(e, e.Leader()) })
	var inside atomic.Int32
	var put, taken, added [workers]int
	var seen sync.Map
	var wg sync.WaitGroup
	for i := range workers {
		c := a.client()
		wg.Go(func() {
			m := recipe.NewMutex(c, "/m", recipe.Options{})
			q, n := recipe.NewQueue(c, "/q", recipe.Options{}), recipe.NewCounter(c, "/n", recipe.Options{})
			for round := 0; round < 3 || !finished(over); round++ {
				err := q.Put(a.ctx, fmt.Appendf(nil, "%d/%d", i, round))
				if err != nil {
					t.Errorf("put: %v", err)
					return
				}
				put[i]++
				held, err := m.Lock(a.ctx)
				if err != nil {
					t.Errorf("lock: %v", err)
					return
				}
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d hold the lock", n)
				}
				items, err := q.Take(a.ctx)
				inside.Add(-1)
				if err != nil {
					t.Errorf("take: %v", err)
					return
				}
				taken[i]++
				if _, twice := seen.LoadOrStore(string(items[0]), true); twice {
					t.Errorf("item %q was taken twice", items[0])
				}
				if _, err := n.Add(a.ctx, 1); err != nil {
					t.Errorf("add: %v", err)
					return
				}
				added[i]++
				if err := held.Unlock(a.ctx); err != nil {
					t.Errorf("unlock: %v", err)
				}
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	<-over
	sum := func(v [workers]int) int { return v[0] + v[1] + v[2] }
	t.Logf("%d items", sum(taken))
	if sum(put) != sum(taken) {
		t.Errorf("%d items put, %d taken", sum(put), sum(taken))
	}
	c := a.client()
	if n, err := recipe.NewCounter(c, "/n", recipe.Options{}).Get(a.ctx); err != nil || n != int64(sum(added)) {
		t.Errorf("sum %d, %v, want %d", n, err, sum(added))
	}
	if left := append(a.children(c, "/m"), a.children(c, "/q")...); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	a.eventually("the cache has an empty queue", func() bool { return k.Wait(a.ctx) == nil && k.Len() == 1 })
}
