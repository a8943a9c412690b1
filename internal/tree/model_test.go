package tree

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// The model is the same state machine written as plainly as possible: maps of
// paths, the whole state copied before each multi. It shares no code with the
// tree but jute's records and path rule.
type model struct {
	keyed    bool
	lineage  bool                  // there is one
	nodes    map[string]*modelNode // "/" is the root
	sessions map[int64]*modelSession
	entrance [2]int64 // id and next sequence; all ids of the walker are one server's
	settings Settings
	zxid     int64
	term     uint64
	now      int64
}

type modelNode struct {
	stat     jute.Stat // Cversion is the number of creates; NumChildren and DataLength unused
	data     []byte
	acl      []jute.ACL
	kind     kind
	ttl      int64
	children []string // names, oldest first
}

type modelSession struct {
	cnx, next  int64
	timeout    int32
	passwd     string
	scope      Scope
	ephemerals []string
}

// modelOp is a request in the form in which the generator makes it.
type modelOp struct {
	op      jute.Op
	path    string
	data    []byte
	acl     []jute.ACL
	flags   jute.CreateMode
	ttl     int64
	version int32
	sub     []modelOp
}

// modelResult is what the model says about a request.
type modelResult struct {
	outcome Outcome
	zxid    int64
	err     jute.Code
	path    string
	stat    jute.Stat
	multi   []jute.MultiResult
	events  []Event
}

func newModel() *model {
	m := &model{nodes: map[string]*modelNode{}, sessions: map[int64]*modelSession{}, settings: DefaultSettings()}
	for _, path := range []string{"/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"} {
		n := &modelNode{data: []byte{}, acl: jute.WorldACL(jute.PermAll)}
		if path == "/zookeeper/config" {
			n.acl, n.stat.Aversion = jute.WorldACL(jute.PermRead), -1
		}
		m.nodes[path] = n
	}
	m.nodes["/"].children = []string{"zookeeper"}
	m.nodes["/zookeeper"].children = []string{"config", "quota"}
	return m
}

func (m *model) clone() *model {
	c := *m
	c.nodes, c.sessions = map[string]*modelNode{}, map[int64]*modelSession{}
	for path, n := range m.nodes {
		d := *n
		d.children = slices.Clone(n.children)
		c.nodes[path] = &d
	}
	for id, s := range m.sessions {
		d := *s
		d.ephemerals = slices.Clone(s.ephemerals)
		c.sessions[id] = &d
	}
	return &c
}

func (m *model) stat(n *modelNode) jute.Stat {
	s := n.stat
	s.NumChildren = int32(len(n.children))
	s.Cversion = 2*s.Cversion - s.NumChildren
	s.DataLength = int32(len(n.data))
	return s
}

func (m *model) permits(acl []jute.ACL, want jute.Perm, ids []jute.ID) bool {
	ok := m.settings.SkipACL || slices.Contains(ids, jute.ID{Scheme: "super"})
	for _, a := range acl {
		if a.Perms&want != 0 {
			ok = ok || a.ID == jute.ID{Scheme: "world", ID: "anyone"} || slices.Contains(ids, a.ID)
		}
	}
	return ok
}

// fix knows only the ACLs that the generator makes.
func (m *model) fix(acl []jute.ACL, ids []jute.ID) []jute.ACL {
	var fixed []jute.ACL
	for i, a := range acl {
		switch {
		case slices.Contains(acl[:i], a):
		case a.ID.Scheme == "auth":
			n := len(fixed)
			for _, id := range ids {
				if id.Scheme == "digest" {
					fixed = append(fixed, jute.ACL{Perms: a.Perms, ID: id})
				}
			}
			if len(fixed) == n {
				return nil
			}
		case a.ID.Scheme == "world" && a.ID.ID == "anyone", slices.Contains(m.settings.Schemes, a.ID.Scheme):
			fixed = append(fixed, a)
		default:
			return nil
		}
	}
	return fixed
}

func (m *model) get(path string) *modelNode {
	if path == "" {
		path = "/"
	}
	return m.nodes[path]
}

func cutPath(path string) (string, string) {
	i := strings.LastIndex(path, "/")
	return path[:i], path[i+1:]
}

