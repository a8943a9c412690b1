package check

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/zooid-project/zooid/internal/proof/check/acls"
	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/jute"
)

// A mismatch is a difference between a reply and the model. Its text is only made when it is reported. The zero value
// means no mismatch.
type mismatch struct {
	rule      Rule
	what      string
	n         *node
	got, want any
}

func (m *mismatch) found() bool { return m.rule != "" }

// String describes the difference, as the start of a sentence.
func (m *mismatch) String() string {
	path := ""
	if m.n != nil {
		path = " of " + m.n.path
	}
	return fmt.Sprintf("%s%s is %v in the reply and %v in the model", m.what, path, m.got, m.want)
}

// read compares a read's reply with the present state of the model.
func (c *checker) read(o *op) mismatch {
	w := c.readingOf(o)
	c.reading = o
	if w.code == jute.ErrThrottledOp {
		return mismatch{} // a limit refused it before it was read
	}
	switch w.kind {
	case jute.OpGetData, jute.OpExists, jute.OpGetACL, jute.OpGetChildren, jute.OpGetChildren2,
		jute.OpGetAllChildrenNumber:
		return c.readNode(w.kind, w.at, w.identities(), &w.shown)
	case jute.OpGetEphemerals:
		c.dec.Reset(w.req.Body)
		prefix := c.dec.String()
		return c.readEphemerals(o.conn, prefix, w.rep)
	case jute.OpMultiRead:
		return c.readMulti(w)
	case jute.OpSync:
		c.dec.Reset(w.req.Body)
		if path := c.dec.String(); w.code == jute.OK && w.path != path {
			return mismatch{rule: X1, what: "the path of a sync", got: w.path, want: path}
		}
	}
	return mismatch{}
}

// readCode returns the code with which a read of n ends.
func (c *checker) readCode(op jute.Op, n *node, ids []jute.ID) jute.Code {
	s := n.now()
	perms := jute.PermRead
	switch op {
	case jute.OpExists:
		if strings.IndexByte(n.path, 0) >= 0 {
			return jute.ErrBadArguments
		}
		if c.opt.ExistsUnchecked {
			perms = 0
		}
	case jute.OpGetACL:
		perms |= jute.PermAdmin
	}
	switch {
	case s == nil:
		return jute.ErrNoNode
	case perms != 0 && !s.permits(perms, ids):
		return jute.ErrNoAuth
	}
	return jute.OK
}

func (c *checker) readNode(op jute.Op, n *node, ids []jute.ID, w *shown) mismatch {
	if n.opaque {
		if n.lost {
			c.recover(n, op, w)
		}
		return mismatch{}
	}
	if want := c.readCode(op, n, ids); want != w.code {
		return mismatch{c.blame(n, w, op), "the code of a " + op.String(), n, w.code, want}
	}
	if w.code != jute.OK {
		return mismatch{}
	}
	if w.bad != nil {
		return mismatch{X1, "the reply to a " + op.String(), n, w.bad, "a whole record"}
	}
	s := n.now()
	if s.life == ephemeral {
		n.seenAlive = max(n.seenAlive, c.reading.req)
	}
	var bad mismatch
	switch op {
	case jute.OpGetData:
		if !bytes.Equal(w.data, s.data) || (w.data == nil) != (s.data == nil) {
			return mismatch{c.blame(n, w, op), "the data", n, short(w.data), short(s.data)}
		}
	case jute.OpGetACL:
		bad = c.readACL(n, s, ids, w)
	case jute.OpGetChildren, jute.OpGetChildren2:
		if bad = c.children(n, w); bad.found() {
			return bad
		}
	case jute.OpGetAllChildrenNumber:
		if w.count != n.below {
			return mismatch{X1, "the number of all children", n, w.count, n.below}
		}
		return bad
	}
	if op != jute.OpGetChildren && !bad.found() {
		bad = c.statEqual(n, s, &w.stat)
	}
	if bad.found() {
		bad.rule = c.blame(n, w, op)
	} else if op != jute.OpGetChildren && !c.supposing {
		n.verified = max(n.verified, w.zxid)
	}
	return bad
}

