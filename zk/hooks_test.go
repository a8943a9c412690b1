package zk_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zktest"
)

// seen keeps what hooks are told.
type seen struct {
	mu       sync.Mutex
	requests []zk.RequestEnd
	parents  []any
	connects []error
	states   []string
	watches  []zk.Event
}

type parentKey struct{}

func (s *seen) hooks() zk.Hooks {
	locked := func(f func()) {
		s.mu.Lock()
		defer s.mu.Unlock()
		f()
	}
	return zk.Hooks{
		Request: func(ctx context.Context, r zk.RequestEnd) {
			locked(func() { s.requests, s.parents = append(s.requests, r), append(s.parents, ctx.Value(parentKey{})) })
		},
		Connect: func(_ string, took time.Duration, err error) {
			locked(func() { s.connects = append(s.connects, err) })
			if took <= 0 {
				panic("an attempt took no time")
			}
		},
		State: func(before zk.State, now zk.StateChange) {
			locked(func() { s.states = append(s.states, fmt.Sprint(before, " > ", now.State)) })
		},
		Watch: func(e zk.Event) { locked(func() { s.watches = append(s.watches, e) }) },
	}
}

// last returns the last request.
func (s *seen) last(t *testing.T) zk.RequestEnd {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.requests) == 0 {
		t.Fatal("no request was told")
	}
	return s.requests[len(s.requests)-1]
}

func (s *seen) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