func (m *model) create(o *modelOp, session int64, ids []jute.ID, r *modelResult) (string, jute.Stat, jute.Code) {
	var none jute.Stat
	f := o.flags
	isTTL, seq := f == 5 || f == 6, f == 2 || f == 3 || f == 6
	givenTTL := int64(-1)
	if o.op == jute.OpCreateTTL {
		givenTTL = o.ttl
	}
	if f < 0 || f > 6 {
		return "", none, jute.ErrBadArguments
	}
	if isTTL && !m.settings.ExtendedTypes {
		return "", none, jute.ErrUnimplemented
	}
	if isTTL && (givenTTL <= 0 || givenTTL > 1<<40-1) || !isTTL && (givenTTL >= 0 || o.op == jute.OpCreateTTL) {
		return "", none, jute.ErrBadArguments
	}
	plain := o.op == jute.OpCreate || o.op == jute.OpCreate2
	if s := m.sessions[session]; plain && (f == 1 || f == 3) && s.scope != Global {
		return "", none, jute.ErrEphemeralOnLocalSession
	}
	if !strings.Contains(o.path, "/") || strings.Contains(o.path, "\x00") {
		return "", none, jute.ErrBadArguments
	}
	acl := m.fix(o.acl, ids)
	if len(acl) == 0 {
		return "", none, jute.ErrInvalidACL
	}
	parentPath, _ := cutPath(o.path)
	p := m.get(parentPath)
	if p == nil {
		return "", none, jute.ErrNoNode
	}
	if !m.permits(p.acl, jute.PermCreate, ids) {
		return "", none, jute.ErrNoAuth
	}
	path := o.path
	if seq {
		path += fmt.Sprintf("%010d", p.stat.Cversion)
	}
	if jute.CheckPath(path) != nil {
		return "", none, jute.ErrBadArguments
	}
	if m.get(path) != nil {
		return "", none, jute.ErrNodeExists
	}
	if p.kind == ephemeral {
		return "", none, jute.ErrNoChildrenForEphemerals
	}
	if !m.withinQuota(path, len(o.data), 1) {
		return "", none, jute.ErrQuotaExceeded
	}
	n := &modelNode{data: o.data, acl: acl}
	n.stat = jute.Stat{Czxid: m.zxid, Mzxid: m.zxid, Pzxid: m.zxid, Ctime: m.now, Mtime: m.now}
	switch {
	case o.op == jute.OpCreateContainer:
		n.kind = container
	case o.op == jute.OpCreateTTL:
		n.kind, n.ttl = ttl, o.ttl
	case f == 1 || f == 3:
		n.kind, n.stat.EphemeralOwner = ephemeral, session
		m.sessions[session].ephemerals = append(m.sessions[session].ephemerals, path)
	}
	_, name := cutPath(path)
	m.nodes[path] = n
	p.children = append(p.children, name)
	p.stat.Cversion++
	p.stat.Pzxid = m.zxid
	stat := m.stat(n)
	r.events = append(r.events,
		Event{Type: jute.EventNodeCreated, Path: path, ACL: n.acl, TTL: n.kind == ttl, Size: int32(len(n.data))},
		Event{
			Type: jute.EventNodeChildrenChanged, Path: "/" + strings.TrimPrefix(parentPath, "/"), ACL: p.acl,
		})
	if quota, ok := strings.CutPrefix(parentPath, "/zookeeper/quota/"); ok && name == "zookeeper_stats" {
		count, size := 0, 0
		for q, n := range m.nodes {
			if q == "/"+quota || strings.HasPrefix(q, "/"+quota+"/") {
				count, size = count+1, size+len(n.data)
			}
		}
		n.data = fmt.Appendf(nil, "count=%d,bytes=%d", count, size)
	}
	m.addToQuota(path, len(o.data), 1)
	return path, stat, jute.OK
}

// quota returns the longest path at or above path that has a limits znode.
func (m *model) quota(path string) string {
	for ; path != ""; path, _ = cutPath(path) {
		if m.nodes["/zookeeper/quota"+path+"/zookeeper_limits"] != nil {
			return path
		}
	}
	return ""
}

