package check

import (
	"strings"

	"github.com/zooid-project/zooid/internal/proof/check/acls"
	"github.com/zooid-project/zooid/jute"
)

// A request is a write about to be applied.
type request struct {
	zxid    int64
	stamp   *stamp
	session int64
	ids     []jute.ID
	op      jute.Op
	body    *[]byte // the record
	name    string  // if not "", the path that a sequential create must return

	// The content of body, if already decoded, so that it isn't decoded again; see reading.
	ops     []jute.MultiOp
	at      *node   // the node of the first of ops
	nodes   []*node // the nodes of all ops
	made    string  // the path in the reply of a sequential create
	invalid jute.Code
}

// node returns the node of operation i, whose path is path.
func (r *request) node(m *model, i int, path string) *node {
	switch {
	case i == 0 && r.at != nil:
		return r.at
	case i < len(r.nodes):
		return r.nodes[i]
	}
	return m.node(path)
}

// An outcome is the model's result of a write. For a multi, parts has the results of its operations.
type outcome struct {
	op    jute.Op // the kind of result, for a part of a multi
	err   jute.Code
	n     *node  // the znode touched
	s     *state // its state afterwards, if it exists
	parts []outcome

	shaky bool // the outcome depends on state that the history doesn't cover
}

// apply evaluates r and makes all of its changes or none. It leaves events in m.events and the changes in m.trail.
func (m *model) apply(r *request, d *jute.Decoder) outcome {
	m.events = m.events[:0]
	switch r.op {
	case jute.OpCreateSession:
		return outcome{}
	case jute.OpCloseSession:
		m.endSession(r.session, r.zxid)
		return outcome{}
	case OpRestore:
		m.restore(r)
		return outcome{}
	case jute.OpDeleteContainer:
		d.Reset(*r.body)
		path := d.String()
		return m.remove(r, &jute.MultiOp{Path: path, Version: -1}, m.node(path), true)
	case jute.OpSetACL:
		var q jute.SetACLRequest
		d.Reset(*r.body)
		q.Decode(d)
		return m.setACL(r, &q)
	}
	if r.ops == nil && r.invalid == jute.OK {
		d.Reset(*r.body)
		r.ops, r.invalid = decodeOps(nil, r.op, d)
	}
	switch {
	case r.invalid != jute.OK:
		return outcome{err: r.invalid, shaky: r.invalid == jute.ErrUnimplemented}
	case r.op == jute.OpMulti:
		r.stamp.multi = true
		return m.multi(r)
	}
	return m.one(r, &r.ops[0], r.node(m, 0, r.ops[0].Path))
}

// decodeOps appends the operations of a request's record to ops, one unless it is a multi, or returns the code of a
// request that can't be decoded.
func decodeOps(ops []jute.MultiOp, kind jute.Op, d *jute.Decoder) ([]jute.MultiOp, jute.Code) {
	o := jute.MultiOp{Op: kind}
	switch kind {
	case jute.OpMulti, jute.OpMultiRead:
		list, err := jute.DecodeMulti(d)
		if err != nil {
			return ops, jute.ErrMarshallingError
		}
		if ops == nil {
			return list, jute.OK
		}
		return append(ops, list...), jute.OK
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		o.Path, o.Data, o.ACL, o.Flags = d.String(), d.Buffer(), acls.Decode(d), jute.CreateMode(d.Int())
		if kind == jute.OpCreateTTL {
			o.TTL = d.Long()
		}
	case jute.OpDelete, jute.OpCheck:
		o.Path, o.Version = d.String(), d.Int()
	case jute.OpSetData:
		o.Path, o.Data, o.Version = d.String(), d.Buffer(), d.Int()
	default:
		return ops, jute.ErrUnimplemented
	}
	if d.Err() != nil {
		return ops, jute.ErrMarshallingError
	}
	return append(ops, o), jute.OK
}

// one evaluates an operation on its node n.
func (m *model) one(r *request, o *jute.MultiOp, n *node) outcome {
	switch o.Op {
	case jute.OpDelete:
		return m.remove(r, o, n, false)
	case jute.OpSetData:
		return m.setData(r, o, n)
	case jute.OpCheck:
		return m.check(r, o, n)
	}
	return m.create(r, o, n)
}

// multi applies all operations or none.
func (m *model) multi(r *request) outcome {
	keep := len(m.trail)
	ops := r.ops
	all := outcome{parts: make([]outcome, 0, len(ops))}
	failed := false
	for i := range ops {
		o := ops[i]
		if !failed {
			part := m.one(r, multiKind(&o), r.node(m, i, o.Path))
			all.shaky = all.shaky || part.shaky
			part.op = resultKind(o.Op)
			if failed = part.err != jute.OK; failed {
				m.undo(keep)
				for j := range all.parts {
					all.parts[j] = outcome{op: jute.OpError}
				}
				part = outcome{op: jute.OpError, err: part.err}
			}
			all.parts = append(all.parts, part)
			continue
		}
		all.parts = append(all.parts, outcome{op: jute.OpError, err: jute.ErrRuntimeInconsistency})
	}
	return all
}

