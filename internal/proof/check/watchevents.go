package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/jute"
)

// eventWindow is how many events in a row may be lost, or not meant for the connection, while the checker can still
// distinguish them from invented ones.
const eventWindow = 256

// eventShares is the number of goroutines that share the connections.
const eventShares = 2

// watchEvents compares the events that each connection received with those that it should have received, in the order
// of the wire.
func (c *checker) watchEvents() {
	var shares [eventShares]checker
	var tasks [eventShares]func()
	for n := range shares {
		share := &shares[n]
		*share = *c // it is only read, except for the state of connections
		share.rep = &Report{}
		tasks[n] = func() { share.checkShare(n) }
	}
	together(tasks[:]...)
	var found []Violation
	for n := range shares {
		found = append(found, shares[n].rep.Violations...)
		c.rep.Dropped += shares[n].rep.Dropped
	}
	slices.SortStableFunc(found, func(a, b Violation) int { return cmp.Compare(a.Events[0], b.Events[0]) })
	for _, v := range found {
		c.violate(v.Rule, v.Reason, v.Events...)
	}
	var newest int64
	for _, s := range c.order {
		newest = max(newest, s.max)
	}
	for _, k := range c.conns {
		if k != nil {
			c.undelivered(k, newest)
		}
	}
}

// checkShare does one share of the work of watchEvents.
func (c *checker) checkShare(share int) {
	for _, i := range c.eventsByShare[share] {
		e := &c.h.Events[i]
		k := c.conns[e.Conn]
		c.now = e.Time
		if e.Kind == history.KindNotification {
			c.heard(k, e, i)
		} else {
			k.passReply(e, i)
		}
	}
}

// watchersLost reports whether the watchers of n at zxid are unknown.
func (n *node) watchersLost(zxid int64) bool {
	for up := n; up != nil; up = up.parent {
		if up.watchersLostFrom != 0 && zxid >= up.watchersLostFrom {
			return true
		}
	}
	return false
}

// passReply marks the events that should have come before the reply.
func (k *conn) passReply(e *history.Event, i int32) {
	k.maxSeen = max(k.maxSeen, e.Zxid)
	j := k.nextExpected
	for ; j < len(k.expected); j++ {
		x := &k.expected[j]
		if x.zxid > e.Zxid {
			break
		}
		if !x.matched && x.overdue == 0 && (x.due == 0 || x.due == i) {
			x.overdue = i
		}
	}
	for k.nextExpected < j &&
		(k.expected[k.nextExpected].matched || k.expected[k.nextExpected].denied || j-k.nextExpected > eventWindow) {
		k.nextExpected++
	}
}

// heard finds the expectation that a notification fulfils.
func (c *checker) heard(k *conn, e *history.Event, i int32) {
	var w jute.WatcherEvent
	c.dec.Reset(e.Body)
	w.Decode(&c.dec)
	n := c.m.named(w.Path)
	if n.opaque && !n.lost {
		return
	}
	k.maxSeen = max(k.maxSeen, e.Zxid)
	catchUp := e.Zxid <= 0
	var misnumbered, mistyped, forbidden *expectation
	var skipped int64 // zxid of the first required event that was skipped
	for k.settled < len(k.expected) && k.expected[k.settled].matched {
		k.settled++
	}
	for j := max(k.settled, k.nextExpected-eventWindow); j < len(k.expected); j++ {
		x := &k.expected[j]
		if j > k.nextExpected+2*eventWindow && x.zxid > max(e.Zxid, k.expected[k.nextExpected].zxid) {
			break
		}
		if x.matched {
			j += k.matchedAfter(j)
			continue
		}
		numbered := x.due == 0 && !c.opt.NotificationsUnnumbered
		sameZxid := numbered && x.zxid == e.Zxid || !numbered && catchUp
		switch {
		case x.n == n && x.typ == w.Type && sameZxid && x.denied:
			if forbidden == nil {
				forbidden = x
			}
		case x.n == n && x.typ == w.Type && (sameZxid || x.loose && numbered && !catchUp):
			c.matched(k, x, e, i, skipped)
			return
		case x.n == n && x.typ == w.Type && misnumbered == nil:
			misnumbered = x
		case x.n == n && sameZxid && mistyped == nil:
			mistyped = x
		}
		if skipped == 0 && x.overdue == 0 && !x.denied && !x.loose && x.due == 0 {
			skipped = x.zxid
		}
	}
	if forbidden != nil {
		forbidden.matched = true
		if n.watchersLost(forbidden.zxid) || c.excuse(k, n, e.Zxid) {
			return
		}
		c.violate(W7,
			fmt.Sprintf("a connection without READ heard of %s of %s at zxid %#x", w.Type.String(), w.Path, forbidden.zxid),
			int(i))
		return
	}
	c.unexpected(k, e, i, n, w.Type, misnumbered, mistyped)
}

// matchedAfter returns how many expectations in a row after j, which is matched, are matched too. It caches the number:
// an event that a connection may not receive stays open for long, and all events received meanwhile would be visited
// again and again.
func (k *conn) matchedAfter(j int) int {
	x := &k.expected[j]
	for next := j + 1 + int(x.alike); next < len(k.expected) && k.expected[next].matched; next = j + 1 + int(x.alike) {
		x.alike += 1 + k.expected[next].alike
	}
	return int(x.alike)
}

