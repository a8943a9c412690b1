package replica

import (
	"slices"
	"sync/atomic"

	"github.com/zooid-project/zooid/internal/proposals"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/internal/turns"
	"github.com/zooid-project/zooid/jute"
)

// Overload means that clients send more than the log can take, so requests wait long for the log.
// Then the requests that keep the service alive go first.
//
//	heartbeats          are answered at once, like reads, and don't wait for other clients
//	resumption, closes  go ahead of all requests that wait for the log (proposals.Queue.AddFirst)
//	reads               wait only for writes of their own connection
//	writes              beyond globalOutstandingLimit wait on their connection, first those of
//	                    identities with more than their share unanswered (holdsBack); identities
//	                    that any client can claim share their address's share (payer)
//	new sessions        begin a few at a time, taking turns between identities (newcomers)
//
// While there is no overload, none of this costs a request anything.

const (
	// overloadedAfter is how long (ns) a write must wait for its answer, or to be proposed, for the
	// server to count as overloaded. It is far longer than a disk takes, and far shorter than any
	// session's timeout.
	overloadedAfter = int64(500e6)
	// overloadedFor is how long (ns) a server counts as overloaded after the last sign of it.
	overloadedFor = int64(1e9)
	// overloadToldPause is the least time (ns) between two log lines about overload.
	overloadToldPause = int64(60e9)
	// beginningMax bounds the new sessions that are in the log and not yet answered, so that a flood
	// of them makes no entry that delays other requests. With a log of a hundred entries a second
	// this allows 25,000 sessions a second.
	beginningMax = 256
	// beginningOverloadedMax replaces beginningMax on an overloaded server: a small part of the
	// log's capacity, but enough to let an administrator in.
	beginningOverloadedMax = 16
	// surveyPause is the least time (ns) between two surveys of each identity's unanswered requests.
	surveyPause = int64(50e6)
	// heldPause is the time (ns) after which a write that is held back tries again.
	heldPause = int64(5e6)
)

// overload is the replica's state of overload.
type overload struct {
	*outside
	*state
	proposals  *proposals.Queue
	unanswered *unanswered

	until    atomic.Int64 // now (ns) when the overload ends, unless there is another sign of it
	told     atomic.Int64 // now (ns) of the last log line; 0 for none
	surveyed atomic.Int64 // now (ns) of the last survey
}

// noteWait records that a request has waited for the log for the time waited (ns).
func (o *overload) noteWait(waited, now int64) {
	if waited < overloadedAfter {
		return
	}
	o.until.Store(now + overloadedFor)
	if last := o.told.Load(); (last == 0 || now-last >= overloadToldPause) && o.told.CompareAndSwap(last, max(now, 1)) {
		o.log.Warn("this server is overloaded: its clients' writes wait long for the log", "ms", waited/1e6,
			"unanswered", o.unanswered.count())
	}
}

// Overloaded reports whether the server is overloaded now.
func (o *overload) Overloaded() bool {
	now := o.now()
	o.noteWait(o.proposals.Waits(now), now)
	return now < o.until.Load()
}

// holdsBack reports whether a write of the batch's connection has to wait because its identity, or
// its address if it has none, has more than its share of the unanswered requests. The caller has
// found that there are too many in total. The write is admitted once its owner has fewer, or after
// the longest time that limits may hold a connection back.
func (t *readBatch) holdsBack() bool {
	r, c := t.r, t.c
	o := c.limits.owner()
	if o == nil || c.mayRestore {
		return false
	}
	t.release()
	now := r.now()
	if now >= r.overload.until.Load() {
		return false
	}
	if last := r.overload.surveyed.Load(); (last == 0 || now-last >= surveyPause) &&
		r.overload.surveyed.CompareAndSwap(last, max(now, 1)) {
		r.overload.survey()
	}
	if !o.greedy.Load() {
		c.reader.heldSince = 0
		return false
	}
	if c.reader.heldSince == 0 {
		c.reader.heldSince = now
		r.meters.overload[writesHeld].Inc()
	}
	if now-c.reader.heldSince >= min(pacedMax, int64(c.timeout)*1e6/4) {
		c.reader.heldSince = 0
		return false
	}
	c.reader.pause = heldPause
	return true
}

// survey finds the owners that have more than their share of the unanswered requests. The payers
// with unanswered requests share the limit equally, and the owners for which a payer answers share
// its part. A payer's only owner with requests may use all of its part. A share is at least one
// request: an owner with one request is never greedy.
func (o *overload) survey() {
	payers := map[*owner]map[*owner]int64{}
	for _, c := range o.Clients() {
		c.mu.Lock()
		n := int64(c.unanswered.len())
		c.mu.Unlock()
		o, payer := c.limits.owner(), c.limits.payer()
		if o == nil {
			continue
		}
		if payers[payer] == nil {
			payers[payer] = map[*owner]int64{}
		}
		payers[payer][o] += n
	}
	active := func(has map[*owner]int64) (owners, requests int64) {
		for _, n := range has { // any order: a sum
			requests += n
			if n > 0 {
				owners++
			}
		}
		return owners, requests
	}
	paying := int64(0)
	for _, has := range payers { // any order: a sum
		if _, n := active(has); n > 0 {
			paying++
		}
	}
	over := map[*owner]bool{}
	for _, has := range payers { // any order: an owner is greedy if it is greedy for any of its payers
		owners, n := active(has)
		if paying == 1 && owners == 1 {
			continue // the owner is alone
		}
		share := max(1, o.unanswered.countMax/max(1, paying))
		for o, of := range has { // any order: each is independent
			if n > share && of > max(1, share/owners) {
				over[o] = true
			}
		}
	}
	for _, has := range payers { // any order: each is independent
		for o := range has { // any order: each is independent
			o.greedy.Store(over[o])
		}
	}
}

