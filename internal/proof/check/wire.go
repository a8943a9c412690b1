package check

import (
	"cmp"
	"fmt"

	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/jute"
)

// The first pass reads the events in the order of their times. It pairs replies with requests and checks every rule
// that needs no model: the rules for one connection (X4, X6), for one session across its connections (X7, S2, S6), and
// for real time (realtime, X9).

// An op is a request and, if there is one, its reply.
type op struct {
	conn  *conn
	req   int32 // index of the event
	rep   int32 // index of the reply, -1 if none came
	ids   int32 // number of identities of the connection
	id    int32 // index in checker.ops
	kind  jute.Op
	code  jute.Code // of the reply
	zxid  int64     // of the reply's header
	own   int64     // for an acknowledged write, its zxid
	floor int64     // highest zxid that any client had seen when the request was sent
}

// A conn is a connection.
type conn struct {
	id         int32
	session    *session // nil until connected
	ids        []jute.ID
	asked      int64 // the session that it requested to resume
	seen       int64 // the lastZxidSeen in its connect request
	max        int64 // highest zxid received
	maxReply   int64 // highest zxid of a reply received
	firstSeen  int64 // first zxid received: the session had moved here by then
	firstWrite int64 // zxid of the first write acknowledged
	pending    []int32
	head       int // of pending
	connect    int // index of the connect request
	closed     bool

	trailing     int // notifications since the last reply
	expected     []expectation
	optional     int            // expectations after the last reply
	gone         bool           // expects no more events
	nextExpected int            // the first expectation not received yet
	settled      int            // all expectations before this one were matched
	maxSeen      int64          // highest zxid up to the event being compared
	excused      map[*node]bool // nodes for which a guess may account for what was received
}

// A session is known by its connect requests and their replies.
type session struct {
	id         int64
	timeout    int64 // nanoseconds
	conns      []*conn
	max        int64 // highest zxid its client has seen
	lastXid    int32
	lastWrite  int64 // zxid of its last acknowledged write
	alive      int64 // when it sent the last packet that was answered
	lastSent   int64 // when it sent its last packet
	ended      bool  // close acknowledged, or refused
	closing    bool  // a closeSession was sent
	endZxid    int64 // of an acknowledged or proven end
	endEvent   int
	endGuessed bool  // endZxid may be wrong
	overBy     int64 // a time at which the end was certainly committed, 0 if unknown
	overEvent  int   // the event that showed it
	end        *unanswered
	closes     []*unanswered
	sent       []sent // its writes by xid, if there are logs
	found      int    // index of the last one found
}

// checker holds the state of one check.
type checker struct {
	h        *history.History
	opt      *Options
	rep      *Report
	conns    []*conn
	sessions map[int64]*session
	order    []*session // in order of appearance
	ops      []op
	named    names // by ops
	highest  int64 // highest zxid that any client has seen so far
	acked    int64 // highest zxid acknowledged in a reply so far
	m        *model
	dec      jute.Decoder

	notes         []int32              // indexes of notifications
	eventsByShare [eventShares][]int32 // by share of the connections: indexes of notifications and numbered replies
	dumps         []int32
	told          []*conn // memory for the connections that one event was sent to
	samples       []int64
	acks          []ack
	nextAck       int

	exact    bool
	items    []item
	pos      int      // in items
	present  *reading // of the item the sweep is at
	rereads  *reader  // decodes other items for the sweep
	reading  *op      // being compared
	taken    zxidSet
	reserved zxidSet   // by evidence
	stamps   [][]stamp // in pages, as they were made
	deferred []deferral

	unanswered   []*unanswered
	openWrites   int // unanswered changes that are writes, not placed
	placing      []placement
	look         int64 // marks nodes for lookahead
	listing      int64 // marks unanswered changes for candidates
	now          int64 // time of the event being explained
	premature    bool  // also explain by expiries that came too early
	sole         bool  // no other possible explanation of the event is known
	supposing    bool  // reads are compared with a state that may be undone
	evidence     []evidence
	nextEvidence int
	proofs       map[evidenceKey]int // index in evidence
	effort       int                 // steps of searching left

	log     []history.Entry // the longest server log
	authors []int32         // by entry of log: the op that it came from, -1 if unknown
	entryOf []int32         // by op: its entry in log, -1 if it has none
}