func (c *checker) matched(k *conn, x *expectation, e *history.Event, i int32, skipped int64) {
	x.matched = true
	what := func() string { return fmt.Sprintf("%s of %s at zxid %#x", x.typ.String(), x.n.path, x.zxid) }
	switch {
	case x.overdue != 0 && e.Zxid <= 0 && c.excuse(k, x.n, k.maxSeen):
	case x.overdue != 0 && e.Zxid <= 0: // a numbered one already violates X4 by its order
		c.violate(X4, what()+" was told after a reply that shows it", int(i), int(x.overdue))
	case skipped > 0 && x.zxid > skipped && e.Zxid <= 0 && !x.loose && x.due == 0 && !c.excuse(k, x.n, e.Zxid) &&
		!(c.opt.NotificationsUnnumbered && c.guessing(x.zxid)): // the earlier one's watch may have fired before
		c.violate(W2, what()+" was told before an earlier event", int(i))
	}
	for k.nextExpected < len(k.expected) && (k.expected[k.nextExpected].matched || k.expected[k.nextExpected].denied) {
		k.nextExpected++
	}
}

// unexpected reports the error of a notification that should not have been sent.
func (c *checker) unexpected(k *conn, e *history.Event, i int32, n *node, typ jute.EventType,
	misnumbered, mistyped *expectation) {
	at := e.Zxid
	if at <= 0 {
		at = 1<<63 - 1 // it may have any zxid up to that of the next reply
	}
	if n.watchersLost(at) {
		return
	}
	what := fmt.Sprintf("%s of %s at zxid %#x", typ.String(), n.path, e.Zxid)
	stays := modes(n.data, k)|modes(n.child, k) > modeStandard
	for up := n.parent; up != nil && !stays; up = up.parent {
		stays = modes(up.data, k)&modeRecursive != 0
	}
	for j := range k.expected {
		stays = stays || k.expected[j].stays && k.expected[j].n == n
	}
	switch {
	case e.Zxid <= 0 && c.catchingUp(k, n.path, typ), c.excuse(k, n, e.Zxid):
	case misnumbered != nil && e.Zxid <= 0 && misnumbered.due == 0:
		misnumbered.matched = true
		c.violate(X3, fmt.Sprintf("%s carries no zxid; its change is %#x", what, misnumbered.zxid), int(i))
	case misnumbered != nil && misnumbered.due != 0:
		misnumbered.matched = true
		c.violate(W5, what+" was caught up by setWatches and must not carry a zxid", int(i))
	case misnumbered != nil && !stays:
		misnumbered.matched = true
		c.violate(X3, fmt.Sprintf("%s: the change that fired it has zxid %#x", what, misnumbered.zxid), int(i))
	case mistyped != nil:
		mistyped.matched = true
		rule := W1
		if mistyped.due != 0 {
			rule = W5
		} else if mistyped.stays {
			rule = W6
		}
		c.violate(rule, fmt.Sprintf("%s: the event was %s", what, mistyped.typ.String()), int(i))
	case e.Zxid <= 0 && !c.opt.NotificationsUnnumbered:
		c.violate(W5, what+" carries no zxid and no setWatches accounts for it", int(i))
	case stays:
		c.violate(W6, what+" is one too many for a persistent watch", int(i))
	default:
		c.violate(W3, what+" was told, but no watch was armed for it", int(i))
	}
}

// catchingUp reports whether an event belongs to a setWatches whose reply the connection never received.
func (c *checker) catchingUp(k *conn, path string, typ jute.EventType) bool {
	for _, i := range k.pending[k.head:] {
		req := &c.h.Events[c.ops[i].req]
		if req.Op() != jute.OpSetWatches && req.Op() != jute.OpSetWatches2 {
			continue
		}
		var q jute.SetWatches
		c.dec.Reset(req.Body)
		q.Decode(&c.dec, req.Op())
		if typ == jute.EventNodeCreated && slices.Contains(q.Exist, path) ||
			typ == jute.EventNodeDataChanged && slices.Contains(q.Data, path) ||
			typ == jute.EventNodeChildrenChanged && slices.Contains(q.Child, path) ||
			typ == jute.EventNodeDeleted && (slices.Contains(q.Data, path) || slices.Contains(q.Child, path)) {
			return true
		}
	}
	return false
}

// undelivered reports the events that never came.
func (c *checker) undelivered(k *conn, newest int64) {
	for j := range k.expected {
		x := &k.expected[j]
		if x.matched || x.denied || x.loose || x.n.opaque && !x.n.lost || x.n.watchersLost(x.zxid) || k.excused[x.n] {
			continue
		}
		if x.overdue != 0 && !c.exact {
			c.now = c.h.Events[x.overdue].Time
			if c.inDoubt(x.n, x.zxid) || c.opt.NotificationsUnnumbered && c.guessing(x.zxid+1) {
				continue // its ACL may be different, or the watch may have fired before
			}
		}
		what := fmt.Sprintf("connection %d was not told of %s of %s at zxid %#x", k.id, x.typ.String(), x.n.path, x.zxid)
		switch {
		case x.overdue != 0 && x.due != 0:
			c.violate(W5, what+" by its setWatches", int(x.overdue))
		case x.overdue != 0 && x.stays:
			c.violate(W6, what+", though a later reply shows it", int(x.overdue))
		case x.overdue != 0:
			c.violate(W1, what+", though a later reply shows it", int(x.overdue))
		case c.opt.Quiesced && !k.closed && x.zxid <= newest:
			c.violate(W4, what+", and the run ended at rest")
		}
	}
}
