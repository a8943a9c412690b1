package replica

import (
	"cmp"
	"slices"

	"github.com/zooid-project/zooid/jute"
)

// No request waits for the log longer than its session's timeout. A client that gets no answer for
// that long has abandoned its connection, or should. So the server closes the connection, and the
// client asks again, perhaps at another server. Answering with an error would break the order of
// replies. Requests that aren't proposed yet are dropped with the connection (see Disconnected).
//
// The time counts from the last answer on the connection. A client that sends more at once than can
// be answered within the timeout keeps getting answers and is not closed. A client that doesn't
// read its answers is closed by the server's write deadline.
//
// While the replica keeps a connection waiting it doesn't read from it, so it can't hear the
// client. During that time an answer counts as a sign of life (see stir).

// EndOverdue closes the connections whose oldest request has, at now (ns), waited for its session's
// timeout.
func (r *Replica) EndOverdue(now int64) {
	if r.unanswered.count() == 0 {
		return
	}
	var overdue []*Client
	r.mu.RLock()
	for _, c := range r.clients { // any order: sorted below
		if c.overdue(now) {
			overdue = append(overdue, c)
		}
	}
	r.mu.RUnlock()
	slices.SortFunc(overdue, func(a, b *Client) int { return cmp.Compare(a.id, b.id) })
	for _, c := range overdue {
		r.meters.overload[overdueEnded].Inc()
		r.clientLog.Warn("a connection is closed: its oldest request has waited as long as its session's timeout",
			"client", c.remote,
			"session", SessionText(c.session), "ms", c.timeout)
		c.CloseAfter("its oldest request has waited as long as its session's timeout")
	}
}

// overdue reports whether the client has waited for the log, or for room to queue a request, for
// its session's timeout. Replica.mu is held at least for reading.
func (c *Client) overdue(now int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing || c.closed || c.timeout == 0 || c.mayRestore {
		return false
	}
	since := c.blocked
	if c.unanswered.len() > 0 {
		q := c.unanswered.front()
		if q.isRead() || q.isSync() && q.ready || q.op.code == jute.OpReconfig {
			return false // the client has to read the reply, or a reconfig waits for servers to catch up
		}
		since = q.at
	} else if c.blocked == 0 || c.out.full() {
		return false
	}
	return now-max(since, c.stirred) >= int64(c.timeout)*1e6
}

// stir records that the client got an answer at now (ns), or that a write it was waiting for
// was sent. c.mu is held.
func (c *Client) stir(now int64) {
	c.stirred = now
	if c.blocked != 0 && now/1e6 > c.lastHeard.Load() {
		c.lastHeard.Store(now / 1e6)
	}
}
