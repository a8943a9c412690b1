package check

import (
	"math/rand/v2"
	"slices"
	"sort"
	"strings"

	"github.com/zooid-project/zooid/internal/proof/check/acls"
	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/internal/proof/traffic"
	"github.com/zooid-project/zooid/jute"
)

// An ensemble in memory, to make histories: replicas that lag behind one log,
// connections that queue requests and deliver late, clients that vanish and
// come back elsewhere, all driven by one seeded scheduler. The znodes are the
// model's; watches, sessions and order are written here a second time.

type ensemble struct {
	rng      *rand.Rand
	now      int64
	h        *history.History
	opt      Options
	log      []history.Entry
	replicas []*replica
	clients  []*simClient
	sessions map[int64]*simSession
	conns    int32
	nextID   int64
	root     string

	bug         string // a mistake the servers make, "" for none
	unnumbered  bool   // notifications carry zxid -1
	crashes     bool   // unanswered requests may be lost
	gentle      bool   // connections end only while nothing is outstanding
	mostlyReads bool   // nine in ten requests
	prompt      bool   // clients come back before their sessions expire
}

type simSession struct {
	id       int64
	client   *simClient
	cnx      int64
	seq      int64
	ended    bool
	lastSeen int64 // last packet answered
}

type replica struct {
	e       *ensemble
	m       *model
	applied int
	zxid    int64
	data    map[string]map[*simConn]uint8
	child   map[string]map[*simConn]uint8
}

type simRequest struct {
	event history.Event
	entry int // position in the log, -1 while it has none
	sync  int // log length to reach, -1 if none
}

type simConn struct {
	id      int32
	r       *replica
	client  *simClient
	in      []*simRequest
	out     []history.Event
	dead    bool
	closing bool
}

type simClient struct {
	mix     *traffic.Mix
	conn    *simConn
	session *simSession
	xid     int32
	zxid    int64
	open    int // outstanding requests
	ids     []jute.ID
	watches [3]map[string]bool // data, exist, child: to set again
	pending map[int32]history.Event
	sleep   int64
	leaving bool
}

const simTimeout = 200 // ms

func newEnsemble(seed uint64, clients int) *ensemble {
	e := &ensemble{
		rng: rand.New(rand.NewPCG(seed, 7)), h: &history.History{WallStart: 1_700_000_000_000_000_000},
		sessions: map[int64]*simSession{}, nextID: 0x100, root: "/t", crashes: true,
	}
	e.opt.ExtendedTypes = true
	for range 3 {
		e.replicas = append(e.replicas,
			&replica{e: e, m: newModel(&e.opt), data: map[string]map[*simConn]uint8{}, child: map[string]map[*simConn]uint8{}})
	}
	for i := range clients {
		id := jute.ID{Scheme: "digest", ID: "u" + string(rune('0'+i%4)) + ":x="}
		e.clients = append(e.clients, &simClient{
			ids: []jute.ID{id}, pending: map[int32]history.Event{},
			mix: &traffic.Mix{
				Root: e.root, Name: "c" + string(rune('a'+i)), Persistent: i%3 == 2, TTL: true, Identity: id,
				Rand: rand.New(rand.NewPCG(seed, uint64(i))),
			},
		})
	}
	return e
}

// run makes a history of about n requests and lets everything come to rest.
func (e *ensemble) run(n int) *history.History {
	first := e.clients[0]
	e.connect(first)
	r := jute.CreateRequest{Path: e.root, ACL: jute.WorldACL(jute.PermAll)}
	e.send(first, jute.OpCreate, r.Append(nil))
	e.drain()
	sent := 0
	for sent < n {
		e.now += int64(1000 + e.rng.IntN(200_000))
		switch e.rng.IntN(10) {
		case 0, 1, 2, 3:
			sent += e.step(e.clients[e.rng.IntN(len(e.clients))])
		case 4, 5:
			e.serve()
		case 6, 7:
			if i := e.rng.IntN(len(e.replicas)); i > 0 || e.bug != "reconnect anywhere" || e.rng.IntN(20) == 0 {
				e.replicas[i].apply()
			}
		default:
			e.deliver()
		}
		e.expire()
	}
	for _, c := range e.clients {
		if c.conn == nil {
			e.connect(c)
		}
	}
	e.drain()
	for _, c := range e.clients {
		q := jute.PathRequest{Path: "/"}
		e.send(c, jute.OpSync, q.Append(nil))
	}
	e.drain()
	e.inspect()
	return e.h
}

