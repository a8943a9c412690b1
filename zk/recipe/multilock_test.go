package recipe_test

import (
	"context"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/zk/recipe"
)

// One lock given by two views of a session is refused before anything is locked, and locks of several views are taken
// in the order of their whole paths.
func TestLockAllViews(t *testing.T) {
	each(t, func(a *arena) {
		c, opt := a.client(), recipe.Options{}
		view, err := c.Chroot("/sub")
		a.must(err)
		one, same := recipe.NewMutex(c, "/sub/b", opt), recipe.NewRWLock(view, "/b", opt).Writer()
		if _, err := recipe.LockAll(a.ctx, one, same); err == nil ||
			!strings.Contains(err.Error(), "/sub/b, also named /b,") {
			t.Errorf("one lock by two views: %v", err)
		}
		if left := a.children(c, "/sub"); len(left) > 0 {
			t.Errorf("something was locked: %q", left)
		}
		other := recipe.NewMutex(c, "/c", opt)
		all, err := recipe.LockAll(a.ctx, same, other)
		a.must(err)
		if first := all.Locks[0].Path(); !strings.HasPrefix(first, "/c/") {
			t.Errorf("%s was taken before /c", first)
		}
		a.must(all.Unlock(a.ctx))
	})
}

// A Locker of a program.
type lockFunc struct {
	path string
	lock func() (*recipe.Held, error)
}

func (l lockFunc) Lock(context.Context) (*recipe.Held, error) { return l.lock() }
func (l lockFunc) Path() string                               { return l.path }

// One lock given by two sessions is refused when it would wait for itself, directly or through another client.
func TestLockAllTwoSessions(t *testing.T) {
	each(t, func(a *arena) {
		c, d, opt := a.client(), a.client(), recipe.Options{}
		refused := func(what string, lockers ...recipe.Locker) {
			if _, err := recipe.LockAll(a.ctx, lockers...); err == nil || !strings.Contains(err.Error(), "given twice") {
				t.Errorf("%s: %v", what, err)
			}
		}
		refused("two mutexes", recipe.NewMutex(c, "/b", opt), recipe.NewMutex(d, "/b", opt))
		if left := a.children(c, "/b"); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}

		// A writer comes between two readers.
		between, third := make(chan error, 1), a.client()
		writer := lockFunc{c.Place("/b").Path(), func() (*recipe.Held, error) {
			go func() {
				held, err := recipe.NewRWLock(third, "/b", opt).Writer().Lock(a.ctx)
				if err == nil {
					err = held.Unlock(a.ctx)
				}
				between <- err
			}()
			a.eventually("the writer is in line", func() bool { return len(a.children(c, "/b")) == 2 })
			return recipe.NewMutex(c, "/other", opt).Lock(a.ctx)
		}}
		refused("two readers", recipe.NewRWLock(c, "/b", opt).Reader(), writer, recipe.NewRWLock(d, "/b", opt).Reader())
		a.must(<-between)
	})
}

// A queue whose claims would be its items refuses to claim.
func TestClaimPath(t *testing.T) {
	each(t, func(a *arena) {
		q := recipe.NewQueue(a.client(), "/q", recipe.Options{})
		a.must(q.Put(a.ctx, []byte("x")))
		q.ClaimPath = "/q"
		if _, err := q.Claim(a.ctx); err == nil || !strings.Contains(err.Error(), "ClaimPath") {
			t.Errorf("claim: %v", err)
		}
	})
}
