package recipe_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zk/recipe"
	"github.com/zooid-project/zooid/zktest"
)

// While connections are cut but sessions last, no two clients hold the lock at a time, tokens grow from holder to
// holder, every client gets it, and no znode stays behind.
func TestMutexUnderCuts(t *testing.T) {
	each(t, func(a *arena) {
		over := a.storm(a.cut)
		var inside atomic.Int32
		var last int64 // written by the holder only
		var wg sync.WaitGroup
		for range 5 {
			m := recipe.NewMutex(a.client(), "/locks/m", recipe.Options{})
			wg.Go(func() {
				for round := 0; round < 3 || !finished(over); round++ {
					held, err := m.Lock(a.ctx)
					if err != nil {
						t.Errorf("lock: %v", err)
						return
					}
					if n := inside.Add(1); n != 1 {
						t.Errorf("%d hold the lock", n)
					}
					if held.Token() <= last {
						t.Errorf("token 0x%x after 0x%x", held.Token(), last)
					}
					last = held.Token()
					inside.Add(-1)
					if err := held.Unlock(a.ctx); err != nil {
						t.Errorf("unlock: %v", err)
					}
				}
			})
		}
		wg.Wait()
		if names := a.children(a.client(), "/locks/m"); len(names) != 0 {
			t.Errorf("left behind: %q", names)
		}
	})
}

// While sessions of holders and waiters expire, guarded writes work as if the lock were never lost: no increment made
// under the lock is lost.
func TestMutexGuardsUnderExpiry(t *testing.T) {
	each(t, func(a *arena) { guardedCount(a, a.cut, a.cut) })
}

// guardedCount has four count under a lock while faults happen, the end of their
// sessions among them. Whoever waits too long is stuck.
func guardedCount(a *arena, faults ...func()) {
	t := a.t
	admin := a.client()
	_, err := admin.Create(a.ctx, "/count", []byte("0"), zk.ModePersistent, zk.WorldACL(zk.PermAll))
	a.must(err)
	var sources []*zk.Sessions
	for range 4 {
		s := a.source()
		sources = append(sources, s)
		faults = append(faults, func() { a.expire(s) })
	}
	over := a.storm(faults...)
	var made atomic.Int64
	var wg sync.WaitGroup
	for _, s := range sources {
		wg.Go(func() {
			for round := 0; round < 3 || !finished(over); {
				c, err := s.Client(a.ctx)
				if err != nil {
					t.Error(err)
					return
				}
				done, err := increment(a.ctx, c, admin)
				if a.ctx.Err() != nil {
					t.Errorf("stuck: %v", err)
					return
				}
				if done {
					round++
					made.Add(1)
				}
			}
		})
	}
	wg.Wait()
	a.eventually("the judge's server has caught up", func() bool { return admin.Sync(a.ctx, "/count") == nil })
	data, _, err := admin.Get(a.ctx, "/count")
	a.must(err)
	t.Logf("%d increments", made.Load())
	if string(data) != strconv.FormatInt(made.Load(), 10) {
		t.Errorf("count %s after %d increments", data, made.Load())
	}
}

// increment adds one to /count under a lock, and reports whether it was applied. The outcome is always known: the
// ledger finds it out, or the write was guarded and refused. If the session ends first, increment looks for its mark.
func increment(ctx context.Context, c, admin *zk.Client) (bool, error) {
	held, err := recipe.NewMutex(c, "/lock", recipe.Options{}).Lock(ctx)
	if err != nil {
		return false, err
	}
	defer held.Unlock(ctx)
	data, _, err := c.Get(ctx, "/count")
	if err != nil {
		return false, err
	}
	n, err := strconv.Atoi(string(data))
	if err != nil {
		return false, err
	}
	mark := "/mark-" + strconv.FormatInt(held.Token(), 16)
	world := zk.WorldACL(zk.PermAll)
	_, err = recipe.NewLedger(c, "/ledgers", recipe.Options{}).Commit(ctx, held.Guard(),
		zk.SetOp("/count", []byte(strconv.Itoa(n+1)), zk.AnyVersion), zk.CreateOp(mark, nil, zk.ModePersistent, world))
	if err == nil || !zk.MaybeApplied(err) {
		return err == nil, err
	}
	for {
		if err = admin.Sync(ctx, mark); err == nil {
			var ok bool
			if _, ok, err = admin.Exists(ctx, mark); err == nil {
				return ok, nil
			}
		}
		if !zk.Retryable(err) {
			return false, err
		}
	}
}

