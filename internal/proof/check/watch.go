package check

import (
	"fmt"
	"slices"

	"github.com/zooid-project/zooid/internal/proof/check/acls"
	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/jute"
)

// The watch tables of all connections, as their servers must have them. The sweep arms watches at the replies that
// armed them, and fires them when it applies changes. Later, the events that each connection should have received are
// compared with those that it received.

const (
	tableData uint8 = iota
	tableChild
	// tableChildAfterData is tableChild without the connections that the data table has just notified.
	tableChildAfterData
)

const (
	modeStandard uint8 = 1 << iota
	modePersistent
	modeRecursive
)

type watcher struct {
	conn *conn
	mode uint8
}

// An expectation is one event that one connection should receive.
type expectation struct {
	zxid   int64
	n      *node
	due    int32 // for a catch-up: index of the setWatches reply it must precede
	typ    jute.EventType
	denied bool // it must not be delivered (W7)
	loose  bool // the zxid is a guess
	stays  bool // the watch is persistent

	matched bool
	overdue int32 // index of the reply before which it should have come
	alike   int32 // once matched: how many of the next ones are known to be matched too
}

func arm(list *[]watcher, k *conn, mode uint8) {
	for i := range *list {
		if (*list)[i].conn == k {
			(*list)[i].mode |= mode
			return
		}
	}
	*list = append(*list, watcher{k, mode})
}

// disarm removes modes, and reports whether any of them was set.
func disarm(list *[]watcher, k *conn, mode uint8) bool {
	for i := range *list {
		w := &(*list)[i]
		if w.conn != k {
			continue
		}
		had := w.mode&mode != 0
		if w.mode &^= mode; w.mode == 0 {
			last := len(*list) - 1
			(*list)[i] = (*list)[last]
			*list = (*list)[:last]
		}
		return had
	}
	return false
}

func modes(list []watcher, k *conn) uint8 {
	for i := range list {
		if list[i].conn == k {
			return list[i].mode
		}
	}
	return 0
}

// fire reports the change at zxid to the watch tables.
func (c *checker) fire(zxid int64, loose bool) {
	told := c.told[:0]
	for i := range c.m.events {
		f := &c.m.events[i]
		if f.table != tableChildAfterData {
			told = told[:0]
		}
		list := &f.n.data
		if f.table != tableData {
			list = &f.n.child
		}
		told = c.fireTable(f, list, told, zxid, loose)
		if f.table != tableData || c.m.recursive == 0 {
			continue
		}
		for up := f.n.parent; up != nil; up = up.parent {
			up.recursive = slices.DeleteFunc(up.recursive, func(k *conn) bool {
				told = c.expect(k, f, told, zxid, loose, true)
				return k.gone // hundreds of these accumulate on a root
			})
		}
	}
	c.told = told
}

func (c *checker) fireTable(f *fired, list *[]watcher, told []*conn, zxid int64, loose bool) []*conn {
	kept := (*list)[:0]
	for _, w := range *list {
		if w.conn.gone {
			continue
		}
		told = c.expect(w.conn, f, told, zxid, loose, w.mode != modeStandard)
		if w.mode &^= modeStandard; w.mode != 0 {
			kept = append(kept, w)
		}
	}
	*list = kept
	return told
}

func (c *checker) expect(k *conn, f *fired, told []*conn, zxid int64, loose, stays bool) []*conn {
	if slices.Contains(told, k) || k.gone {
		return told
	}
	denied := !c.opt.EventsUnfiltered && !acls.Permits(f.acl, jute.PermRead, k.ids)
	if zxid > k.maxReply && !denied {
		last := len(k.expected) - 1
		if k.optional > k.trailing && last >= 0 && k.expected[last].zxid < zxid && !(c.opt.Quiesced && !k.closed) {
			k.gone = true // it can't have received this event, or any after it
			return told
		}
		k.optional++
	}
	k.expected = append(k.expected,
		expectation{zxid: zxid, n: f.n, typ: f.typ, denied: denied, loose: loose, stays: stays})
	return append(told, k)
}

// catchUp applies a setWatches at its reply's zxid.
func (c *checker) catchUp(o *op) {
	req, rep := &c.h.Events[o.req], &c.h.Events[o.rep]
	var q jute.SetWatches
	c.dec.Reset(req.Body)
	q.Decode(&c.dec, req.Op())
	k := o.conn
	heard := c.heardMeanwhile(o)
	for _, p := range q.Data {
		c.catchUpOne(o, c.m.node(p), heard, q.RelativeZxid, tableData, dataMissed)
	}
	for _, p := range q.Exist {
		c.catchUpOne(o, c.m.node(p), heard, q.RelativeZxid, tableData, existMissed)
	}
	for _, p := range q.Child {
		c.catchUpOne(o, c.m.node(p), heard, q.RelativeZxid, tableChild, childMissed)
	}
	if rep.Code() != jute.OK {
		return
	}
	for _, p := range q.Persistent {
		c.armPersistent(c.m.node(p), k, modePersistent)
	}
	for _, p := range q.PersistentTree {
		c.armPersistent(c.m.node(p), k, modeRecursive)
	}
}

