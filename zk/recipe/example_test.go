package recipe_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zk/recipe"
	"github.com/zooid-project/zooid/zktest"
)

// withServer runs an example with the sessions of its own server, and a client of the first session.
func withServer(example func(ctx context.Context, c *zk.Client, sessions *zk.Sessions)) {
	servers, err := zktest.Serve(zktest.Options{})
	check(err)
	defer servers.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	sessions := zk.NewSessions(func() (*zk.Client, error) { return zk.New(servers.Connect(), zk.Options{}) })
	defer sessions.Close()
	c, err := sessions.Client(ctx)
	check(err)
	example(ctx, c, sessions)
}

// check ends an example that fails.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// This example uses a few recipes, one after the other.
func Example() {
	withServer(func(ctx context.Context, c *zk.Client, _ *zk.Sessions) {
		held, err := recipe.NewMutex(c, "/locks/report", recipe.Options{}).Lock(ctx)
		check(err)
		fmt.Println("held:", held.Context().Err() == nil, held.Token() > 0)
		_, err = recipe.NewMutex(c, "/locks/report", recipe.Options{}).TryLock(ctx)
		fmt.Println(err)
		check(held.Unlock(ctx))
		fmt.Println(context.Cause(held.Context()))

		q := recipe.NewQueue(c, "/work", recipe.Options{})
		for _, item := range []string{"one", "two"} {
			check(q.Put(ctx, []byte(item)))
		}
		items, err := q.Take(ctx)
		fmt.Printf("%s %v\n", items, err)

		sum, err := recipe.NewCounter(c, "/visits", recipe.Options{}).Add(ctx, 3)
		fmt.Println(sum, err)
	})
	// Output:
	// held: true true
	// recipe: lock /locks/report: the lock is held by another
	// the lock was released
	// [one] <nil>
	// 3 <nil>
}

// This nightly job runs once, on the first machine that gets the lock.
func ExampleMutex() {
	job := func(ctx context.Context, c *zk.Client, machine string) error {
		held, err := recipe.NewMutex(c, "/locks/nightly", recipe.Options{Data: []byte(machine)}).TryLock(ctx)
		if errors.Is(err, recipe.ErrTaken) {
			fmt.Println(machine, "has nothing to do")
			return nil
		}
		if err != nil {
			return err
		}
		defer held.Unlock(ctx)
		work := held.Context() // ends when the lock may be lost
		fmt.Println(machine, "works, sure of the lock:", work.Err() == nil)
		return nil
	}
	withServer(func(ctx context.Context, c *zk.Client, _ *zk.Sessions) {
		check(job(ctx, c, "first"))
		taken, err := recipe.NewMutex(c, "/locks/nightly", recipe.Options{}).Lock(ctx)
		check(err)
		check(job(ctx, c, "second"))
		check(taken.Unlock(ctx))
	})
	// Output:
	// first works, sure of the lock: true
	// second has nothing to do
}

// The server refuses this write unless the lock is held when it applies the write.
func ExampleHeld_Guard() {
	withServer(func(ctx context.Context, c *zk.Client, _ *zk.Sessions) {
		_, err := c.Create(ctx, "/state", []byte("empty"), zk.ModePersistent, zk.OpenACL())
		check(err)
		held, err := recipe.NewMutex(c, "/lock", recipe.Options{}).Lock(ctx)
		check(err)
		save := func(state string) error {
			_, err := c.Multi(ctx, held.Guard(), zk.SetOp("/state", []byte(state), zk.AnyVersion))
			return err
		}
		fmt.Println(save("mine"))
		check(held.Unlock(ctx))
		fmt.Println(errors.Is(save("mine, still"), zk.ErrNoNode))
	})
	// Output:
	// <nil>
	// true
}

// A resource outside of ZooKeeper refuses a late holder of the lock. That client was stopped for so long that another
// client got the lock, and doesn't know this yet.
func ExampleHeld_Token() {
	var highest int64 // kept by the resource
	write := func(token int64, text string) {
		if token < highest {
			fmt.Println("refused:", text)
			return
		}
		highest = token
		fmt.Println("written:", text)
	}
	withServer(func(ctx context.Context, c *zk.Client, sessions *zk.Sessions) {
		m := recipe.NewMutex(c, "/lock", recipe.Options{})
		late, err := m.Lock(ctx)
		check(err)
		write(late.Token(), "by the first")
		check(c.Delete(ctx, late.Path(), zk.AnyVersion)) // as the end of its session would
		next, err := m.Lock(ctx)
		check(err)
		write(next.Token(), "by the second")
		write(late.Token(), "by the first, late")
		check(next.Unlock(ctx))
	})
	// Output:
	// written: by the first
	// written: by the second
	// refused: by the first, late
}

