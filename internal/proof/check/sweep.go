package check

import (
	"fmt"
	"strings"

	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/jute"
)

// sweep is the second pass. It goes through the items once in the order of zxids, applies each write to the model and
// compares its result, and compares each read with the state at its zxid.
func (c *checker) sweep(items []item) {
	c.eachReading(items, func(i int, w *reading) {
		c.pos, c.present = i, w
		it := items[i]
		c.evidenceUpTo(it.zxid())
		if len(c.deferred) > 0 {
			c.retryDeferred(it.zxid())
		}
		c.m.trail = c.m.trail[:0]
		switch {
		case it.ref < 0:
			c.entry(&c.log[^it.ref], w)
		case it.key&1 == 0:
			c.write(w, it.zxid())
		default:
			c.answer(w)
		}
	})
	c.pos = len(items)
	c.evidenceUpTo(1<<63 - 1)
	c.retryDeferred(1<<63 - 1)
	c.clockOrder()
}

// stampsPerPage is how many stamps are allocated at once.
const stampsPerPage = 256

func (c *checker) stamp(zxid int64) *stamp {
	last := len(c.stamps) - 1
	if last < 0 || len(c.stamps[last]) == stampsPerPage {
		c.stamps = append(c.stamps, make([]stamp, 0, stampsPerPage))
		last++
	}
	page := append(c.stamps[last], stamp{zxid: zxid})
	c.stamps[last] = page
	return &page[len(page)-1]
}

// write applies an acknowledged write and compares its reply with the outcome.
func (c *checker) write(w *reading, zxid int64) {
	c.rep.Writes++
	o, s := w.o, w.conn.session
	if s.endZxid != 0 && zxid > s.endZxid {
		c.violate(S2,
			fmt.Sprintf("a write of session %#x was applied at zxid %#x, after the session's end at %#x", s.id, zxid, s.endZxid),
			int(o.rep), s.endEvent)
	}
	r := request{
		zxid: zxid, stamp: c.stamp(zxid), session: s.id, ids: w.identities(), op: w.kind, body: &w.req.Body, ops: w.ops,
		at: w.at, made: w.path, invalid: w.invalid,
	}
	if len(r.ops) > 1 {
		r.nodes = c.named.nodesOf(o.id)
	}
	var out outcome
	attempt := func() mismatch {
		out = c.m.apply(&r, &c.dec)
		return c.result(w, &out)
	}
	bad := attempt()
	if out.shaky && w.code == jute.OK && out.err == jute.OK && c.renamed(o, &r, &out) {
		attempt()
	}
	if bad.found() && !out.shaky && c.opt.ACLLags {
		bad = c.overlookSetACL(o, bad, &out, attempt)
	}
	if bad.found() && !out.shaky {
		bad = c.explainWrite(o, bad, &out, attempt)
	}
	if bad.found() && !out.shaky && len(c.unanswered) > 0 && c.undecide(c.touched(o, &out), zxid) {
		if w.code != jute.OK {
			c.m.undo(0)
		}
		return
	}
	if bad.found() && !out.shaky && len(c.unanswered) > 0 {
		c.premature = true
		bad = c.explainWrite(o, bad, &out, attempt)
		c.premature = false
	}
	if bad.found() && !out.shaky {
		c.violate(bad.rule, bad.String(), int(o.rep), int(o.req))
		if w.code != jute.OK {
			c.m.undo(0) // the servers say that it did nothing; continue from there
		}
	}
	c.fire(zxid, false)
	if w.kind == jute.OpCloseSession {
		s.endZxid = zxid
	}
}

// lagsMax bounds how many setACLs of one znode may be ignored.
const lagsMax = 4

// overlookSetACL tries to explain a result by older ACLs of the touched znodes: first of one of them, then of all.
func (c *checker) overlookSetACL(o *op, bad mismatch, out *outcome, attempt func() mismatch) mismatch {
	nodes := c.touched(o, out)
	defer func() { c.m.lag = nil }()
	try := func(lag map[*node]int) bool {
		c.m.undo(0)
		c.m.lag = lag
		b := attempt()
		return !b.found()
	}
	all := map[*node]int{}
	for back := 1; back <= lagsMax; back++ {
		for _, n := range nodes {
			if s := n.now(); s == nil || s.aversion < int32(back) {
				continue
			}
			if all[n] = back; try(map[*node]int{n: back}) {
				return mismatch{}
			}
		}
		if len(all) > 1 && try(all) {
			return mismatch{}
		}
	}
	c.m.undo(0)
	c.m.lag = nil
	attempt()
	return bad
}

