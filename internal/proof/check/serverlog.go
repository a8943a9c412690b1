package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/jute"
)

// With the servers' logs, no change is uncertain: the longest log is the order of changes, the others must agree with
// it, and it shows whether each client's request was applied.

// sent is a write sent by a session's client.
type sent struct{ xid, op int32 }

// find returns the index of the op with the given xid, -1 if there is none. Clients count xids up, and logs have a
// session's writes in order, so it is usually the one after the last one found.
func (s *session) find(xid int32) int32 {
	if n := s.found + 1; n < len(s.sent) && s.sent[n].xid == xid {
		s.found = n
		return s.sent[n].op
	}
	n, ok := slices.BinarySearchFunc(s.sent, xid, func(w sent, xid int32) int { return cmp.Compare(w.xid, xid) })
	if !ok {
		return -1
	}
	s.found = n
	return s.sent[n].op
}

// listSent prepares the lists for find.
func (c *checker) listSent() {
	for i := range c.ops {
		o := &c.ops[i]
		if s := o.conn.session; s != nil && o.kind.IsWrite() {
			s.sent = append(s.sent, sent{c.h.Events[o.req].Xid, int32(i)})
		}
	}
	for _, s := range c.order {
		s.found = -1
		byXid := func(a, b sent) int { return cmp.Compare(a.xid, b.xid) }
		if !slices.IsSortedFunc(s.sent, byXid) {
			slices.SortStableFunc(s.sent, byXid)
		}
	}
}

// agree compares the logs with each other, finds the sender of each entry, and adds the entries that took a zxid to the
// items.
func (c *checker) agree(items []item) []item {
	longest := &c.h.Servers[0]
	for i := range c.h.Servers {
		if l := &c.h.Servers[i]; lastZxid(l) > lastZxid(longest) {
			longest = l
		}
	}
	for i := range c.h.Servers {
		if l := &c.h.Servers[i]; l != longest {
			c.compareLogs(longest, l)
		}
	}
	c.log = longest.Entries
	c.listSent()
	c.authors = make([]int32, len(c.log))
	c.entryOf = make([]int32, len(c.ops))
	for i := range c.entryOf {
		c.entryOf[i] = -1
	}
	var last int64
	for i := range c.log {
		e := &c.log[i]
		if !e.Applied || e.Zxid == 0 {
			continue
		}
		if e.Zxid <= last {
			c.violate(X5, fmt.Sprintf("the log of server %d has zxid %#x after %#x", longest.Server, e.Zxid, last))
		}
		last = e.Zxid
		c.taken.add(e.Zxid)
		c.attribute(e, int32(i))
		items = append(items, item{writeKey(e.Zxid), ^int32(i)})
	}
	return items
}

func lastZxid(l *history.ServerLog) int64 {
	var z int64
	for i := range l.Entries {
		z = max(z, l.Entries[i].Zxid)
	}
	return z
}

// compareLogs checks that two logs are equal in their common part.
func (c *checker) compareLogs(a, b *history.ServerLog) {
	j := 0
	for i := range b.Entries {
		e := &b.Entries[i]
		if e.Zxid == 0 {
			continue
		}
		for j < len(a.Entries) && a.Entries[j].Zxid < e.Zxid {
			if z := a.Entries[j].Zxid; z != 0 && i > 0 && z > b.Entries[0].Zxid {
				c.violate(Agreement, fmt.Sprintf("server %d has no zxid %#x, server %d has", b.Server, z, a.Server))
			}
			j++
		}
		if j == len(a.Entries) || a.Entries[j].Zxid > e.Zxid {
			if j > 0 {
				c.violate(Agreement, fmt.Sprintf("server %d has zxid %#x, server %d has not", b.Server, e.Zxid, a.Server))
			}
			continue
		}
		x := &a.Entries[j]
		j++
		switch {
		case x.Session != e.Session || x.Cnx != e.Cnx || x.Seq != e.Seq || x.Xid != e.Xid || x.Op != e.Op ||
			x.Time != e.Time || string(x.Body) != string(e.Body):
			c.violate(Agreement,
				fmt.Sprintf("servers %d and %d hold different requests at zxid %#x", a.Server, b.Server, e.Zxid))
		case x.Digest != e.Digest || x.Err != e.Err:
			c.violate(Agreement,
				fmt.Sprintf("servers %d and %d hold the same request at zxid %#x and made different states of it", a.Server,
					b.Server, e.Zxid))
		}
	}
}

// attribute finds the op of an entry.
func (c *checker) attribute(e *history.Entry, i int32) {
	c.authors[i] = -1
	s := c.sessions[e.Session]
	if e.Session == 0 || e.Op == jute.OpCreateSession || e.Cnx == 0 || s == nil {
		return // a server's own request, or of a session without a journal
	}
	o := s.find(e.Xid)
	c.authors[i] = o
	if o < 0 {
		c.violate(Origin,
			fmt.Sprintf("the log has a %s of session %#x with xid %d at zxid %#x, which its client never sent", e.Op, e.Session,
				e.Xid, e.Zxid))
		return
	}
	if first := c.entryOf[o]; first >= 0 {
		c.violate(Twice,
			fmt.Sprintf("the %s of session %#x with xid %d is in the log at zxid %#x and again at %#x", e.Op, e.Session, e.Xid,
				c.log[first].Zxid, e.Zxid), int(c.ops[o].req))
		return
	}
	c.entryOf[o] = i
}

