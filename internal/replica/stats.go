package replica

import (
	"math"
	"sync/atomic"

	"github.com/zooid-project/zooid/internal/busiest"
	"github.com/zooid-project/zooid/jute"
)

// clientStats holds the numbers that `cons` reports about a connection.
type clientStats struct {
	received, sent atomic.Int64
	lastOp         atomic.Int32 // jute.Op of the last answered request; 0 before the first
	lastXid        atomic.Int32
	lastZxid       atomic.Int64
	lastReply      atomic.Int64 // now (ms)
	latency        latencies
	reads          namespaceRun // guarded by client.mu
}

const noOp jute.Op = math.MinInt32 // nothing answered since crst, which Apache shows as NA

func (s *clientStats) reset() {
	s.received.Store(0)
	s.sent.Store(0)
	s.lastOp.Store(int32(noOp))
	s.lastXid.Store(-1)
	s.lastReply.Store(0)
	s.lastZxid.Store(-1)
	s.latency.reset()
}

// latencies counts times from arrival to reply, in ms.
type latencies struct {
	count, sum, last atomic.Int64
	min, max         atomic.Int64 // min holds value+1, so that 0 means none
}

func (l *latencies) reset() {
	for _, n := range []*atomic.Int64{&l.count, &l.sum, &l.last, &l.min, &l.max} {
		n.Store(0)
	}
}

// observe records n requests with a latency of ms each. If two observers race, at most one of their extremes is lost.
func (l *latencies) observe(ms, n int64) {
	l.count.Add(n)
	if ms != 0 {
		l.sum.Add(ms * n)
	}
	l.last.Store(ms)
	if ms > l.max.Load() {
		l.max.Store(ms)
	}
	if m := l.min.Load(); m == 0 || ms+1 < m {
		l.min.Store(ms + 1)
	}
}

func (l *latencies) least() int64 { return max(l.min.Load()-1, 0) }

func (l *latencies) mean() float64 {
	n := l.count.Load()
	if n == 0 {
		return 0
	}
	return float64(l.sum.Load()) / float64(n)
}

// stats holds the numbers that `srvr`, `mntr` and the metrics report about the whole server.
type stats struct {
	*outside
	*state

	received, sent atomic.Int64
	authFailed     atomic.Int64 // connections that failed to authenticate
	latency        latencies
	traffic        busiest.Traffic

	// Guarded by state.mu.
	writes  namespaceRun
	answers answers // empty between Applies
}

// answered adds a reply to the client's and the server's statistics.
func (s *stats) answered(c *Client, req *request, zxid, now int64) {
	s.answeredMany(c, req.code(), req.isWrite(), req.xid, 1, (now-req.at)/1e6, zxid, now)
}

// answeredMany adds n replies to requests of one kind, each made ms milliseconds after its request arrived; xid and
// zxid are those of the last reply.
func (s *stats) answeredMany(c *Client, op jute.Op, write bool, xid int32, n, ms, zxid, now int64) {
	c.stats.sent.Add(n)
	c.stats.lastOp.Store(int32(op))
	if xid >= 0 { // negative: a ping or the like, which doesn't count as the last operation
		c.stats.lastXid.Store(xid)
	}
	c.stats.lastZxid.Store(zxid)
	c.stats.lastReply.Store(now / 1e6)
	c.stats.latency.observe(ms, n)
	s.latency.observe(ms, n)
	if write {
		s.meters.updateLatency.ObserveMany(ms, n)
	} else {
		s.meters.readLatency.ObserveMany(ms, n)
	}
}
