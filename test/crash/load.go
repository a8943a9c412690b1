package crash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/internal/proof/traffic"
	"github.com/zooid-project/zooid/jute"
)

const (
	// redialPause is the time between two attempts of a client to connect.
	redialPause = 10 * time.Millisecond
	// restPatience is how long it may take until clients are at rest: reconnected and synced.
	restPatience = 2 * time.Minute
	// sessionTimeout is the timeout that clients ask for: no fault of these tests ends a
	// session, nor does a machine that keeps a client or a server waiting.
	sessionTimeout = 30 * time.Second
	// closeEvery is the mean number of requests after which a client closes its
	// session, with its ephemerals, and opens another.
	closeEvery = 500
)

// A Load is a set of clients that do everything ZooKeeper's clients do, at
// random, and record it: each has several requests outstanding, and opens a new
// connection after each broken one.
type Load struct {
	Journal *history.Journal
	// Addrs holds, for each client, the addresses it may use: a single one pins it.
	Addrs       [][]string
	Root        string
	Outstanding int // per client
	// Pause is the time between two requests of a client, which leaves the servers
	// some of the machine's time.
	Pause time.Duration
	Seed  uint64

	clients []*loadClient
	stop    chan struct{}
	wg      sync.WaitGroup
}

// A loadClient is one client of a Load.
type loadClient struct {
	load    *Load
	number  int
	c       *traffic.Client
	mix     *traffic.Mix
	started bool

	answered, lost atomic.Int64
	expired        atomic.Int64 // sessions that ended
	mu             sync.Mutex
	refused        map[jute.Code]int // answers that no client should get
	connected      time.Time         // when the present connection was established
	breaks         []broken          // connections that ended by themselves
	failed         error
}

// users are the users that a Load's clients authenticate as.
var users = [...]string{"anna:1", "", "bert:2"}

// Start connects the clients and begins.
func (l *Load) Start() error {
	l.stop = make(chan struct{})
	for i, addrs := range l.Addrs {
		user := users[i%len(users)]
		c := &loadClient{load: l, number: i, refused: map[jute.Code]int{}}
		c.c = traffic.NewClient(l.Journal, traffic.ClientOptions{Timeout: sessionTimeout, Digest: user}, addrs...)
		c.mix = &traffic.Mix{
			Root: l.Root, Name: fmt.Sprintf("%d.%d", l.Seed, i), Persistent: i%3 == 2,
			Rand: rand.New(rand.NewPCG(l.Seed, uint64(i))),
		}
		if user != "" {
			c.mix.Identity = traffic.DigestID(user)
		}
		l.clients = append(l.clients, c)
		if err := c.connect(restPatience); err != nil {
			return err
		}
	}
	q := jute.CreateRequest{Path: l.Root, ACL: jute.WorldACL(jute.PermAll)}
	call, err := l.clients[0].c.Do(jute.OpCreate, q.Append(nil))
	if err != nil {
		return err
	}
	if call.Err != jute.OK {
		return fmt.Errorf("create the root %s of the load: %w", l.Root, call.Err)
	}
	for _, c := range l.clients {
		l.wg.Go(c.drive)
	}
	return nil
}

// connect tries until a connection is established.
func (c *loadClient) connect(patience time.Duration) error {
	deadline := time.Now().Add(patience)
	for {
		err := c.c.Connect()
		switch {
		case err == nil:
			c.started, c.connected = true, time.Now()
			return nil
		case errors.Is(err, traffic.ErrExpired):
			if c.started {
				c.expired.Add(1)
			}
			continue
		case time.Now().After(deadline):
			return fmt.Errorf("client %d found no server within %v: %w", c.number, patience, err)
		}
		select {
		case <-time.After(redialPause):
		case <-c.load.stop:
			return nil
		}
	}
}

// drive sends requests until the load is stopped.
func (c *loadClient) drive() {
	rng := c.mix.Rand
	var open []*traffic.Call
	settle := func(n int) {
		for len(open) > n {
			c.note(open[0])
			open = open[1:]
		}
	}
	for {
		select {
		case <-c.load.stop:
			settle(0)
			return
		default:
		}
		if rng.IntN(closeEvery) == 0 {
			settle(0)
			c.c.Close() // a session whose connection is gone is just forgotten
			c.started = false
		}
		call, err := c.c.Send(c.mix.Next())
		if err != nil {
			settle(0)
			if c.started {
				c.mu.Lock()
				c.breaks = append(c.breaks, broken{c.connected, time.Now()})
				c.mu.Unlock()
			}
			if err := c.connect(restPatience); err != nil {
				c.mu.Lock()
				c.failed = err
				c.mu.Unlock()
				return
			}
			continue
		}
		open = append(open, call)
		settle(rng.IntN(c.load.Outstanding))
		if c.load.Pause > 0 {
			time.Sleep(c.load.Pause)
		}
	}
}

// note counts the answer to a call.
func (c *loadClient) note(call *traffic.Call) {
	code := call.Wait()
	if call.Lost {
		c.lost.Add(1)
		return
	}
	c.answered.Add(1)
	switch code {
	case jute.OK, jute.ErrNoNode, jute.ErrNodeExists, jute.ErrBadVersion, jute.ErrNotEmpty, jute.ErrNoAuth,
		jute.ErrNoChildrenForEphemerals, jute.ErrInvalidACL, jute.ErrNoWatcher, jute.ErrBadArguments:
	default:
		c.mu.Lock()
		c.refused[code]++
		c.mu.Unlock()
	}
}

// Stop ends the sending.
func (l *Load) Stop() {
	select {
	case <-l.stop:
	default:
		close(l.stop)
	}
	l.wg.Wait()
}

// Rest brings the clients to rest after Stop, twice: after the first time there are no
// more writes. When a client's sync is answered, so is everything it sent before, and
// every event has arrived.
func (l *Load) Rest() error {
	l.stop = make(chan struct{}) // connect waits again
	deadline := time.Now().Add(restPatience)
	sync := jute.PathRequest{Path: l.Root}
	for range 2 {
		for _, c := range l.clients {
			for {
				_, err := c.c.Do(jute.OpSync, sync.Append(nil))
				if err == nil {
					break
				}
				if time.Now().After(deadline) {
					return fmt.Errorf("client %d did not come to rest within %v: %w", c.number, restPatience, err)
				}
				if err := c.connect(restPatience); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Drop ends the connections; the sessions stay.
func (l *Load) Drop() {
	for _, c := range l.clients {
		c.c.Drop()
	}
}

// Count holds a Load's actions and observations.
type Count struct {
	Answered, Lost  int64 // requests
	Breaks, Expired int64 // connections, sessions
	Refused         map[jute.Code]int
	Err             error
}

// broken is a connection that ended by itself.
type broken struct {
	began time.Time
	found time.Time // when the client knew that it had ended
}

// breaks returns the connections of a client that ended.
func (l *Load) breaks(client int) []broken {
	c := l.clients[client]
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.breaks)
}

// Count returns the sums over all clients.
func (l *Load) Count() Count {
	n := Count{Refused: map[jute.Code]int{}}
	for _, c := range l.clients {
		n.Answered += c.answered.Load()
		n.Lost += c.lost.Load()
		n.Expired += c.expired.Load()
		c.mu.Lock()
		n.Breaks += int64(len(c.breaks))
		for code, times := range c.refused {
			n.Refused[code] += times
		}
		n.Err = errors.Join(n.Err, c.failed)
		c.mu.Unlock()
	}
	return n
}