// A waiter that gives up leaves no znode, even if it is cut off at that moment. Neither does one whose attempt fails.
func TestMutexGivesUp(t *testing.T) {
	each(t, func(a *arena) {
		holder, c := a.client(), a.client()
		held, err := recipe.NewMutex(holder, "/m", recipe.Options{}).Lock(a.ctx)
		a.must(err)
		m := recipe.NewMutex(c, "/m", recipe.Options{Data: []byte("waiter")})
		if _, err := m.TryLock(a.ctx); !errors.Is(err, recipe.ErrTaken) {
			t.Errorf("try: %v", err)
		}
		if n := len(a.children(holder, "/m")); n != 1 {
			t.Errorf("%d in line after a failed attempt", n)
		}
		ctx, cancel := context.WithCancel(a.ctx)
		result := make(chan error, 1)
		go func() {
			_, err := m.Lock(ctx)
			result <- err
		}()
		a.eventually("the waiter is in line", func() bool { return len(a.children(holder, "/m")) == 2 })
		list, err := m.Participants(a.ctx)
		a.must(err)
		if list[0].Token != held.Token() || list[0].Path != held.Path() || string(list[1].Data) != "waiter" {
			t.Errorf("participants %+v", list)
		}
		a.refuse(true)
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) {
			t.Errorf("the waiter: %v", err)
		}
		a.refuse(false)
		a.eventually("the waiter has left the line", func() bool { return len(a.children(holder, "/m")) == 1 })
		a.must(held.Unlock(a.ctx))
		a.must(held.Unlock(a.ctx))
		got, err := m.TryLock(a.ctx)
		a.must(err)
		a.must(got.Unlock(a.ctx))
	})
}

// What a holder and a waiter see of a lost connection, an expired session and a
// deleted znode.
func TestHeldInDoubt(t *testing.T) {
	each(t, func(a *arena) {
		s, other := a.source(), a.client()
		c, err := s.Client(a.ctx)
		a.must(err)
		m := recipe.NewMutex(c, "/m", recipe.Options{})
		held, err := m.Lock(a.ctx)
		a.must(err)
		waiting := make(chan *recipe.Held, 1)
		go func() {
			h, err := recipe.NewMutex(other, "/m", recipe.Options{}).Lock(a.ctx)
			if err != nil {
				t.Error(err)
			}
			waiting <- h
		}()
		a.eventually("the waiter is in line", func() bool { return len(a.children(c, "/m")) == 2 })

		// Suspended: in doubt until confirmed. The waiter waits on.
		a.refuse(true)
		<-held.Context().Done()
		if cause := context.Cause(held.Context()); cause != recipe.ErrSuspended {
			t.Errorf("cause %v", cause)
		}
		a.refuse(false)
		a.must(held.Confirm(a.ctx))
		a.eventually("the context is a fresh one", func() bool {
			return held.Context().Err() == nil || held.Confirm(a.ctx) != nil
		})
		select {
		case <-waiting:
			t.Fatal("the waiter has the lock too")
		default:
		}

		// Expired: lost, and the waiter gets it with a higher token.
		sure := held.Context()
		zktest.Expire(t, c, a.connect)
		<-sure.Done()
		if err := held.Confirm(a.ctx); !errors.Is(err, recipe.ErrLost) || !zk.SessionLost(err) {
			t.Errorf("confirm after expiry: %v", err)
		}
		if err := held.Unlock(a.ctx); !errors.Is(err, recipe.ErrLost) || !zk.SessionLost(err) {
			t.Errorf("unlock after expiry: %v", err)
		}
		if _, err := m.Lock(a.ctx); !errors.Is(err, zk.ErrSessionExpired) {
			t.Errorf("lock after expiry: %v", err)
		}
		next := <-waiting
		if next.Token() <= held.Token() {
			t.Errorf("token 0x%x after 0x%x", next.Token(), held.Token())
		}

		// Deleted by somebody: lost.
		a.must(a.client().Delete(a.ctx, next.Path(), zk.AnyVersion))
		<-next.Context().Done()
		if cause := context.Cause(next.Context()); !errors.Is(cause, recipe.ErrLost) || zk.SessionLost(cause) {
			t.Errorf("cause %v", cause)
		}
		if _, err := other.Multi(a.ctx, next.Guard()); !errors.Is(err, zk.ErrNoNode) {
			t.Errorf("guarded by a lost lock: %v", err)
		}
	})
}