// inspect has the last clients read everything, so that nothing stays unseen.
func (e *ensemble) inspect() {
	c := e.clients[0]
	paths := make([]string, 0, len(e.replicas[0].m.nodes))
	for p, n := range e.replicas[0].m.nodes {
		if strings.HasPrefix(p, e.root) && n.now() != nil {
			paths = append(paths, p)
		}
	}
	sort.Strings(paths)
	for _, p := range paths {
		q := jute.PathWatchRequest{Path: p}
		e.send(c, jute.OpGetData, q.Append(nil))
		e.send(c, jute.OpGetChildren2, q.Append(nil))
		e.drain()
	}
}

func (e *ensemble) record(ev history.Event) {
	ev.Time = e.now
	e.now += 1000
	e.h.Events = append(e.h.Events, ev)
}

// step lets a client do something and returns the number of requests sent.
func (e *ensemble) step(c *simClient) int {
	switch {
	case c.conn == nil:
		if e.now >= c.sleep {
			e.connect(c)
		}
		return 0
	case c.conn.closing:
		return 0
	case e.gentle && c.leaving && c.open > 0:
		return 0
	case e.gentle && !c.leaving && e.rng.IntN(40) == 0:
		c.leaving = true
		return 0
	case e.crashes && !e.gentle && e.rng.IntN(60) == 0, c.leaving:
		c.leaving = false
		c.sleep = e.now + int64(e.rng.IntN(20))*1e6
		if e.rng.IntN(4) == 0 && !e.prompt {
			c.sleep += 2 * simTimeout * 1e6
		}
		e.disconnect(c)
		return 0
	case e.rng.IntN(400) == 0:
		e.send(c, jute.OpCloseSession, nil)
		c.conn.closing = true
		return 1
	case c.open >= 4:
		return 0
	}
	op, body := c.mix.Next()
	if e.mostlyReads && e.rng.IntN(5) > 0 {
		op, body = c.mix.GetData()
	}
	e.send(c, op, body)
	return 1
}

func (e *ensemble) send(c *simClient, op jute.Op, body []byte) {
	c.xid++
	ev := history.Event{Kind: history.KindRequest, Conn: c.conn.id, Xid: c.xid, Num: int32(op), Body: body}
	e.record(ev)
	ev.Time = e.now
	c.conn.in = append(c.conn.in, &simRequest{event: ev, entry: -1, sync: -1})
	c.open++
	c.pending[c.xid] = ev
}

func (e *ensemble) connect(c *simClient) {
	k := &simConn{id: e.conns, client: c}
	e.conns++
	for _, i := range e.rng.Perm(len(e.replicas)) {
		if r := e.replicas[i]; r.zxid >= c.zxid || e.bug == "reconnect anywhere" {
			k.r = r
		}
	}
	if k.r == nil {
		for k.r = e.replicas[0]; k.r.zxid < c.zxid; {
			k.r.apply()
		}
	}
	s := c.session
	ask := int64(0)
	if s != nil {
		ask = s.id
	}
	e.record(history.Event{Kind: history.KindConnect, Conn: k.id, Zxid: c.zxid, Session: ask, Num: simTimeout})
	if s != nil && s.ended {
		e.record(history.Event{Kind: history.KindConnected, Conn: k.id})
		e.record(history.Event{Kind: history.KindDisconnect, Conn: k.id})
		*c = simClient{mix: c.mix, ids: c.ids, pending: map[int32]history.Event{}}
		return
	}
	c.conn = k
	if s == nil {
		e.nextID++
		s = &simSession{id: e.nextID, client: c, cnx: int64(k.id) + 1}
		e.sessions[s.id] = s
		c.session, c.xid, c.zxid = s, 0, 0
		e.commit(history.Entry{Session: s.id, Cnx: s.cnx, Op: jute.OpCreateSession, Body: jute.AppendInt(nil, simTimeout)})
		k.r.applyAll()
	}
	s.cnx, s.seq, s.lastSeen = int64(k.id)+1, 0, e.now
	e.record(history.Event{Kind: history.KindConnected, Conn: k.id, Session: s.id, Num: simTimeout})
	for i := range c.ids {
		e.record(history.Event{Kind: history.KindIdentity, Conn: k.id, Body: c.ids[i].Append(nil)})
	}
	e.resetWatches(c)
}

