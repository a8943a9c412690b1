package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/zooid-project/zooid/internal/tool/bench/servers"
	"github.com/zooid-project/zooid/internal/tool/bench/wire"
	"github.com/zooid-project/zooid/jute"
)

// trial is one run of one scenario: its flags and its resources.
type trial struct {
	options
	name     string
	base     string // the znode below which all work happens
	measured servers.Processes
	progress *progress
	server   *servers.Server // started for this trial, or nil
}

// runTrial runs s with o: it starts the server if o says so, creates a znode for all work, and removes it afterwards.
func runTrial(ctx context.Context, s scenario, o options, p *progress) (r result, err error) {
	t := &trial{options: o, name: s.name, progress: p, measured: o.pids}
	if o.start != "" {
		p.note("starting the server")
		t.server, err = servers.Start(ctx, servers.Spec{Name: "server", Command: o.start, Members: o.members}, o.dir)
		if err != nil {
			return r, err
		}
		defer t.server.Stop()
		t.servers, t.measured = t.server.Addrs, t.server.Processes()
	}
	return t.execute(ctx, s)
}

// execute runs s on running servers.
func (t *trial) execute(ctx context.Context, s scenario) (r result, err error) {
	if err := t.measured.Check(); err != nil {
		return r, err
	}
	if !s.bare {
		if err := t.makeBase(ctx); err != nil {
			return r, err
		}
	}
	r, err = s.run(ctx, t)
	if err != nil {
		err = fmt.Errorf("%s: %w", s.name, err)
	}
	if !s.bare {
		err = errors.Join(err, t.clean(ctx, t.base))
	}
	r.Scenario, r.Size = s.name, t.size
	return r, err
}

// newSession returns a session that isn't open yet.
func (t *trial) newSession() wire.Session { return wire.Session{Timeout: t.timeout} }

// dial opens connection number i. A server that limits the rate of new connections closes some before it answers. Like
// any client, dial tries again until wire.HandshakeTimeout is over.
func (t *trial) dial(ctx context.Context, i, buffer int) (*wire.Conn, error) {
	deadline := time.Now().Add(wire.HandshakeTimeout)
	for {
		c, err := wire.Dial(ctx, t.servers[i%len(t.servers)], t.newSession(), 0, buffer)
		closed := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
		if !closed || ctx.Err() != nil || time.Now().After(deadline) {
			return c, err
		}
		if err := pause(ctx, comeBackPoll); err != nil {
			return nil, err
		}
	}
}

// makeBase creates the znode for all work, with an unused name.
func (t *trial) makeBase(ctx context.Context) error {
	c, err := t.dial(ctx, 0, wire.IdleBuffer)
	if err != nil {
		return err
	}
	defer c.Close()
	const attempts = 10
	for range attempts {
		t.base = fmt.Sprintf("%s-%06x", t.root, rand.Uint32N(1<<24))
		r := jute.CreateRequest{Path: t.base, ACL: jute.WorldACL(jute.PermAll)}
		if _, err = c.Call(jute.OpCreate, r.Append); !errors.Is(err, jute.ErrNodeExists) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("create %s to work below: %w", t.base, err)
	}
	return nil
}

// value returns the data of one znode.
func (t *trial) value() []byte {
	b := make([]byte, t.size)
	for i := range b {
		b[i] = byte('a' + i%26)
	}
	return b
}

// rng returns the random number generator of connection i.
func (t *trial) rng(i int) *rand.Rand { return rand.New(rand.NewPCG(t.seed, uint64(i))) }

// evenly gives every connection the same depth.
func evenly(depth int) func(int) int { return func(int) int { return depth } }

// settleMax bounds the wait for a server to be up to date.
const settleMax = time.Minute

// settle waits until the server of each connection has applied all earlier writes.
func (t *trial) settle(conns []*wire.Conn) error {
	r := jute.PathRequest{Path: t.base}
	for _, c := range conns {
		c.Net.SetDeadline(time.Now().Add(settleMax))
		if _, err := c.Call(jute.OpSync, r.Append); err != nil {
			return fmt.Errorf("sync before the start: %w", err)
		}
		c.Net.SetDeadline(time.Time{})
	}
	return nil
}
