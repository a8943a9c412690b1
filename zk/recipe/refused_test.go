package recipe_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zk/recipe"
)

// A recipe ends on an error that won't go away, and leaves nothing behind.
func TestRefused(t *testing.T) {
	t.Run("a ledger that may not write", func(t *testing.T) {
		each(t, func(a *arena) {
			c := a.client()
			acl := zk.WorldACL(zk.PermAll &^ zk.PermWrite)
			l := recipe.NewLedger(c, "/ledgers", recipe.Options{ACL: acl})
			if _, err := l.Commit(a.ctx, zk.CheckOp("/", zk.AnyVersion)); !errors.Is(err, zk.ErrNoAuth) || !strings.Contains(err.Error(), "ACL") {
				t.Errorf("commit: %v, want NoAuth and what to do", err)
			}
			if names := a.children(c, "/ledgers"); len(names) != 0 {
				t.Errorf("left behind: %q", names)
			}
		})
	})
	t.Run("a ledger whose znodes others delete", func(t *testing.T) {
		each(t, func(a *arena) {
			c := a.client()
			a.must(makeDir(a.ctx, c, "/ledgers"))
			stop := make(chan struct{})
			done := make(chan struct{})
			go func() {
				defer close(done)
				for {
					names, _, _ := c.Children(a.ctx, "/ledgers")
					for _, name := range names {
						c.Delete(a.ctx, "/ledgers/"+name, zk.AnyVersion)
					}
					select {
					case <-stop:
						return
					default:
					}
				}
			}()
			l := recipe.NewLedger(a.client(), "/ledgers", recipe.Options{})
			for range 20 { // whatever it says, it returns
				l.Commit(a.ctx, zk.CheckOp("/", zk.AnyVersion))
			}
			close(stop)
			<-done
			a.must(l.Close(a.ctx))
			a.eventually("nothing is left", func() bool { return len(a.children(c, "/ledgers")) == 0 })
		})
	})
	t.Run("a chroot without a parent", func(t *testing.T) {
		each(t, func(a *arena) {
			c, err := zk.Open(a.ctx, a.connect+"/missing/chroot", zk.Options{SessionTimeout: sessionTimeout})
			a.must(err)
			defer c.Close()
			begun := time.Now()
			if _, err := recipe.NewMutex(c, "/m", recipe.Options{}).Lock(a.ctx); !errors.Is(err, zk.ErrNoNode) || !strings.Contains(err.Error(), "chroot") {
				t.Errorf("lock: %v after %v, want NoNode and what to do", err, time.Since(begun))
			}
			if err := recipe.NewBarrier(c, "/b", recipe.Options{}).Set(a.ctx); !errors.Is(err, zk.ErrNoNode) {
				t.Errorf("barrier: %v, want NoNode", err)
			}
			if err := recipe.NewQueue(c, "/q", recipe.Options{}).Put(a.ctx, []byte("x")); !errors.Is(err, zk.ErrNoNode) {
				t.Errorf("queue: %v, want NoNode", err)
			}
		})
	})
}

// Claim takes the first item that nobody has claimed, also when it was given back
// after others were seen.
func TestClaimTakesTheFirst(t *testing.T) {
	each(t, func(a *arena) {
		q := recipe.NewQueue(a.client(), "/q", recipe.Options{})
		for _, item := range []string{"first", "second", "third"} {
			a.must(q.Put(a.ctx, []byte(item)))
		}
		claim := func() *recipe.Claim {
			k, err := q.Claim(a.ctx)
			a.must(err)
			return k
		}
		first := claim()
		a.must(first.Return(a.ctx))
		for _, want := range []string{"first", "second", "third"} {
			if k := claim(); string(k.Items[0]) != want {
				t.Errorf("claimed %q, want %q", k.Items[0], want)
			}
		}
	})
}

// A double barrier can be entered again after it was left.
func TestDoubleBarrierAgain(t *testing.T) {
	each(t, func(a *arena) {
		b := recipe.NewDoubleBarrier(a.client(), "/db", 1, recipe.Options{})
		for range 3 {
			a.must(b.Enter(a.ctx))
			a.must(b.Leave(a.ctx))
		}
		if names := a.children(a.client(), "/db"); len(names) != 0 {
			t.Errorf("left behind: %q", names)
		}
	})
}