func (e *ensemble) resetWatches(c *simClient) {
	w := jute.SetWatches{RelativeZxid: c.zxid}
	for i, list := range []*[]string{&w.Data, &w.Exist, &w.Child} {
		*list = []string{}
		for p := range c.watches[i] {
			*list = append(*list, p)
		}
		sort.Strings(*list)
		c.watches[i] = map[string]bool{}
	}
	if len(w.Data)+len(w.Exist)+len(w.Child) > 0 {
		e.send(c, jute.OpSetWatches, w.Append(nil, jute.OpSetWatches))
	}
}

func (e *ensemble) disconnect(c *simClient) {
	k := c.conn
	for _, r := range k.in { // some were already on their way to the leader
		if r.entry < 0 && e.rng.IntN(2) == 0 && jute.Op(r.event.Num).IsWrite() {
			e.propose(k, r)
		} else if r.entry < 0 {
			break
		}
	}
	e.drop(k)
	e.record(history.Event{Kind: history.KindDisconnect, Conn: k.id})
	c.conn, c.open, c.pending = nil, 0, map[int32]history.Event{}
}

func (e *ensemble) drop(k *simConn) {
	k.dead = true
	for _, table := range []map[string]map[*simConn]uint8{k.r.data, k.r.child} {
		for _, set := range table {
			delete(set, k)
		}
	}
}

func (e *ensemble) commit(en history.Entry) int {
	en.Zxid = int64(len(e.log) + 1)
	en.Time = (e.now + e.h.WallStart) / 1e6
	en.Applied = true
	e.log = append(e.log, en)
	return len(e.log) - 1
}

func (e *ensemble) propose(k *simConn, r *simRequest) {
	s := k.client.session
	s.seq++
	r.entry = e.commit(history.Entry{
		Session: s.id, Cnx: int64(k.id) + 1, Seq: s.seq, Xid: r.event.Xid, Op: jute.Op(r.event.Num), Body: r.event.Body,
	})
	if e.bug == "request applied twice" && e.rng.IntN(20) == 0 {
		e.commit(e.log[r.entry])
	}
	if jute.Op(r.event.Num) == jute.OpCloseSession {
		s.ended = true
	}
}

// serve lets one replica take up the next request of one connection.
func (e *ensemble) serve() {
	c := e.clients[e.rng.IntN(len(e.clients))]
	if k := c.conn; k != nil && len(k.in) > 0 {
		e.serveOne(k)
	}
}

func (e *ensemble) serveOne(k *simConn) {
	r := k.in[0]
	op := jute.Op(r.event.Num)
	switch {
	case op.IsWrite():
		if r.entry < 0 {
			e.propose(k, r)
		}
		return // answered when applied
	case op == jute.OpSync:
		if r.sync < 0 && e.bug != "sync waits for nothing" {
			r.sync = len(e.log)
		}
		if k.r.applied < r.sync {
			return
		}
	}
	k.in = k.in[1:]
	code, body := k.r.read(k, op, r.event.Body)
	zxid := k.r.zxid
	if e.bug == "read claims the newest zxid" {
		zxid = int64(len(e.log))
	}
	k.out = append(k.out,
		history.Event{Kind: history.KindReply, Conn: k.id, Xid: r.event.Xid, Zxid: zxid, Num: int32(code), Body: body})
}

// deliver hands one packet to one client.
func (e *ensemble) deliver() {
	c := e.clients[e.rng.IntN(len(e.clients))]
	if c.conn != nil && len(c.conn.out) > 0 {
		e.deliverOne(c)
	}
}

func (e *ensemble) deliverOne(c *simClient) {
	k := c.conn
	ev := k.out[0]
	k.out = k.out[1:]
	if ev.Kind == history.KindNotification {
		var w jute.WatcherEvent
		w.Decode(jute.NewDecoder(ev.Body))
		for i := range c.watches {
			if i < 2 != (w.Type == jute.EventNodeChildrenChanged) || w.Type == jute.EventNodeDeleted {
				delete(c.watches[i], w.Path)
			}
		}
		if ev.Zxid > 0 {
			c.zxid = max(c.zxid, ev.Zxid)
		}
		e.record(ev)
		return
	}
	c.zxid = max(c.zxid, ev.Zxid)
	req := c.pending[ev.Xid]
	delete(c.pending, ev.Xid)
	c.open--
	c.session.lastSeen = max(c.session.lastSeen, req.Time)
	c.noteWatch(&req, ev.Code())
	e.record(ev)
	if req.Op() == jute.OpCloseSession {
		e.drop(k)
		e.record(history.Event{Kind: history.KindDisconnect, Conn: k.id})
		*c = simClient{mix: c.mix, ids: c.ids, pending: map[int32]history.Event{}}
	}
}

