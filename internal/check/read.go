package check

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// A mismatch is a difference between a reply and the model; its text is made
// only when it is reported. The zero value is none.
type mismatch struct {
	rule      Rule
	what      string
	n         *node
	got, want any
}

func (m *mismatch) found() bool { return m.rule != "" }

// String says what differs, as the start of a sentence.
func (m *mismatch) String() string {
	path := ""
	if m.n != nil {
		path = " of " + m.n.path
	}
	return fmt.Sprintf("%s%s is %v in the reply and %v in the model", m.what, path, m.got, m.want)
}

// read compares a read's reply with the model's present state.
func (c *checker) read(o *op) mismatch {
	req, rep := &c.h.Events[o.req], &c.h.Events[o.rep]
	c.reading = o.req
	ids := o.conn.ids[:o.ids]
	d := &c.dec
	d.Reset(req.Body)
	switch req.op() {
	case jute.OpGetData, jute.OpExists, jute.OpGetACL, jute.OpGetChildren, jute.OpGetChildren2, jute.OpGetAllChildrenNumber:
		n := c.m.node(d.String())
		return c.readNode(req.op(), n, ids, rep)
	case jute.OpGetEphemerals:
		prefix := d.String()
		return c.readEphemerals(o.conn, prefix, rep)
	case jute.OpMultiRead:
		return c.readMulti(req, rep, ids)
	case jute.OpSync:
		path := d.String()
		d.Reset(rep.Body)
		if got := d.String(); rep.code() == jute.OK && got != path {
			return mismatch{rule: X1, what: "the path of a sync", got: got, want: path}
		}
	}
	return mismatch{}
}

// readCode returns the code that a read of n ends with.
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
	case perms != 0 && !permits(s.acl, perms, ids):
		return jute.ErrNoAuth
	}
	return jute.OK
}

func (c *checker) readNode(op jute.Op, n *node, ids []jute.ID, rep *Event) mismatch {
	if n.opaque {
		if n.lost {
			c.recover(n, op, rep)
		}
		return mismatch{}
	}
	if want := c.readCode(op, n, ids); want != rep.code() {
		return mismatch{c.blame(n, rep, op), "the code of a " + op.String(), n, rep.code(), want}
	}
	if rep.code() != jute.OK {
		return mismatch{}
	}
	s := n.now()
	if s.life == ephemeral {
		n.seenAlive = max(n.seenAlive, c.reading)
	}
	d := &c.dec
	d.Reset(rep.Body)
	var bad mismatch
	switch op {
	case jute.OpGetData:
		if data := d.Buffer(); !bytes.Equal(data, s.data) || (data == nil) != (s.data == nil) {
			return mismatch{c.blame(n, rep, op), "the data", n, short(data), short(s.data)}
		}
	case jute.OpGetACL:
		bad = c.readACL(n, s, ids, d)
	case jute.OpGetChildren, jute.OpGetChildren2:
		if bad = c.children(n, d); bad.found() {
			return bad
		}
	case jute.OpGetAllChildrenNumber:
		if got, want := d.Int(), descendants(n); got != want {
			return mismatch{X1, "the number of all children", n, got, want}
		}
		return bad
	}
	if op != jute.OpGetChildren && !bad.found() {
		bad = c.stat(n, s, d)
	}
	if d.Err() != nil {
		return mismatch{X1, "the reply to a " + op.String(), n, d.Err(), "a whole record"}
	}
	if bad.found() {
		bad.rule = c.blame(n, rep, op)
	} else if op != jute.OpGetChildren && !c.supposing {
		n.verified = max(n.verified, rep.Zxid)
	}
	return bad
}

func (c *checker) readACL(n *node, s *state, ids []jute.ID, d *jute.Decoder) mismatch {
	got, want := jute.DecodeACLs(d), maskACL(s.acl, ids)
	same := len(got) == len(want)
	for i := 0; same && i < len(got); i++ {
		same = got[i] == want[i]
	}
	if !same {
		return mismatch{X1, "the ACL", n, got, want}
	}
	return mismatch{}
}

// stat reads a Stat and compares it; times not known yet are learnt.
func (c *checker) stat(n *node, s *state, d *jute.Decoder) mismatch {
	var g jute.Stat
	g.Decode(d)
	return c.statEqual(n, s, &g)
}

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

