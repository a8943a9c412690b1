package recipe_test

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"strings"
	"sync/atomic"
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
			if _, err := l.Commit(a.ctx, zk.CheckOp("/", zk.AnyVersion)); !errors.Is(err, zk.ErrNoAuth) ||
				!strings.Contains(err.Error(), "ACL") {
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
			if _, err := recipe.NewMutex(c, "/m", recipe.Options{}).Lock(a.ctx); !errors.Is(err, zk.ErrNoNode) ||
				!strings.Contains(err.Error(), "chroot") {
				t.Errorf("lock: %v after %v, want NoNode and what to do", err, time.Since(begun))
			}
			if err := recipe.NewBarrier(c, "/b", recipe.Options{}).Set(a.ctx); !errors.Is(err, zk.ErrNoNode) {
				t.Errorf("barrier: %v, want NoNode", err)
			}
			if err := recipe.NewQueue(c, "/q", recipe.Options{}).Put(a.ctx, []byte("x")); !errors.Is(err, zk.ErrNoNode) {
				t.Errorf("queue: %v, want NoNode", err)
			}
			source := zk.NewSessions(func() (*zk.Client, error) {
				return zk.New(a.connect+"/missing/chroot", zk.Options{SessionTimeout: sessionTimeout})
			})
			defer source.Close()
			e := recipe.NewEphemeral(source, "/e", recipe.Options{})
			defer e.Close()
			if _, err := e.Wait(a.ctx); !errors.Is(err, zk.ErrNoNode) {
				t.Errorf("ephemeral: %v, want NoNode", err)
			}
		})
	})
}

// An Ephemeral whose znode others delete as soon as it is there makes it again with
// growing pauses.
func TestEphemeralOthersDelete(t *testing.T) {
	each(t, func(a *arena) {
		c := a.client()
		e := recipe.NewEphemeral(a.source(), "/e", recipe.Options{})
		defer e.Close()
		made := 0
		begun := time.Now()
		for (time.Since(begun) < time.Second || made == 0) && a.ctx.Err() == nil {
			if c.Delete(a.ctx, "/e", zk.AnyVersion) == nil {
				made++
			}
		}
		if took := time.Since(begun); made == 0 || made > 20*int(1+took.Seconds()) {
			t.Errorf("made %d times in %v", made, took)
		}
		if _, err := e.Wait(a.ctx); err != nil {
			t.Error(err)
		}
	})
}

// A ledger that is closed late leaves nothing behind.
func TestLedgerClosedLate(t *testing.T) {
	each(t, func(a *arena) {
		c := a.client()
		over, cancel := context.WithCancel(a.ctx)
		cancel()
		for range 10 { // a choice among two that are possible is made at random
			l := recipe.NewLedger(c, "/ledgers", recipe.Options{})
			_, err := l.Commit(a.ctx, zk.CheckOp("/", zk.AnyVersion))
			a.must(err)
			l.Close(over)
		}
		a.eventually("nothing is left", func() bool { return len(a.children(c, "/ledgers")) == 0 })
	})
}

// A ledger whose deletion is refused can be closed later.
func TestLedgerCloseRefused(t *testing.T) {
	each(t, func(a *arena) {
		c := a.client()
		l := recipe.NewLedger(c, "/ledgers", recipe.Options{})
		commit := func() {
			_, err := l.Commit(a.ctx, zk.CheckOp("/", zk.AnyVersion))
			a.must(err)
		}
		commit()
		_, err := c.SetACL(a.ctx, "/ledgers", zk.WorldACL(zk.PermAll&^zk.PermDelete), zk.AnyVersion)
		a.must(err)
		if err := l.Close(a.ctx); !errors.Is(err, zk.ErrNoAuth) {
			t.Errorf("a refused Close: %v", err)
		}
		commit()
		if names := a.children(c, "/ledgers"); len(names) != 1 {
			t.Errorf("znodes %v, want the ledger's alone", names)
		}
		_, err = c.SetACL(a.ctx, "/ledgers", zk.OpenACL(), zk.AnyVersion)
		a.must(err)
		a.must(l.Close(a.ctx))
		if names := a.children(c, "/ledgers"); len(names) > 0 {
			t.Errorf("left after Close: %v", names)
		}
	})
}

// opMulti is the operation code of a multi.
const opMulti = 14

// An unansweredConn loses what servers say from its first multi on, once armed.
type unansweredConn struct {
	net.Conn
	armed *atomic.Bool
	deaf  chan struct{} // closed at that multi
	end   chan struct{} // closed when the connection is to fail
}

func (d *unansweredConn) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 12; rest = rest[4+binary.BigEndian.Uint32(rest):] { // whole frames
		if binary.BigEndian.Uint32(rest[8:]) == opMulti && d.armed.CompareAndSwap(true, false) {
			close(d.deaf)
		}
	}
	return d.Conn.Write(b)
}

func (d *unansweredConn) Read(b []byte) (int, error) {
	n, err := d.Conn.Read(b)
	select {
	case <-d.deaf:
		<-d.end
		return 0, errCut
	default:
		return n, err
	}
}

// A claim that is given up before its reply has come is undone, so that others get
// the item.
func TestClaimGivenUp(t *testing.T) {
	each(t, func(a *arena) {
		var armed atomic.Bool
		deaf, end := make(chan struct{}), make(chan struct{})
		opt := zk.Options{SessionTimeout: sessionTimeout,
			Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, address)
				select {
				case <-deaf:
					return conn, err
				default:
					return &unansweredConn{conn, &armed, deaf, end}, err
				}
			}}
		c, err := zk.Open(a.ctx, a.connect, opt)
		a.must(err)
		defer c.Close()
		q := recipe.NewQueue(c, "/q", recipe.Options{})
		a.must(q.Put(a.ctx, []byte("the item")))
		first, err := q.Claim(a.ctx)
		a.must(err)
		a.must(first.Return(a.ctx))

		armed.Store(true)
		ctx, cancel := context.WithCancel(a.ctx)
		go func() {
			<-deaf
			cancel()
		}()
		if _, err := q.Claim(ctx); err == nil {
			t.Fatal("claimed without a reply")
		}
		close(end)
		second := recipe.NewQueue(a.client(), "/q", recipe.Options{})
		claim, err := second.Claim(a.ctx)
		a.must(err)
		a.must(claim.Done(a.ctx))
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