func (c *simClient) noteWatch(req *history.Event, code jute.Code) {
	var q jute.PathWatchRequest
	switch req.Op() {
	case jute.OpGetData, jute.OpExists, jute.OpGetChildren, jute.OpGetChildren2:
		q.Decode(jute.NewDecoder(req.Body))
	}
	i := 0
	switch {
	case !q.Watch:
		return
	case req.Op() == jute.OpExists && code == jute.ErrNoNode:
		i = 1
	case code != jute.OK:
		return
	case req.Op() == jute.OpGetChildren, req.Op() == jute.OpGetChildren2:
		i = 2
	}
	if c.watches[i] == nil {
		c.watches[i] = map[string]bool{}
	}
	c.watches[i][q.Path] = true
}

// expire ends sessions whose clients have been silent too long.
func (e *ensemble) expire() {
	for _, c := range e.clients {
		s := c.session
		if s == nil || s.ended || c.conn != nil || e.now < s.lastSeen+simTimeout*1e6+2e6 {
			continue
		}
		s.ended = true
		e.commit(history.Entry{Session: s.id, Op: jute.OpCloseSession})
	}
}

// drain serves, applies and delivers until nothing is left to do.
func (e *ensemble) drain() {
	for busy := true; busy; {
		busy = false
		for _, r := range e.replicas {
			for r.applied < len(e.log) {
				r.apply()
				busy = true
			}
		}
		for _, c := range e.clients {
			for c.conn != nil && len(c.conn.in) > 0 {
				before := len(c.conn.in)
				e.serveOne(c.conn)
				for _, r := range e.replicas {
					for r.applied < len(e.log) {
						r.apply()
					}
				}
				busy = busy || len(c.conn.in) < before
			}
			for c.conn != nil && len(c.conn.out) > 0 {
				e.deliverOne(c)
				busy = true
			}
			if c.conn == nil {
				e.connect(c)
				busy = true
			}
		}
	}
}

func (r *replica) applyAll() {
	for r.applied < len(r.e.log) {
		r.apply()
	}
}

func (r *replica) apply() {
	if r.applied == len(r.e.log) {
		return
	}
	en := &r.e.log[r.applied]
	r.applied++
	r.zxid = en.Zxid
	var ids []jute.ID
	if s := r.e.sessions[en.Session]; s != nil {
		ids = r.e.idsOf(en.Session)
	}
	t := &stamp{zxid: en.Zxid, ms: en.Time, known: true}
	var d jute.Decoder
	r.m.trail = r.m.trail[:0]
	var survivor *node
	if owned := r.m.ephemerals[en.Session]; r.e.bug == "session's end forgets an ephemeral" &&
		en.Op == jute.OpCloseSession && len(owned) > 0 {
		survivor = owned[0]
		r.m.disown(survivor, en.Session)
	}
	if r.e.bug == "sequence numbers count children" {
		r.recount(en)
	}
	out := r.m.apply(&request{zxid: en.Zxid, stamp: t, session: en.Session, ids: ids, op: en.Op, body: &en.Body}, &d)
	if survivor != nil {
		r.m.own(survivor, en.Session)
	}
	en.Err = out.err
	en.Digest = en.Digest ^ uint64(en.Zxid)*0x9e3779b97f4a7c15
	if r.applied > 0 && en.Digest == 0 {
		en.Digest = uint64(en.Zxid)
	}
	if r.e.bug != "events after replies" {
		r.fire(en.Zxid)
	} else {
		defer r.fire(en.Zxid)
	}
	for _, c := range r.e.clients {
		k := c.conn
		if k == nil || k.r != r || len(k.in) == 0 || k.in[0].entry != r.applied-1 {
			continue
		}
		q := k.in[0]
		k.in = k.in[1:]
		k.out = append(k.out,
			history.Event{
				Kind: history.KindReply, Conn: k.id, Xid: q.event.Xid, Zxid: en.Zxid, Num: int32(out.err), Body: replyBody(en.Op,
					&out),
			})
	}
}

