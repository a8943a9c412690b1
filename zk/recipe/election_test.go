package recipe_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zk/recipe"
)

// A resource checks fencing tokens: it refuses an owner with an old token, and records an owner that should not have
// been ahead.
type resource struct {
	mu     sync.Mutex
	token  int64
	owner  int
	grants int
}

// write reports whether owner, with its token, is accepted.
func (r *resource) write(t *testing.T, owner int, token int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case token < r.token:
		return false
	case token == r.token && owner != r.owner:
		t.Errorf("%d and %d have the same token 0x%x", owner, r.owner, token)
	case token > r.token:
		r.token, r.owner = token, owner
		r.grants++
	}
	return true
}

// Under cuts and expiry there is always a leader again, each with a higher token than the last, and at most one
// candidate at a time leads without doubt.
func TestElectionUnderFaults(t *testing.T) {
	each(t, func(a *arena) {
		const candidates = 4
		ctx, stop := context.WithCancel(a.ctx)
		defer stop()
		var r resource
		faults := []func(){a.cut, a.cut}
		var terms [candidates]atomic.Int32
		var wg sync.WaitGroup
		for i := range candidates {
			s := a.source()
			faults = append(faults, func() { a.expire(s) })
			e := recipe.NewElection(s, "/election", recipe.Options{Data: fmt.Append(nil, i)})
			wg.Go(func() {
				for ctx.Err() == nil {
					err := e.Run(ctx, func(ctx context.Context, held *recipe.Held) error {
						if r.write(t, i, held.Token()) {
							terms[i].Add(1)
						}
						return nil // resign, so that everybody's turn comes
					})
					if err != nil && ctx.Err() == nil {
						t.Errorf("run: %v", err)
						return
					}
				}
			})
		}
		over := a.storm(faults...)
		<-over
		a.eventually("everybody has led", func() bool {
			for i := range terms {
				if terms[i].Load() < 2 {
					return false
				}
			}
			return true
		})
		stop()
		wg.Wait()
	})
}

// A leader that is cut off steps down. If it comes back in time, it leads again with the same token; otherwise another
// candidate leads, and it is a candidate again.
func TestElectionLeaderLost(t *testing.T) {
	each(t, func(a *arena) {
		s := a.source()
		ctx, stop := context.WithCancel(a.ctx)
		defer stop()
		e := recipe.NewElection(s, "/election", recipe.Options{Data: []byte("one")})
		if _, err := e.Leader(a.ctx); err != recipe.ErrNoLeader {
			t.Errorf("leader of nobody: %v", err)
		}
		type term struct {
			token int64
			cause error
		}
		terms := make(chan term)
		began := make(chan int64)
		done := make(chan error, 1)
		go func() {
			done <- e.Run(ctx, func(ctx context.Context, held *recipe.Held) error {
				began <- held.Token()
				<-ctx.Done()
				terms <- term{held.Token(), context.Cause(ctx)}
				return ctx.Err()
			})
		}()
		first := <-began
		if leader, err := e.Leader(a.ctx); err != nil || leader.Token != first || string(leader.Data) != "one" {
			t.Errorf("leader %+v, %v", leader, err)
		}
		a.cut()
		if got := <-terms; got.cause != recipe.ErrSuspended {
			t.Errorf("cut off: %+v", got)
		}
		if again := <-began; again != first {
			t.Errorf("token 0x%x after a short cut, was 0x%x", again, first)
		}

		challenger := recipe.NewLatch(a.source(), "/latch", recipe.Options{})
		defer challenger.Close()
		a.expire(s)
		if got := <-terms; got.cause != recipe.ErrSuspended && !errors.Is(got.cause, recipe.ErrLost) {
			t.Errorf("expired: %+v", got)
		}
		if again := <-began; again <= first {
			t.Errorf("token 0x%x in a new session, was 0x%x", again, first)
		}
		stop()
		<-terms
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("run: %v", err)
		}
		a.eventually("no candidate is left", func() bool { // Run waits for that, but not for ever
			list, err := e.Candidates(a.ctx)
			return err == nil && len(list) == 0
		})
	})
}

