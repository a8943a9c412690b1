package check

import (
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/zooid-project/zooid/internal/proof/check/acls"
	"github.com/zooid-project/zooid/jute"
)

// Clients alone can't know whether an unanswered write happened, or when a session without a client ended. Each of
// these is an unanswered change. It enters the model only when something shows it: a zxid in a Stat or a notification
// that isn't that of an acknowledged write (evidence), or a reply that only this change explains (explain). Until then
// it has not happened; if nothing ever shows it, it doesn't matter. So the checker never reports a violation for
// something that the servers may have done, and reports one as soon as no set of unanswered changes fits.

// An unanswered change is a write without a reply, a session's end that was not acknowledged, or the servers' removal
// of an empty container or TTL znode.
type unanswered struct {
	o       *op // nil for a session's end and for a removal
	s       *session
	reaped  *node // the znode removed by the servers
	prev    *unanswered
	after   int64 // its zxid is above this
	before  int64 // and below this, if not 0
	placed  bool
	guessed bool // placed, but another change may have been the cause
	expires bool
	listed  int64 // set by candidates
}

// explainDepth and explainTries bound the search for a set of unanswered changes that explains one reply. In practice
// there are at most three unseen writes between two replies about the same znode.
const (
	explainDepth = 3
	explainTries = 300
)

// effortPerItem bounds all searches together, in steps per item of the history, so that a history with errors
// everywhere doesn't take forever. effortPerTry is the number of steps of one try.
const (
	effortPerItem = 2000
	effortPerTry  = 20
)

// freeSteps bounds the search for a zxid below a reply's zxid that no acknowledged write has.
const freeSteps = 1 << 16

// lookaheadItems bounds how far the sweep looks ahead to choose between two unanswered changes that fit equally well.
const lookaheadItems = 4096

// A placement is an unanswered change put into the model.
type placement struct {
	m      *unanswered
	zxid   int64
	events []fired
	loose  bool
}

// suppose lists all unanswered changes of the history.
func (c *checker) suppose() {
	c.effort = effortPerItem * (len(c.items) + 1000)
	lastOf := make([]*unanswered, len(c.conns))
	for i := range c.ops {
		o := &c.ops[i]
		if o.rep >= 0 || !o.kind.IsWrite() || o.conn.session == nil {
			continue
		}
		b := &unanswered{o: o, s: o.conn.session, prev: lastOf[o.conn.id], after: o.floor, before: o.conn.overtaken()}
		lastOf[o.conn.id] = b
		c.unanswered = append(c.unanswered, b)
		for _, n := range c.touched(o, nil) {
			n.unanswered = append(n.unanswered, b)
		}
		if o.kind == jute.OpCloseSession {
			b.s.closes = append(b.s.closes, b)
		}
	}
	c.openWrites = len(c.unanswered)
	for _, s := range c.order {
		if s.endZxid == 0 {
			s.end = &unanswered{s: s, after: s.max, expires: true}
			c.unanswered = append(c.unanswered, s.end)
		}
	}
}

// overtaken returns the zxid of the first write acknowledged on a later connection of k's session. No write of k comes
// after it.
func (k *conn) overtaken() int64 {
	for i := len(k.session.conns) - 1; i >= 0 && k.session.conns[i] != k; i-- {
		if z := k.session.conns[i].firstWrite; z != 0 {
			return z
		}
	}
	return 0
}

// candidates returns the unanswered changes that aren't placed yet and may have touched any of nodes before zxid.
func (c *checker) candidates(nodes []*node, zxid int64) []*unanswered {
	var list []*unanswered
	c.listing++
	add := func(b *unanswered) {
		if b == nil || b.placed || b.after >= zxid || b.listed == c.listing {
			return
		}
		b.listed = c.listing
		list = append(list, b)
	}
	end := func(b *unanswered) {
		if b == nil || c.premature || c.now >= b.s.alive+b.s.timeout {
			add(b)
		}
	}
	ends := func(n *node) {
		s := n.now()
		switch {
		case s == nil || n.opaque:
		case s.life == ephemeral:
			if owner := c.sessions[s.owner]; owner != nil {
				for _, b := range owner.closes {
					add(b)
				}
				end(owner.end)
			}
		case s.life != persistent && s.numChildren == 0:
			add(&unanswered{reaped: n, after: s.czxid})
		}
	}
	for _, n := range nodes {
		for _, b := range n.unanswered {
			add(b)
		}
	}
	first := len(list)
	for _, n := range nodes {
		ends(n)
		for _, child := range n.children {
			ends(child)
		}
	}
	slices.SortStableFunc(list[first:], func(a, b *unanswered) int { return cmp.Compare(a.deadline(), b.deadline()) })
	return list
}

