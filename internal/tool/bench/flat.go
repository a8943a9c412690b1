package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/zooid-project/zooid/internal/tool/bench/wire"
	"github.com/zooid-project/zooid/jute"
)

// The flat scenarios check that an operation costs the same however much the server holds. Each measures growing sizes
// on one server and compares the largest cost with that at the first size. A growth of 1 is flat.

// growth returns a figure's greatest value over all sizes divided by its first value, 0 if unknown.
func growth(values []float64) float64 {
	if len(values) == 0 || values[0] == 0 {
		return 0
	}
	most := values[0]
	for _, v := range values {
		most = max(most, v)
	}
	return most / values[0]
}

// sizeMark separates a figure's name from the size at which it was measured.
const sizeMark = "_at_"

// series has the figures of a flat scenario: by name, one value for each size.
type series map[string][]float64

// note records a figure at a size, unless it wasn't measured.
func (s series) note(r *result, figure string, size int, v float64) {
	if v > 0 {
		s[figure] = append(s[figure], v)
		r.set(fmt.Sprintf("%s%s%d", figure, sizeMark, size), v)
	}
}

// finish adds the growth of each figure.
func (s series) finish(r *result) {
	for figure, values := range s {
		if g := growth(values); g > 0 {
			r.set(figure+"_growth", g)
		}
	}
}

// decades returns the powers of ten from first to below most, and most itself.
func decades(first, most int) (sizes []int) {
	for n := first; n < most; n *= 10 {
		sizes = append(sizes, n)
	}
	return append(sizes, most)
}

// flatZnodesFirst is the smallest tree measured.
const flatZnodesFirst = 1000

// runFlatZnodes measures gets and sets of random znodes while their number grows to -keys. On the smallest and the
// largest tree it also measures gets at half of the maximum rate: if both are slow, the number of znodes isn't the
// reason.
func runFlatZnodes(ctx context.Context, t *trial) (result, error) {
	if err := t.bulkDirs(ctx, t.keys); err != nil {
		return result{}, err
	}
	var r result
	s := series{}
	have := 0
	var h result
	rss := []float64{t.measured.RssMiB()}
	sizes := decades(flatZnodesFirst, t.keys)
	for _, n := range sizes {
		t.progress.note(fmt.Sprintf("growing to %d znodes", n))
		if err := t.prepare(ctx, n-have, t.bulkCreates(uint64(have))(0)); err != nil {
			return r, err
		}
		have = n
		if err := t.rest(ctx); err != nil {
			return r, err
		}
		rss = append(rss, t.measured.RssMiB())
		r.set(fmt.Sprintf("rss_mib%s%d", sizeMark, n), t.measured.RssMiB())
		perSec, err := t.flatAt(ctx, n, s, &r)
		if err != nil {
			return r, err
		}
		if n == sizes[0] || n == t.keys {
			if h, err = t.halfLoad(ctx, n, perSec); err != nil {
				return r, err
			}
			s.note(&r, "half_p999_ms", n, h.P999)
			r.set(fmt.Sprintf("sent_late_p999_ms%s%d", sizeMark, n), h.Extra["sent_late_p999_ms"])
			r.addAllErrors(h.Errors)
		}
	}
	s.finish(&r)
	if n := len(sizes); len(t.measured) > 0 && n >= 2 {
		perZnode := func(from, to int) float64 {
			return (rss[to+1] - rss[from+1]) * (1 << 20) / float64(sizes[to]-sizes[from])
		}
		r.set("bytes_per_znode", perZnode(n-2, n-1))
		if n >= 3 {
			r.set("bytes_per_znode_growth", perZnode(n-2, n-1)/perZnode(n-3, n-2))
		}
	}
	r.Conns, r.Ops, r.Seconds, r.PerSec, r.Rate = h.Conns, h.Ops, h.Seconds, h.PerSec, h.Rate
	r.P50, r.P90, r.P99, r.P999, r.Max = h.P50, h.P90, h.P99, h.P999, h.Max
	r.ServerRSS = t.measured.RssMiB()
	return r, nil
}

// halfLoad measures gets of n znodes in an open loop at half of the rate perSec, after the server has become idle.
func (t *trial) halfLoad(ctx context.Context, n int, perSec float64) (result, error) {
	if err := t.rest(ctx); err != nil {
		return result{}, err
	}
	half := *t
	half.rate = perSec / 2
	return half.steady(ctx, t.bulkGets(n))
}