func (c *checker) readACL(n *node, s *state, ids []jute.ID, w *shown) mismatch {
	c.dec.Reset(w.rep.Body)
	got, want := acls.Decode(&c.dec), acls.Mask(s.acl, ids)
	same := len(got) == len(want)
	for i := 0; same && i < len(got); i++ {
		same = got[i] == want[i]
	}
	if !same {
		return mismatch{X1, "the ACL", n, got, want}
	}
	return mismatch{}
}

// statEqual compares a Stat, and records times that weren't known yet.
func (c *checker) statEqual(n *node, s *state, g *jute.Stat) mismatch {
	if n.path == "/" && c.opt.Under != "" {
		return mismatch{}
	}
	w := s.stat()
	if !s.ctime.known {
		w.Ctime = g.Ctime
	}
	if !s.mtime.known {
		w.Mtime = g.Mtime
		if s.mtime == s.ctime && g.Mtime != g.Ctime {
			w.Mtime = g.Ctime
		}
	}
	if w == *g {
		s.ctime.learn(g.Ctime)
		s.mtime.learn(g.Mtime)
		return mismatch{}
	}
	field, got, want := statField(g, &w)
	return mismatch{X1, field, n, got, want}
}

func (t *stamp) learn(ms int64) {
	t.seen = true
	if !t.known {
		t.ms, t.known = ms, true
	}
}

// statField returns the name and values of the first field that differs.
func statField(g, w *jute.Stat) (string, int64, int64) {
	for _, f := range [...]struct {
		name      string
		got, want int64
	}{
		{"czxid", g.Czxid, w.Czxid}, {"mzxid", g.Mzxid, w.Mzxid}, {"version", int64(g.Version), int64(w.Version)},
		{"cversion", int64(g.Cversion), int64(w.Cversion)}, {"aversion", int64(g.Aversion), int64(w.Aversion)},
		{"ephemeralOwner", g.EphemeralOwner, w.EphemeralOwner}, {"dataLength", int64(g.DataLength), int64(w.DataLength)},
		{"numChildren", int64(g.NumChildren), int64(w.NumChildren)}, {"pzxid", g.Pzxid, w.Pzxid},
		{"ctime", g.Ctime, w.Ctime}, {"mtime", g.Mtime, w.Mtime},
	} {
		if f.got != f.want {
			return f.name, f.got, f.want
		}
	}
	return "nothing", 0, 0
}

// children compares a list of names with the model's set.
func (c *checker) children(n *node, w *shown) mismatch {
	if w.kids == n.names {
		return mismatch{}
	}
	var names []string
	if c.dec.Reset(w.rep.Body); w.part == 0 {
		names = c.dec.Strings()
	} else if results, err := jute.DecodeMultiResponse(&c.dec); err == nil {
		names = results[w.part-1].Children
	}
	c.m.mark++
	count := len(names)
	for _, name := range names {
		child := c.m.nodes[childPath(n, name)]
		switch {
		case child != nil && child.opaque:
			child.mark = c.m.mark
			continue
		case child == nil || child.now() == nil:
			if child != nil && child.endedAlready() {
				return mismatch{X8, "a child", n, name, "gone with its session"}
			}
			return mismatch{X1, "a child", n, name, "no child"}
		case child.mark == c.m.mark:
			return mismatch{X1, "a child", n, name + " twice", "there once"}
		}
		child.mark = c.m.mark
	}
	if count == len(n.children) {
		return mismatch{}
	}
	for _, child := range n.children {
		if child.mark != c.m.mark && child.now().life == ephemeral {
			return mismatch{
				S1, "the child list", n, fmt.Sprintf("%d names", count), fmt.Sprintf("%d names, among them the ephemeral %s",
					len(n.children), child.path),
			}
		}
	}
	return mismatch{X1, "the child list", n, fmt.Sprintf("%d names", count), fmt.Sprintf("%d names", len(n.children))}
}