func (c *checker) violate(rule Rule, reason string, events ...int) {
	limit := cmp.Or(c.opt.ViolationsMax, 100)
	if len(c.rep.Violations) >= limit {
		c.rep.Dropped++
		return
	}
	c.rep.Violations = append(c.rep.Violations, Violation{rule, events, reason})
}

func (c *checker) conn(e *history.Event) *conn {
	for int(e.Conn) >= len(c.conns) {
		c.conns = append(c.conns, nil)
	}
	k := c.conns[e.Conn]
	if k == nil {
		k = &conn{id: e.Conn, connect: -1}
		c.conns[e.Conn] = k
		c.rep.Conns++
	}
	return k
}

// wire does the first pass.
func (c *checker) wire() {
	requests := len(c.h.Events)/2 + 1 // enough if nearly all were answered
	c.ops = make([]op, 0, requests)
	for share := range c.eventsByShare {
		c.eventsByShare[share] = make([]int32, 0, requests*5/4/eventShares)
	}
	together(c.packets, func() { c.name(requests) })
}

// packets goes through the events in order.
func (c *checker) packets() {
	for i := range c.h.Events {
		e := &c.h.Events[i]
		if e.Kind == history.KindDump {
			c.dumps = append(c.dumps, int32(i))
			continue
		}
		k := c.conn(e)
		switch e.Kind {
		case history.KindConnect:
			c.connect(k, e, i)
		case history.KindConnected:
			c.connected(k, e, i)
		case history.KindRequest:
			c.request(k, e, i)
		case history.KindReply:
			c.reply(k, e, i)
		case history.KindNotification:
			c.notification(k, e, i)
		case history.KindDisconnect:
			k.closed = true
		case history.KindIdentity:
			var id jute.ID
			c.dec.Reset(e.Body)
			id.Decode(&c.dec)
			k.ids = append(k.ids, id)
		}
	}
}

func (c *checker) connect(k *conn, e *history.Event, i int) {
	if k.connect >= 0 {
		c.violate(Form, "a connection has two connect requests", i, k.connect)
	}
	k.connect, k.asked, k.seen = i, e.Session, e.Zxid
	if s := c.sessions[e.Session]; s != nil && e.Session != 0 {
		s.lastSent = e.Time
	}
}

func (c *checker) connected(k *conn, e *history.Event, i int) {
	if k.connect < 0 {
		c.violate(Form, "a connect reply without a request", i)
		return
	}
	if e.Session == 0 || e.Num <= 0 {
		c.refusal(k, e, i)
		return
	}
	if k.asked != 0 && k.asked != e.Session {
		c.violate(S2,
			fmt.Sprintf("the client asked to resume session %#x and was given session %#x instead of a refusal", k.asked,
				e.Session), i, k.connect)
	}
	s := c.sessions[e.Session]
	switch {
	case s == nil:
		s = &session{id: e.Session, endEvent: -1}
		c.sessions[e.Session] = s
		c.order = append(c.order, s)
		c.rep.Sessions++
	case s.ended:
		c.violate(S2, fmt.Sprintf("session %#x had ended and was resumed", s.id), i, s.endEvent)
	case k.asked == 0:
		c.violate(S2, fmt.Sprintf("a new session was given the id %#x, which another one has", s.id), i)
	}
	s.timeout = int64(e.Num) * 1e6
	s.alive = max(s.alive, c.h.Events[k.connect].Time)
	s.lastSent = max(s.lastSent, c.h.Events[k.connect].Time)
	s.conns = append(s.conns, k)
	k.session = s
}

// refusal handles a connect reply that says that the session is gone.
func (c *checker) refusal(k *conn, e *history.Event, i int) {
	s := c.sessions[k.asked]
	if s == nil || s.ended {
		return
	}
	s.ended, s.endEvent = true, i
	if age := e.Time - s.alive; age < s.timeout && !s.closing && !c.unwritten(s) && !c.endedByRestore(s.id) {
		c.violate(S3, fmt.Sprintf("session %#x was refused as expired %.3f s after its client was last answered; its timeout is %.3f s",
			s.id, float64(age)/1e9, float64(s.timeout)/1e9), i, k.connect)
	}
}

// unwritten reports whether only one server may know a session, so that no log has it.
func (c *checker) unwritten(s *session) bool { return c.opt.LocalSessions && s.lastWrite == 0 }

