package recipe_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zk/recipe"
)

// Under cuts no item is lost or doubled, and each consumer sees each producer's
// items in their order.
func TestQueueUnderCuts(t *testing.T) {
	each(t, func(a *arena) {
		over := a.storm(a.cut)
		const producers, consumers = 2, 3
		var put [producers]int
		backlog := make(chan struct{}, 100) // items that nobody has taken: more would only wait
		var producing, consuming sync.WaitGroup
		for p := range producers {
			q := recipe.NewQueue(a.client(), "/q", recipe.Options{})
			producing.Go(func() {
				for ; put[p] < 20 || !finished(over); put[p]++ {
					select {
					case backlog <- struct{}{}:
					case <-a.ctx.Done():
						t.Errorf("put: %v", a.ctx.Err())
						return
					}
					if err := q.Put(a.ctx, fmt.Appendf(nil, "%d %d", p, put[p])); err != nil {
						t.Errorf("put: %v", err)
						return
					}
				}
			})
		}
		var mu sync.Mutex
		seen := map[string]int{}
		ctx, stop := context.WithCancel(a.ctx)
		defer stop()
		for range consumers {
			q := recipe.NewQueue(a.client(), "/q", recipe.Options{})
			consuming.Go(func() {
				last := [producers]int{-1, -1}
				for {
					items, err := q.Take(ctx)
					if ctx.Err() != nil {
						return
					}
					if err != nil {
						t.Errorf("take: %v", err)
						return
					}
					var p, n int
					if _, err := fmt.Sscanf(string(items[0]), "%d %d", &p, &n); err != nil || len(items) != 1 {
						t.Errorf("items %q: %v", items, err)
					}
					if n <= last[p] {
						t.Errorf("item %d of producer %d after %d", n, p, last[p])
					}
					last[p] = n
					mu.Lock()
					seen[string(items[0])]++
					mu.Unlock()
					select {
					case <-backlog:
					default: // an item taken twice, which is told below
					}
				}
			})
		}
		producing.Wait()
		c := a.client()
		a.eventually("the queue is empty", func() bool { return len(a.children(c, "/q")) == 0 })
		a.eventually("every item was taken", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(seen) >= put[0]+put[1]
		})
		stop()
		consuming.Wait()
		for item, n := range seen {
			if n != 1 {
				t.Errorf("item %q was taken %d times", item, n)
			}
		}
		if len(seen) != put[0]+put[1] {
			t.Errorf("%d items of %d", len(seen), put[0]+put[1])
		}
	})
}

// While consumers' sessions expire, every claimed item is finished once by some consumer.
func TestClaimsUnderExpiry(t *testing.T) {
	each(t, func(a *arena) {
		faults := []func(){a.cut}
		const total = 40
		producer := recipe.NewQueue(a.client(), "/q", recipe.Options{})
		for i := range total {
			a.must(producer.Put(a.ctx, fmt.Append(nil, i)))
		}
		var mu sync.Mutex
		done := map[string]int{}
		ctx, stop := context.WithCancel(a.ctx)
		defer stop()
		var wg sync.WaitGroup
		for range 3 {
			s := a.source()
			faults = append(faults, func() { a.expire(s) })
			wg.Go(func() {
				for ctx.Err() == nil {
					c, err := s.Client(ctx)
					if err != nil {
						return
					}
					q := recipe.NewQueue(c, "/q", recipe.Options{})
					for {
						claim, err := q.Claim(ctx)
						if err != nil {
							break // the session expired: another has the item now
						}
						time.Sleep(20 * time.Millisecond)
						if err := claim.Done(ctx); err != nil {
							break
						}
						mu.Lock()
						done[string(claim.Items[0])]++
						mu.Unlock()
					}
				}
			})
		}
		<-a.storm(faults...)
		c := a.client()
		a.eventually("the queue is empty", func() bool { return len(a.children(c, "/q")) == 0 })
		stop()
		wg.Wait()
		// Done may have been applied although the session ended before the reply.
		for item, n := range done {
			if n != 1 {
				t.Errorf("item %s was done %d times", item, n)
			}
		}
		a.eventually("no claim is left", func() bool { return len(a.children(c, "/q-claims")) == 0 })
	})
}

