package check

import (
	"maps"
	"slices"

	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/jute"
)

// The longer damages.

func hasZxid(e *history.Event) bool { return e.Zxid > 0 && e.Kind != history.KindConnect }

// otherBody gives a getData the body of an earlier or later one of its path.
func (d *mutation) otherBody(earlier bool) bool {
	var from int
	i := d.pickReply(jute.OK, func(i int, e *history.Event) bool {
		for j := range d.h.Events {
			if d.req[j] < 0 || (j < i) != earlier || d.op(j) != jute.OpGetData || d.h.Events[j].Code() != jute.OK ||
				d.path(j) != d.path(i) {
				continue
			}
			if d.stat(j).Mzxid != d.stat(i).Mzxid && d.stat(j).EphemeralOwner == 0 && !d.byMulti(d.stat(i).Mzxid) {
				from = j
				return true
			}
		}
		return false
	}, jute.OpGetData)
	if i < 0 {
		return false
	}
	// pick may have gone on after setting from: find it again for i itself
	for j := range d.h.Events {
		if d.req[j] >= 0 && (j < i) == earlier && d.op(j) == jute.OpGetData && d.h.Events[j].Code() == jute.OK &&
			d.path(j) == d.path(i) &&
			d.stat(j).Mzxid != d.stat(i).Mzxid && d.stat(j).EphemeralOwner == 0 {
			from = j
			break
		}
	}
	d.h.Events[i].Body = d.h.Events[from].Body
	return true
}

func (d *mutation) byMulti(zxid int64) bool {
	for i := range d.h.Events {
		if d.req[i] >= 0 && d.h.Events[i].Zxid == zxid && d.op(i) == jute.OpMulti {
			return true
		}
	}
	return false
}

// everEphemeral says whether some create may have made an ephemeral of path.
func (d *mutation) everEphemeral(path string) bool {
	for i := range d.h.Events {
		if d.req[i] < 0 {
			continue
		}
		switch d.op(i) {
		case jute.OpMulti:
			ops, _ := jute.DecodeMulti(jute.NewDecoder(d.h.Events[d.req[i]].Body))
			if slices.ContainsFunc(ops, func(o jute.MultiOp) bool { return o.Path == path && o.Flags.Ephemeral() }) {
				return true
			}
		case jute.OpCreate, jute.OpCreate2:
			var q jute.CreateRequest
			q.Decode(jute.NewDecoder(d.h.Events[d.req[i]].Body))
			if q.Path == path && q.Flags.Ephemeral() {
				return true
			}
		}
	}
	return false
}

func (d *mutation) children(change func([]string) []string, fits func([]string) bool) bool {
	names := func(i int) []string { return jute.NewDecoder(d.h.Events[i].Body).Strings() }
	i := d.pickReply(jute.OK,
		func(i int, e *history.Event) bool { return len(names(i)) > 0 && (fits == nil || fits(names(i))) },
		jute.OpGetChildren)
	if i < 0 {
		return false
	}
	d.h.Events[i].Body = jute.AppendStrings(nil, change(names(i)))
	return true
}

func encodeResults(results []jute.MultiResult) []byte {
	var b []byte
	for i := range results {
		b = results[i].Append(b)
	}
	return jute.AppendMultiEnd(b)
}

// usedLater says whether a session is answered after event i at a higher zxid.
func (d *mutation) usedLater(i int, session int64) bool {
	sessions := map[int32]int64{}
	for j := range d.h.Events {
		e := &d.h.Events[j]
		if e.Kind == history.KindConnected {
			sessions[e.Conn] = e.Session
		}
		if j > i && isReply(e) && sessions[e.Conn] == session && e.Zxid > d.h.Events[i].Zxid {
			return true
		}
	}
	return false
}

// undead shows an ephemeral after its session was closed.
func (d *mutation) undead() bool {
	c := d.swept()
	i := d.pickReply(jute.ErrNoNode, func(i int, e *history.Event) bool {
		s := c.m.node(d.path(i)).lastAt(e.Zxid)
		return s != nil && s.ended
	}, jute.OpExists)
	if i < 0 {
		return false
	}
	n := c.m.node(d.path(i))
	g := n.lastAt(d.h.Events[i].Zxid).before.stat()
	d.h.Events[i].Num, d.h.Events[i].Body = 0, g.Append(nil)
	return true
}