// Two clients may hold a lease. The third gives up after a short wait.
func ExampleSemaphore() {
	withServer(func(ctx context.Context, c *zk.Client, _ *zk.Sessions) {
		s := recipe.NewSemaphore(c, "/printers", 2, recipe.Options{})
		for range 2 {
			lease, err := s.Acquire(ctx)
			check(err)
			defer lease.Unlock(ctx)
		}
		soon, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		_, err := s.Acquire(soon)
		fmt.Println(errors.Is(err, context.DeadlineExceeded))
	})
	// Output: true
}

// The leader works until its context ends, which means that it may no longer lead.
func ExampleElection() {
	withServer(func(ctx context.Context, _ *zk.Client, sessions *zk.Sessions) {
		e := recipe.NewElection(sessions, "/leader", recipe.Options{Data: []byte("me")})
		err := e.Run(ctx, func(ctx context.Context, held *recipe.Held) error {
			leader, err := e.Leader(ctx)
			fmt.Printf("%s leads, that is us: %v\n", leader.Data, leader.Token == held.Token())
			return err // resigns
		})
		fmt.Println(err)
	})
	// Output:
	// me leads, that is us: true
	// <nil>
}

// This program asks whether it leads, instead of passing a function.
func ExampleLatch() {
	withServer(func(ctx context.Context, _ *zk.Client, sessions *zk.Sessions) {
		l := recipe.NewLatch(sessions, "/leader", recipe.Options{Data: []byte("me")})
		defer l.Close()
		held, err := l.Wait(ctx)
		check(err)
		fmt.Println(held.Context().Err(), l.Leading() == held)
		check(held.Unlock(ctx)) // resigns, and takes part again
		<-held.Context().Done()
		fmt.Println(context.Cause(held.Context()))
		_, err = l.Wait(ctx)
		fmt.Println(err)
	})
	// Output:
	// <nil> true
	// the lock was released
	// <nil>
}

// This example takes two locks together. Other callers may name them in another order without a deadlock.
func ExampleLockAll() {
	withServer(func(ctx context.Context, c *zk.Client, _ *zk.Sessions) {
		from := recipe.NewMutex(c, "/accounts/2", recipe.Options{})
		to := recipe.NewRWLock(c, "/accounts/1", recipe.Options{}).Writer()
		all, err := recipe.LockAll(ctx, from, to)
		check(err)
		for _, held := range all.Locks {
			fmt.Println(held.Token() > 0)
		}
		check(all.Unlock(ctx))
		_, err = recipe.LockAll(ctx, from, from)
		fmt.Println(err)
	})
	// Output:
	// true
	// true
	// recipe: lock all: the lock /accounts/2 is given twice and would wait for itself
}

// Each process sees which other processes are running.
func ExampleGroup() {
	withServer(func(ctx context.Context, _ *zk.Client, sessions *zk.Sessions) {
		g := recipe.JoinGroup(sessions, "/workers", "worker-1", recipe.Options{Data: []byte("10.0.0.1:80")})
		defer g.Close()
		check(g.Wait(ctx))
		for id, data := range g.Members() {
			fmt.Printf("%s at %s\n", id, data)
		}
	})
	// Output: worker-1 at 10.0.0.1:80
}

// This change is applied exactly once, whatever other clients do and whichever replies are lost.
func ExampleValue_Update() {
	withServer(func(ctx context.Context, c *zk.Client, _ *zk.Sessions) {
		v := recipe.NewValue(c, "/list", recipe.Options{})
		defer v.Close(ctx)
		for _, name := range []string{"ann", "bob"} {
			list, err := v.Update(ctx, func(old []byte) ([]byte, error) {
				return fmt.Appendf(nil, "%s%s;", old, name), nil
			})
			check(err)
			fmt.Printf("%s\n", list)
		}
	})
	// Output:
	// ann;
	// ann;bob;
}

