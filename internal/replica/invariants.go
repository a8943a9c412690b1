package replica

import (
	"github.com/zooid-project/zooid/internal/invariant"
	"github.com/zooid-project/zooid/jute"
)

// The checks of this file run under the build tag invariants and with the race detector (see package invariant).

// checkedLenMax is the longest queue whose requests are all looked at: a check of a longer one would take longer than
// what it checks.
const checkedLenMax = 64

// checkPush checks the request that is about to be queued: writes are numbered one by one.
func (q *queue) checkPush(r *request) {
	if !r.isWrite() {
		return
	}
	for i := len(q.items) - 1; i >= q.head; i-- {
		if p := &q.items[i]; p.isWrite() {
			invariant.Holds(r.seq == p.seq+1, "the numbers of two consecutive writes of a connection differ by 1")
			return
		}
	}
}

// checkSums checks the numbers that a queue keeps about its requests.
func (q *queue) checkSums() {
	if q.len() > checkedLenMax {
		return
	}
	bytes, reads := 0, 0
	for i := q.head; i < len(q.items); i++ {
		bytes += q.items[i].size
		if !q.items[i].isWrite() {
			reads++
		}
	}
	invariant.Holds(bytes == q.bytes && reads == q.reads, "a queue's bytes and reads are those of its requests")
}

// checkAhead checks that the counts by which new writes wait are those of the queue; c.mu is held.
func (c *Client) checkAhead() {
	c.mu.Held()
	if c.closed || c.closing || c.unanswered.len() > checkedLenMax {
		return
	}
	var syncs, longReads, reconfigs int32
	waits := false
	for i := c.unanswered.head; i < len(c.unanswered.items); i++ {
		q := &c.unanswered.items[i]
		switch {
		case q.isSync() && !q.ready:
			syncs++
		case q.long:
			longReads++
		case q.isWrite() && q.op.code == jute.OpReconfig:
			reconfigs++
			fallthrough
		case q.isWrite():
			invariant.Holds(q.held || !waits, "a write behind one that is held is held, too")
			waits = waits || q.held
		}
	}
	invariant.Holds(syncs == c.ahead.syncs.Load(), "ahead.syncs is the number of syncs that are not ready")
	invariant.Holds(longReads+c.steps.done == c.ahead.longReads.Load(), "ahead.longReads is the number of long reads")
	invariant.Holds(reconfigs == c.ahead.reconfigs.Load(), "ahead.reconfigs is the number of reconfigs")
}