func modelFigures(n *modelNode) map[string]int64 {
	f := map[string]int64{"count": -1, "bytes": -1}
	for _, part := range strings.FieldsFunc(string(n.data), func(r rune) bool { return r == ',' || r == ';' }) {
		var v int64
		if key, value, ok := strings.Cut(part, "="); ok {
			if _, err := fmt.Sscanf(value, "%d", &v); err == nil {
				f[key] = v
			}
		}
	}
	return f
}

func (m *model) withinQuota(path string, size, count int) bool {
	q := "/zookeeper/quota" + m.quota(path)
	limits, stats := m.nodes[q+"/zookeeper_limits"], m.nodes[q+"/zookeeper_stats"]
	if !m.settings.EnforceQuota || q == "/zookeeper/quota" || limits == nil || stats == nil {
		return true
	}
	l, s := modelFigures(limits), modelFigures(stats)
	over := func(hard, soft string, more int) bool {
		limit, ok := l[hard]
		return ok && limit > -1 && more != 0 && s[soft]+int64(more) > limit
	}
	return !over("countHardLimit", "count", count) && !over("byteHardLimit", "bytes", size)
}

func (m *model) addToQuota(path string, size, count int) {
	q := m.quota(path)
	if stats := m.nodes["/zookeeper/quota"+q+"/zookeeper_stats"]; q != "" && stats != nil {
		f := modelFigures(stats)
		text := fmt.Sprintf("count=%d,bytes=%d", f["count"]+int64(count), f["bytes"]+int64(size))
		mark := "=;"
		for _, key := range []string{"byteHardLimit", "countHardLimit"} {
			if v, ok := f[key]; ok {
				text += fmt.Sprintf("%s%s=%d", mark, key, v)
				mark = ";"
			}
		}
		stats.data = []byte(text)
	}
}

func (m *model) remove(path string, r *modelResult) {
	parentPath, name := cutPath(path)
	n, p := m.get(path), m.get(parentPath)
	delete(m.nodes, path)
	p.children = slices.Delete(p.children, slices.Index(p.children, name), slices.Index(p.children, name)+1)
	p.stat.Pzxid = m.zxid
	if n.kind == ephemeral {
		s := m.sessions[n.stat.EphemeralOwner]
		s.ephemerals = slices.DeleteFunc(s.ephemerals, func(e string) bool { return e == path })
	}
	r.events = append(r.events, Event{Type: jute.EventNodeDeleted, Path: path, ACL: n.acl, TTL: n.kind == ttl},
		Event{
			Type: jute.EventNodeChildrenChanged, Path: "/" + strings.TrimPrefix(parentPath, "/"), ACL: p.acl,
		})
	m.addToQuota(path, -len(n.data), -1)
}

func (m *model) delete(o *modelOp, ids []jute.ID, r *modelResult) jute.Code {
	if !strings.Contains(o.path, "/") || strings.Contains(o.path, "\x00") ||
		slices.Contains([]string{"/", "/zookeeper", "/zookeeper/quota", "/zookeeper/config"}, o.path) {
		return jute.ErrBadArguments
	}
	parentPath, _ := cutPath(o.path)
	p, n := m.get(parentPath), m.get(o.path)
	switch {
	case p == nil:
		return jute.ErrNoNode
	case !m.permits(p.acl, jute.PermDelete, ids):
		return jute.ErrNoAuth
	case n == nil:
		return jute.ErrNoNode
	case o.version != -1 && o.version != n.stat.Version:
		return jute.ErrBadVersion
	case len(n.children) > 0:
		return jute.ErrNotEmpty
	}
	m.remove(o.path, r)
	return jute.OK
}

func bump(v *int32) {
	if *v == math.MaxInt32 {
		*v = math.MinInt32
	} else if *v++; *v == -1 {
		*v = 0
	}
}

