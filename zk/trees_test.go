package zk_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zktest"
)

// opened returns a client of e that ends with the test, and a context for its calls.
func opened(t *testing.T, e *zktest.Ensemble, chroot string, opt zk.Options) (*zk.Client, context.Context) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	if opt.SessionTimeout == 0 {
		opt.SessionTimeout = 30 * time.Second
	}
	c, err := zk.Open(ctx, e.Connect()+chroot, opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, ctx
}

// below returns the paths of all znodes below path, sorted.
func below(ctx context.Context, t *testing.T, c *zk.Client, path string) []string {
	t.Helper()
	names, _, err := c.Children(ctx, path)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		t.Fatal(err)
	}
	var all []string
	for _, name := range names {
		child := strings.TrimSuffix(path, "/") + "/" + name
		if child != "/zookeeper" {
			all = append(append(all, child), below(ctx, t, c, child)...)
		}
	}
	slices.Sort(all)
	return all
}

func TestCreateAll(t *testing.T) {
	t.Parallel()
	e := zktest.Start(t, zktest.Options{})
	c, ctx := opened(t, e, "", zk.Options{})
	if path, err := c.CreateAll(ctx, "/a/b/c", []byte("x"), zk.ModeEphemeral, zk.OpenACL()); err != nil ||
		path != "/a/b/c" {
		t.Errorf("created %s, %v", path, err)
	}
	if path, err := c.CreateAll(ctx, "/q/items/", nil, zk.ModePersistentSequential, zk.OpenACL()); err != nil ||
		path != "/q/items/0000000000" {
		t.Errorf("created %s, %v", path, err)
	}
	_, err := c.CreateAll(ctx, "/a/b/c", nil, zk.ModePersistent, zk.OpenACL())
	fails(t, err, zk.ErrNodeExists)
	_, err = c.CreateAll(ctx, "/a/b/c/d/e", nil, zk.ModePersistent, zk.OpenACL())
	fails(t, err, zk.ErrNoChildrenForEphemerals)

	// A path is ensured though nothing may be created beside it.
	if _, err := c.SetACL(ctx, "/a", zk.WorldACL(zk.PermRead), zk.AnyVersion); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/", "/a/b", "/a/b/d/e/f", "/a/b/d/e/f"} {
		if err := c.EnsurePath(ctx, path, zk.OpenACL()); err != nil {
			t.Error(err)
		}
	}
	fails(t, c.EnsurePath(ctx, "/a/x/y", zk.OpenACL()), zk.ErrNoAuth)
	want := []string{"/a", "/a/b", "/a/b/c", "/a/b/d", "/a/b/d/e", "/a/b/d/e/f", "/q", "/q/items", "/q/items/0000000000"}
	if got := below(ctx, t, c, "/"); !slices.Equal(got, want) {
		t.Errorf("there are %q, want %q", got, want)
	}

	lost, ctx := opened(t, e, "/no/such/chroot", zk.Options{})
	_, err = lost.CreateAll(ctx, "/a", nil, zk.ModePersistent, zk.OpenACL())
	if !errors.Is(err, zk.ErrNoNode) || !strings.Contains(err.Error(), "chroot") {
		t.Errorf("below a chroot that doesn't exist: %v", err)
	}
}

// plant makes a tree, and one beside it that must stay.
func plant(ctx context.Context, t *testing.T, c *zk.Client, leaves ...string) {
	t.Helper()
	for _, leaf := range append(leaves, "/beside/it", "/tree2") {
		if _, err := c.CreateAll(ctx, leaf, []byte("x"), zk.ModePersistent, zk.OpenACL()); err != nil &&
			!errors.Is(err, zk.ErrNodeExists) {
			t.Fatal(err)
		}
	}
}

