package recipe_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/zooid-project/zooid/internal/server"
	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zk/recipe"
)

// All together, on a server of its own.
func Example() {
	dir, err := os.MkdirTemp("", "recipe-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s, err := server.Open(server.Options{DataDir: dir, Listen: []string{"127.0.0.1:0"}})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := zk.Open(ctx, s.Addrs()[0].String(), zk.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	held, err := recipe.NewMutex(c, "/locks/report", recipe.Options{}).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("held:", held.Context().Err() == nil, held.Token() > 0)
	_, err = recipe.NewMutex(c, "/locks/report", recipe.Options{}).TryLock(ctx)
	fmt.Println(err)
	if err := held.Unlock(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(context.Cause(held.Context()))

	q := recipe.NewQueue(c, "/work", recipe.Options{})
	for _, item := range []string{"one", "two"} {
		if err := q.Put(ctx, []byte(item)); err != nil {
			log.Fatal(err)
		}
	}
	items, err := q.Take(ctx)
	fmt.Printf("%s %v\n", items, err)

	sum, err := recipe.NewCounter(c, "/visits", recipe.Options{}).Add(ctx, 3)
	fmt.Println(sum, err)
	// Output:
	// held: true true
	// recipe: lock /locks/report: the lock is held by another
	// the lock was released
	// [one] <nil>
	// 3 <nil>
}

// A nightly job that must run once, on whichever machine gets there first.
func ExampleMutex() {
	job := func(ctx context.Context, c *zk.Client) error {
		held, err := recipe.NewMutex(c, "/locks/nightly", recipe.Options{}).TryLock(ctx)
		if err != nil {
			return err // recipe.ErrTaken: another machine is at it
		}
		defer held.Unlock(ctx)
		work := held.Context() // ends when the lock is in doubt
		fmt.Println("writing with token", held.Token())
		<-work.Done()
		return context.Cause(work)
	}
	_ = job
}

// A write that is refused unless the lock is held when it is applied.
func ExampleHeld_Guard() {
	save := func(ctx context.Context, c *zk.Client, held *recipe.Held, state []byte) error {
		_, err := c.Multi(ctx, held.Guard(), zk.SetOp("/state", state, zk.AnyVersion))
		return err // wraps zk.ErrNoNode if the lock was lost
	}
	_ = save
}

func ExampleElection() {
	sessions := recipe.NewSessions(func() (*zk.Client, error) {
		return zk.New("zk1:2181,zk2:2181,zk3:2181/app", zk.Options{SessionTimeout: 10 * time.Second})
	})
	defer sessions.Close()
	lead := func(ctx context.Context, e *recipe.Election) error {
		return e.Run(ctx, func(ctx context.Context, held *recipe.Held) error {
			log.Printf("leading with token %d", held.Token())
			<-ctx.Done() // in doubt, or the program ends
			return ctx.Err()
		})
	}
	_ = lead
}

// At least once: what a consumer didn't finish goes to another.
func ExampleQueue_Claim() {
	consume := func(ctx context.Context, q *recipe.Queue) error {
		for {
			claim, err := q.Claim(ctx)
			if err != nil {
				return err
			}
			for _, item := range claim.Items {
				fmt.Printf("working on %s\n", item)
			}
			if err := claim.Done(ctx); err != nil {
				return err
			}
		}
	}
	_ = consume
}

func ExampleCache() {
	follow := func(ctx context.Context, sessions *recipe.Sessions) error {
		config := recipe.NewTreeCache(sessions, "/config")
		defer config.Close()
		for e, err := range config.Events(ctx) {
			switch {
			case err != nil:
				return err
			case e.Type == recipe.CacheStale:
				log.Print("the connection is lost; going on with what we know")
			case e.Type == recipe.CacheReset:
				log.Print("we were too slow; here is everything again")
			default:
				fmt.Println(e.Type, e.Path)
			}
		}
		return nil
	}
	_ = follow
}

func ExampleDiscovery() {
	call := func(ctx context.Context, sessions *recipe.Sessions) error {
		d := recipe.NewDiscovery(sessions, "/services", recipe.Options{})
		port := 8080
		me, err := d.Register(recipe.Instance{Name: "web", Address: "10.0.0.1", Port: &port})
		if err != nil {
			return err
		}
		defer me.Close()
		backends := d.Provider("db")
		defer backends.Close()
		if err := backends.Wait(ctx); err != nil {
			return err
		}
		if i, ok := backends.Next(); ok {
			fmt.Println("using", i.Address)
		}
		return nil
	}
	_ = call
}

// Several changes, applied once, also if a reply is lost.
func ExampleLedger() {
	transfer := func(ctx context.Context, c *zk.Client, from, to int32) error {
		ledger := recipe.NewLedger(c, "/ledgers", recipe.Options{})
		defer ledger.Close(ctx)
		_, err := ledger.Commit(ctx,
			zk.SetOp("/accounts/a", []byte("90"), from),
			zk.SetOp("/accounts/b", []byte("110"), to),
		)
		return err
	}
	_ = transfer
}