// recount makes the next sequential create take the number of children.
func (r *replica) recount(en *history.Entry) {
	if en.Op != jute.OpCreate && en.Op != jute.OpCreate2 {
		return
	}
	var q jute.CreateRequest
	q.Decode(jute.NewDecoder(en.Body))
	if n := r.m.node(parentPath(q.Path)); q.Flags.Sequential() && n.now() != nil {
		s := *n.now()
		s.creations = s.numChildren
		r.m.set(n, en.Zxid, &s)
	}
}

func (e *ensemble) idsOf(session int64) []jute.ID { return e.sessions[session].client.ids }

func replyBody(op jute.Op, out *outcome) []byte {
	if out.err != jute.OK {
		return nil
	}
	switch op {
	case jute.OpCreate:
		return jute.AppendString(nil, out.n.path)
	case jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		s := out.s.stat()
		return s.Append(jute.AppendString(nil, out.n.path))
	case jute.OpSetData, jute.OpSetACL:
		s := out.s.stat()
		return s.Append(nil)
	case jute.OpMulti:
		var b []byte
		for _, p := range out.parts {
			m := jute.MultiResult{Op: p.op, Err: p.err}
			if p.n != nil && p.op != jute.OpError {
				m.Path = p.n.path
			}
			if p.s != nil {
				m.Stat = p.s.stat()
			}
			b = m.Append(b)
		}
		return jute.AppendMultiEnd(b)
	}
	return nil
}

func (r *replica) fire(zxid int64) {
	var told []*simConn
	for _, f := range r.m.events {
		table := r.data
		if f.table != tableData {
			table = r.child
		}
		if f.table != tableChildAfterData {
			told = nil
		}
		tell := func(set map[*simConn]uint8, mask uint8) {
			var list []*simConn
			for k, mode := range set {
				if mode&mask != 0 {
					list = append(list, k)
				}
			}
			sort.Slice(list, func(i, j int) bool { return list[i].id < list[j].id })
			for _, k := range list {
				if set[k] &^= modeStandard & mask; set[k] == 0 {
					delete(set, k)
				}
				if k.dead || slices.Contains(told, k) {
					continue
				}
				told = append(told, k)
				if acls.Permits(f.acl, jute.PermRead, k.client.ids) || r.e.opt.EventsUnfiltered {
					k.out = append(k.out, r.note(k, f.typ, f.n.path, zxid))
				}
			}
		}
		tell(table[f.n.path], 7)
		for p := f.n.parent; f.table == tableData && p != nil; p = p.parent {
			tell(table[p.path], modeRecursive)
		}
	}
}

func (r *replica) note(k *simConn, typ jute.EventType, path string, zxid int64) history.Event {
	if r.e.unnumbered {
		zxid = -1
	}
	w := jute.WatcherEvent{Type: typ, State: jute.StateSyncConnected, Path: path}
	return history.Event{
		Kind: history.KindNotification, Conn: k.id, Zxid: zxid, Xid: jute.XidNotification, Body: w.Append(nil),
	}
}

func (r *replica) arm(table map[string]map[*simConn]uint8, path string, k *simConn, mode uint8) {
	if table[path] == nil {
		table[path] = map[*simConn]uint8{}
	}
	table[path][k] |= mode
}

// read answers everything that takes no zxid.
func (r *replica) read(k *simConn, op jute.Op, body []byte) (jute.Code, []byte) {
	d := jute.NewDecoder(body)
	ids := k.client.ids
	switch op {
	case jute.OpGetData, jute.OpExists, jute.OpGetChildren, jute.OpGetChildren2:
		var q jute.PathWatchRequest
		q.Decode(d)
		code, reply := r.readNode(op, q.Path, ids)
		if q.Watch && (code == jute.OK || op == jute.OpExists && code == jute.ErrNoNode) {
			table := r.data
			if op == jute.OpGetChildren || op == jute.OpGetChildren2 {
				table = r.child
			}
			r.arm(table, q.Path, k, modeStandard)
		}
		return code, reply
	case jute.OpGetACL, jute.OpGetAllChildrenNumber:
		return r.readNode(op, d.String(), ids)
	case jute.OpGetEphemerals:
		prefix := d.String()
		names := []string{}
		for _, n := range r.m.ephemerals[k.client.session.id] {
			if strings.HasPrefix(n.path, prefix) {
				names = append(names, n.path)
			}
		}
		return jute.OK, jute.AppendStrings(nil, names)
	case jute.OpMultiRead:
		return jute.OK, r.multiRead(d, ids)
	case jute.OpSync:
		return jute.OK, body
	case jute.OpAddWatch:
		var q jute.AddWatchRequest
		q.Decode(d)
		if q.Mode == jute.AddWatchPersistentRecursive {
			r.arm(r.data, q.Path, k, modeRecursive)
		} else {
			r.arm(r.data, q.Path, k, modePersistent)
			r.arm(r.child, q.Path, k, modePersistent)
		}
		return jute.OK, jute.AppendInt(nil, 0)
	case jute.OpRemoveWatches:
		var q jute.WatchesRequest
		q.Decode(d)
		if r.data[q.Path][k]|r.child[q.Path][k] == 0 {
			return jute.ErrNoWatcher, nil
		}
		delete(r.data[q.Path], k)
		delete(r.child[q.Path], k)
		return jute.OK, nil
	case jute.OpSetWatches:
		r.setWatches(k, d)
		return jute.OK, nil
	}
	panic("the ensemble doesn't know " + op.String())
}