func TestDeleteAll(t *testing.T) {
	t.Parallel()
	e := zktest.Start(t, zktest.Options{})
	other, _ := opened(t, e, "", zk.Options{})
	// The second has room for a few paths in a transaction, the third for none.
	for _, opt := range []zk.Options{{}, {MaxRequestBytes: 300}, {MaxRequestBytes: 120}} {
		c, ctx := opened(t, e, "", opt)
		var leaves []string
		for i := range 4 {
			for j := range 30 {
				leaves = append(leaves, fmt.Sprintf("/tree/with a name/%d/%d/leaf", i, j))
			}
		}
		plant(ctx, t, other, leaves...)
		for i := range 1100 { // more than two transactions take
			if _, err := other.Create(ctx, fmt.Sprintf("/tree/n%d", i), nil, zk.ModeEphemeral, zk.OpenACL()); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // once more does nothing
			if err := c.DeleteAll(ctx, "/tree"); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := below(ctx, t, c, "/"), []string{"/beside", "/beside/it", "/tree2"}; !slices.Equal(got, want) {
			t.Errorf("left are %q, want %q", got, want)
		}
	}
	c, ctx := opened(t, e, "/beside", zk.Options{})
	fails(t, c.DeleteAll(ctx, "/"), zk.ErrBadArguments)
	if err := c.DeleteAll(ctx, "/it"); err != nil {
		t.Error(err)
	}
	fails(t, c.Delete(ctx, "/", zk.AnyVersion), zk.ErrBadArguments)
	if _, err := c.Multi(ctx, zk.DeleteOp("/", zk.AnyVersion)); err != nil { // the chroot's znode
		t.Error(err)
	}
	whole, ctx := opened(t, e, "", zk.Options{})
	_, err := whole.Multi(ctx, zk.DeleteOp("/", zk.AnyVersion))
	fails(t, err, zk.ErrBadArguments)
	if got, want := below(ctx, t, whole, "/"), []string{"/tree2"}; !slices.Equal(got, want) {
		t.Errorf("left are %q, want %q", got, want)
	}
}

// A breaker is a network on which one request of one client is lost, or its reply.
type breaker struct {
	at    int    // the request to cut at, from 1
	after bool   // its reply is lost, not the request
	back  func() // called before the client connects again

	mu    sync.Mutex
	dials int
	n     int
}

func (k *breaker) dial(ctx context.Context, network, address string) (net.Conn, error) {
	k.mu.Lock()
	k.dials++
	again := k.dials == 2
	k.mu.Unlock()
	if again && k.back != nil {
		k.back()
	}
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return &breakerConn{Conn: conn, k: k}, err
}

func (k *breaker) fired() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.n >= k.at
}

// cuts reports whether the request being sent is the one.
func (k *breaker) cuts() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.n++
	return k.n == k.at
}

type breakerConn struct {
	net.Conn
	k       *breaker
	greeted bool
	mu      sync.Mutex
	deaf    bool // the reply of the last request is lost
}

var errBroken = errors.New("cut by the test")

func (c *breakerConn) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		n := 4 + int(binary.BigEndian.Uint32(rest))
		if c.greeted && c.k.cuts() {
			if !c.k.after {
				c.Conn.Close()
				return 0, errBroken
			}
			c.mu.Lock()
			c.deaf = true
			c.mu.Unlock()
		}
		if _, err := c.Conn.Write(rest[:n]); err != nil {
			return 0, err
		}
		c.greeted = true
		rest = rest[n:]
	}
	return len(b), nil
}

func (c *breakerConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.deaf { // the server has answered what came before in earlier reads, or it counts as lost too
		return 0, errBroken
	}
	return n, err
}

// DeleteAll deletes everything, at whatever request its connection is lost.
func TestDeleteAllUnderCuts(t *testing.T) {
	t.Parallel()
	e := zktest.Start(t, zktest.Options{})
	for _, after := range []bool{false, true} {
		t.Run(fmt.Sprint("after ", after), func(t *testing.T) {
			t.Parallel()
			root := fmt.Sprint("/", after)
			judge, ctx := opened(t, e, "", zk.Options{})
			if _, err := judge.Create(ctx, root, nil, zk.ModePersistent, zk.OpenACL()); err != nil {
				t.Fatal(err)
			}
			judge, err := judge.Chroot(root)
			if err != nil {
				t.Fatal(err)
			}
			places := 0
			for at := 1; ; at++ {
				k := &breaker{at: at, after: after}
				plant(ctx, t, judge, "/tree/a/1", "/tree/a/2", "/tree/b", "/tree/c/3")
				c, err := zk.Open(ctx, e.Connect()+root,
					zk.Options{SessionTimeout: 30 * time.Second, Dial: k.dial, MaxRequestBytes: 150})
				if err != nil {
					t.Fatal(err)
				}
				err = c.DeleteAll(ctx, "/tree")
				fired := k.fired()
				c.Close()
				if got, want := below(ctx, t, judge, "/"), []string{"/beside", "/beside/it", "/tree2"}; err != nil ||
					!slices.Equal(got, want) {
					t.Fatalf("cut at request %d: left are %q, %v", at, got, err)
				}
				if !fired {
					break
				}
				places++
			}
			if places < 10 {
				t.Errorf("only %d places to cut", places)
			}
		})
	}
}

