package recipe_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zktest"
)

// stormFor is how long the tests under faults go on. A long run needs a long
// timeout too: go test -timeout 30m ./zk/recipe -storm 10m
var stormFor = flag.Duration("storm", 1500*time.Millisecond, "how long each test under faults lasts")

// sessionTimeout is long, so that sessions expire only where a test has them
// expire, however busy the machine is.
const sessionTimeout = 30 * time.Second

// patience bounds every test beside its storm: whoever waits longer is stuck. A busy machine may need a minute.
const patience = 3 * time.Minute

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	if apache.stop != nil {
		apache.stop()
	}
	os.RemoveAll(fleetClasses.dir) // "" is nothing
	if left := leaked(); left != "" && code == 0 {
		fmt.Fprintf(os.Stderr, "goroutines left behind:\n%s\n", left)
		code = 1
	}
	os.Exit(code)
}

// leaked returns the goroutines of the client and its recipes that don't end
// though everything was closed.
func leaked() string {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		var left []string
		for _, g := range strings.Split(string(stacks), "\n\n") {
			if strings.Contains(g, "zooid/zk.") || strings.Contains(g, "zooid/zk/recipe.") ||
				strings.Contains(g, "zooid/zk/gozk/zk.") {
				left = append(left, g)
			}
		}
		if len(left) == 0 || time.Now().After(deadline) {
			return strings.Join(left, "\n\n")
		}
	}
}

// An arena is a server to test against, with a proxy in between.
type arena struct {
	t       *testing.T
	ctx     context.Context
	connect string // with a chroot that is this test's own
	cut     func() // every connection
	refuse  func(on bool)
	word    func(word string) string // a four-letter word
}

// each runs a test against a Zooid server, and if ZOOID_COMPAT is 1 against an
// Apache server too. Nothing in the test knows which it is.
func each(t *testing.T, test func(a *arena)) {
	t.Parallel()
	t.Run("zooid", func(t *testing.T) {
		t.Parallel()
		e := zktest.Start(t, zktest.Options{})
		test(newArena(t, e.Connect(), e.Cut, func(on bool) { e.Refuse(0, on) }))
	})
	if os.Getenv("ZOOID_COMPAT") != "1" {
		return
	}
	t.Run("apache", func(t *testing.T) {
		t.Parallel()
		address := startedApache(t)
		p := zktest.NewProxy(t, func() string { return address })
		test(newArena(t, p.Address(), p.Cut, p.Refuse))
	})
}

func newArena(t *testing.T, servers string, cut func(), refuse func(bool)) *arena {
	ctx, cancel := context.WithTimeout(t.Context(), *stormFor+patience)
	t.Cleanup(cancel)
	c, err := zk.Open(ctx, servers, zk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	root, err := c.Create(ctx, "/test-", nil, zk.ModePersistentSequential, zk.WorldACL(zk.PermAll))
	if err != nil {
		t.Fatal(err)
	}
	return &arena{
		t: t, ctx: ctx, connect: servers + root, cut: cut, refuse: refuse,
		word: func(word string) string { return fourLetters(t, servers, word) },
	}
}

// client opens a session that ends with the test.
func (a *arena) client() *zk.Client {
	a.t.Helper()
	c, err := zk.Open(a.ctx, a.connect, zk.Options{SessionTimeout: sessionTimeout})
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { c.Close() })
	return c
}

// source returns sessions that end with the test.
func (a *arena) source() *zk.Sessions {
	s := zk.NewSessions(func() (*zk.Client, error) {
		return zk.New(a.connect, zk.Options{SessionTimeout: sessionTimeout})
	})
	a.t.Cleanup(s.Close)
	return s
}

// expire ends the present session of s.
func (a *arena) expire(s *zk.Sessions) {
	a.t.Helper()
	if c, err := s.Client(a.ctx); err == nil {
		zktest.Expire(a.t, c, a.connect)
	}
}

// must fails the test on an error.
func (a *arena) must(err error) {
	a.t.Helper()
	if err != nil {
		a.t.Fatal(err)
	}
}

// eventually waits until ok, or fails the test.
func (a *arena) eventually(what string, ok func() bool) {
	a.t.Helper()
	for !ok() {
		select {
		case <-time.After(5 * time.Millisecond):
		case <-a.ctx.Done():
			a.t.Fatalf("never: %s", what)
		}
	}
}

// A long storm has lulls. A connection is cut after 50 ms on average, and a client
// whose connections end so soon pauses up to 1.6 s before the next: on a machine
// that is too busy to serve anybody within 50 ms, sessions would expire where the
// test doesn't expect it.
const (
	lullEvery = sessionTimeout / 3
	lull      = 3 * time.Second
)

// storm does one of faults after the other, in random order and with short
// pauses, and then closes the channel.
func (a *arena) storm(faults ...func()) (over <-chan struct{}) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(done)
		calm := time.Now().Add(lullEvery)
		for end := time.Now().Add(*stormFor); time.Now().Before(end) && a.ctx.Err() == nil; {
			if time.Now().After(calm) {
				time.Sleep(lull)
				calm = time.Now().Add(lullEvery)
			}
			time.Sleep(20*time.Millisecond + rand.N(60*time.Millisecond))
			faults[rand.N(len(faults))]()
		}
	})
	a.t.Cleanup(wg.Wait)
	return done
}

// finished reports whether over is closed.
func finished(over <-chan struct{}) bool {
	select {
	case <-over:
		return true
	default:
		return false
	}
}

// children returns the children of path, none if it doesn't exist.
func (a *arena) children(c *zk.Client, path string) []string {
	a.t.Helper()
	names, _, err := c.Children(a.ctx, path)
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		a.t.Fatal(err)
	}
	return names
}