// deadline returns a time by which changes are sorted by likelihood: sessions tend to expire in the order of their
// deadlines, and the servers rarely reap.
func (b *unanswered) deadline() int64 {
	switch {
	case b.reaped != nil:
		return 1<<63 - 1
	case b.expires:
		return b.s.alive + b.s.timeout
	}
	return 0
}

// explain searches for unanswered changes that, placed before zxid, make goal return true. goal must leave its own
// changes in the model if it returns true, and none otherwise. The placed changes then stay. event is the reply that
// showed them.
func (c *checker) explain(zxid int64, event int, nodes []*node, goal func() bool) bool {
	c.now = c.h.Events[event].Time
	list := c.candidates(nodes, zxid)
	if len(list) == 0 {
		return false
	}
	c.placing = c.placing[:0]
	c.sole = len(list) == 1
	defer func() { c.sole = false }()
	found := false
	for _, picky := range [...]bool{true, false} {
		tries := explainTries
		found = found || c.search(zxid, list, explainDepth, &tries, func() bool {
			keep := len(c.m.trail)
			if !goal() {
				return false
			}
			if picky {
				events := append([]fired(nil), c.m.events...)
				if c.lookahead(c.pos+1) < 0 {
					c.m.undo(keep)
					return false
				}
				c.m.events = append(c.m.events[:0], events...)
			}
			return true
		})
	}
	if !found {
		return false
	}
	own := append([]fired(nil), c.m.events...) // of goal itself
	c.commit(event)
	c.m.events = append(c.m.events[:0], own...)
	return true
}

func (c *checker) search(zxid int64, list []*unanswered, depth int, tries *int, goal func() bool) bool {
	for _, b := range list {
		if *tries--; *tries < 0 || c.effort <= 0 {
			return false
		}
		c.effort -= effortPerTry
		keep, placed := len(c.m.trail), len(c.placing)
		if b.placed || !c.put(b, zxid, false) {
			continue
		}
		if goal() || depth > 1 && c.search(zxid, list, depth-1, tries, goal) {
			return true
		}
		c.take(keep, placed)
	}
	return false
}

// put applies b, exactly at zxid or at the latest free zxid up to it. Earlier requests of its connection must have
// happened too. put applies such a request first if its effect is certain; otherwise it stays an unanswered change. put
// reports whether b fits and changes anything; if not, nothing has changed.
func (c *checker) put(b *unanswered, zxid int64, exactly bool) bool {
	keep, placed := len(c.m.trail), len(c.placing)
	at := zxid
	if !exactly {
		if b.before != 0 {
			zxid = min(zxid, b.before-1)
		}
		at = c.latestFree(zxid, b.after)
	}
	if at <= b.after || b.before != 0 && at >= b.before || b.s != nil && b.s.endZxid != 0 && at > b.s.endZxid {
		return false
	}
	for _, x := range c.certain(b, at) {
		if z := c.latestFree(at-1, x.after); z != 0 {
			c.putOne(x, z, true)
		}
	}
	if !c.putOne(b, at, !exactly) || c.untold(&c.placing[len(c.placing)-1]) {
		c.take(keep, placed)
		return false
	}
	return true
}

// untold reports whether a placement would have fired an event on a connection that stayed open and received nothing
// with its zxid.
func (c *checker) untold(p *placement) bool {
	if c.opt.NotificationsUnnumbered {
		return false
	}
	for i := range p.events {
		f := &p.events[i]
		if _, heard := c.proofs[evidenceKey{p.zxid, f.n, provesEvent, f.typ}]; heard || f.n.lost {
			continue
		}
		list := f.n.data
		if f.table != tableData {
			list = f.n.child
		}
		for _, w := range list {
			if !w.conn.gone && w.conn.maxReply >= p.zxid && w.mode&(modeStandard|modePersistent) != 0 &&
				(c.opt.EventsUnfiltered || acls.Permits(f.acl, jute.PermRead, w.conn.ids)) {
				return true
			}
		}
	}
	return false
}

// certain returns the requests that b's connection sent before b, that aren't placed, and that must have changed
// something which can't have been changed back: nothing else has touched their znodes since they were sent.
func (c *checker) certain(b *unanswered, zxid int64) []*unanswered {
	var list []*unanswered
	for x := b.prev; x != nil; x = x.prev {
		if x.placed || x.before != 0 {
			break // this and all before it have been handled
		}
		if !slices.ContainsFunc(c.touched(x.o, nil), func(n *node) bool { return n.shared(x, b, zxid) }) {
			list = append([]*unanswered{x}, list...)
		}
	}
	return list
}