// A repeated deletion doesn't delete znodes that others have made meanwhile.
func TestDeleteAllSparesWhatIsNew(t *testing.T) {
	t.Parallel()
	e := zktest.Start(t, zktest.Options{})
	other, ctx := opened(t, e, "", zk.Options{})
	for at := 1; ; at++ {
		plant(ctx, t, other, "/tree/a")
		renewed := false
		k := &breaker{at: at, after: true}
		k.back = func() {
			if _, ok, err := other.Exists(ctx, "/tree"); err == nil && !ok {
				plant(ctx, t, other, "/tree/a")
				renewed = true
			}
		}
		c, err := zk.Open(ctx, e.Connect(), zk.Options{SessionTimeout: 30 * time.Second, Dial: k.dial})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.DeleteAll(ctx, "/tree"); err != nil {
			t.Errorf("cut at request %d: %v", at, err)
		}
		fired := k.fired()
		c.Close()
		if !fired {
			t.Fatal("the transaction was never cut after it was applied")
		}
		_, ok, err := other.Exists(ctx, "/tree/a")
		if err != nil || ok != renewed {
			t.Fatalf("cut at request %d: /tree/a exists: %v, made again: %v, %v", at, ok, renewed, err)
		}
		if renewed {
			return
		}
	}
}

// Znodes that others change or add during DeleteAll stay.
func TestDeleteAllAmongOthers(t *testing.T) {
	t.Parallel()
	e := zktest.Start(t, zktest.Options{})
	other, ctx := opened(t, e, "", zk.Options{})
	for _, c := range []struct {
		name   string
		change func() error
		want   error
		left   []string
	}{
		{"added", func() error {
			_, err := other.Create(ctx, "/tree/a/new", nil, zk.ModePersistent, zk.OpenACL())
			return err
		}, zk.ErrNotEmpty, []string{"/tree", "/tree/a", "/tree/a/1", "/tree/a/new", "/tree/b"}},
		{"changed", func() error {
			_, err := other.Set(ctx, "/tree/a/1", []byte("y"), zk.AnyVersion)
			return err
		}, zk.ErrBadVersion, []string{"/tree", "/tree/a", "/tree/a/1", "/tree/b"}},
		{"deleted", func() error { return other.Delete(ctx, "/tree/a/1", zk.AnyVersion) }, nil, nil},
	} {
		plant(ctx, t, other, "/tree/a/1", "/tree/b")
		// Its transaction is the first request that has the operation multi.
		hold := &holder{op: 14, then: c.change}
		client, err := zk.Open(ctx, e.Connect(), zk.Options{SessionTimeout: 30 * time.Second, Dial: hold.dial})
		if err != nil {
			t.Fatal(err)
		}
		err = client.DeleteAll(ctx, "/tree")
		client.Close()
		if !errors.Is(err, c.want) || hold.err != nil || !hold.held {
			t.Errorf("%s: %v, want %v; the change: %v", c.name, err, c.want, hold.err)
		}
		if got := below(ctx, t, other, "/tree"); len(c.left) > 0 && !slices.Equal(got, c.left[1:]) {
			t.Errorf("%s: left are %q, want %q", c.name, got, c.left)
		}
		if err := other.DeleteAll(ctx, "/tree"); err != nil {
			t.Fatal(err)
		}
	}
}

// A holder calls a function before the first request of an operation is sent.
type holder struct {
	op   uint32
	then func() error

	held bool
	err  error
}

func (h *holder) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return &holderConn{conn, h}, err
}

type holderConn struct {
	net.Conn
	h *holder
}

func (c *holderConn) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 12; rest = rest[4+binary.BigEndian.Uint32(rest):] { // whole frames
		if binary.BigEndian.Uint32(rest[8:]) == c.h.op && !c.h.held {
			c.h.held = true
			c.h.err = c.h.then()
		}
	}
	return c.Conn.Write(b)
}