// renamed reports whether a create below a znode that isn't checked got another sequence number than in the model. If
// so, the model takes the servers' number.
func (c *checker) renamed(o *op, r *request, out *outcome) bool {
	if !r.op.IsCreate() {
		return false
	}
	c.dec.Reset(c.h.Events[o.rep].Body)
	if path := c.dec.String(); path != out.n.path && parentPath(path) == parentPath(out.n.path) {
		r.name = path
		c.m.undo(0)
		return true
	}
	return false
}

// explainWrite looks for unanswered writes that explain a result.
func (c *checker) explainWrite(o *op, bad mismatch, out *outcome, attempt func() mismatch) mismatch {
	c.m.undo(0)
	zxid := c.h.Events[o.rep].Zxid
	c.now = c.h.Events[o.rep].Time
	if len(c.unanswered) > 0 && c.explain(zxid, int(o.rep), c.touched(o, out), func() bool {
		keep := len(c.m.trail)
		if b := attempt(); b.found() {
			c.m.undo(keep)
			return false
		}
		return true
	}) {
		return mismatch{}
	}
	return attempt()
}

// touched returns the nodes whose state determines the result of a request.
func (c *checker) touched(o *op, out *outcome) []*node {
	named := c.named.nodesOf(o.id)
	nodes := make([]*node, 0, 2*len(named)+1)
	for _, n := range named {
		nodes = append(nodes, n)
		if n.parent != nil {
			nodes = append(nodes, n.parent)
		}
	}
	if out != nil && out.n != nil {
		nodes = append(nodes, out.n)
	}
	return nodes
}

// result compares a write's reply with the model's outcome.
func (c *checker) result(w *reading, out *outcome) mismatch {
	if w.code != out.err {
		return mismatch{Result, "the code of a " + w.kind.String(), out.n, w.code, out.err}
	}
	if w.code != jute.OK || out.shaky {
		return mismatch{}
	}
	switch w.kind {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		if w.path != out.n.path {
			return wrongName(out.n, w.path)
		}
		if w.kind == jute.OpCreate {
			return mismatch{}
		}
		return c.resultStat(w, out)
	case jute.OpSetData, jute.OpSetACL:
		return c.resultStat(w, out)
	case jute.OpMulti:
		return c.resultMulti(w, out)
	}
	return mismatch{}
}

func (c *checker) resultStat(w *reading, out *outcome) mismatch {
	if w.bad != nil {
		return mismatch{Result, "the reply", out.n, w.bad, "a whole record"}
	}
	bad := c.statEqual(out.n, out.s, &w.stat)
	if bad.found() {
		bad.rule = Result
		if bad.what == "mzxid" || bad.what == "czxid" {
			bad.rule = X2
		}
	}
	return bad
}

// wrongName distinguishes a wrong sequence number from a wrong path.
func wrongName(n *node, got string) mismatch {
	rule := Result
	if len(got) == len(n.path) && len(got) > 10 && got[:len(got)-10] == n.path[:len(got)-10] &&
		strings.Trim(got[len(got)-10:], "0123456789") == "" {
		rule = Sequence
	}
	return mismatch{rule, "the created path", n, got, n.path}
}

func (c *checker) resultMulti(w *reading, out *outcome) mismatch {
	results := w.results
	if w.bad != nil || len(results) != len(out.parts) {
		return mismatch{Multi, "the number of results of a multi", nil, len(results), len(out.parts)}
	}
	for i := range results {
		got, want := &results[i], &out.parts[i]
		if want.op == jute.OpCreate2 && got.Op == jute.OpCreate && c.opt.MultiCreate2Plain {
			want.op = jute.OpCreate
		}
		switch {
		case got.Op != want.op:
			return mismatch{Multi, fmt.Sprintf("the kind of result %d of a multi", i), want.n, got.Op, want.op}
		case got.Err != want.err:
			return mismatch{Multi, fmt.Sprintf("the code of result %d of a multi", i), want.n, got.Err, want.err}
		case want.op == jute.OpCreate || want.op == jute.OpCreate2:
			if got.Path != want.n.path {
				return wrongName(want.n, got.Path)
			}
		}
		if want.op == jute.OpCreate2 || want.op == jute.OpSetData {
			if bad := c.statEqual(want.n, want.s, &got.Stat); bad.found() {
				bad.rule = Multi
				if bad.what == "mzxid" || bad.what == "czxid" {
					bad.rule = X2
				}
				return bad
			}
		}
	}
	return mismatch{}
}

