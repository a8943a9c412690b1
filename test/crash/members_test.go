package crash

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/test/verdict"
	"github.com/zooid-project/zooid/zk"
)

// membersPatience is for one step of a test, an election among it, on a machine that
// does other things.
const membersPatience = 2 * time.Minute

var (
	shrinksFlag  = flag.Int("shrinks", 0, "ensembles that TestRemovedServersDieAtTheAnswer shrinks; 0 means 1, 20 with -long")
	replacesFlag = flag.Int("replaces", 0, "ensembles whose servers TestReplacedServersDie replaces; 0 means 1, 20 with -long")
)

// open connects a client that may change the membership to servers.
func open(t *testing.T, servers ...*Server) *zk.Client {
	t.Helper()
	var addrs []string
	for _, s := range servers {
		addrs = append(addrs, s.Addr)
	}
	ctx, cancel := context.WithTimeout(t.Context(), membersPatience)
	defer cancel()
	c, err := zk.Open(ctx, strings.Join(addrs, ","), zk.Options{SessionTimeout: sessionTimeout})
	if err != nil {
		t.Fatalf("connect to %v: %v", addrs, err)
	}
	return c
}

// change asks for a change of membership, again while the new servers catch up.
func change(t *testing.T, c *zk.Client, to zk.Reconfig) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), membersPatience)
	defer cancel()
	for {
		_, _, err := c.Reconfig(ctx, to)
		if err == nil {
			return
		}
		if !errors.Is(err, zk.ErrNewConfigNoQuorum) || ctx.Err() != nil {
			t.Fatalf("change the membership to %+v: %v", to, err)
		}
		time.Sleep(readyPause)
	}
}

// membersConfig lets every client change the membership.
var membersConfig = map[string]string{"reconfigEnabled": "true", "skipACL": "yes"}

