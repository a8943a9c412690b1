package recipe_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zk/recipe"
)

// A deaf network loses the reply to one request: the server has applied it, and the client can't know.
type deaf struct {
	armed atomic.Bool // the next request's reply will be lost
}

func (d *deaf) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return &deafConn{Conn: conn, d: d}, err
}

type deafConn struct {
	net.Conn
	d    *deaf
	mu   sync.Mutex
	lose bool
}

func (c *deafConn) Write(b []byte) (int, error) {
	if c.d.armed.CompareAndSwap(true, false) {
		c.mu.Lock()
		c.lose = true
		c.mu.Unlock()
	}
	return c.Conn.Write(b)
}

func (c *deafConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lose {
		c.Conn.Close()
		return 0, errors.New("the reply was lost")
	}
	return n, err
}

// A lost reply never makes a recipe do its work twice or not at all, and never leaves a znode without an owner.
func TestLostReplies(t *testing.T) {
	world := zk.WorldACL(zk.PermAll)
	for _, tt := range []struct {
		what string
		// prepare, if not nil, runs before the reply of work's first request is
		// lost.
		prepare func(ctx context.Context, c *zk.Client) error
		work    func(ctx context.Context, c *zk.Client) error
		dir     string // has this many children afterwards
		want    int
	}{
		{"lock", func(ctx context.Context, c *zk.Client) error { return makeDir(ctx, c, "/m") },
			func(ctx context.Context, c *zk.Client) error {
				_, err := recipe.NewMutex(c, "/m", recipe.Options{}).Lock(ctx)
				return err
			}, "/m", 1},
		{"lock in a new directory", nil,
			func(ctx context.Context, c *zk.Client) error {
				_, err := recipe.NewMutex(c, "/new/m", recipe.Options{}).Lock(ctx)
				return err
			}, "/new/m", 1},
		{"set a barrier", nil,
			func(ctx context.Context, c *zk.Client) error {
				return recipe.NewBarrier(c, "/up/b", recipe.Options{}).Set(ctx)
			}, "/up", 1},
		{"enter a double barrier", func(ctx context.Context, c *zk.Client) error { return makeDir(ctx, c, "/db") },
			func(ctx context.Context, c *zk.Client) error {
				return recipe.NewDoubleBarrier(c, "/db", 1, recipe.Options{}).Enter(ctx)
			}, "/db", 2},
	} {
		t.Run(tt.what, func(t *testing.T) {
			each(t, func(a *arena) {
				d := new(deaf)
				c, err := zk.Open(a.ctx, a.connect, zk.Options{Dial: d.dial, SessionTimeout: sessionTimeout})
				a.must(err)
				defer c.Close()
				if tt.prepare != nil {
					a.must(tt.prepare(a.ctx, c))
				}
				d.armed.Store(true)
				a.must(tt.work(a.ctx, c))
				if d.armed.Load() {
					t.Fatal("no reply was lost")
				}
				if names := a.children(a.client(), tt.dir); len(names) != tt.want {
					t.Errorf("%s has %q, want %d", tt.dir, names, tt.want)
				}
			})
		})
	}

	t.Run("ledger", func(t *testing.T) {
		each(t, func(a *arena) {
			d := new(deaf)
			c, err := zk.Open(a.ctx, a.connect, zk.Options{Dial: d.dial, SessionTimeout: sessionTimeout})
			a.must(err)
			defer c.Close()
			l := recipe.NewLedger(c, "/ledgers", recipe.Options{})
			if results, err := l.Commit(a.ctx, zk.CreateOp("/n-", nil, zk.ModePersistentSequential, world)); err != nil ||
				len(results) != 1 || results[0].Path != "/n-0000000001" {
				t.Errorf("commit: %+v, %v", results, err)
			}
			d.armed.Store(true)
			if results, err := l.Commit(a.ctx, zk.CreateOp("/n-", nil, zk.ModePersistentSequential, world)); err != nil ||
				results != nil {
				t.Errorf("commit with a lost reply: %+v, %v", results, err)
			}
			// Refused: the error names the caller's own operation.
			_, err = l.Commit(a.ctx, zk.CheckOp("/n-0000000001", 0), zk.CheckOp("/nowhere", 0))
			if failed, ok := errors.AsType[*zk.MultiError](err); !ok || failed.Index != 1 || failed.Path != "/nowhere" ||
				zk.MaybeApplied(err) {
				t.Errorf("refused: %v", err)
			}
			// Left unsure: the next commit finds its place.
			d.armed.Store(true)
			gone, cancel := context.WithTimeout(a.ctx, time.Millisecond)
			l.Commit(gone, zk.CreateOp("/m-", nil, zk.ModePersistentSequential, world))
			cancel()
			if _, err := l.Commit(a.ctx, zk.CreateOp("/k", nil, zk.ModePersistent, world)); err != nil {
				t.Errorf("commit after one left unsure: %v", err)
			}
			d.armed.Store(false)
			// Somebody deletes the ledger's znode.
			for _, name := range a.children(c, "/ledgers") {
				a.must(c.Delete(a.ctx, "/ledgers/"+name, zk.AnyVersion))
			}
			if _, err := l.Commit(a.ctx, zk.DeleteOp("/k", zk.AnyVersion)); err != nil {
				t.Errorf("commit without the znode: %v", err)
			}
			a.must(l.Close(a.ctx))
			if names := a.children(c, "/ledgers"); len(names) != 0 {
				t.Errorf("left behind: %q", names)
			}
		})
	})

	t.Run("queue and counter", func(t *testing.T) {
		each(t, func(a *arena) {
			d := new(deaf)
			c, err := zk.Open(a.ctx, a.connect, zk.Options{Dial: d.dial, SessionTimeout: sessionTimeout})
			a.must(err)
			defer c.Close()
			q, n := recipe.NewQueue(c, "/q", recipe.Options{}), recipe.NewCounter(c, "/n", recipe.Options{})
			a.must(q.Put(a.ctx, []byte("first")))
			_, err = n.Add(a.ctx, 1)
			a.must(err)
			for range 3 {
				d.armed.Store(true)
				a.must(q.Put(a.ctx, []byte("more")))
			}
			if size, err := q.Len(a.ctx); err != nil || size != 4 {
				t.Errorf("%d items, %v; want 4", size, err)
			}
			for range 3 {
				d.armed.Store(true)
				_, err := q.Take(a.ctx)
				a.must(err)
			}
			if size, err := q.Len(a.ctx); err != nil || size != 1 {
				t.Errorf("%d items, %v; want 1", size, err)
			}
			for i := range int64(3) {
				d.armed.Store(true)
				if sum, err := n.Add(a.ctx, 5); err != nil || sum != 6+5*i {
					t.Errorf("sum %d, %v", sum, err)
				}
			}
		})
	})
}

func makeDir(ctx context.Context, c *zk.Client, path string) error {
	_, err := c.Create(ctx, path, nil, zk.ModePersistent, zk.WorldACL(zk.PermAll))
	return err
}