// TestHooks has each kind of call told to two hooks, by a client with a chroot.
func TestHooks(t *testing.T) {
	t.Parallel()
	servers := zktest.Start(t, zktest.Options{})
	var s, second seen
	opt := zk.Options{Hooks: []zk.Hooks{s.hooks(), {}, second.hooks()}, SessionTimeout: 20 * time.Second}
	root, err := zk.Open(t.Context(), servers.Connect(), opt)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	ctx := context.WithValue(t.Context(), parentKey{}, "parent")
	if _, err := root.Create(ctx, "/app", nil, zk.ModePersistent, world); err != nil {
		t.Fatal(err)
	}
	c, err := root.Chroot("/app")
	if err != nil {
		t.Fatal(err)
	}
	_, node, err := c.CreateStat(ctx, "/a", []byte("hello"), zk.ModePersistent, world)
	if err != nil {
		t.Fatal(err)
	}
	pipelined := func(f func(p *zk.Pipeline)) { f(c.Pipeline()) }
	for _, test := range []struct {
		do     func()
		op     string
		path   string
		result string
		ops    int
	}{
		{func() { c.Get(ctx, "/a") }, "getData", "/a", "OK", 0},
		{func() { c.Get(ctx, "/none") }, "getData", "/none", "NoNode", 0},
		{func() { c.Exists(ctx, "/none") }, "exists", "/none", "NoNode", 0},
		{func() { c.Set(ctx, "/a", nil, 7) }, "setData", "/a", "BadVersion", 0},
		{func() { c.Delete(ctx, "/none", 0) }, "delete", "/none", "NoNode", 0},
		{func() { c.Multi(ctx, zk.CheckOp("/a", 0), zk.SetOp("/a", nil, 0)) }, "multi", "", "OK", 2},
		{func() { c.Multi(ctx, zk.CheckOp("/a", 0), zk.DeleteOp("/a", 7)) }, "multi", "", "BadVersion", 2},
		{func() { c.MultiRead(ctx, zk.GetOp("/none")) }, "multiRead", "", "OK", 1},
		{func() { c.AddAuth(ctx, "digest", []byte("a:secret")) }, "auth", "", "OK", 0},
		{func() { pipelined(func(p *zk.Pipeline) { p.Get(ctx, "/a").Wait(ctx) }) }, "getData", "/a", "OK", 0},
		{func() { pipelined(func(p *zk.Pipeline) { p.Get(ctx, "/none").Wait(ctx) }) }, "getData", "/none", "NoNode", 0},
		{func() { pipelined(func(p *zk.Pipeline) { p.Multi(ctx, zk.DeleteOp("/a", 7)).Wait(ctx) }) }, "multi", "",
			"BadVersion", 1},
	} {
		n := s.count()
		test.do()
		r := s.last(t)
		if r.Op != test.op || r.Path != test.path || r.Result() != test.result || r.Ops != test.ops || r.Attempts != 1 {
			t.Errorf("told %+v (%s), want %s %s %s, %d operations", r, r.Result(), test.op, test.path, test.result, test.ops)
		}
		if s.count() != n+1 || second.count() != n+1 {
			t.Errorf("%s: told %d times, and the second hook %d; want once", test.op, s.count()-n, second.count()-n)
		}
		if test.op == "auth" {
			continue // its reply isn't one of the ordered replies
		}
		if r.Server != servers.Connect() || r.Zxid < node.Czxid || r.Sent < 12 || r.Received < 20 || r.Duration <= 0 ||
			r.Start.IsZero() {
			t.Errorf("%s: told %+v", test.op, r)
		}
	}
	s.mu.Lock()
	for i, p := range s.parents {
		if p != "parent" {
			t.Errorf("request %d has another context", i)
		}
	}
	s.mu.Unlock()

	// A call that is left, or never sent, has its caller's view.
	left, cancel := context.WithCancel(ctx)
	cancel()
	c.Get(left, "/a")
	if r := s.last(t); r.Result() != "Canceled" && r.Result() != "OK" {
		t.Errorf("told %+v of a cancelled call", r)
	}
	n := s.count()
	c.Get(ctx, "not/absolute")
	if s.count() != n {
		t.Error("a call with bad arguments was told as a request")
	}

	w, err := c.AddWatch(ctx, "/a", zk.AddWatchPersistent)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Set(ctx, "/a", nil, zk.AnyVersion); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Next(ctx); err != nil {
		t.Fatal(err)
	}
	c.Get(ctx, "/a") // its reply comes after the notification was told
	s.mu.Lock()
	if len(s.watches) != 1 || s.watches[0].Path != "/app/a" || s.watches[0].Type != zk.EventNodeDataChanged {
		t.Errorf("told notifications %v", s.watches)
	}
	s.mu.Unlock()

	root.Close()
	if _, _, err := c.Get(ctx, "/a"); !errors.Is(err, zk.ErrClosed) {
		t.Error(err)
	}
	if r := s.last(t); r.Result() != "Closed" || r.Server != "" || r.Received != 0 {
		t.Errorf("told %+v after Close", r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if want := []string{"connecting > connected", "connected > closed"}; !slices.Equal(s.states, want) {
		t.Errorf("told states %q, want %q", s.states, want)
	}
	if len(s.connects) != 1 || s.connects[0] != nil {
		t.Errorf("told attempts %v", s.connects)
	}
}

// TestHooksOfLostConnections has refused connections, a lost one, and a pipeline broken by it told.
func TestHooksOfLostConnections(t *testing.T) {
	t.Parallel()
	servers := zktest.Start(t, zktest.Options{})
	var s seen
	c, err := zk.Open(t.Context(), servers.Connect(), zk.Options{
		Hooks: []zk.Hooks{s.hooks()}, SessionTimeout: 30 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	states := c.States()
	defer states.Close()
	await := func(want zk.State) {
		t.Helper()
		for {
			change, err := states.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if change.State == want {
				return
			}
		}
	}
	await(zk.StateConnected)
	servers.Refuse(0, true)
	servers.Cut()
	await(zk.StateConnecting)
	f := c.Pipeline().Get(t.Context(), "/")
	servers.Refuse(0, false)
	await(zk.StateConnected)
	if _, err := f.Wait(t.Context()); err != nil {
		t.Fatal(err) // it was queued without a connection
	}
	c.Close()
	s.mu.Lock()
	defer s.mu.Unlock()
	want := "connecting > connected, connected > connecting, connecting > connected, connected > closed"
	if got := strings.Join(s.states, ", "); got != want {
		t.Errorf("told states %s, want %s", got, want)
	}
	if first, last := s.connects[0], s.connects[len(s.connects)-1]; first != nil || last != nil {
		t.Errorf("told attempts %v; the first and the last succeeded", s.connects)
	}
}
