package tree

import (
	"github.com/zooid-project/zooid/jute"
)

// createRequest is a create of any kind. The operation determines whether the znode is a container or has a TTL;
// otherwise the mode determines whether it is ephemeral. The mode also determines whether the path gets a sequence
// number. As in Apache, create with the mode container makes a plain znode, and createContainer with a sequential mode
// makes a sequential container.
type createRequest struct {
	op   jute.Op
	path string
	data []byte
	acl  aclFix
	mode jute.CreateMode
	ttl  int64 // milliseconds; -1 if the request has none
}

// kind returns the kind of the znode that the request creates.
func (c *createRequest) kind() kind {
	switch {
	case c.op == jute.OpCreateContainer:
		return container
	case c.op == jute.OpCreateTTL:
		return ttl
	case c.mode.Ephemeral():
		return ephemeral
	}
	return persistent
}

// checkMode checks the mode and the time to live, in Apache's order. extended says whether TTL znodes may be created.
func (c *createRequest) checkMode(extended bool) jute.Code {
	switch {
	case !c.mode.Valid():
		return jute.ErrBadArguments
	case c.mode.TTL() && !extended:
		return jute.ErrUnimplemented
	case c.mode.TTL() && (c.ttl < 1 || c.ttl > jute.TTLMax), !c.mode.TTL() && c.ttl >= 0:
		return jute.ErrBadArguments
	case c.op == jute.OpCreateTTL && !c.mode.TTL():
		// Apache accepts a negative time to live here and stores a broken owner.
		return jute.ErrBadArguments
	}
	return jute.OK
}

// create evaluates a create of any kind. It checks for errors in Apache's order.
func (t *Tree) create(c *createRequest, q *Request, r *Result) (string, jute.Stat, jute.Code) {
	fail := func(code jute.Code) (string, jute.Stat, jute.Code) { return "", jute.Stat{}, code }
	if code := c.checkMode(t.settings.ExtendedTypes); code != jute.OK {
		return fail(code)
	}
	if c.mode.Ephemeral() && q.Session == 0 {
		return fail(jute.ErrSessionExpired)
	}
	if c.kind() == ephemeral && t.sessions.local(q.Session) {
		return fail(jute.ErrEphemeralOnLocalSession)
	}
	parentPath, name, ok := splitPath(c.path)
	if !ok {
		return fail(jute.ErrBadArguments)
	}
	if !c.acl.ok {
		return fail(jute.ErrInvalidACL)
	}
	parent := t.findNear(parentPath)
	if parent == 0 {
		return fail(jute.ErrNoNode)
	}
	p := t.at(parent)
	if !t.access.allows(p.acl, jute.PermCreate, q.Identities) {
		return fail(jute.ErrNoAuth)
	}
	above := t.acls.entries[p.acl].rights
	path := c.path
	if c.mode.Sequential() {
		begin := len(t.scratch)
		t.scratch = appendSequence(append(t.scratch, path...), t.extraOf(p).created)
		path = text(t.scratch[begin:])
		name = path[len(parentPath)+1:]
	}
	if jute.CheckPath(path) != nil {
		return fail(jute.ErrBadArguments)
	}
	if !t.access.grants(path, &above, jute.PermCreate, q.Identities) {
		return fail(jute.ErrNoAuth)
	}
	if path == "/" || t.findChild(parent, t.key.child(p.hash, name), name) != 0 {
		return fail(jute.ErrNodeExists)
	}
	if (t.settings.reserved(path) || guardOf(path).rules && t.settings.FeatureLevel >= 2) && !t.settings.SkipACL &&
		!isSuper(q.Identities) {
		return fail(jute.ErrNoAuth)
	}
	if !t.settings.takes(path, c.data) {
		return fail(jute.ErrBadArguments)
	}
	if t.access.policy != nil {
		if c.acl = t.access.givenTo(path, c.acl, q.Identities); !c.acl.ok {
			return fail(jute.ErrInvalidACL)
		}
	}
	if p.kind() == ephemeral {
		return fail(jute.ErrNoChildrenForEphemerals)
	}
	if !t.quotas.allow(path, int64(len(c.data)), 1) {
		r.OverQuota = path
		return fail(jute.ErrQuotaExceeded)
	}
	return path, t.createNode(parent, path, name, c, q, r), jute.OK
}

// createNode creates a znode once all checks have passed, and returns its Stat.
func (t *Tree) createNode(parent uint32, path, name string, c *createRequest, q *Request, r *Result) jute.Stat {
	if t.changing != nil {
		t.changing(path, nil, c.data)
	}
	child := newNode{data: c.data, acl: t.internACL(&c.acl), kind: c.kind(), zxid: t.position.zxid, time: t.position.time}
	switch child.kind {
	case ephemeral:
		child.owner = q.Session
	case ttl:
		child.owner = c.ttl
	}
	p := t.edit(parent)
	t.totals.digest -= t.statHash(p)
	k := t.editExtra(p)
	k.created++
	k.pzxid = t.position.zxid
	t.totals.digest += t.statHash(p)
	slot := t.insertNode(parent, name, child)
	n := t.at(slot)
	stat := t.stat(n)
	ev := r.event(jute.EventNodeCreated, path, t.acls.entries[n.acl].rights)
	ev.TTL, ev.Size = n.kind() == ttl, int32(n.size())
	parentPath := path[:len(path)-len(name)-1]
	r.event(jute.EventNodeChildrenChanged, parentEvent(parentPath), t.acls.entries[p.acl].rights)
	t.quotas.created(slot, path, parentPath, name)
	t.access.notePolicy(path)
	return stat
}