func (r *replica) setWatches(k *simConn, d *jute.Decoder) {
	var q jute.SetWatches
	q.Decode(d, jute.OpSetWatches)
	late := func(typ jute.EventType, path string) { k.out = append(k.out, r.note(k, typ, path, -1)) }
	for _, p := range q.Data {
		switch s := r.m.node(p).now(); {
		case s == nil:
			late(jute.EventNodeDeleted, p)
		case s.mzxid > q.RelativeZxid:
			late(jute.EventNodeDataChanged, p)
		default:
			r.arm(r.data, p, k, modeStandard)
		}
	}
	for _, p := range q.Exist {
		if r.m.node(p).now() != nil {
			late(jute.EventNodeCreated, p)
		} else {
			r.arm(r.data, p, k, modeStandard)
		}
	}
	for _, p := range q.Child {
		switch s := r.m.node(p).now(); {
		case s == nil:
			late(jute.EventNodeDeleted, p)
		case s.pzxid > q.RelativeZxid:
			late(jute.EventNodeChildrenChanged, p)
		default:
			r.arm(r.child, p, k, modeStandard)
		}
	}
}

func (r *replica) multiRead(d *jute.Decoder, ids []jute.ID) []byte {
	ops, err := jute.DecodeMulti(d)
	if err != nil {
		panic(err)
	}
	var b []byte
	for _, o := range ops {
		code, reply := r.readNode(o.Op, o.Path, ids)
		m := jute.MultiResult{Op: o.Op, Err: code}
		rd := jute.NewDecoder(reply)
		switch {
		case code != jute.OK:
			m.Op = jute.OpError
		case o.Op == jute.OpGetData:
			m.Data = rd.Buffer()
			m.Stat.Decode(rd)
		default:
			m.Children = rd.Strings()
		}
		b = m.Append(b)
	}
	return jute.AppendMultiEnd(b)
}

func (r *replica) readNode(op jute.Op, path string, ids []jute.ID) (jute.Code, []byte) {
	n := r.m.node(path)
	s := n.now()
	perms := jute.PermRead
	if op == jute.OpGetACL {
		perms |= jute.PermAdmin
	}
	if s == nil {
		return jute.ErrNoNode, nil
	}
	if !acls.Permits(s.acl, perms, ids) {
		return jute.ErrNoAuth, nil
	}
	stat := s.stat()
	names := []string{}
	for _, c := range n.children {
		names = append(names, c.path[strings.LastIndexByte(c.path, '/')+1:])
	}
	switch op {
	case jute.OpGetData:
		return jute.OK, stat.Append(jute.AppendBuffer(nil, s.data))
	case jute.OpExists:
		return jute.OK, stat.Append(nil)
	case jute.OpGetACL:
		return jute.OK, stat.Append(jute.AppendACLs(nil, acls.Mask(s.acl, ids)))
	case jute.OpGetChildren:
		return jute.OK, jute.AppendStrings(nil, names)
	case jute.OpGetAllChildrenNumber:
		return jute.OK, jute.AppendInt(nil, descendants(n))
	}
	return jute.OK, stat.Append(jute.AppendStrings(nil, names))
}

// descendants counts what exists below n.
func descendants(n *node) int32 {
	total := int32(len(n.children))
	for _, c := range n.children {
		total += descendants(c)
	}
	return total
}