// multiKind derives a create's operation from its flags, which servers do only in a multi.
func multiKind(o *jute.MultiOp) *jute.MultiOp {
	switch {
	case o.Op == jute.OpCreateTTL && !o.Flags.TTL():
		o.Op, o.TTL = jute.OpCreate, -1
	case (o.Op == jute.OpCreate || o.Op == jute.OpCreate2) && o.Flags == jute.ModeContainer:
		o.Op = jute.OpCreateContainer
	}
	return o
}

func resultKind(op jute.Op) jute.Op {
	if op == jute.OpCreateContainer || op == jute.OpCreateTTL {
		return jute.OpCreate2
	}
	return op
}

func (m *model) create(r *request, o *jute.MultiOp, n *node) outcome {
	if code := m.checkMode(o); code != jute.OK {
		return outcome{err: code}
	}
	if m.opt.EphemeralsRefused && o.Op != jute.OpCreateContainer && o.Op != jute.OpCreateTTL && o.Flags.Ephemeral() {
		return outcome{err: jute.ErrEphemeralOnLocalSession}
	}
	path := o.Path
	if strings.LastIndexByte(path, '/') < 0 || strings.IndexByte(path, 0) >= 0 {
		return outcome{err: jute.ErrBadArguments}
	}
	acl, code := acls.Fix(o.ACL, r.ids)
	if code != jute.OK {
		return outcome{err: code}
	}
	parent := n.parent
	if parent == nil {
		parent = n // the root, which exists
	}
	up := parent.now()
	if up == nil {
		return outcome{err: jute.ErrNoNode, n: parent, shaky: parent.opaque}
	}
	if !m.allows(parent, up, jute.PermCreate, r.ids) {
		return outcome{err: jute.ErrNoAuth, n: parent, shaky: parent.opaque}
	}
	if o.Flags.Sequential() {
		if path = sequencePath(path, up.creations, r.made); r.name != "" {
			path = r.name
		}
	}
	if jute.CheckPath(path) != nil {
		return outcome{err: jute.ErrBadArguments}
	}
	if o.Flags.Sequential() {
		n = m.node(path)
	}
	shaky := n.opaque || parent.opaque && o.Flags.Sequential()
	if n.now() != nil {
		return outcome{err: jute.ErrNodeExists, n: n, shaky: shaky}
	}
	if up.life == ephemeral {
		return outcome{err: jute.ErrNoChildrenForEphemerals, n: n, shaky: shaky}
	}
	s := m.newState(&state{
		czxid: r.zxid, mzxid: r.zxid, pzxid: r.zxid, ctime: r.stamp, mtime: r.stamp, data: o.Data, acl: acl,
		open: acls.Open(acl),
	})
	switch {
	case o.Op == jute.OpCreateContainer:
		s.life = container
	case o.Op == jute.OpCreateTTL:
		s.life = withTTL
	case o.Flags.Ephemeral():
		s.life, s.owner = ephemeral, r.session
	}
	m.set(n, r.zxid, s)
	above := m.newState(up)
	above.creations++
	above.numChildren++
	above.pzxid = max(above.pzxid, r.zxid)
	m.set(parent, r.zxid, above)
	m.events = append(m.events,
		fired{jute.EventNodeCreated, tableData, n, acl},
		fired{jute.EventNodeChildrenChanged, tableChild, parent, up.acl})
	return outcome{n: n, s: s, shaky: shaky}
}

func (m *model) checkMode(o *jute.MultiOp) jute.Code {
	ttl := int64(-1)
	if o.Op == jute.OpCreateTTL {
		ttl = o.TTL
	}
	switch {
	case !o.Flags.Valid():
		return jute.ErrBadArguments
	case o.Flags.TTL() && !m.opt.ExtendedTypes:
		return jute.ErrUnimplemented
	case o.Flags.TTL() && (ttl < 1 || ttl > jute.TTLMax), !o.Flags.TTL() && ttl >= 0:
		return jute.ErrBadArguments
	}
	return jute.OK
}

// sequencePath appends the ten digits of a sequence number. If the result equals like,
// it returns like.
func sequencePath(path string, number int32, like string) string {
	var digits [10]byte
	v := int64(number)
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = byte('0' + v%10)
		v /= 10
	}
	if prefix, ok := strings.CutSuffix(like, string(digits[:])); ok && prefix == path {
		return like
	}
	return path + string(digits[:])
}