// flatAt measures a tree of n znodes. It returns the gets per second.
func (t *trial) flatAt(ctx context.Context, n int, s series, r *result) (perSec float64, err error) {
	get, err := t.steady(ctx, t.bulkGets(n))
	if err != nil {
		return 0, err
	}
	set, err := t.steady(ctx, t.bulkSets(n))
	if err != nil {
		return 0, err
	}
	alone := *t
	alone.conns, alone.depth = 1, 1
	one, err := alone.steady(ctx, t.bulkGets(n))
	if err != nil {
		return 0, err
	}
	s.note(r, "get_cpu_us", n, get.ServerCPU)
	s.note(r, "set_cpu_us", n, set.ServerCPU)
	s.note(r, "get_p50_ms", n, one.P50)
	for _, part := range []result{get, set, one} {
		r.addAllErrors(part.Errors)
	}
	return get.PerSec, nil
}

// runFlatConns opens more and more connections, up to -keys, and sends one request at a time, each on the next
// connection after the last reply. So at any number of connections, every request has the full cost of reading, writing
// and waking.
func runFlatConns(ctx context.Context, t *trial) (result, error) {
	most := t.keys
	t.keys = roundKeys
	if err := t.prepareKeys(ctx); err != nil {
		return result{}, err
	}
	frames, err := t.getFrames()
	if err != nil {
		return result{}, err
	}
	var r result
	s := series{}
	for _, n := range decades(1, most) {
		t.progress.note(fmt.Sprintf("%d connections", n))
		one, err := t.goRound(ctx, n, frames)
		if err != nil {
			return r, err
		}
		s.note(&r, "cpu_us", n, one.ServerCPU)
		s.note(&r, "p50_ms", n, one.P50)
		one.Extra = r.Extra // of all sizes; the other fields are of the last size
		r = one
	}
	s.finish(&r)
	return r, nil
}

// roundKeys is how many znodes the connections of runFlatConns read.
const roundKeys = 1000

// goRound sends one request at a time, each on the next of n connections.
func (t *trial) goRound(ctx context.Context, n int, frames [][]byte) (r result, err error) {
	conns, err := t.dialAll(ctx, n, wire.IdleBuffer)
	if err != nil {
		return r, err
	}
	defer closeAll(conns)
	stop := context.AfterFunc(ctx, func() {
		for _, c := range conns {
			c.Net.Close()
		}
	})
	defer stop()
	rng := t.rng(n)
	if _, err := t.oneByOne(conns, frames, rng, max(t.warm, time.Millisecond)); err != nil {
		return r, err
	}
	start, begin := t.measured.Cost(), time.Now()
	l, err := t.oneByOne(conns, frames, rng, t.time)
	if err != nil {
		return r, err
	}
	r.Conns, r.Ops = n, l.count()
	r.setTime(time.Since(begin))
	r.setLatency(l)
	r.setCost(t.measured.Cost().Minus(start), r.Ops)
	r.ServerRSS = t.measured.RssMiB()
	return r, nil
}

// oneByOne sends the requests of goRound for a time, and visits each connection at least once.
func (t *trial) oneByOne(conns []*wire.Conn, frames [][]byte, rng *rand.Rand, d time.Duration) (*latencies, error) {
	l := newLatencies()
	begin := time.Now()
	for i, now := 0, begin; i < len(conns) || now.Sub(begin) < d; i++ {
		c := conns[i%len(conns)]
		c.Queue(frames[rng.IntN(len(frames))])
		err := c.Flush()
		if err == nil {
			var h jute.ReplyHeader
			if h, _, err = c.Reply(); err == nil && h.Err != jute.OK {
				err = h.Err
			}
		}
		if err != nil {
			return nil, fmt.Errorf("read on connection %d: %w", i%len(conns), err)
		}
		then := time.Now()
		l.record(then.Sub(now), 1)
		now = then
	}
	return l, nil
}

// flatWatchersFirst is the smallest number of watchers measured.
const flatWatchersFirst = 500

// runFlatWatchers measures a change that is reported to more and more watchers, up to -keys: the cost of each event,
// and the time until the last watcher received it, per watcher.
func runFlatWatchers(ctx context.Context, t *trial) (result, error) {
	var r result
	s := series{}
	for n := flatWatchersFirst; ; n *= 2 {
		n = min(n, t.keys)
		sub := *t
		sub.keys = n
		one, err := runWatch(ctx, &sub)
		if err != nil {
			return r, err
		}
		s.note(&r, "cpu_us_per_event", n, one.ServerCPU)
		s.note(&r, "p50_us_per_watcher", n, one.P50*1e3/float64(n))
		one.Extra = r.Extra // of all sizes; the other fields are of the last size
		r = one
		if n == t.keys {
			break
		}
	}
	s.finish(&r)
	return r, nil
}