// shared reports whether anything except the unanswered changes x and b may have touched n since x was sent, up to
// zxid.
func (n *node) shared(x, b *unanswered, zxid int64) bool {
	if n.last != nil && n.last.zxid > x.after {
		return true
	}
	if s := n.now(); s != nil && s.life == ephemeral {
		return true // its session may have ended
	}
	return slices.ContainsFunc(n.unanswered,
		func(y *unanswered) bool { return y != x && y != b && !y.placed && y.after < zxid })
}

// putOne applies one unanswered change and reports whether it changed anything.
func (c *checker) putOne(b *unanswered, zxid int64, loose bool) bool {
	before := len(c.m.trail)
	c.m.events = c.m.events[:0]
	switch {
	case b.o != nil:
		w := c.readingOf(b.o)
		r := request{
			zxid: zxid, stamp: &stamp{zxid: zxid}, session: b.s.id, ids: w.identities(), op: w.kind, body: &w.req.Body,
			ops: w.ops, at: w.at, nodes: c.named.nodesOf(b.o.id), invalid: w.invalid,
		}
		c.m.apply(&r, &c.dec)
	case b.reaped != nil:
		if s := b.reaped.now(); s != nil && s.life != ephemeral && s.numChildren == 0 {
			c.m.drop(b.reaped, zxid, false)
		}
	default:
		c.m.endSession(b.s.id, zxid)
	}
	b.placed = true
	c.placing = append(c.placing, placement{b, zxid, append([]fired(nil), c.m.events...), loose})
	return len(c.m.trail) > before
}

// take undoes the placements after the first placed ones.
func (c *checker) take(keep, placed int) {
	c.m.undo(keep)
	for _, p := range c.placing[placed:] {
		p.m.placed = false
	}
	c.placing = c.placing[:placed]
}

// commit makes the placements final. event is what showed them.
func (c *checker) commit(event int) {
	for _, p := range c.placing {
		c.taken.add(p.zxid)
		c.rep.Placed++
		if p.m.o != nil {
			c.openWrites--
			for x := p.m.prev; x != nil && !x.placed && (x.before == 0 || x.before > p.zxid); x = x.prev {
				x.before = p.zxid
			}
		}
		p.m.guessed = p.loose
		if p.loose && p.m.reaped != nil {
			p.m.reaped.reapGuessed = true
		}
		c.m.events = append(c.m.events[:0], p.events...)
		c.fire(p.zxid, p.loose)
		if s := p.m.s; p.m.o == nil && s != nil || p.m.o != nil && c.h.Events[p.m.o.req].Op() == jute.OpCloseSession {
			c.sessionEnded(p.m, s, p.zxid, event)
		}
	}
	c.placing = c.placing[:0]
}

func (c *checker) sessionEnded(b *unanswered, s *session, zxid int64, event int) {
	s.endZxid, s.endGuessed = zxid, b.guessed
	if b.guessed && (c.premature || c.sole) { // its zxid is uncertain, but the end isn't
		s.over(c.h.Events[event].Time, event)
	}
	if s.endEvent < 0 {
		s.endEvent = event
	}
	if !b.expires || s.closing {
		return
	}
	if age := c.h.Events[event].Time - s.alive; age < s.timeout {
		c.violate(S3, fmt.Sprintf("session %#x was seen to have expired %.3f s after its client was last answered; its timeout is %.3f s",
			s.id, float64(age)/1e9, float64(s.timeout)/1e9), event)
	}
}

// latestFree returns the highest zxid in (after, zxid] that no known change has, 0 if there is none.
func (c *checker) latestFree(zxid, after int64) int64 {
	for range freeSteps {
		switch {
		case zxid <= after || zxid <= 0:
			return 0
		case zxid&0xffffffff == 0: // no epoch has a change 0: continue above the last known change of the previous epoch
			i := sort.Search(len(c.items), func(i int) bool { return c.items[i].zxid() >= zxid })
			if i == 0 {
				return 0
			}
			zxid = c.items[i-1].zxid() + 1
		}
		if !c.taken.has(zxid) && !c.reserved.has(zxid) {
			free := true
			for i := range c.placing {
				free = free && c.placing[i].zxid != zxid
			}
			if free {
				return zxid
			}
		}
		zxid--
	}
	return 0
}
