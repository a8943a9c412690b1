package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// hostileRoot is where only attackers write.
const hostileRoot = "/hostile"

const (
	dialPatience = 2 * time.Second
	sendPatience = 2 * time.Second
	// bytesPerSecond bounds how fast an attack writes to the servers: their logs
	// keep everything, on one disk in a test.
	bytesPerSecond = 8 << 20
	// redialPause is the least time between two attempts after a refusal: the
	// attack should not be limited by the attacker's own processor time.
	redialPause = time.Millisecond
)

// A field holds an attack's inputs: the servers, its seed and its time.
type field struct {
	ctx         context.Context
	seed        uint64
	patience    time.Duration // for a server to accept a connection; its answer may take four times as long
	clients     []string      // addresses
	peers       []string      // addresses, by id-1
	cluster     uint64        // 0 if unknown
	secret      []byte        // nil if unknown
	connections int           // number of connections held at once
	// for the attack saturation: requests per second; if rate is 0, a closed loop with window requests on each connection
	rate, window int
	begun        func() // is called by an attack that has prepared itself by large requests: its time begins now
	counts       counts

	sources atomic.Uint32
	paceMu  sync.Mutex
	paid    time.Time // the time until which the bytes sent are paid for
}

func newField(ctx context.Context, seed uint64, clients, peers []string) *field {
	return &field{
		ctx: ctx, seed: seed, clients: clients, peers: peers, connections: connectionsAtOnce, window: saturationWindow,
		paid: time.Now(), patience: dialPatience,
	}
}

// counts holds an attack's actions and observations.
type counts struct {
	connections, refused, requests, replies, errors, bytes atomic.Int64

	turnedAway, late atomic.Int64 // for the attack saturation: requests not sent, replies that came too late
	lost             atomic.Int64 // connections that the server has ended
	held             atomic.Int64 // connections held now
}

func (c *counts) String() string {
	return fmt.Sprintf("connections %d, refused %d, requests %d, replies %d (%d of them errors), bytes sent %d",
		c.connections.Load(), c.refused.Load(), c.requests.Load(), c.replies.Load(), c.errors.Load(), c.bytes.Load())
}

// over reports whether the attack's time is over.
func (f *field) over() bool { return f.ctx.Err() != nil }

// sleep waits for d or the attack's end.
func (f *field) sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-f.ctx.Done():
	}
}

// pace waits until n more bytes may be sent.
func (f *field) pace(n int) {
	f.counts.bytes.Add(int64(n))
	f.paceMu.Lock()
	f.paid = f.paid.Add(time.Duration(n) * time.Second / bytesPerSecond)
	if earliest := time.Now().Add(-time.Second / 4); f.paid.Before(earliest) {
		f.paid = earliest // unused allowance isn't saved up
	}
	wait := time.Until(f.paid)
	f.paceMu.Unlock()
	if wait > 0 {
		f.sleep(wait)
	}
}

// workers runs n workers until all have returned, each with its own random
// source, which is derived from the seed.
func (f *field) workers(n int, work func(i int, rng *rand.Rand)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { work(i, f.rng(uint64(i))) })
	}
	wg.Wait()
}

// connected runs n workers until the attack is over. Each opens one session with a timeout (ms) after the other, calls
// work with its connection, and closes that.
func (f *field) connected(n int, timeout int32, work func(i int, c *conn)) {
	f.workers(n, func(i int, _ *rand.Rand) {
		for !f.over() {
			if c := orNil(f.connect(f.addr(i), timeout)); c != nil {
				work(i, c)
				c.close()
			}
		}
	})
}

// sessions runs n workers until the attack is over. Each opens one session
// after the other, reads everything that it is sent, and calls work with it.
func (f *field) sessions(n int, work func(i int, c *conn, x extreme)) {
	f.workers(n, func(i int, rng *rand.Rand) {
		for !f.over() {
			c := orNil(f.connect(f.addr(i), 4000))
			if c == nil {
				continue
			}
			end := c.drain()
			work(i, c, extreme{rng})
			end()
		}
	})
}

// createLarge creates a znode that nearly fills a frame, and returns its path.
func (f *field) createLarge() string {
	path := hostileRoot + "-large"
	if c := orNil(f.connect(f.addr(0), 4000)); c != nil {
		c.create(path, make([]byte, frameMax-200), jute.ModePersistent)
		c.close()
	}
	return path
}

// rng returns the random source with number i of the seed.
func (f *field) rng(i uint64) *rand.Rand { return rand.New(rand.NewPCG(f.seed, i)) }

// addr picks a server for worker i.
func (f *field) addr(i int) string { return f.clients[i%len(f.clients)] }

// dial connects to addr from a different source address each time: servers
// limit the connections of one address, and an attacker has many addresses.
func (f *field) dial(addr string) (net.Conn, error) {
	n := f.sources.Add(1)
	return f.dialFrom(net.IPv4(127, byte(1+n>>16&0x3f), byte(n>>8), byte(1+n%250)), addr)
}

// dialFrom is dial with a source address of the caller's choice.
func (f *field) dialFrom(from net.IP, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: f.patience, LocalAddr: &net.TCPAddr{IP: from}}
	c, err := d.DialContext(f.ctx, "tcp", addr)
	if err != nil {
		f.counts.refused.Add(1)
		f.sleep(redialPause)
		return nil, err
	}
	f.counts.connections.Add(1)
	return c, nil
}