// dataMissed, existMissed and childMissed return the event that a setWatches reports for one path, 0 for none.
func dataMissed(n *node, since int64) jute.EventType {
	switch s := n.now(); {
	case s == nil:
		return jute.EventNodeDeleted
	case s.mzxid > since:
		return jute.EventNodeDataChanged
	}
	return 0
}

func existMissed(n *node, _ int64) jute.EventType {
	if n.now() != nil {
		return jute.EventNodeCreated
	}
	return 0
}

func childMissed(n *node, since int64) jute.EventType {
	switch s := n.now(); {
	case s == nil:
		return jute.EventNodeDeleted
	case s.pzxid > since:
		return jute.EventNodeChildrenChanged
	}
	return 0
}

type heardEvent struct {
	n   *node
	typ jute.EventType
}

// heardMeanwhile returns the events without zxid that came between a setWatches and its reply.
func (c *checker) heardMeanwhile(o *op) map[heardEvent]bool {
	heard := map[heardEvent]bool{}
	for i := o.req + 1; i < o.rep; i++ {
		e := &c.h.Events[i]
		if e.Conn != o.conn.id || e.Kind != history.KindNotification || e.Zxid > 0 {
			continue
		}
		var w jute.WatcherEvent
		c.dec.Reset(e.Body)
		w.Decode(&c.dec)
		heard[heardEvent{c.m.node(w.Path), w.Type}] = true
	}
	return heard
}

func (c *checker) catchUpOne(o *op, n *node, heard map[heardEvent]bool, since int64, table uint8, missed func(*node,
	int64) jute.EventType) {
	if n.opaque {
		return
	}
	fits := func() bool {
		typ := missed(n, since)
		return typ == 0 || heard[heardEvent{n, typ}]
	}
	if len(c.unanswered) > 0 {
		// An event that the model doesn't expect may be the first sign of an unanswered write.
		nodes := []*node{n}
		if n.parent != nil {
			nodes = append(nodes, n.parent)
		}
		for _, typ := range [...]jute.EventType{
			jute.EventNodeCreated, jute.EventNodeDeleted, jute.EventNodeDataChanged, jute.EventNodeChildrenChanged,
		} {
			if heard[heardEvent{n, typ}] && missed(n, since) == 0 {
				c.explain(c.h.Events[o.rep].Zxid, int(o.rep), nodes, func() bool { return missed(n, since) == typ })
			}
		}
		if !fits() {
			c.explain(c.h.Events[o.rep].Zxid, int(o.rep), nodes, fits)
		}
	}
	k := o.conn
	if typ := missed(n, since); typ != 0 {
		k.expected = append(k.expected, expectation{zxid: c.h.Events[o.rep].Zxid, n: n, typ: typ, due: o.rep})
		return
	}
	list := &n.data
	if table == tableChild {
		list = &n.child
	}
	arm(list, k, modeStandard)
}

func (c *checker) armPersistent(n *node, k *conn, mode uint8) {
	arm(&n.data, k, mode)
	if mode == modePersistent {
		arm(&n.child, k, mode)
		return
	}
	c.m.recursive++
	if !slices.Contains(n.recursive, k) {
		n.recursive = append(n.recursive, k)
	}
}

// removeWatches applies a checkWatches or removeWatches, or reports the error in its reply.
func (c *checker) removeWatches(o *op) {
	req, rep := &c.h.Events[o.req], &c.h.Events[o.rep]
	var q jute.WatchesRequest
	c.dec.Reset(req.Body)
	q.Decode(&c.dec)
	n, k := c.m.node(q.Path), o.conn
	var data, child uint8
	switch q.Type {
	case jute.WatcherChildren:
		child = modeStandard
	case jute.WatcherData:
		data = modeStandard
	case jute.WatcherPersistent:
		data, child = modePersistent, modePersistent
	case jute.WatcherPersistentRecursive:
		data = modeRecursive
	case jute.WatcherAny:
		data, child = modeStandard|modePersistent|modeRecursive, modeStandard|modePersistent
	default:
		return
	}
	found := modes(n.data, k)&data != 0 || modes(n.child, k)&child != 0
	if req.Op() == jute.OpRemoveWatches {
		disarm(&n.data, k, data)
		if data&modeRecursive != 0 {
			n.recursive = slices.DeleteFunc(n.recursive, func(x *conn) bool { return x == k })
		}
		disarm(&n.child, k, child)
	}
	switch {
	case n.opaque:
	case found && rep.Code() == jute.ErrNoWatcher:
		c.violate(W1, fmt.Sprintf("%s says that no watch is armed on %s; one is", req.Op(), q.Path), int(o.rep), int(o.req))
	case !found && rep.Code() == jute.OK:
		c.violate(W3, fmt.Sprintf("%s says that a watch was armed on %s; none was", req.Op(), q.Path), int(o.rep), int(o.req))
	}
}