// answer checks a read's reply and arms the watch that it set.
func (c *checker) answer(w *reading) {
	o := w.o
	if s := w.conn.session; c.exact && s.endZxid != 0 && w.zxid >= s.endZxid && !c.heardEnd(s, o.rep) {
		c.violate(S2,
			fmt.Sprintf("session %#x ended at zxid %#x, and its %s was answered at zxid %#x", s.id, s.endZxid, w.kind, w.zxid),
			int(o.rep), int(o.req))
	}
	if w.code == jute.ErrThrottledOp {
		return // a limit refused it: no watch was armed or removed
	}
	switch w.kind {
	case jute.OpPing, jute.OpAuth, jute.OpSASL, jute.OpWhoAmI:
		return
	case jute.OpSetWatches, jute.OpSetWatches2:
		c.catchUp(o)
		return
	case jute.OpCheckWatches, jute.OpRemoveWatches:
		c.removeWatches(o)
		return
	case jute.OpAddWatch:
		c.addWatch(o)
		return
	}
	c.rep.Reads++
	c.stale(w.sent, w.zxid)
	if bad := c.read(o); bad.found() {
		c.explainRead(o, bad)
	}
	c.armRead(w)
}

// heardEnd reports whether an event came after the acknowledgement of a session's end. Such an event was already
// reported when the wire was read.
func (c *checker) heardEnd(s *session, event int32) bool {
	return s.endEvent >= 0 && s.endEvent < int(event) && c.h.Events[s.endEvent].Kind == history.KindReply
}

func (c *checker) addWatch(o *op) {
	req, rep := &c.h.Events[o.req], &c.h.Events[o.rep]
	var q jute.AddWatchRequest
	c.dec.Reset(req.Body)
	q.Decode(&c.dec)
	if rep.Code() != jute.OK {
		return
	}
	mode := modePersistent
	if q.Mode == jute.AddWatchPersistentRecursive {
		mode = modeRecursive
	}
	c.armPersistent(c.m.node(q.Path), o.conn, mode)
}

// armRead arms the watch that a read set.
func (c *checker) armRead(w *reading) {
	kind := w.kind
	if !w.watch || w.code != jute.OK && !(kind == jute.OpExists && w.code == jute.ErrNoNode) {
		return
	}
	n := w.at
	switch {
	case n.opaque:
	case kind == jute.OpGetChildren || kind == jute.OpGetChildren2:
		arm(&n.child, w.conn, modeStandard)
	default:
		arm(&n.data, w.conn, modeStandard)
	}
}

// explainRead looks for unanswered writes, or a later state that the options allow, to explain a read. If there are
// none, the read is a violation.
func (c *checker) explainRead(o *op, bad mismatch) {
	req, rep := &c.h.Events[o.req], &c.h.Events[o.rep]
	c.now = rep.Time
	ok := false
	if len(c.unanswered) > 0 && req.Op() != jute.OpSync {
		ok = c.explain(rep.Zxid, int(o.rep), c.readNodes(o), func() bool {
			b := c.read(o)
			return !b.found()
		})
	}
	if ok || len(c.unanswered) > 0 && c.undecide(c.readNodes(o), rep.Zxid) {
		return
	}
	if req.Op() == jute.OpGetAllChildrenNumber && (c.guessing(rep.Zxid) || c.fewer(o)) {
		c.rep.Undecided++ // any guess about a descendant may be wrong
		return
	}
	c.premature = true
	ok = len(c.unanswered) > 0 && c.explain(rep.Zxid, int(o.rep), c.readNodes(o), func() bool {
		b := c.read(o)
		return !b.found()
	})
	c.premature = false
	if ok {
		return
	}
	if c.opt.ReadWindow {
		if until := c.nextReply(o); until > rep.Zxid {
			c.deferred = append(c.deferred, deferral{o, until, bad})
			return
		}
	}
	c.readViolation(o, bad)
}