func (n *node) lastAt(zxid int64) *state {
	s := n.last
	for s != nil && s.zxid > zxid {
		s = s.before
	}
	return s
}

// swept returns a checker that has swept the history, for what it knows.
func (d *mutation) swept() *checker {
	c := &checker{h: d.h, opt: d.opt, rep: &Report{}, sessions: map[int64]*session{}, m: newModel(d.opt)}
	c.wire()
	c.items = sortItems(c.place())
	c.firstAcks(c.items)
	c.sweep(c.items)
	return c
}

// undeadChild lists a sequential ephemeral after its session was closed.
func (d *mutation) undeadChild() bool {
	i := d.pickReply(jute.OK, nil, jute.OpCloseSession)
	if i < 0 {
		return false
	}
	z := d.h.Events[i].Zxid
	c := d.swept()
	for _, path := range slices.Sorted(maps.Keys(c.m.nodes)) {
		n := c.m.nodes[path]
		if s := n.last; s == nil || !s.ended || s.zxid != z || s.before.before != nil || n.parent == nil {
			continue
		}
		j := d.pickReply(jute.OK, func(j int, e *history.Event) bool { return e.Zxid >= z && d.path(j) == n.parent.path },
			jute.OpGetChildren)
		if j < 0 {
			continue
		}
		names := jute.NewDecoder(d.h.Events[j].Body).Strings()
		d.h.Events[j].Body = jute.AppendStrings(nil, append(names, path[len(n.parent.path)+1:]))
		return true
	}
	return false
}

// firstOn returns the first packet with a zxid on i's connection.
func (d *mutation) firstOn(i int) int {
	for j := range d.h.Events {
		if e := &d.h.Events[j]; e.Conn == d.h.Events[i].Conn && hasZxid(e) {
			return j
		}
	}
	return len(d.h.Events)
}

// before returns the highest zxid on i's connection before i.
func (d *mutation) before(i int) int64 {
	var z int64
	for j := range d.h.Events[:i] {
		if e := &d.h.Events[j]; e.Conn == d.h.Events[i].Conn && hasZxid(e) {
			z = max(z, e.Zxid)
		}
	}
	return z
}

// acked returns the highest zxid anybody had seen before event i.
func (d *mutation) acked(i int) int64 {
	var z int64
	for j := range d.h.Events[:i] {
		if e := &d.h.Events[j]; hasZxid(e) {
			z = max(z, e.Zxid)
		}
	}
	return z
}

func (d *mutation) sequence(by int) bool {
	i := d.pickReply(jute.OK, func(i int, e *history.Event) bool {
		p := jute.NewDecoder(e.Body).String()
		return len(p) > 10 && p[len(p)-2:] > "00" && p[len(p)-1] > '0' && p[len(p)-1] < '9' && d.path(i) != p
	}, jute.OpCreate)
	if i < 0 {
		return false
	}
	b := d.body(i)
	b[len(b)-1] = byte(int(b[len(b)-1]) + by)
	return true
}

func (d *mutation) multi(change func([]jute.MultiResult) bool) bool {
	var changed []jute.MultiResult
	decode := func(i int) []jute.MultiResult {
		results, _ := jute.DecodeMultiResponse(jute.NewDecoder(d.h.Events[i].Body))
		return results
	}
	i := d.pickReply(jute.OK, func(i int, e *history.Event) bool { return change(decode(i)) }, jute.OpMulti)
	if i < 0 {
		return false
	}
	changed = decode(i)
	change(changed)
	d.h.Events[i].Body = encodeResults(changed)
	return true
}

// partialMulti finds a multi of two setDatas of which a read has shown one, and
// makes a later read show the state before of the other.
func (d *mutation) partialMulti() bool {
	seen := map[int64]string{} // by zxid of a multi: a path whose change was shown
	order := make([]int, 0, len(d.h.Events))
	for i := range d.h.Events {
		if d.req[i] >= 0 && d.op(i) == jute.OpGetData && d.h.Events[i].Code() == jute.OK {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(d.h.Events[a].Zxid - d.h.Events[b].Zxid) })
	last := map[string]int{} // by path: a read of the state before
	for _, i := range order {
		g, p := d.stat(i), d.path(i)
		if d.byMulti(g.Mzxid) && g.Version > 0 {
			if first, ok := seen[g.Mzxid]; ok && first != p {
				if j, ok := last[p]; ok && d.stat(j).Version == g.Version-1 && d.stat(j).Czxid == g.Czxid {
					d.h.Events[i].Body = d.h.Events[j].Body
					return true
				}
			} else if !ok {
				seen[g.Mzxid] = p
			}
		}
		last[p] = i
	}
	return false
}