// change evaluates setData, setACL and check.
func (m *model) change(o *modelOp, ids []jute.ID, r *modelResult) (jute.Stat, jute.Code) {
	var none jute.Stat
	if jute.CheckPath(o.path) != nil {
		return none, jute.ErrBadArguments
	}
	acl := m.fix(o.acl, ids)
	if o.op == jute.OpSetACL && len(acl) == 0 {
		return none, jute.ErrInvalidACL
	}
	n := m.get(o.path)
	if n == nil {
		return none, jute.ErrNoNode
	}
	want := map[jute.Op]jute.Perm{
		jute.OpSetData: jute.PermWrite, jute.OpSetACL: jute.PermAdmin, jute.OpCheck: jute.PermRead,
	}
	if !m.permits(n.acl, want[o.op], ids) {
		return none, jute.ErrNoAuth
	}
	if o.op == jute.OpSetData && !m.withinQuota(o.path, len(o.data)-len(n.data), 0) {
		return none, jute.ErrQuotaExceeded
	}
	version := &n.stat.Version
	if o.op == jute.OpSetACL {
		version = &n.stat.Aversion
	}
	if o.version != -1 && o.version != *version {
		return none, jute.ErrBadVersion
	}
	switch o.op {
	case jute.OpSetACL:
		bump(version)
		n.acl = acl
	case jute.OpSetData:
		bump(version)
		more := len(o.data) - len(n.data)
		n.data, n.stat.Mzxid, n.stat.Mtime = o.data, m.zxid, m.now
		r.events = append(r.events,
			Event{Type: jute.EventNodeDataChanged, Path: o.path, ACL: n.acl, Size: int32(len(o.data))})
		stat := m.stat(n)
		m.addToQuota(o.path, more, 0)
		return stat, jute.OK
	}
	return m.stat(n), jute.OK
}

func (m *model) multi(o *modelOp, session int64, ids []jute.ID, r *modelResult) {
	for i := range o.sub {
		s := &o.sub[i]
		switch s.op {
		case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer:
			if s.flags < 0 || s.flags > 4 {
				r.err = jute.ErrMarshallingError
				return
			}
			if s.flags == 4 {
				s.op = jute.OpCreateContainer
			}
		case jute.OpCreateTTL:
			if s.flags != 5 && s.flags != 6 {
				s.op = jute.OpCreate
			}
			if s.flags == 4 {
				s.op = jute.OpCreateContainer
			}
		}
	}
	for i := range o.sub {
		m.upgrade(&o.sub[i], session)
	}
	before := m.clone()
	for i := range o.sub {
		s := &o.sub[i]
		one := jute.MultiResult{Op: s.op}
		var code jute.Code
		switch s.op {
		case jute.OpDelete:
			code = m.delete(s, ids, r)
		case jute.OpSetData:
			one.Stat, code = m.change(s, ids, r)
		case jute.OpCheck:
			_, code = m.change(s, ids, r)
		default:
			one.Path, one.Stat, code = m.create(s, session, ids, r)
			if s.op != jute.OpCreate {
				one.Op = jute.OpCreate2
			}
		}
		if code != jute.OK {
			*m = *before
			r.events, r.multi = nil, nil
			for j := range o.sub {
				e := jute.MultiResult{Op: jute.OpError, Err: jute.ErrRuntimeInconsistency}
				if j <= i {
					e.Err = map[bool]jute.Code{true: code}[i == j]
				}
				r.multi = append(r.multi, e)
			}
			return
		}
		r.multi = append(r.multi, one)
	}
}

// upgrade makes a local session that asks for an ephemeral global, if it may be.
func (m *model) upgrade(o *modelOp, session int64) {
	plain := o.op == jute.OpCreate || o.op == jute.OpCreate2
	if s := m.sessions[session]; plain && (o.flags == 1 || o.flags == 3) && s.scope == LocalUpgrading {
		s.scope = Global
	}
}

func (m *model) end(id int64, r *modelResult) {
	for len(m.sessions[id].ephemerals) > 0 {
		m.remove(m.sessions[id].ephemerals[0], r)
	}
	delete(m.sessions, id)
}