// An item that a consumer didn't finish goes to another consumer, so each item is consumed at least once.
func ExampleQueue_Claim() {
	withServer(func(ctx context.Context, c *zk.Client, _ *zk.Sessions) {
		q := recipe.NewQueue(c, "/work", recipe.Options{})
		check(q.Put(ctx, []byte("a parcel")))
		for _, finishes := range []bool{false, true} {
			claim, err := q.Claim(ctx)
			check(err)
			fmt.Printf("working on %s\n", claim.Items)
			if finishes {
				check(claim.Done(ctx))
			} else {
				check(claim.Return(ctx))
			}
		}
		n, err := q.Len(ctx)
		fmt.Println(n, err)
	})
	// Output:
	// working on [a parcel]
	// working on [a parcel]
	// 0 <nil>
}

// A cache reports its content, and then the changes.
func ExampleCache() {
	withServer(func(ctx context.Context, c *zk.Client, sessions *zk.Sessions) {
		for _, path := range []string{"/config", "/config/color"} {
			_, err := c.Create(ctx, path, []byte("blue"), zk.ModePersistent, zk.OpenACL())
			check(err)
		}
		config := recipe.NewTreeCache(sessions, "/config")
		defer config.Close()
		check(config.Wait(ctx))
		for e, err := range config.Events(ctx) {
			check(err)
			if e.Path != "" {
				fmt.Printf("%v %s %s\n", e.Type, e.Path, e.Node.Data)
			}
			switch e.Type {
			case recipe.CacheFresh:
				fmt.Println("that is everything")
				_, err := c.Set(ctx, "/config/color", []byte("red"), zk.AnyVersion)
				check(err)
			case recipe.CacheChanged:
				node, ok := config.Get("/config/color") // sends no request
				fmt.Printf("%s %v\n", node.Data, ok)
				return
			}
		}
	})
	// Output:
	// added /config blue
	// added /config/color blue
	// that is everything
	// changed /config/color red
	// red true
}

// This cache holds znodes whose data is JSON.
func ExampleTypedCache() {
	withServer(func(ctx context.Context, c *zk.Client, sessions *zk.Sessions) {
		type limit struct{ Requests int }
		codec := zk.JSON[limit]()
		_, err := zk.NewTyped(c, codec).Create(ctx, "/limit", limit{100}, zk.ModePersistent, zk.OpenACL())
		check(err)
		limits := recipe.NewTypedCache(recipe.NewNodeCache(sessions, "/limit"), codec)
		defer limits.Close()
		check(limits.Wait(ctx))
		l, ok, err := limits.Value("/limit")
		fmt.Println(l.Requests, ok, err)
	})
	// Output: 100 true <nil>
}

// One process offers a service, and another one uses it.
func ExampleDiscovery() {
	withServer(func(ctx context.Context, _ *zk.Client, sessions *zk.Sessions) {
		d := recipe.NewDiscovery(sessions, "/services", recipe.Options{})
		port := 8080
		me, err := d.Register(&recipe.Instance{Name: "web", Address: "10.0.0.1", Port: &port})
		check(err)
		defer me.Close()
		_, err = me.Wait(ctx)
		check(err)

		backends := d.Provider("web")
		defer backends.Close()
		check(backends.Wait(ctx))
		if i, ok := backends.Next(); ok {
			fmt.Println("using", i.Address, *i.Port)
		}
	})
	// Output: using 10.0.0.1 8080
}

// These changes are applied together and exactly once, even if a reply is lost.
func ExampleLedger() {
	withServer(func(ctx context.Context, c *zk.Client, _ *zk.Sessions) {
		for _, path := range []string{"/a", "/b"} {
			_, err := c.Create(ctx, path, []byte("100"), zk.ModePersistent, zk.OpenACL())
			check(err)
		}
		ledger := recipe.NewLedger(c, "/ledgers", recipe.Options{})
		defer ledger.Close(ctx)
		_, err := ledger.Commit(ctx, zk.SetOp("/a", []byte("90"), 0), zk.SetOp("/b", []byte("110"), 0))
		check(err)
		a, _, err := c.Get(ctx, "/a")
		check(err)
		b, _, err := c.Get(ctx, "/b")
		check(err)
		fmt.Printf("%s %s\n", a, b)
	})
	// Output: 90 110
}
