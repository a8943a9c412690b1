package bench

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/tool/bench/wire"
	"github.com/zooid-project/zooid/jute"
)

// echoConn is a connection whose far end answers every request at once, without
// cost: what remains is the generator's own.
type echoConn struct {
	net.Conn // not there; only what a closed loop calls is
	replies  []byte
}

func (c *echoConn) Write(p []byte) (int, error) {
	for at := 0; at < len(p); at += 4 + int(binary.BigEndian.Uint32(p[at:])) {
		c.replies = jute.AppendReply(c.replies, jute.ReplyHeader{Xid: int32(binary.BigEndian.Uint32(p[at+4:]))}, nil)
	}
	return len(p), nil
}

func (c *echoConn) Read(p []byte) (int, error) {
	n := copy(p, c.replies)
	c.replies = append(c.replies[:0], c.replies[n:]...)
	return n, nil
}

func (c *echoConn) Close() error { return nil }

func echoLoad(ops int64, req wire.Request) *load {
	return &load{name: "test", conns: []*wire.Conn{wire.Attach(&echoConn{}, wire.LoadBuffer)}, depth: evenly(16), ops: ops,
		source: func(int) wire.Request { return req }}
}

// TestNothingIsAllocatedPerOperation counts allocations of long runs. It doesn't
// run in parallel with others, whose allocations would count too.
func TestNothingIsAllocatedPerOperation(t *testing.T) {
	tr := &trial{options: options{keys: 100, size: 100, seed: 1}, base: "/b"}
	gets, err := tr.getFrames()
	if err != nil {
		t.Fatal(err)
	}
	for name, req := range map[string]wire.Request{
		"get":    tr.anyOf(gets, 0)(0),
		"create": tr.createSource()(0),
	} {
		const ops = 200_000
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, err := echoLoad(ops, req).run(context.Background())
		runtime.ReadMemStats(&after)
		if err != nil || r.Ops != ops {
			t.Fatalf("%s: %+v, %v", name, r, err)
		}
		if n := after.Mallocs - before.Mallocs; n > ops/100 {
			t.Errorf("%s: %d allocations for %d operations", name, n, ops)
		}
	}
}

// BenchmarkGenerator is the cost of one operation on the generator's side, but
// for the system calls.
func BenchmarkGenerator(b *testing.B) {
	tr := &trial{options: options{keys: 1000, size: 128, seed: 1}, base: "/b"}
	gets, err := tr.getFrames()
	if err != nil {
		b.Fatal(err)
	}
	if _, err := echoLoad(int64(b.N), tr.anyOf(gets, 0)(0)).run(context.Background()); err != nil {
		b.Fatal(err)
	}
}

// TestPipelineIsAQueue compares the ring with a slice.
func TestPipelineIsAQueue(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 3))
	p := pipeline{ring: make([]pending, 7)}
	var naive []pending
	for step := range 10_000 {
		if n := rng.IntN(8 - len(naive)); n > 0 {
			for range n {
				k := wire.Kind(rng.IntN(8))
				p.push(k)
				naive = append(naive, pending{kind: k})
			}
			at := time.Duration(step)
			p.stamp(n, at)
			for i := len(naive) - n; i < len(naive); i++ {
				naive[i].at = at
			}
		}
		for n := rng.IntN(len(naive) + 1); n > 0; n-- {
			if got := p.pop(); got != naive[0] {
				t.Fatalf("step %d: %+v, want %+v", step, got, naive[0])
			}
			naive = naive[1:]
		}
		if p.open != len(naive) {
			t.Fatalf("step %d: %d open, want %d", step, p.open, len(naive))
		}
	}
}