// apply evaluates a client's request.
func (m *model) apply(o *modelOp, q *Request) (r modelResult) {
	s := m.sessions[q.Session]
	r.zxid = m.zxid
	switch {
	case s == nil:
		return modelResult{outcome: SessionGone, zxid: m.zxid, err: jute.ErrSessionExpired}
	case s.cnx != q.Cnx:
		return modelResult{outcome: Moved, zxid: m.zxid, err: jute.ErrSessionMoved}
	case s.next > q.Seq:
		return modelResult{outcome: Duplicate, zxid: m.zxid}
	case s.next < q.Seq:
		return modelResult{outcome: Gap, zxid: m.zxid}
	}
	s.next++
	m.zxid++
	r.zxid = m.zxid
	switch o.op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		m.upgrade(o, q.Session)
		r.path, r.stat, r.err = m.create(o, q.Session, q.Identities, &r)
	case jute.OpDelete:
		r.err = m.delete(o, q.Identities, &r)
	case jute.OpSetData, jute.OpSetACL:
		r.stat, r.err = m.change(o, q.Identities, &r)
	case jute.OpMulti:
		m.multi(o, q.Session, q.Identities, &r)
	case jute.OpCloseSession:
		m.end(q.Session, &r)
	case jute.OpReconfig:
		r.err = jute.ErrReconfigDisabled
		if m.settings.ReconfigEnabled {
			r.err = jute.ErrUnimplemented
		}
	default:
		r.err = jute.ErrUnimplemented
	}
	return r
}

// reapable reports whether a deleteContainer deletes.
func (m *model) reapable(path string, neverUsed int64) bool {
	n := m.nodes[path]
	if n == nil || len(n.children) > 0 {
		return false
	}
	idle := m.now - n.stat.Mtime
	return n.kind == ttl && idle > n.ttl ||
		n.kind == container && (n.stat.Cversion > 0 || neverUsed != 0 && idle > neverUsed)
}

// differ says how the tree differs from the model, "" if it doesn't.
func (m *model) differ(t *Tree) string {
	super := []jute.ID{{Scheme: "super"}}
	if t.NodeCount() != len(m.nodes) {
		return fmt.Sprintf("%d znodes instead of %d", t.NodeCount(), len(m.nodes))
	}
	size, ephemerals := 0, 0
	for _, path := range slices.Sorted(maps.Keys(m.nodes)) {
		n := m.nodes[path]
		want := jute.GetDataResponse{Data: n.data, Stat: m.stat(n)}
		got, code := t.AppendGetData(nil, path, super)
		if !bytes.Equal(got, want.Append(nil)) {
			return fmt.Sprintf("getData(%q) is %q, %v instead of %q", path, got, code, want.Append(nil))
		}
		list := jute.Children2Response{Children: append([]string{}, n.children...), Stat: m.stat(n)}
		if got, code := t.AppendGetChildren2(nil, path, super); !bytes.Equal(got, list.Append(nil)) {
			return fmt.Sprintf("getChildren2(%q) is %q, %v instead of %q", path, got, code, list.Append(nil))
		}
		if acl, _ := t.ACL(path); !slices.Equal(acl, n.acl) {
			return fmt.Sprintf("ACL(%q) is %v instead of %v", path, acl, n.acl)
		}
		size += len(strings.TrimSuffix(path, "/")) + len(n.data)
		if n.kind == ephemeral {
			ephemerals++
		}
	}
	if t.ApproximateDataSize() != size || t.EphemeralsCount() != ephemerals || t.sessions.Count() != len(m.sessions) {
		return fmt.Sprintf("%d bytes, %d ephemerals, %d sessions instead of %d, %d, %d", t.ApproximateDataSize(),
			t.EphemeralsCount(), t.sessions.Count(), size, ephemerals, len(m.sessions))
	}
	if id, next := t.sessions.Entrance(1); id != m.entrance[0] || next != m.entrance[1] {
		return fmt.Sprintf("the entrance is %d at %d instead of %v", id, next, m.entrance)
	}
	locals := 0
	for id, s := range m.sessions {
		if s.scope != Global {
			locals++
		}
		got, ok := t.sessions.Get(id)
		if want := (Session{id, s.cnx, s.next, s.timeout, [16]byte([]byte(s.passwd)), s.scope}); !ok || got != want {
			return fmt.Sprintf("session is %v instead of %v", got, want)
		}
		if paths := t.sessions.EphemeralPaths(id, math.MaxInt); paths == nil || !slices.Equal(paths, s.ephemerals) {
			return fmt.Sprintf("session %d has %q instead of %q", id, paths, s.ephemerals)
		}
	}
	if n, g := t.sessions.Locals(1), t.sessions.Globals(); n != locals || g != len(m.sessions)-locals {
		return fmt.Sprintf("%d local sessions and %d global ones instead of %d and %d", n, g, locals, len(m.sessions)-locals)
	}
	return ""
}