// A waiter watches only the znode before it: no znode has more watchers than its owner and one waiter.
func TestNoHerd(t *testing.T) {
	each(t, func(a *arena) {
		c := a.client()
		held, err := recipe.NewMutex(c, "/herd", recipe.Options{}).Lock(a.ctx)
		a.must(err)
		const waiters = 6
		var wg sync.WaitGroup
		for range waiters {
			m := recipe.NewMutex(a.client(), "/herd", recipe.Options{})
			wg.Go(func() {
				h, err := m.Lock(a.ctx)
				if err != nil {
					t.Error(err)
					return
				}
				if err := h.Unlock(a.ctx); err != nil {
					t.Error(err)
				}
			})
		}
		var watchers map[string]int
		a.eventually("all wait", func() bool {
			watchers = map[string]int{}
			sum := 0
			path := ""
			for line := range strings.Lines(a.word("wchp")) {
				line = strings.TrimSpace(line)
				if strings.HasPrefix(line, "/") {
					path = line
				} else if line != "" && strings.Contains(path, "/herd/") {
					watchers[path]++
					sum++
				}
			}
			return len(watchers) == waiters && sum > waiters // the holder watches its own znode, too
		})
		for path, n := range watchers {
			if strings.HasSuffix(path, held.Path()) {
				n-- // its owner's
			}
			if n != 1 {
				t.Errorf("%s has %d waiters watching", path, n)
			}
		}
		a.must(held.Unlock(a.ctx))
		wg.Wait()
	})
}

// The context's values travel, the deadline doesn't.
func TestHeldContext(t *testing.T) {
	each(t, func(a *arena) {
		type key struct{}
		ctx, cancel := context.WithTimeout(context.WithValue(a.ctx, key{}, "value"), patience)
		held, err := recipe.NewMutex(a.client(), "/m", recipe.Options{}).Lock(ctx)
		a.must(err)
		cancel()
		work := held.Context()
		if work.Err() != nil || work.Value(key{}) != "value" {
			t.Errorf("context: %v, %v", work.Err(), work.Value(key{}))
		}
		a.must(held.Unlock(a.ctx))
		if cause := context.Cause(work); cause != recipe.ErrReleased {
			t.Errorf("cause %v", cause)
		}
		if err := held.Confirm(a.ctx); !errors.Is(err, recipe.ErrReleased) && !errors.Is(err, recipe.ErrLost) {
			t.Errorf("confirm after unlock: %v", err)
		}
	})
}

// Everything a recipe creates has the list it was given, directories too.
func TestACL(t *testing.T) {
	each(t, func(a *arena) {
		c := a.client()
		a.must(c.AddAuth(a.ctx, "digest", []byte("app:secret")))
		held, err := recipe.NewMutex(c, "/private/m", recipe.Options{ACL: zk.CreatorACL()}).Lock(a.ctx)
		a.must(err)
		a.must(recipe.NewQueue(c, "/private/q", recipe.Options{ACL: zk.CreatorACL()}).Put(a.ctx, []byte("x")))
		paths := []string{
			"/private", "/private/m", held.Path(), "/private/q", "/private/q-ledgers", "/private/q/queue-0000000000",
		}
		for _, path := range paths {
			list, _, err := c.GetACL(a.ctx, path)
			if err != nil || len(list) != 1 || list[0].ID.Scheme != "digest" || list[0].Perms != zk.PermAll {
				t.Errorf("%s: %v, %v", path, list, err)
			}
		}
		if _, err := recipe.NewMutex(a.client(), "/private/m", recipe.Options{}).Lock(a.ctx); !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("a stranger's lock: %v", err)
		}
	})
}

// A lock whose release is refused can be unlocked later.
func TestUnlockRefused(t *testing.T) {
	each(t, func(a *arena) {
		c := a.client()
		over, cancel := context.WithCancel(a.ctx)
		cancel()
		held, err := recipe.NewMutex(c, "/m", recipe.Options{}).Lock(a.ctx)
		a.must(err)
		_, err = c.SetACL(a.ctx, "/m", zk.WorldACL(zk.PermAll&^zk.PermDelete), zk.AnyVersion)
		a.must(err)
		if err := held.Unlock(over); !errors.Is(err, context.Canceled) {
			t.Errorf("a refused release whose caller leaves: %v", err)
		}
		for range 2 {
			if err := held.Unlock(a.ctx); !errors.Is(err, zk.ErrNoAuth) {
				t.Errorf("a refused release: %v", err)
			}
		}
		_, err = c.SetACL(a.ctx, "/m", zk.OpenACL(), zk.AnyVersion)
		a.must(err)
		if err := held.Unlock(over); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("a release whose caller leaves: %v", err)
		}
		a.must(held.Unlock(a.ctx)) // waits for the release in the background
		if _, ok, err := c.Exists(a.ctx, held.Path()); ok || err != nil {
			t.Errorf("the lock's znode exists: %t, %v", ok, err)
		}
		a.must(held.Unlock(a.ctx))
		if _, ok, err := c.Exists(a.ctx, held.Path()); ok || err != nil {
			t.Errorf("the lock's znode exists: %t, %v", ok, err)
		}
	})
}