// statField names the first field that differs.
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
func (c *checker) children(n *node, d *jute.Decoder) mismatch {
	c.m.mark++
	count := d.Count(4)
	var path [256]byte
	for range max(count, 0) {
		name := d.String()
		full := append(path[:0], n.path...)
		if n.path != "/" {
			full = append(full, '/')
		}
		full = append(full, name...)
		child := c.m.nodes[string(full)]
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
			return mismatch{S1, "the child list", n, fmt.Sprintf("%d names", count), fmt.Sprintf("%d names, among them the ephemeral %s", len(n.children), child.path)}
		}
	}
	return mismatch{X1, "the child list", n, fmt.Sprintf("%d names", count), fmt.Sprintf("%d names", len(n.children))}
}

func (n *node) endedAlready() bool {
	last := len(n.versions) - 1
	return last >= 0 && n.versions[last].ended
}

func (c *checker) readEphemerals(k *conn, prefix string, rep *Event) mismatch {
	if rep.code() != jute.OK || k.session == nil {
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

func (c *checker) readMulti(req, rep *Event, ids []jute.ID) mismatch {
	ops, err := jute.DecodeMulti(&c.dec)
	if err != nil || rep.code() != jute.OK {
		return mismatch{}
	}
	c.dec.Reset(rep.Body)
	results, err := jute.DecodeMultiResponse(&c.dec)
	if err != nil || len(results) != len(ops) {
		return mismatch{X1, "the number of results", nil, len(results), len(ops)}
	}
	for i := range ops {
		n := c.m.node(ops[i].Path)
		r := &results[i]
		part := Event{Zxid: rep.Zxid, Num: int32(r.Err)}
		switch {
		case r.Err != jute.OK:
		case ops[i].Op == jute.OpGetData:
			part.Body = r.Stat.Append(jute.AppendBuffer(nil, r.Data))
		default:
			part.Body = jute.AppendStrings(nil, r.Children)
		}
		if bad := c.readNode(ops[i].Op, n, ids, &part); bad.found() {
			return bad
		}
	}
	return mismatch{}
}

// blame names the rule that a wrong read of n breaks. What looks like the state
// before a session's end, or before a multi that others have seen, breaks a
// more telling rule than X1.
func (c *checker) blame(n *node, rep *Event, op jute.Op) Rule {
	last := len(n.versions) - 1
	if last < 0 {
		return X1
	}
	v := &n.versions[last]
	if rep.code() == jute.ErrNoNode && v.state != nil && v.life == ephemeral {
		return S1
	}
	if v.state == nil && v.ended && rep.code() == jute.OK {
		return X8
	}
	if v.state != nil && v.mtime.multi && v.mtime.seen && n.showsBefore(v.mzxid, rep, op) {
		return Multi
	}
	return X1
}

// showsBefore says whether a reply shows n as it was before the change at mzxid.
func (n *node) showsBefore(mzxid int64, rep *Event, op jute.Op) bool {
	i := len(n.versions) - 1
	for i >= 0 && n.versions[i].state != nil && n.versions[i].mzxid == mzxid {
		i--
	}
	if i < 0 || n.versions[i].state == nil || rep.code() != jute.OK {
		return rep.code() == jute.ErrNoNode
	}
	g, ok := lastStat(op, rep.Body)
	return ok && g.Mzxid == n.versions[i].mzxid && g.Czxid == n.versions[i].czxid
}

// lastStat reads the Stat that ends most replies.
func lastStat(op jute.Op, body []byte) (g jute.Stat, ok bool) {
	switch op {
	case jute.OpGetData, jute.OpExists, jute.OpGetACL, jute.OpGetChildren2, jute.OpSetData, jute.OpSetACL,
		jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		if len(body) >= jute.StatSize {
			var d jute.Decoder
			d.Reset(body[len(body)-jute.StatSize:])
			g.Decode(&d)
			return g, true
		}
	}
	return g, false
}

// short renders data for a message.
func short(data []byte) string {
	if data == nil {
		return "null"
	}
	if len(data) > 40 {
		return fmt.Sprintf("%q... (%d bytes)", data[:40], len(data))
	}
	return fmt.Sprintf("%q", data)
}