func TestLatch(t *testing.T) {
	each(t, func(a *arena) {
		s := a.source()
		one := recipe.NewLatch(s, "/latch", recipe.Options{Data: []byte("one")})
		defer one.Close()
		led, err := one.Wait(a.ctx)
		a.must(err)
		two := recipe.NewLatch(a.source(), "/latch", recipe.Options{Data: []byte("two")})
		defer two.Close()
		a.eventually("two stands", func() bool {
			list, err := two.Candidates(a.ctx)
			return err == nil && len(list) == 2
		})
		if leader, err := two.Leader(a.ctx); err != nil || string(leader.Data) != "one" || two.Leading() != nil {
			t.Errorf("leader %+v, %v", leader, err)
		}

		// A cut: in doubt, then leading again.
		a.cut()
		<-led.Context().Done()
		again, err := one.Wait(a.ctx)
		a.must(err)
		if again.Token() != led.Token() {
			t.Errorf("token 0x%x after a cut, was 0x%x", again.Token(), led.Token())
		}

		// Expiry: the other candidate leads, and the first one is a candidate again.
		a.expire(s)
		second, err := two.Wait(a.ctx)
		a.must(err)
		if second.Token() <= led.Token() {
			t.Errorf("token 0x%x after 0x%x", second.Token(), led.Token())
		}
		a.eventually("one stands again", func() bool {
			list, err := two.Candidates(a.ctx)
			return err == nil && len(list) == 2
		})

		// Resigning: the other leads again.
		a.must(second.Unlock(a.ctx))
		third, err := one.Wait(a.ctx)
		a.must(err)
		if third.Token() <= second.Token() {
			t.Errorf("token 0x%x after 0x%x", third.Token(), second.Token())
		}

		// Close: no caller waits forever.
		one.Close()
		if _, err := one.Wait(a.ctx); !errors.Is(err, recipe.ErrClosed) {
			t.Errorf("wait for a closed latch: %v", err)
		}
		if _, err := two.Wait(a.ctx); err != nil {
			t.Error(err)
		}
	})
}

// Recipes on a zk.Sessions with only one session end with it.
func TestSessionsOfOne(t *testing.T) {
	each(t, func(a *arena) {
		c := a.client()
		s := zk.NewSessions(func() (*zk.Client, error) { return c, nil })
		l := recipe.NewLatch(s, "/latch", recipe.Options{})
		defer l.Close()
		_, err := l.Wait(a.ctx)
		a.must(err)
		a.expire(s)
		a.eventually("the latch has ended", func() bool {
			_, err := l.Wait(a.ctx)
			return errors.Is(err, zk.ErrSessionExpired)
		})
	})
}

// When the zk.Sessions are closed, long-lived recipes end with an error.
func TestSessionsClosed(t *testing.T) {
	each(t, func(a *arena) {
		s := a.source()
		l := recipe.NewLatch(s, "/latch", recipe.Options{})
		defer l.Close()
		_, err := l.Wait(a.ctx)
		a.must(err)
		e := recipe.NewEphemeral(s, "/e", recipe.Options{})
		defer e.Close()
		_, err = e.Wait(a.ctx)
		a.must(err)
		k := recipe.NewTreeCache(s, "/")
		defer k.Close()
		a.must(k.Wait(a.ctx))
		s.Close()
		a.eventually("all have ended", func() bool {
			_, one := l.Wait(a.ctx)
			_, two := e.Wait(a.ctx)
			return errors.Is(one, zk.ErrClosed) && errors.Is(two, zk.ErrClosed) && errors.Is(k.Wait(a.ctx), zk.ErrClosed)
		})
		if _, err := s.Client(a.ctx); !errors.Is(err, zk.ErrClosed) {
			t.Errorf("client: %v", err)
		}
	})
}