func (d *mutation) dropEvent(persistent bool) bool {
	i := d.notification(persistent)
	if i < 0 {
		return false
	}
	d.remove(i)
	return true
}

// lateEvent moves an event behind the next reply that shows it.
func (d *mutation) lateEvent() bool {
	var i, j int
	if d.opt.NotificationsUnnumbered {
		i = d.pick(func(i int, e *history.Event) bool {
			j := d.next(i, isReply)
			n := d.next(i, func(e *history.Event) bool { return e.Kind == history.KindNotification })
			return e.Kind == history.KindNotification && j >= 0 && (n < 0 || n > j) && d.before(i) < d.h.Events[j].Zxid &&
				d.req[j] >= 0 && d.op(j) != jute.OpSetWatches
		})
		if i < 0 {
			return false
		}
		j = d.next(i, isReply)
	} else {
		if i = d.notification(false); i < 0 {
			return false
		}
		j = d.next(i, func(e *history.Event) bool { return isReply(e) && e.Zxid >= d.h.Events[i].Zxid })
	}
	e := d.h.Events[i]
	d.insert(j+1, e)
	d.remove(i)
	return true
}

// swapEvents exchanges two neighbouring events of different changes that come
// before the same reply.
func (d *mutation) swapEvents() bool {
	c := d.swept()
	heard := map[int32]int{}
	for i := range d.h.Events {
		e := &d.h.Events[i]
		if e.Kind != history.KindNotification {
			continue
		}
		n := heard[e.Conn]
		heard[e.Conn]++
		exp := slices.DeleteFunc(slices.Clone(c.conns[e.Conn].expected), func(x expectation) bool { return x.denied })
		j := d.next(i, func(e *history.Event) bool { return true })
		if j < 0 || d.h.Events[j].Kind != history.KindNotification || n+1 >= len(exp) {
			continue
		}
		a, b := exp[n], exp[n+1]
		if a.zxid == b.zxid || a.n == b.n || a.due != 0 || b.due != 0 {
			continue
		}
		x, y := &d.h.Events[i], &d.h.Events[j]
		x.Body, y.Body = y.Body, x.Body
		return true
	}
	return false
}

// leak tells an event to a connection that may not hear it.
func (d *mutation) leak() bool {
	c := d.swept()
	for _, k := range c.conns {
		for _, x := range k.expected {
			if !x.denied {
				continue
			}
			for i := range d.h.Events {
				if e := &d.h.Events[i]; e.Conn == k.id && isReply(e) && e.Zxid >= x.zxid {
					w := jute.WatcherEvent{Type: x.typ, State: jute.StateSyncConnected, Path: x.n.path}
					d.insert(i, history.Event{Kind: history.KindNotification, Conn: k.id, Zxid: x.zxid, Body: w.Append(nil)})
					return true
				}
			}
		}
	}
	return false
}

// mute cuts a connection's part of the history short before its last event.
func (d *mutation) mute() bool {
	for range 40 {
		if d.muteOne() {
			return true
		}
	}
	return false
}

func (d *mutation) muteOne() bool {
	i := d.notification(false)
	if i < 0 || d.next(i, func(e *history.Event) bool { return e.Kind == history.KindDisconnect }) >= 0 {
		return false
	}
	conn := d.h.Events[i].Conn
	answered := map[int32]bool{}
	for _, e := range d.h.Events[:i] {
		if e.Conn == conn && e.Kind == history.KindReply {
			answered[e.Xid] = true
		}
	}
	kept := make([]history.Event, 0, len(d.h.Events))
	for _, e := range d.h.Events[:i] {
		if e.Conn != conn || e.Kind != history.KindRequest || answered[e.Xid] {
			kept = append(kept, e)
		} else if e.Op().IsWrite() {
			return false // it may be what the connection would have heard of
		}
	}
	for _, e := range d.h.Events[i:] {
		if e.Conn != conn {
			kept = append(kept, e)
		}
	}
	d.h.Events = kept
	return true
}