func (c *checker) request(k *conn, e *history.Event, i int) {
	c.rep.Requests++
	if s := k.session; s == nil {
		c.violate(Form, "a request on a connection without a session", i)
	} else {
		if e.Xid > 0 && e.Xid <= s.lastXid {
			c.violate(Form,
				fmt.Sprintf("the client used xid %d after %d in one session: the checker can't tell the two apart", e.Xid, s.lastXid),
				i)
		}
		s.lastXid = max(s.lastXid, e.Xid)
		s.lastSent = e.Time
		s.closing = s.closing || e.Op() == jute.OpCloseSession
	}
	k.pending = append(k.pending, int32(len(c.ops)))
	c.ops = append(c.ops,
		op{conn: k, req: int32(i), rep: -1, ids: int32(len(k.ids)), id: int32(len(c.ops)), kind: e.Op(), floor: c.highest})
}

func (c *checker) reply(k *conn, e *history.Event, i int) {
	o := c.pair(k, e, i)
	if o == nil {
		return
	}
	o.rep, o.code, o.zxid, o.own = int32(i), e.Code(), e.Zxid, e.Zxid
	c.rep.Answered++
	s := k.session
	if s == nil {
		return
	}
	s.alive = max(s.alive, c.h.Events[o.req].Time)
	unseen := o.kind == jute.OpCloseSession && c.unwritten(s) // its end isn't a change, and has no zxid
	if unseen {
		s.ended, s.endEvent = true, i
	}
	if !o.numbered() {
		if !unseen {
			c.unnumbered(o, i)
		}
		return
	}
	c.keepForHear(k, i)
	k.trailing = 0
	c.packet(k, e, i)
	k.maxReply = max(k.maxReply, e.Zxid)
	if unseen {
		return
	}
	switch {
	case o.kind.IsWrite() && !o.unordered():
		c.acknowledged(k, o, e, i)
	case o.kind == jute.OpSync && e.Zxid < o.floor && !c.opt.SyncWeak && e.Code() == jute.OK:
		c.violate(X9,
			fmt.Sprintf("sync answered at zxid %#x, but zxid %#x had been acknowledged before the sync was sent", e.Zxid, o.floor),
			i, int(o.req))
	}
	if o.kind == jute.OpCloseSession && !s.ended {
		s.ended, s.endZxid, s.endEvent = true, e.Zxid, i
	}
}

// numbered reports whether o's reply has a zxid. A read's zxid is 0 before any change has happened; a write's never is.
func (o *op) numbered() bool {
	return o.zxid > 0 || o.zxid == 0 && !o.kind.IsWrite() && !o.stateless()
}

// stateless reports whether o's reply needs no zxid: authentication shows no state, and neither does a refusal.
func (o *op) stateless() bool {
	return o.kind == jute.OpPing || o.kind == jute.OpAuth || o.kind == jute.OpSASL || o.unordered()
}

// unnumbered checks a reply without zxid. Nothing else of it can be checked.
func (c *checker) unnumbered(o *op, i int) {
	rule := X1
	switch {
	case o.stateless():
		return
	case o.kind.IsWrite():
		rule = X2
	case o.kind == jute.OpSync:
		rule = X9
	}
	c.violate(rule, fmt.Sprintf("the reply to a %s carries no zxid", o.kind), i, int(o.req))
}

// pair finds the request of a reply.
func (c *checker) pair(k *conn, e *history.Event, i int) *op {
	if k.head == len(k.pending) {
		c.violate(X6, fmt.Sprintf("a reply to xid %d, which was not outstanding", e.Xid), i)
		return nil
	}
	o := &c.ops[k.pending[k.head]]
	if c.h.Events[o.req].Xid == e.Xid {
		k.head++
		return o
	}
	for j := k.head; j < len(k.pending); j++ {
		o := &c.ops[k.pending[j]]
		if c.h.Events[o.req].Xid != e.Xid {
			continue
		}
		if e.Xid != jute.XidAuth && e.Xid != jute.XidPing { // these may overtake
			c.violate(X6,
				fmt.Sprintf("the reply to xid %d came while xid %d was to be answered next", e.Xid,
					c.h.Events[c.ops[k.pending[k.head]].req].Xid),
				i, int(o.req), int(c.ops[k.pending[k.head]].req))
		}
		copy(k.pending[k.head+1:j+1], k.pending[k.head:j])
		k.head++
		return o
	}
	c.violate(X6, fmt.Sprintf("a reply to xid %d, which was not outstanding", e.Xid), i)
	return nil
}