func baseName(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

func childPath(n *node, name string) string {
	if n.path == "/" {
		return "/" + name
	}
	return n.path + "/" + name
}

func (n *node) endedAlready() bool {
	return n.last != nil && n.last.ended
}

func (c *checker) readEphemerals(k *conn, prefix string, rep *history.Event) mismatch {
	if rep.Code() != jute.OK || k.session == nil {
		return mismatch{}
	}
	want := 0
	c.m.mark++
	for _, n := range c.m.ephemerals[k.session.id] {
		if strings.HasPrefix(n.path, prefix) && !n.opaque && !n.blind() {
			n.mark = c.m.mark
			want++
		}
	}
	c.dec.Reset(rep.Body)
	for _, name := range c.dec.Strings() {
		n := c.m.node(name)
		switch {
		case n.opaque || n.blind():
			continue
		case n.mark != c.m.mark:
			return mismatch{X1, "an ephemeral of the session", n, name, "not among them"}
		}
		n.mark = 0
		want--
	}
	if want != 0 {
		return mismatch{X1, "the number of the session's ephemerals missing", nil, want, 0}
	}
	return mismatch{}
}

func (c *checker) readMulti(w *reading) mismatch {
	if w.invalid != jute.OK || w.code != jute.OK {
		return mismatch{}
	}
	if w.bad != nil || len(w.results) != len(w.ops) {
		return mismatch{X1, "the number of results", nil, len(w.results), len(w.ops)}
	}
	ids, nodes := w.identities(), c.named.nodesOf(w.o.id)
	for i := range w.ops {
		r := &w.results[i]
		part := shown{rep: w.rep, part: int32(i) + 1, zxid: w.zxid, code: r.Err, data: r.Data, stat: r.Stat}
		for _, name := range r.Children {
			part.kids.add(hashName(name))
		}
		if bad := c.readNode(w.ops[i].Op, nodes[i], ids, &part); bad.found() {
			return bad
		}
	}
	return mismatch{}
}

// blame returns the rule that a wrong read of n breaks. A read that seems to show the state before a session's end, or
// before a multi that others have seen, breaks a more specific rule than X1.
func (c *checker) blame(n *node, w *shown, op jute.Op) Rule {
	v := n.last
	if v == nil {
		return X1
	}
	if w.code == jute.ErrNoNode && v.life == ephemeral {
		return S1
	}
	if v.ended && w.code == jute.OK {
		return X8
	}
	if !v.absent && v.mtime.multi && v.mtime.seen && n.showsBefore(v.mzxid, w, op) {
		return Multi
	}
	return X1
}

// showsBefore reports whether a reply shows n as it was before the change at mzxid.
func (n *node) showsBefore(mzxid int64, w *shown, op jute.Op) bool {
	v := n.last
	for v != nil && !v.absent && v.mzxid == mzxid {
		v = v.before
	}
	if v == nil || v.absent || w.code != jute.OK {
		return w.code == jute.ErrNoNode
	}
	switch op {
	case jute.OpGetData, jute.OpExists, jute.OpGetACL, jute.OpGetChildren2:
		return w.bad == nil && w.stat.Mzxid == v.mzxid && w.stat.Czxid == v.czxid
	}
	return false
}

// lastStat decodes the Stat at the end of most replies.
func lastStat(op jute.Op, body []byte) (g jute.Stat, ok bool) {
	if endsInStat(op, body) {
		var d jute.Decoder
		d.Reset(body[len(body)-jute.StatSize:])
		g.Decode(&d)
		return g, true
	}
	return g, false
}

func endsInStat(op jute.Op, body []byte) bool {
	switch op {
	case jute.OpGetData, jute.OpExists, jute.OpGetACL, jute.OpGetChildren2, jute.OpSetData, jute.OpSetACL,
		jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		return len(body) >= jute.StatSize
	}
	return false
}

// short formats data for a message.
func short(data []byte) string {
	if data == nil {
		return "null"
	}
	if len(data) > 40 {
		return fmt.Sprintf("%q... (%d bytes)", data[:40], len(data))
	}
	return fmt.Sprintf("%q", data)
}