// appendSequence appends a sequence number of at least ten digits.
func appendSequence(b []byte, n int64) []byte {
	var digits [20]byte
	i := len(digits)
	for u := uint64(n); u > 0 || i > len(digits)-10; u /= 10 {
		i--
		digits[i] = byte('0' + u%10)
	}
	return append(b, digits[i:]...)
}

// delete evaluates a delete; version -1 matches any version.
func (t *Tree) delete(path string, version int32, q *Request, r *Result) jute.Code {
	parentPath, name, ok := splitPath(path)
	if !ok || guardOf(path).lasting {
		return jute.ErrBadArguments
	}
	parent := t.findNear(parentPath)
	if parent == 0 {
		return jute.ErrNoNode
	}
	p := t.at(parent)
	if !t.access.allowsAt(path, p.acl, jute.PermDelete, q.Identities) {
		return jute.ErrNoAuth
	}
	slot := t.findChild(parent, t.key.child(p.hash, name), name)
	if slot == 0 || parentPath == "/" { // "//a" has a parent, but isn't "/a"
		return jute.ErrNoNode
	}
	if t.settings.reserved(path) && !t.settings.SkipACL && !isSuper(q.Identities) {
		return jute.ErrNoAuth
	}
	n := t.at(slot)
	if version != -1 && version != n.version {
		return jute.ErrBadVersion
	}
	if t.extraOf(n).children > 0 {
		return jute.ErrNotEmpty
	}
	t.deleteNode(slot, path, parentPath, r)
	return jute.OK
}

// deleteNode deletes a znode once all checks have passed. parentPath is "" for the root.
func (t *Tree) deleteNode(slot uint32, path, parentPath string, r *Result) {
	n := t.at(slot)
	if t.changing != nil {
		t.changing(path, t.data(n), nil)
	}
	acl, size, kind, parent := t.acls.entries[n.acl].rights, n.size(), n.kind(), n.parent
	p := t.edit(parent)
	t.totals.digest -= t.statHash(p)
	t.editExtra(p).pzxid = t.position.zxid
	t.totals.digest += t.statHash(p)
	t.removeNode(slot)
	r.event(jute.EventNodeDeleted, path, acl).TTL = kind == ttl
	r.event(jute.EventNodeChildrenChanged, parentEvent(parentPath), t.acls.entries[p.acl].rights)
	t.quotas.deleted(path, parentPath, int64(size))
	t.access.notePolicy(path)
}

// writeData evaluates a setData.
func (t *Tree) writeData(path string, data []byte, version int32, q *Request, r *Result) (jute.Stat, jute.Code) {
	if jute.CheckPath(path) != nil {
		return jute.Stat{}, jute.ErrBadArguments
	}
	slot := t.findNear(path)
	if slot == 0 {
		return jute.Stat{}, jute.ErrNoNode
	}
	n := t.at(slot)
	if !t.access.allowsAt(path, n.acl, jute.PermWrite, q.Identities) {
		return jute.Stat{}, jute.ErrNoAuth
	}
	if !t.settings.takes(path, data) {
		return jute.Stat{}, jute.ErrBadArguments
	}
	more := int64(len(data) - n.size())
	if !t.quotas.allow(path, more, 0) {
		r.OverQuota = path
		return jute.Stat{}, jute.ErrQuotaExceeded
	}
	if version != -1 && version != n.version {
		return jute.Stat{}, jute.ErrBadVersion
	}
	return t.changeData(slot, path, data, nextVersion(n.version), r), jute.OK
}

// changeData sets the data of a znode once all checks have passed.
func (t *Tree) changeData(slot uint32, path string, data []byte, version int32, r *Result) jute.Stat {
	n := t.edit(slot)
	if t.changing != nil {
		t.changing(path, t.data(n), data)
	}
	more := int64(len(data) - n.size())
	t.setData(slot, data)
	t.totals.digest -= t.statHash(n)
	n.version, n.mzxid, n.mtime = version, t.position.zxid, t.position.time
	t.totals.digest += t.statHash(n)
	stat := t.stat(n)
	r.event(jute.EventNodeDataChanged, path, t.acls.entries[n.acl].rights).Size = int32(n.size())
	t.quotas.changed(path, more, 0)
	t.access.notePolicy(path)
	return stat
}

// writeACL evaluates a setACL.
func (t *Tree) writeACL(path string, acl aclFix, version int32, q *Request) (jute.Stat, jute.Code) {
	if jute.CheckPath(path) != nil {
		return jute.Stat{}, jute.ErrBadArguments
	}
	if !acl.ok {
		return jute.Stat{}, jute.ErrInvalidACL
	}
	slot := t.find(path)
	if slot == 0 {
		return jute.Stat{}, jute.ErrNoNode
	}
	if n := t.at(slot); !t.access.allowsAt(path, n.acl, jute.PermAdmin, q.Identities) {
		return jute.Stat{}, jute.ErrNoAuth
	} else if version != -1 && version != n.aversion {
		return jute.Stat{}, jute.ErrBadVersion
	}
	n := t.edit(slot)
	t.totals.digest -= t.statHash(n)
	t.setNodeACL(slot, t.internACL(&acl))
	n.aversion = nextVersion(n.aversion)
	t.totals.digest += t.statHash(n)
	return t.stat(n), jute.OK
}

// check evaluates a check operation of a multi.
func (t *Tree) check(path string, version int32, q *Request) jute.Code {
	if jute.CheckPath(path) != nil {
		return jute.ErrBadArguments
	}
	slot := t.findNear(path)
	if slot == 0 {
		return jute.ErrNoNode
	}
	n := t.at(slot)
	if !t.access.allowsAt(path, n.acl, jute.PermRead, q.Identities) {
		return jute.ErrNoAuth
	}
	if version != -1 && version != n.version {
		return jute.ErrBadVersion
	}
	return jute.OK
}
