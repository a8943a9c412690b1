package replica

import (
	"math"
	"sync/atomic"

	"github.com/zooid-project/zooid/jute"
)

// clientStats is what `cons` tells of a connection.
type clientStats struct {
	received, sent atomic.Int64
	lastOp         atomic.Int32 // jute.Op of the last answered request
	lastXid        atomic.Int32
	lastZxid       atomic.Int64
	lastReply      atomic.Int64 // now (ms)
	latency        latencies
	reads          namespaceRun // guarded by client.mu
}

const noOp jute.Op = math.MinInt32 // "nothing answered yet"

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
	l.count.Store(0)
	l.sum.Store(0)
	l.last.Store(0)
	l.min.Store(0)
	l.max.Store(0)
}

// observe records n requests that took ms each. A lost race between two
// observers can only lose one of their extremes.
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

// answered notes a reply on a client's statistics and the server's.
func (r *Replica) answered(c *Client, req *request, zxid, now int64) {
	r.answeredMany(c, req.code(), req.isWrite(), req.xid, 1, (now-req.at)/1e6, zxid, now)
}

// answeredMany notes n replies to one kind of request, ms after it arrived; xid and
// zxid are the last one's.
func (r *Replica) answeredMany(c *Client, op jute.Op, write bool, xid int32, n, ms, zxid, now int64) {
	c.stats.sent.Add(n)
	c.stats.lastOp.Store(int32(op))
	if xid >= 0 { // a ping or the like is not what the client did last
		c.stats.lastXid.Store(xid)
	}
	c.stats.lastZxid.Store(zxid)
	c.stats.lastReply.Store(now / 1e6)
	c.stats.latency.observe(ms, n)
	r.stats.latency.observe(ms, n)
	if write {
		r.meters.updateLatency.ObserveMany(ms, n)
	} else {
		r.meters.readLatency.ObserveMany(ms, n)
	}
}

// serverStats is what `srvr` and `mntr` tell of the whole server.
type serverStats struct {
	received, sent atomic.Int64
	authFailed     atomic.Int64 // connections
	latency        latencies
}
