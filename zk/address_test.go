package zk

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// A name may have several addresses. The client tries the next one when a connection is accepted and then closed.
func TestEachAddressOfANameIsTried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &network{t: t, over: make(chan struct{}), scripts: []func(*peer){
			func(p *peer) { p.hello() }, // and closes
			accepting,
		}}
		defer close(n.over)
		opt, err := Options{}.complete()
		if err != nil {
			t.Fatal(err)
		}
		opt.Dial = n.dial
		opt.lookup = func(_ context.Context, host string) ([]string, error) {
			if host != "zk" {
				return nil, errors.New("no such host")
			}
			return []string{"10.0.0.1", "10.0.0.2"}, nil
		}
		c := &Client{s: startSession([]string{"zk:2181"}, opt)}
		defer c.Close()
		get(t, c, "/a")
		n.mu.Lock()
		defer n.mu.Unlock()
		if want := []string{"10.0.0.1:2181", "10.0.0.2:2181"}; !slices.Equal(n.dials, want) {
			t.Errorf("dialled %q, want %q: the second address at once", n.dials, want)
		}
	})
}

// A change of the list ends the current attempt to connect, whose timeout is that of the old list, and the client
// doesn't stay with a server that was removed meanwhile.
func TestUpdateServersDuringAnAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		dialled := map[string]int{}
		over := make(chan struct{})
		defer close(over)
		opt := Options{SessionTimeout: 9 * time.Second, Dial: func(ctx context.Context, _, addr string) (net.Conn, error) {
			mu.Lock()
			dialled[addr]++
			mu.Unlock()
			if strings.HasPrefix(addr, "dead") {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			ours, theirs := net.Pipe()
			go func() {
				defer theirs.Close()
				accepting(&peer{t: t, conn: theirs, server: addr, over: over})
			}()
			return ours, nil
		}}
		c, err := New("dead1:1", opt)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		synctest.Wait()
		start := time.Now()
		if err := c.UpdateServers("dead2:1,dead3:1,live:1"); err != nil {
			t.Fatal(err)
		}
		get(t, c, "/a")
		if passed := time.Since(start); passed > opt.SessionTimeout {
			t.Errorf("connected after %v, not within the shares of the new list", passed)
		}
		mu.Lock()
		defer mu.Unlock()
		if dialled["dead1:1"] != 1 {
			t.Errorf("the removed server was dialled %d times", dialled["dead1:1"])
		}
	})
}

// A removed server's late reply to the handshake doesn't make the client use it.
func TestRemovedServerAnswersLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		opt, err := Options{}.complete()
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		s := &session{
			opt: opt, ctx: ctx, list: newServerList([]string{"b:1"}, rand.New(rand.NewPCG(1, 1))), trouble: map[string]error{},
		}
		ours, theirs := net.Pipe()
		defer ours.Close()
		defer theirs.Close()
		if _, err := s.connected(ours, "a:1", &jute.ConnectResponse{}); !errors.Is(err, errListChanged) {
			t.Errorf("took a connection to a server that is not in the list: %v", err)
		}
	})
}

// A step of the wall clock doesn't change the time of the last received bytes.
func TestSilenceIsMonotonic(t *testing.T) {
	t.Parallel()
	l := newLink(nil, "a:1", timingOf(time.Second, 1))
	if heard := l.lastHeard().String(); !strings.Contains(heard, "m=") {
		t.Errorf("%s has no monotonic reading: a step of the clock would end the session, or keep it for ever", heard)
	}
}

// A chroot at "/" has the same root as the client.
func TestChrootAtRoot(t *testing.T) {
	t.Parallel()
	for root, want := range map[string]string{"": "/x", "/app": "/app/x"} {
		c, err := (&Client{root: root}).Chroot("/")
		if err != nil {
			t.Fatal(err)
		}
		if got := c.abs("/x"); got != want {
			t.Errorf("chroot / below %q: /x is %q, want %q", root, got, want)
		}
	}
}

// An auth request leaves the queue when it is sent, so a waiting caller then has room.
func TestAuthMakesRoom(t *testing.T) {
	t.Parallel()
	scripted(t, Options{MaxOutstanding: 1}, func(t *testing.T, c *Client, n *network) {
		got := make(chan error, 2)
		go func() { got <- c.AddAuth(context.Background(), "digest", []byte("a:b")) }()
		synctest.Wait()
		go func() {
			_, _, err := c.Get(context.Background(), "/a")
			got <- err
		}()
		for range 2 {
			select {
			case err := <-got:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(time.Minute):
				t.Fatal("a call waits for room for ever")
			}
		}
	}, func(p *peer) {
		time.Sleep(time.Second) // both are queued
		p.accept().serve()
	})
}

// A watch that has ended releases the context of CloseOnDone.
func TestCloseOnDoneLeavesNothing(t *testing.T) {
	t.Parallel()
	ctx := &countingContext{Context: context.Background()}
	scripted(t, Options{}, func(t *testing.T, c *Client, n *network) {
		_, _, w, err := c.GetW(context.Background(), "/a")
		if err != nil {
			t.Fatal(err)
		}
		w.CloseOnDone(ctx)
		if ctx.kept() != 1 {
			t.Fatalf("%d functions wait for the context, want 1", ctx.kept())
		}
		w.Close()
		if ctx.kept() != 0 {
			t.Errorf("%d functions still wait for the context of an ended watch", ctx.kept())
		}
	}, accepting)
}

// countingContext counts the functions that context.AfterFunc registers with it.
type countingContext struct {
	context.Context
	mu sync.Mutex
	n  int
}

func (c *countingContext) kept() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// AfterFunc is called by package context.
func (c *countingContext) AfterFunc(func()) func() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n++
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.n--
		return true
	}
}

// Done makes the context cancellable for package context.
func (c *countingContext) Done() <-chan struct{} { return make(chan struct{}) }