// fewer reports whether a count of descendants is too small by at most the number that the servers may have removed
// unnoticed.
func (c *checker) fewer(o *op) bool {
	w := c.readingOf(o)
	if c.exact || w.code != jute.OK || w.bad != nil {
		return false
	}
	n := w.at
	want, gone := n.below, reapable(n)
	return w.count < want && w.count >= want-gone
}

func (c *checker) readViolation(o *op, bad mismatch) {
	req, rep := &c.h.Events[o.req], &c.h.Events[o.rep]
	if bad.rule == X1 && c.appliedTwice(req, rep) {
		bad.rule = Twice
	}
	c.violate(bad.rule, fmt.Sprintf("%s at zxid %#x: %s", req.Op(), rep.Zxid, bad.String()), int(o.rep), int(o.req))
}

// appliedTwice reports whether a read shows that a write was applied twice: writers use each value once, and the read
// shows it once more than it was written.
func (c *checker) appliedTwice(req, rep *history.Event) bool {
	g, ok := lastStat(req.Op(), rep.Body)
	if !ok || req.Op() != jute.OpGetData || rep.Code() != jute.OK {
		return false
	}
	c.dec.Reset(req.Body)
	n := c.m.node(c.dec.String())
	c.dec.Reset(rep.Body)
	data := c.dec.Buffer()
	if len(data) == 0 || c.taken.has(g.Mzxid) {
		return false
	}
	if s := n.now(); s != nil && string(s.data) == string(data) && g.Version > s.version {
		return true
	}
	if n.parent != nil && n.now() == nil {
		for _, sibling := range n.parent.children {
			if s := sibling.now(); string(s.data) == string(data) {
				return true
			}
		}
	}
	return false
}

// readNodes returns the nodes whose state determines the result of a read.
func (c *checker) readNodes(o *op) []*node {
	req := &c.h.Events[o.req]
	if req.Op() != jute.OpGetEphemerals {
		return c.touched(o, nil)
	}
	nodes := append([]*node(nil), c.m.ephemerals[o.conn.session.id]...)
	c.dec.Reset(c.h.Events[o.rep].Body)
	for _, path := range c.dec.Strings() {
		n := c.m.node(path)
		if nodes = append(nodes, n); n.parent != nil {
			nodes = append(nodes, n.parent)
		}
	}
	return nodes
}

// A deferral is a read whose zxid may be older than the state that it shows.
type deferral struct {
	o     *op
	until int64 // it must match some state up to this zxid
	bad   mismatch
}

// nextReply returns the zxid of the reply that follows o's on its connection, or one above all that were seen there.
func (c *checker) nextReply(o *op) int64 {
	k := o.conn
	for i := 0; i+1 < k.head; i++ {
		if &c.ops[k.pending[i]] == o {
			if next := c.ops[k.pending[i+1]].rep; next >= 0 {
				return c.h.Events[next].Zxid
			}
			break
		}
	}
	return k.max + 1
}

func (c *checker) retryDeferred(zxid int64) {
	kept := c.deferred[:0]
	for _, d := range c.deferred {
		if b := c.read(d.o); !b.found() {
			continue
		}
		if zxid > d.until {
			c.readViolation(d.o, d.bad)
			continue
		}
		kept = append(kept, d)
	}
	c.deferred = kept
}

// clockBackMin is the minimum by which the servers may set their time back, in ms. A smaller step is a difference
// between two leaders' clocks, which must not show.
const clockBackMin = 60_000

// clockOrder checks that later changes don't have earlier times, unless the time was set back because a clock was far
// ahead.
func (c *checker) clockOrder() {
	if c.opt.ClockMayGoBack {
		return
	}
	last := &stamp{}
	for _, page := range c.stamps {
		for i := range page {
			t := &page[i]
			if !t.known || t.zxid < last.zxid {
				continue
			}
			if t.ms < last.ms && t.ms >= last.ms-clockBackMin {
				c.violate(Result,
					fmt.Sprintf("the change %#x has the time %d ms, the earlier change %#x has %d ms", t.zxid, t.ms, last.zxid, last.ms))
			}
			last = t
		}
	}
}
