package traffic

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/jute"
)

// A Load sends the random Mix to servers and records what happens. It ends after a number of requests or a time,
// whichever comes first, and then comes to rest: every client syncs and waits for its events, the first one reads
// everything below the root, and all sessions are closed.
type Load struct {
	Addrs       []string
	Journal     *history.Journal
	Root        string // created if necessary
	Clients     int
	Requests    int           // of all clients together
	Duration    time.Duration // 0 means 1 minute
	Outstanding int           // per client; 0 means 8
	// DropEvery is the mean number of requests between two forced disconnects of a client; 0 means never.
	DropEvery int
	Timeout   time.Duration // of sessions; 0 means 10 s
	Seed      uint64
	TTL       bool // create TTL znodes
	// OneModePerPath is passed to the Mix.
	OneModePerPath bool
	// OpenACLs: every ACL grants everything to everybody. In Apache, the ACL from before a setACL may decide about a
	// write soon after it.
	OpenACLs bool
	// PerSecond bounds each client's requests per second, on average; 0 means no bound.
	PerSecond float64

	sent     atomic.Int64
	ended    atomic.Bool
	deadline time.Time
}

// restTime bounds how long a load or recipes may take to come to rest.
const restTime = time.Minute

// reconnectPause is how long a client waits after a refused connection before it tries the next server. A client with a
// pace waits as long as between two requests.
const reconnectPause = 20 * time.Millisecond

// digests are the users that a Load's clients authenticate as.
var digests = [...]string{"anna:1", "bert:2", "", "cleo:3"}

// Run runs the load. It returns an error only if the load couldn't be run; check.Check reports the servers' errors.
func (l *Load) Run() error {
	l.Duration = cmp.Or(l.Duration, time.Minute)
	l.Outstanding = cmp.Or(l.Outstanding, 8)
	l.deadline = time.Now().Add(l.Duration)
	clients := make([]*Client, l.Clients)
	for i := range clients {
		clients[i] = NewClient(l.Journal, ClientOptions{Timeout: l.Timeout, Digest: digests[i%len(digests)]}, l.Addrs...)
	}
	if err := l.prepare(clients[0]); err != nil {
		return err
	}
	errs := make([]error, l.Clients)
	each := func(do func(i int, c *Client) error) error {
		var wg sync.WaitGroup
		for i, c := range clients {
			wg.Go(func() { errs[i] = errors.Join(errs[i], do(i, c)) })
		}
		wg.Wait()
		return errors.Join(errs...)
	}
	if err := each(l.drive); err != nil {
		return err
	}
	// From here on a lost connection can't be replaced, since the clients have to stay at rest.
	l.deadline = time.Now().Add(min(l.Duration, restTime))
	for range 2 { // after the first round no client writes
		if err := each(l.settle); err != nil {
			return err
		}
	}
	if err := l.inspect(clients[0]); err != nil {
		return err
	}
	return each(func(_ int, c *Client) error { return c.Close() })
}

// End ends the load early: Run comes to rest and returns.
func (l *Load) End() { l.ended.Store(true) }

// Sent returns the number of requests sent so far.
func (l *Load) Sent() int { return int(min(l.sent.Load(), int64(l.Requests))) }

func (l *Load) prepare(c *Client) error {
	if err := l.reconnect(c); err != nil {
		return err
	}
	q := jute.CreateRequest{Path: l.Root, ACL: jute.WorldACL(jute.PermAll)}
	if err := created(c.Do(jute.OpCreate, q.Append(nil))); err != nil {
		return fmt.Errorf("create the root %s of the load: %w", l.Root, err)
	}
	return nil
}

// created returns why a create has failed. It is no failure if the znode exists already.
func created(call *Call, err error) error {
	if err == nil && call.Err != jute.OK && call.Err != jute.ErrNodeExists {
		return call.Err
	}
	return err
}

// reconnect tries until a connection is established or the time is up.
func (l *Load) reconnect(c *Client) error {
	for {
		err := c.Connect()
		switch {
		case err == nil:
			return nil
		case time.Now().After(l.deadline):
			return fmt.Errorf("no server could be reached in time: %w", err)
		case !errors.Is(err, ErrExpired):
			time.Sleep(max(reconnectPause, newPace(l.PerSecond).interval))
		}
	}
}

// drive sends requests until the load is done.
func (l *Load) drive(i int, c *Client) error {
	rng := rand.New(rand.NewPCG(l.Seed, uint64(i)))
	mix := &Mix{
		Root: l.Root, Name: fmt.Sprintf("%d.%d", l.Seed, i), TTL: l.TTL, Persistent: i%3 == 2,
		OneModePerPath: l.OneModePerPath, Rand: rng,
	}
	if user := digests[i%len(digests)]; user != "" && !l.OpenACLs {
		mix.Identity = DigestID(user)
	}
	var open []*Call
	pace := newPace(l.PerSecond)
	for l.sent.Add(1) <= int64(l.Requests) && time.Now().Before(l.deadline) && !l.ended.Load() {
		pace.wait()
		if l.DropEvery > 0 && rng.IntN(l.DropEvery) == 0 {
			c.Drop()
			open = open[:0]
		}
		call, err := c.Send(mix.Next())
		if err != nil {
			if err := l.reconnect(c); err != nil {
				return err
			}
			open = open[:0]
			continue
		}
		if open = append(open, call); len(open) > rng.IntN(l.Outstanding) {
			open[0].Wait()
			open = open[1:]
		}
	}
	return nil
}

// settle syncs: when the reply has arrived, everything that the client sent before has been answered, and every event
// up to then has arrived.
func (l *Load) settle(_ int, c *Client) error {
	q := jute.PathRequest{Path: "/"}
	for {
		if _, err := c.Do(jute.OpSync, q.Append(nil)); err == nil {
			return nil
		}
		if err := l.reconnect(c); err != nil {
			return err
		}
	}
}

// inspect reads every znode below the root.
func (l *Load) inspect(c *Client) error {
	paths := []string{l.Root}
	for len(paths) > 0 {
		path := paths[0]
		paths = paths[1:]
		q := jute.PathWatchRequest{Path: path}
		if _, err := c.Do(jute.OpGetData, q.Append(nil)); err != nil {
			return err
		}
		call, err := c.Do(jute.OpGetChildren2, q.Append(nil))
		if err != nil {
			return err
		}
		if call.Err == jute.OK {
			for _, name := range jute.NewDecoder(call.Body).Strings() {
				paths = append(paths, path+"/"+name)
			}
		}
	}
	return nil
}

// A pace limits how often a client does something. It doesn't catch up on time lost while servers didn't answer.
type pace struct {
	interval time.Duration // 0 means no bound
	next     time.Time
}

func newPace(perSecond float64) *pace {
	if perSecond <= 0 {
		return &pace{}
	}
	return &pace{interval: time.Duration(float64(time.Second) / perSecond), next: time.Now()}
}

// wait waits until the next action is due.
func (p *pace) wait() {
	if p.interval == 0 {
		return
	}
	now := time.Now()
	if p.next.After(now) {
		time.Sleep(p.next.Sub(now))
	} else {
		p.next = now
	}
	p.next = p.next.Add(p.interval)
}