// owner returns the owner of the client's requests: the identity that it has proved, or else its
// address; nil before either is known.
func (l *clientLimits) owner() *owner {
	if o := l.identity.Load(); o != nil {
		return o
	}
	return l.address.Load()
}

// payer returns the owner that the client's requests count toward in sharing the server: its owner, or its address if
// any client could claim that owner. Otherwise a host could get any number of shares by making up names.
func (l *clientLimits) payer() *owner {
	if o := l.identity.Load(); o != nil && !l.claimed.Load() {
		return o
	}
	return l.address.Load()
}

// Turns returns the queues in which the client's input waits for its turn: its owner's, and its payer's, which is nil
// if it is the same. Both are nil before the client has an owner.
func (c *Client) Turns() (own, payers *turns.Queue) {
	o, payer := c.limits.owner(), c.limits.payer()
	switch {
	case o == nil:
		return nil, nil
	case payer == o:
		return &o.turns, nil
	}
	return &o.turns, &payer.turns
}

// isFirst reports whether a write goes ahead of the requests that wait for the log: it closes a
// session that has no other request unanswered.
func (t *readBatch) isFirst(req *request) bool {
	if req.op != &opCloseSession || t.writes > 0 {
		return false
	}
	t.r.mu.RLock()
	leads := t.r.alone || t.r.leader.IsLeader // a follower's records go first only if all of them resume sessions
	t.r.mu.RUnlock()
	if !leads {
		return false
	}
	t.c.mu.Lock()
	defer t.c.mu.Unlock()
	return t.c.unanswered.len() == 1
}

// goesFirst reports whether a follower's records go ahead of the requests that wait for the log.
// They do if all of them resume sessions: their order among others doesn't matter.
func goesFirst(records []byte) bool {
	r := tree.RecordsOf(records)
	var q tree.Request
	n := 0
	for ; r.Next(&q); n++ {
		if q.Op != tree.OpAttach {
			return false
		}
	}
	return n > 0
}

// newcomers are the clients that have asked for a new session and have none yet. There is a queue
// for each owner, and the queues take turns, so that asking more often doesn't keep others out.
// Replica.mu guards them.
type newcomers struct {
	queues    map[*owner][]*Client
	turns     []*owner // the owners that have a queue, the next one first
	waiting   int
	gone      int // clients in the queues that no longer wait
	beginning int // sent, and not yet answered

	connecting int // clients that wait for the answer to their connect request, whether in a queue or not
}

// newcomer is a client's state among the newcomers.
type newcomer uint8

const (
	noNewcomer newcomer = iota
	waitsToBegin
	begins
)

// count returns the number of newcomers.
func (n *newcomers) count() int { return n.waiting + n.beginning }

// add puts a client in its owner's queue.
func (n *newcomers) add(c *Client) {
	o := c.limits.owner()
	if n.queues == nil {
		n.queues = map[*owner][]*Client{}
	}
	if n.queues[o] == nil {
		n.turns = append(n.turns, o)
	}
	n.queues[o] = append(n.queues[o], c)
	c.arrival.newcomer = waitsToBegin
	n.waiting++
}

// next returns the client that begins next, or nil if none waits.
func (n *newcomers) next() *Client {
	for len(n.turns) > 0 {
		o := n.turns[0]
		q := n.queues[o]
		n.turns = n.turns[1:]
		for len(q) > 0 && q[0].arrival.newcomer != waitsToBegin {
			q = q[1:]
			n.gone--
		}
		if len(q) == 0 {
			delete(n.queues, o)
			continue
		}
		c := q[0]
		if n.queues[o] = q[1:]; len(q) == 1 {
			delete(n.queues, o)
		} else {
			n.turns = append(n.turns, o)
		}
		c.arrival.newcomer = begins
		n.waiting--
		n.beginning++
		return c
	}
	return nil
}

// remove removes a client, and reports whether it was waiting.
func (n *newcomers) remove(c *Client) (waited bool) {
	switch c.arrival.newcomer {
	case begins:
		n.beginning--
	case waitsToBegin:
		waited = true
		n.waiting--
		n.gone++
	}
	c.arrival.newcomer = noNewcomer
	if n.gone > n.waiting+beginningMax {
		n.turns = slices.DeleteFunc(n.turns, func(o *owner) bool {
			n.queues[o] = slices.DeleteFunc(n.queues[o], func(c *Client) bool { return c.arrival.newcomer != waitsToBegin })
			if len(n.queues[o]) > 0 {
				return false
			}
			delete(n.queues, o)
			return true
		})
		n.gone = 0
	}
	return waited
}

// beginSessions lets newcomers begin as far as there is room. Each newcomer that is answered or
// leaves makes room for the next one, so no timer is needed. mu is held for writing.
func (r *Replica) beginSessions() {
	if r.newcomers.waiting == 0 {
		return
	}
	most := beginningMax
	if r.overload.Overloaded() {
		most = beginningOverloadedMax
	}
	for r.newcomers.beginning < most {
		c := r.newcomers.next()
		if c == nil {
			return
		}
		r.submitAttach(c, jute.OpCreateSession, r.passwd(c.hello.SessionID))
	}
}