// unlogged checks that each acknowledged write is in the log, under its zxid.
func (c *checker) unlogged() {
	for i := range c.ops {
		o := &c.ops[i]
		if o.rep < 0 || o.conn.session == nil || !o.kind.IsWrite() || o.unordered() || o.zxid <= 0 ||
			c.entryOf[i] < 0 && c.unwritten(o.conn.session) {
			continue
		}
		at := c.entryOf[i]
		switch {
		case at < 0:
			c.violate(Durability, fmt.Sprintf("the %s acknowledged at zxid %#x is in no log", o.kind, o.zxid), int(o.rep),
				int(o.req))
		case c.log[at].Zxid != o.zxid:
			c.violate(X2,
				fmt.Sprintf("the %s was acknowledged at zxid %#x and is in the log at %#x", o.kind, o.zxid, c.log[at].Zxid),
				int(o.rep), int(o.req))
		}
	}
}

// holes checks that the log has a prefix of each connection's writes, in the order in which they were sent, and that no
// session writes on an old connection.
func (c *checker) holes() {
	type lost struct{ op int32 }
	missing := make([]*lost, len(c.conns))
	newest := make([]int64, len(c.conns))
	for i := range c.ops {
		o := &c.ops[i]
		if !o.kind.IsWrite() || o.conn.session == nil || o.rep >= 0 && o.unordered() {
			continue
		}
		at := c.entryOf[i]
		switch gap := missing[o.conn.id]; {
		case at < 0 && gap == nil:
			missing[o.conn.id] = &lost{op: int32(i)}
		case at >= 0 && gap != nil:
			c.violate(FIFO,
				fmt.Sprintf("the %s with xid %d is in the log, the write sent before it on the same connection is not", o.kind,
					c.h.Events[o.req].Xid), int(o.req), int(c.ops[gap.op].req))
		case at >= 0 && c.log[at].Zxid < newest[o.conn.id]:
			c.violate(FIFO,
				fmt.Sprintf("the %s with xid %d is in the log at zxid %#x, before a write sent earlier on its connection", o.kind,
					c.h.Events[o.req].Xid, c.log[at].Zxid), int(o.req))
		}
		if at >= 0 {
			newest[o.conn.id] = max(newest[o.conn.id], c.log[at].Zxid)
		}
	}
	c.moves()
}

// moves checks that no entry of a session comes from a connection that it had left.
func (c *checker) moves() {
	left := map[int64]map[int64]bool{}
	owner := map[int64]int64{}
	for i := range c.log {
		e := &c.log[i]
		if !e.Applied || e.Session == 0 || e.Cnx == 0 {
			continue
		}
		if left[e.Session][e.Cnx] {
			c.violate(S6,
				fmt.Sprintf("session %#x wrote at zxid %#x over connection %#x, which it had left", e.Session, e.Zxid, e.Cnx))
		}
		if old := owner[e.Session]; old != 0 && old != e.Cnx {
			if left[e.Session] == nil {
				left[e.Session] = map[int64]bool{}
			}
			left[e.Session][old] = true
		}
		owner[e.Session] = e.Cnx
	}
}

// entry applies a log entry and compares its outcome with the server's and, if there is a reply, with the reply.
func (c *checker) entry(e *history.Entry, w *reading) {
	t := c.stamp(e.Zxid)
	t.ms, t.known = e.Time, true
	r := request{
		zxid: e.Zxid, stamp: t, session: e.Session, ids: w.identities(), op: e.Op, body: &e.Body, ops: w.ops, at: w.at,
		made: w.path, invalid: w.invalid,
	}
	o := w.o
	if w.at != nil && len(r.ops) > 1 {
		r.nodes = c.named.nodesOf(o.id)
	}
	var s *session
	if o != nil {
		s = w.conn.session
	} else {
		s = c.sessions[e.Session]
	}
	if s != nil && s.endZxid != 0 && e.Zxid > s.endZxid {
		c.violate(S2,
			fmt.Sprintf("the log has a %s of session %#x at zxid %#x, after the session's end at %#x", e.Op, s.id, e.Zxid,
				s.endZxid))
	}
	if w.forged {
		c.violate(Origin, fmt.Sprintf("the log's %s at zxid %#x is not what its client sent", e.Op, e.Zxid), int(o.req))
	}
	out := c.m.apply(&r, &c.dec)
	c.rep.Writes++
	switch {
	case out.shaky:
	case w.rep != nil: // it was answered at this zxid
		if bad := c.result(w, &out); bad.found() {
			c.violate(bad.rule, bad.String(), int(o.rep), int(o.req))
		}
	case (o != nil || e.Session == 0) && e.Err != out.err:
		c.violate(Result,
			fmt.Sprintf("the servers' result of the %s at zxid %#x is %s, the model's %s", e.Op, e.Zxid, e.Err, out.err))
	}
	c.fire(e.Zxid, false)
	if e.Op == jute.OpCloseSession && s != nil {
		c.entryEnds(e, s)
	}
	if e.Op == OpRestore {
		c.restoreEnds(e)
	}
}

// entryEnds checks a session's end in the log.
func (c *checker) entryEnds(e *history.Entry, s *session) {
	s.endZxid = e.Zxid
	if e.Cnx != 0 {
		return
	}
	if term := jute.NewDecoder(e.Body).Long(); len(e.Body) == 8 && term != e.Term {
		c.violate(S5,
			fmt.Sprintf("the expiry of session %#x was decided in term %d and took effect in term %d", s.id, term, e.Term))
	}
	at := e.Time*1e6 - c.h.WallStart
	if e.Time != 0 && c.h.WallStart != 0 && at+1e6 < s.alive+s.timeout {
		c.violate(S3, fmt.Sprintf("session %#x was expired %.3f s after its client was last answered; its timeout is %.3f s",
			s.id, float64(at-s.alive)/1e9, float64(s.timeout)/1e9))
	}
}
