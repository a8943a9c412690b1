package back

import (
	"fmt"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// A maker makes Apache's transactions. It reads the tree as it is after a request, and Apache's state as it is before.
type maker struct {
	tree  *tree.Tree
	state *files.State
	// created holds the parents' cversions that earlier operations of the same multi have set.
	created map[string]int32
	session int64
}

// record returns the transaction of a request that took a zxid; ok is false if Apache has no equivalent.
func (m *maker) record(q *tree.Request, r *tree.Result) (record []byte, ok bool) {
	m.created, m.session = map[string]int32{}, q.Session
	head := files.Txn{Session: q.Session, Xid: q.Xid, Zxid: r.Zxid, Ms: r.Time}
	if q.Op == tree.OpRestore && r.Err == jute.OK {
		return nil, false
	}
	if q.Op == jute.OpMulti && r.Err == jute.OK {
		return m.multi(&head, q, r)
	}
	op := files.Failure(r.Err)
	if r.Err == jute.OK {
		op, ok = m.operation(q, r)
		if !ok {
			return nil, false
		}
	}
	return head.Record(&op), true
}

// operation returns the operation of a request that isn't a multi.
func (m *maker) operation(q *tree.Request, r *tree.Result) (files.Operation, bool) {
	var d jute.Decoder
	d.Reset(q.Body)
	switch q.Op {
	case jute.OpCreateSession:
		return files.BeginSession(r.Timeout), true
	case jute.OpCloseSession, tree.OpExpire:
		var paths []string
		for i := range r.Events {
			if r.Events[i].Type == jute.EventNodeDeleted {
				paths = append(paths, r.Events[i].Path)
			}
		}
		return files.EndSession(paths), true
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer:
		var c jute.CreateRequest
		c.Decode(&d)
		return m.create(r.Path, c.Data, q.Op, c.Flags, 0)
	case jute.OpCreateTTL:
		var c jute.CreateTTLRequest
		c.Decode(&d)
		return m.create(r.Path, c.Data, q.Op, c.Flags, c.TTL)
	case jute.OpDelete, jute.OpDeleteContainer:
		return files.Delete(d.String()), true
	case jute.OpSetData:
		path, data := d.String(), d.Buffer()
		return files.SetData(path, data, r.Stat.Version), true
	case jute.OpSetACL:
		path := d.String()
		acl, _ := m.tree.ACL(path)
		return files.SetACL(path, acl, r.Stat.Aversion), true
	}
	return files.Failure(jute.ErrUnimplemented), true // each ensemble keeps its own membership
}

// create returns a create of the znode at path. An ephemeral one needs a session that Apache knows.
func (m *maker) create(path string, data []byte, op jute.Op, mode jute.CreateMode,
	ttl int64) (o files.Operation, ok bool) {
	var owner files.Owner
	switch {
	case op == jute.OpCreateContainer:
		owner.Container = true
	case op == jute.OpCreateTTL:
		owner.TTL = ttl
	case mode.Ephemeral():
		owner.Session = m.session
		if _, known := m.state.Sessions[m.session]; !known {
			return o, false
		}
	}
	parent, _ := files.SplitPath(path)
	before, made := m.created[parent]
	if z := m.state.Find(parent); !made && z != nil {
		before = z.Stat.Cversion
	}
	m.created[parent], m.created[path] = before+1, 0
	acl, there := m.tree.ACL(path)
	if !there { // deleted again in the same multi
		acl = jute.WorldACL(jute.PermAll)
	}
	return files.Create(path, data, acl, owner, before+1), true
}

// multi returns the transaction of a multi.
func (m *maker) multi(head *files.Txn, q *tree.Request, r *tree.Result) ([]byte, bool) {
	ops, err := jute.DecodeMulti(jute.NewDecoder(q.Body))
	if err != nil || len(ops) != len(r.Multi) {
		panic(fmt.Sprintf("back: a multi of %d results can't be read again: %v", len(r.Multi), err))
	}
	all := make([]files.Operation, len(ops))
	for i := range ops {
		o, result := &ops[i], &r.Multi[i]
		if result.Err != jute.OK {
			failed := files.Failure(result.Err)
			return head.Record(&failed), true
		}
		ok := true
		switch o.Op {
		case jute.OpDelete:
			all[i] = files.Delete(o.Path)
			delete(m.created, o.Path)
		case jute.OpSetData:
			all[i] = files.SetData(o.Path, o.Data, result.Stat.Version)
		case jute.OpCheck:
			all[i] = files.Check(o.Path, o.Version)
		default:
			op := o.Op // or the one that Apache derives from the mode
			if o.Flags == jute.ModeContainer {
				op = jute.OpCreateContainer
			} else if op == jute.OpCreateTTL && !o.Flags.TTL() {
				op = jute.OpCreate
			}
			all[i], ok = m.create(result.Path, o.Data, op, o.Flags, o.TTL)
		}
		if !ok {
			return nil, false
		}
	}
	return head.Multi(all), true
}