// No other consumer gets a claimed item until it is returned.
func TestClaim(t *testing.T) {
	each(t, func(a *arena) {
		one, two := recipe.NewQueue(a.client(), "/q", recipe.Options{}), recipe.NewQueue(a.client(), "/q", recipe.Options{})
		a.must(one.Put(a.ctx, []byte("a"), []byte("b")))
		claim, err := one.Claim(a.ctx)
		a.must(err)
		if len(claim.Items) != 2 || string(claim.Items[1]) != "b" {
			t.Errorf("items %q", claim.Items)
		}
		got := make(chan *recipe.Claim)
		go func() {
			k, err := two.Claim(a.ctx)
			if err != nil {
				t.Error(err)
			}
			got <- k
		}()
		select {
		case k := <-got:
			t.Fatalf("a second claim: %q", k.Items)
		case <-time.After(50 * time.Millisecond):
		}
		a.must(claim.Return(a.ctx))
		a.must((<-got).Done(a.ctx))
		if err := claim.Done(a.ctx); !errors.Is(err, zk.ErrNoNode) {
			t.Errorf("done with what was returned: %v", err)
		}
		if size, err := one.Len(a.ctx); err != nil || size != 0 {
			t.Errorf("%d items, %v", size, err)
		}
		a.must(two.Close(a.ctx))
		short, cancel := context.WithTimeout(a.ctx, 30*time.Millisecond)
		defer cancel()
		if _, err := one.Claim(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("claim from an empty queue: %v", err)
		}
	})
}

func TestPriorityQueue(t *testing.T) {
	each(t, func(a *arena) {
		q, producer := recipe.NewPriorityQueue(a.client(), "/pq", recipe.Options{}), recipe.NewPriorityQueue(a.client(),
			"/pq", recipe.Options{})
		for _, p := range []int32{5, -3, 5, 100000, 0} {
			a.must(producer.Put(a.ctx, p, fmt.Append(nil, p)))
		}
		var got []string
		take := func() {
			items, err := q.Take(a.ctx)
			a.must(err)
			got = append(got, string(items[0]))
		}
		take()
		take()
		// One that comes later and is more urgent goes first. Its event has come when
		// a later reply has.
		a.must(producer.Put(a.ctx, -9, []byte("urgent")))
		a.eventually("the consumer's server knows", func() bool {
			n, err := q.Len(a.ctx)
			return err == nil && n == 4
		})
		for range 4 {
			take()
		}
		if want := []string{"-3", "0", "urgent", "5", "5", "100000"}; !slices.Equal(got, want) {
			t.Errorf("order %q, want %q", got, want)
		}
	})
}

// Under cuts a sum is exact.
func TestCounterUnderCuts(t *testing.T) {
	each(t, func(a *arena) {
		over := a.storm(a.cut)
		var added [4]int64
		var wg sync.WaitGroup
		for i := range added {
			n := recipe.NewCounter(a.client(), "/n", recipe.Options{})
			wg.Go(func() {
				for round := 0; round < 10 || !finished(over); round++ {
					if _, err := n.Add(a.ctx, int64(round%7-2)); err != nil {
						t.Errorf("add: %v", err)
						return
					}
					added[i] += int64(round%7 - 2)
				}
			})
		}
		wg.Wait()
		n := recipe.NewCounter(a.client(), "/n", recipe.Options{})
		if sum, err := n.Get(a.ctx); err != nil || sum != added[0]+added[1]+added[2]+added[3] {
			t.Errorf("sum %d, %v; want that of %v", sum, err, added)
		}
		a.must(n.Set(a.ctx, -1))
		if sum, err := n.Add(a.ctx, -1); err != nil || sum != -2 {
			t.Errorf("sum %d, %v", sum, err)
		}
	})
}

func TestValue(t *testing.T) {
	each(t, func(a *arena) {
		v := recipe.NewValue(a.client(), "/deep/value", recipe.Options{})
		if data, version, err := v.Get(a.ctx); data != nil || version != recipe.VersionNone || err != nil {
			t.Errorf("before it is set: %q, %d, %v", data, version, err)
		}
		if err := v.CompareAndSet(a.ctx, 0, nil); !errors.Is(err, zk.ErrBadVersion) {
			t.Errorf("set what isn't there: %v", err)
		}
		a.must(v.CompareAndSet(a.ctx, recipe.VersionNone, []byte("1")))
		if err := v.CompareAndSet(a.ctx, recipe.VersionNone, nil); !errors.Is(err, zk.ErrBadVersion) {
			t.Errorf("create what is there: %v", err)
		}
		a.must(v.CompareAndSet(a.ctx, 0, []byte("2")))
		if err := v.CompareAndSet(a.ctx, 0, nil); !errors.Is(err, zk.ErrBadVersion) {
			t.Errorf("set with an old version: %v", err)
		}
		mine := errors.New("mine")
		if _, err := v.Update(a.ctx, func([]byte) ([]byte, error) { return nil, mine }); err != mine {
			t.Errorf("update that fails: %v", err)
		}
		data, err := v.Update(a.ctx, func(old []byte) ([]byte, error) { return append(old, '3'), nil })
		if err != nil || string(data) != "23" {
			t.Errorf("update: %q, %v", data, err)
		}
		a.must(v.Set(a.ctx, []byte("not a number")))
		if _, err := recipe.NewCounter(a.client(), "/deep/value", recipe.Options{}).Add(a.ctx, 1); err == nil {
			t.Error("a counter counts what isn't a number")
		}
		a.must(v.Close(a.ctx))
	})
}