// TestRemovedServersDieAtTheAnswer shrinks ensembles of five servers to two and kills
// the three that left as the answer comes: the two go on, and have what was
// acknowledged.
func TestRemovedServersDieAtTheAnswer(t *testing.T) {
	_, rng := hurtful(t)
	for round := range times(*shrinksFlag, 1, 20) {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			e := Start(t, Options{Servers: 5, Config: membersConfig})
			order := rng.Perm(5)
			stay, leave := order[:2], order[2:]
			c := open(t, e.Servers[stay[0]])
			defer c.Close()
			if _, err := c.Create(t.Context(), "/before", nil, zk.ModePersistent, zk.WorldACL(zk.PermAll)); err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, i := range leave {
				ids = append(ids, fmt.Sprint(i+1))
			}
			change(t, c, zk.Reconfig{Leaving: ids})
			var wg sync.WaitGroup
			for _, i := range leave {
				wg.Go(e.Servers[i].Kill)
			}
			wg.Wait()
			other := open(t, e.Servers[stay[1]])
			defer other.Close()
			for _, c := range []*zk.Client{c, other} {
				if err := goesOn(t, c); err != nil {
					t.Fatalf("servers %d and %d have no quorum after %s were removed and killed: %v", stay[0]+1, stay[1]+1, ids, err)
				}
				if _, _, err := c.Get(t.Context(), "/before"); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// TestReplacedServersDie replaces servers 2 and 3 of an ensemble by 4 and 5 under load
// and kills server 1, which stays, at some moment of that. Those of the others that the
// configuration names then go on, and have every write that was acknowledged.
func TestReplacedServersDie(t *testing.T) {
	_, rng := hurtful(t)
	for round := range times(*replacesFlag, 1, 20) {
		t.Run(fmt.Sprint(round), func(t *testing.T) { replaceAndKill(t, rng) })
	}
}

func replaceAndKill(t *testing.T, rng *rand.Rand) {
	e := Start(t, Options{Servers: 5, Config: membersConfig})
	c := open(t, e.Servers[0])
	defer c.Close()
	awaitLevel(t, presentLevel, e.Servers...) // the configuration is there by then
	lines := serverLines(t, c)
	change(t, c, zk.Reconfig{Leaving: []string{"4", "5"}})
	for _, s := range e.Servers[3:] {
		s.Kill()
		wipe(t, s)
	}
	fill(t, c) // so that to catch up takes its time
	for _, s := range e.Servers[3:] {
		if err := s.Start(); err != nil {
			t.Fatal(err)
		}
	}
	acked := make(chan []string, 1)
	stop := make(chan struct{})
	go writeUntil(t.Context(), c, stop, acked)
	asks := open(t, e.Servers[1])
	defer asks.Close()
	var joining []string
	for i, line := range lines[3:] { // a server that joins must say where it serves clients
		joining = append(joining, line+";"+e.Servers[3+i].Addr)
	}
	changed := make(chan error, 1) // what the reconfig was answered
	go func() {
		for { // its answer may be lost with server 1
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			_, _, err := asks.Reconfig(ctx, zk.Reconfig{Joining: joining, Leaving: []string{"2", "3"}})
			cancel()
			if !errors.Is(err, zk.ErrNewConfigNoQuorum) {
				changed <- err
				return
			}
			time.Sleep(readyPause)
		}
	}()
	moment(rng, 1500*time.Millisecond)
	e.Servers[0].Kill()
	close(stop)
	written := <-acked
	if err := <-changed; errors.Is(err, zk.ErrBadArguments) {
		t.Fatalf("the reconfig was refused: %v", err)
	}
	for _, s := range e.Servers[1:] {
		if !s.Running() {
			t.Fatalf("server %d has ended by itself", s.ID)
		}
	}
	after := open(t, e.Servers[1:]...)
	defer after.Close()
	if err := goesOn(t, after); err != nil {
		t.Fatalf("there is no quorum: %v", err)
	}
	have, _, err := after.Children(t.Context(), "/")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(have)
	for _, path := range written {
		if _, found := slices.BinarySearch(have, strings.TrimPrefix(path, "/")); !found {
			verdict.Final(t, verdict.Checker)
			t.Errorf("%s was acknowledged and is gone", path)
		}
	}
	t.Logf("%d writes acknowledged until server 1 died", len(written))
}

// goesOn waits until a write is accepted.
func goesOn(t *testing.T, c *zk.Client) error {
	ctx, cancel := context.WithTimeout(t.Context(), membersPatience)
	defer cancel()
	for {
		_, err := c.Create(ctx, "/after-", nil, zk.ModePersistentSequential, zk.WorldACL(zk.PermAll))
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(readyPause)
	}
}

// serverLines returns the lines server.N=... of the configuration in force.
func serverLines(t *testing.T, c *zk.Client) (lines []string) {
	t.Helper()
	data, _, err := c.Get(t.Context(), "/zookeeper/config")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if strings.HasPrefix(line, "server.") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	slices.Sort(lines)
	return lines
}

// wipe empties a server's data directories, but for its id, and gives it back the
// configuration that it was laid out with.
func wipe(t *testing.T, s *Server) {
	t.Helper()
	empty(t, s)
	err := os.Rename(filepath.Join(s.Folder, "zoo.cfg.bak"), filepath.Join(s.Folder, "zoo.cfg"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // it was killed before it wrote the files
		t.Fatal(err)
	}
}

// fill makes the state large.
func fill(t *testing.T, c *zk.Client) {
	t.Helper()
	data := make([]byte, 500_000)
	for i := range 60 {
		data[0] = byte(i)
		if _, err := c.Create(t.Context(), fmt.Sprintf("/large-%d", i), data, zk.ModePersistent,
			zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
}

// writeUntil creates znodes one after the other until stop is closed. It sends the paths of
// those that were acknowledged to acked.
func writeUntil(ctx context.Context, c *zk.Client, stop chan struct{}, acked chan []string) {
	var paths []string
	defer func() { acked <- paths }()
	for {
		select {
		case <-stop:
			return
		default:
		}
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		path, err := c.Create(ctx, "/n-", nil, zk.ModePersistentSequential, zk.WorldACL(zk.PermAll))
		cancel()
		if err == nil {
			paths = append(paths, path)
		}
	}
}