// packet checks the zxid of a reply or notification against those that the connection and the session have seen.
func (c *checker) packet(k *conn, e *history.Event, i int) {
	s := k.session
	switch {
	case e.Zxid < k.max:
		c.violate(X4, fmt.Sprintf("zxid %#x after zxid %#x on one connection", e.Zxid, k.max), i)
	case e.Zxid < k.seen:
		c.violate(X7, fmt.Sprintf("a client that had seen zxid %#x was served at zxid %#x after reconnecting", k.seen, e.Zxid),
			i, k.connect)
	case e.Zxid < s.max && s.conns[len(s.conns)-1] == k:
		c.violate(X7,
			fmt.Sprintf("a session that had seen zxid %#x on an earlier connection was served at zxid %#x", s.max, e.Zxid), i,
			k.connect)
	}
	if s.endZxid != 0 && s.endEvent < i && e.Kind == history.KindReply {
		c.violate(S2, fmt.Sprintf("session %#x was answered after its end", s.id), i, s.endEvent)
	}
	k.firstSeen = cmp.Or(k.firstSeen, e.Zxid)
	k.max = max(k.max, e.Zxid)
	s.max = max(s.max, e.Zxid)
	c.highest = max(c.highest, e.Zxid)
}

// acknowledged checks a write's zxid against those seen before it was sent.
func (c *checker) acknowledged(k *conn, o *op, e *history.Event, i int) {
	s := k.session
	switch {
	case e.Zxid <= s.lastWrite && k.max == e.Zxid && s.lastWrite == e.Zxid:
		c.violate(X5, fmt.Sprintf("two writes of session %#x have zxid %#x", s.id, e.Zxid), i)
	case e.Zxid <= o.floor:
		c.violate(RealTime,
			fmt.Sprintf("the write has zxid %#x, but zxid %#x had been seen before the write was sent", e.Zxid, o.floor), i,
			int(o.req))
	}
	c.rep.Acknowledged++
	if !c.exact {
		o.own = ownZxid(o, e.Body)
	}
	s.lastWrite = max(s.lastWrite, e.Zxid)
	c.acked = max(c.acked, e.Zxid)
	k.firstWrite = cmp.Or(k.firstWrite, e.Zxid)
	if newest := s.conns[len(s.conns)-1]; newest != k && newest.firstSeen != 0 && e.Zxid > newest.firstSeen {
		c.violate(S6,
			fmt.Sprintf("a write of connection %d was applied at zxid %#x, after the session had moved to connection %d", k.id,
				e.Zxid, newest.id), i, newest.connect)
	}
}

func (c *checker) notification(k *conn, e *history.Event, i int) {
	c.rep.Notifications++
	if k.session == nil {
		c.violate(Form, "a notification on a connection without a session", i)
		return
	}
	c.notes = append(c.notes, int32(i))
	c.keepForHear(k, i)
	k.trailing++
	if e.Zxid <= 0 {
		return
	}
	if e.Zxid <= k.maxReply {
		c.violate(X4, fmt.Sprintf("the event of zxid %#x came after a reply at zxid %#x", e.Zxid, k.maxReply), i)
		k.max = max(k.max, e.Zxid)
		return
	}
	c.packet(k, e, i)
}

// keepForHear stores a packet for watchEvents.
func (c *checker) keepForHear(k *conn, i int) {
	share := &c.eventsByShare[k.id%eventShares]
	*share = append(*share, int32(i))
}

// unordered reports whether o was refused before it got a place in the order. That includes refusals by limits of
// clients, whose replies have no zxid.
func (o *op) unordered() bool {
	switch o.code {
	case jute.ErrSessionExpired, jute.ErrSessionMoved, jute.ErrUnknownSession, jute.ErrThrottledOp, jute.ErrNotReadOnly,
		jute.ErrUnimplemented, jute.ErrSessionClosedRequireSASLAuth, jute.ErrOperationTimeout, jute.ErrConnectionLoss,
		jute.ErrSystemError, jute.ErrReconfigDisabled:
		return true
	case jute.ErrQuotaExceeded:
		return o.zxid == 0
	}
	return false
}