// catchUpEvent picks an event that a setWatches caught up with.
func (d *mutation) catchUpEvent(do func(i int)) bool {
	i := d.pick(func(i int, e *history.Event) bool {
		if e.Kind != history.KindNotification || e.Zxid > 0 {
			return false
		}
		j := d.next(i, isReply)
		return j >= 0 && d.req[j] >= 0 && d.op(j) == jute.OpSetWatches
	})
	if i < 0 {
		return false
	}
	do(i)
	return true
}

// silence lets an hour pass before the last client reads everything.
func (d *mutation) silence() bool {
	i := d.pickReply(jute.OK, func(i int, e *history.Event) bool {
		return d.stat(i).EphemeralOwner != 0 && i > len(d.h.Events)*9/10
	}, jute.OpGetData)
	if i < 0 {
		return false
	}
	owner := d.stat(i).EphemeralOwner
	sessions := map[int32]int64{}
	for j := range d.h.Events {
		e := &d.h.Events[j]
		if e.Kind == history.KindConnected {
			sessions[e.Conn] = e.Session
		}
		if j >= d.req[i] && e.Kind == history.KindRequest && sessions[e.Conn] == owner {
			return false // its own client is the one that reads
		}
	}
	for j := d.req[i]; j < len(d.h.Events); j++ {
		d.h.Events[j].Time += 3600e9
	}
	return true
}

// moved lets an unanswered write of a left connection be answered late.
func (d *mutation) moved() bool {
	unanswered := map[int32]*history.Event{} // by connection, its first
	for i := range d.h.Events {
		if e := &d.h.Events[i]; e.Kind == history.KindRequest && unanswered[e.Conn] == nil && !d.replied(e) {
			unanswered[e.Conn] = e
		}
	}
	sessions := map[int32]int64{}
	conns := map[int64][]int32{}
	for i := range d.h.Events {
		e := &d.h.Events[i]
		if e.Kind == history.KindConnected && e.Session != 0 {
			sessions[e.Conn] = e.Session
			conns[e.Session] = append(conns[e.Session], e.Conn)
		}
		list := conns[sessions[e.Conn]]
		if !isReply(e) || len(list) < 2 || list[len(list)-1] != e.Conn {
			continue
		}
		if w := unanswered[list[len(list)-2]]; w != nil && w.Op().IsWrite() {
			d.insert(i+1,
				history.Event{
					Kind: history.KindReply, Conn: w.Conn, Xid: w.Xid, Zxid: d.acked(len(d.h.Events)) + 1, Num: int32(jute.ErrNoNode),
				})
			return true
		}
	}
	return false
}

func (d *mutation) replied(req *history.Event) bool {
	for i := range d.h.Events {
		if r := &d.h.Events[i]; r.Conn == req.Conn && r.Kind == history.KindReply && r.Xid == req.Xid {
			return true
		}
	}
	return false
}

// ghost answers a sync of a session after the servers let it expire.
func (d *mutation) ghost() bool {
	log := d.h.Servers[0].Entries
	conns, xids := map[int64]int32{}, map[int32]int32{}
	for i := range d.h.Events {
		switch e := &d.h.Events[i]; e.Kind {
		case history.KindConnected:
			conns[e.Session] = e.Conn
		case history.KindRequest:
			xids[e.Conn] = max(xids[e.Conn], e.Xid)
		}
	}
	i := d.entry(func(_ int, e *history.Entry) bool {
		return e.Op == jute.OpCloseSession && e.Cnx == 0 && e.Applied && xids[conns[e.Session]] > 0
	})
	if i < 0 {
		return false
	}
	var zxid int64
	for j := range d.h.Servers {
		zxid = max(zxid, lastZxid(&d.h.Servers[j]))
	}
	conn := conns[log[i].Session]
	root := jute.AppendString(nil, "/")
	d.insert(len(d.h.Events),
		history.Event{Kind: history.KindRequest, Conn: conn, Xid: xids[conn] + 1000, Num: int32(jute.OpSync), Body: root})
	d.insert(len(d.h.Events),
		history.Event{Kind: history.KindReply, Conn: conn, Xid: xids[conn] + 1000, Zxid: zxid, Body: root})
	return true
}