func undeletable(path string) bool {
	return path == "/" || path == "/zookeeper" || path == "/zookeeper/quota" || path == "/zookeeper/config"
}

func (m *model) remove(r *request, o *jute.MultiOp, n *node, byServer bool) outcome {
	path, version := o.Path, o.Version
	if strings.LastIndexByte(path, '/') < 0 || strings.IndexByte(path, 0) >= 0 || undeletable(path) {
		return outcome{err: jute.ErrBadArguments}
	}
	up, s := n.parent.now(), n.now()
	code := jute.OK
	switch {
	case up == nil:
		code = jute.ErrNoNode
	case !byServer && !m.allows(n.parent, up, jute.PermDelete, r.ids):
		code = jute.ErrNoAuth
	case s == nil:
		code = jute.ErrNoNode
	case version != -1 && version != s.version, byServer && s.life == ephemeral:
		code = jute.ErrBadVersion
	case s.numChildren > 0:
		code = jute.ErrNotEmpty
	}
	if code == jute.OK {
		m.drop(n, r.zxid, false)
	}
	return outcome{err: code, n: n, shaky: n.opaque}
}

// drop removes n, which exists, and reports the change to the watch tables.
func (m *model) drop(n *node, zxid int64, ended bool) {
	s, up := n.now(), n.parent.now()
	m.set(n, zxid, m.newState(&state{absent: true, ended: ended}))
	above := m.newState(up)
	above.numChildren--
	above.pzxid = max(above.pzxid, zxid)
	m.set(n.parent, zxid, above)
	m.events = append(m.events,
		fired{jute.EventNodeDeleted, tableData, n, s.acl},
		fired{jute.EventNodeDeleted, tableChildAfterData, n, s.acl},
		fired{jute.EventNodeChildrenChanged, tableChild, n.parent, up.acl})
}

// endSession removes every ephemeral of a session.
func (m *model) endSession(session, zxid int64) {
	for len(m.ephemerals[session]) > 0 {
		m.drop(m.ephemerals[session][0], zxid, true)
	}
}

// find returns the node n of a write and its state, or the code that the write ends with if its path is invalid, or the
// node is absent or forbidden.
func (m *model) find(r *request, n *node, perm jute.Perm) (*node, *state, jute.Code) {
	s := n.now()
	switch {
	case s == nil && jute.CheckPath(n.path) != nil:
		return nil, nil, jute.ErrBadArguments
	case s == nil:
		return n, nil, jute.ErrNoNode
	case !m.allows(n, s, perm, r.ids):
		return n, s, jute.ErrNoAuth
	}
	return n, s, jute.OK
}

func (m *model) setData(r *request, o *jute.MultiOp, n *node) outcome {
	n, s, code := m.find(r, n, jute.PermWrite)
	if code == jute.OK && o.Version != -1 && o.Version != s.version {
		code = jute.ErrBadVersion
	}
	if code != jute.OK {
		return outcome{err: code, n: n, shaky: n != nil && n.opaque}
	}
	next := m.newState(s)
	if next.version++; next.version == -1 {
		next.version = 0 // -1 would mean "any"
	}
	next.data, next.mzxid, next.mtime = o.Data, r.zxid, r.stamp
	m.set(n, r.zxid, next)
	m.events = append(m.events, fired{jute.EventNodeDataChanged, tableData, n, s.acl})
	return outcome{n: n, s: next, shaky: n.opaque}
}

func (m *model) setACL(r *request, q *jute.SetACLRequest) outcome {
	if jute.CheckPath(q.Path) != nil {
		return outcome{err: jute.ErrBadArguments}
	}
	acl, code := acls.Fix(q.ACL, r.ids)
	if code != jute.OK {
		return outcome{err: code}
	}
	n, s, code := m.find(r, r.node(m, 0, q.Path), jute.PermAdmin)
	if code == jute.OK && q.Version != -1 && q.Version != s.aversion {
		code = jute.ErrBadVersion
	}
	if code != jute.OK {
		return outcome{err: code, n: n, shaky: n.opaque}
	}
	next := m.newState(s)
	next.aversion++
	next.acl, next.open = acl, acls.Open(acl)
	m.set(n, r.zxid, next)
	return outcome{n: n, s: next, shaky: n.opaque}
}

func (m *model) check(r *request, o *jute.MultiOp, n *node) outcome {
	n, s, code := m.find(r, n, jute.PermRead)
	if code == jute.OK && o.Version != -1 && o.Version != s.version {
		code = jute.ErrBadVersion
	}
	return outcome{err: code, n: n, shaky: n != nil && n.opaque}
}
