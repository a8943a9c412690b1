package sim

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/internal/proof/traffic"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// root is the znode below which all clients work.
const root = "/sim"

// digests are the users that clients authenticate as.
var digests = [...]string{"anna:1", "", "bert:2", ""}

// task is what a client is doing.
type task uint8

const (
	working    task = iota // sending requests of the mix
	settling               // sending a sync, so that everything before it has been answered
	inspecting             // reading every znode
	resting
)

// A client is a ZooKeeper client that works like the client libraries. It
// records what it sends and receives.
type client struct {
	w     *World
	index int
	dice  *rand.Rand
	mix   *traffic.Mix
	brief *rand.Rand // for requests about short-lived znodes
	user  string
	only  *host // the only server it connects to; nil for any
	task  task

	session int64
	passwd  []byte
	timeout int64 // ns
	zxid    int64
	xid     int32
	watches traffic.Watches
	closing bool  // a closeSession is under way
	closed  bool  // one was sent in this session
	wrote   bool  // a write was sent in this session
	born    *life // the process on which the session began
	quiet   int   // read-only requests left at the session's beginning

	silent   bool // its actions aren't recorded
	asksRO   bool // it accepts a read-only session
	readOnly bool // its session is read-only
	commands []command
	frozen   int      // number of faults that freeze it
	missed   []func() // arrivals meanwhile
	unsure   int64    // until then a change of membership may be under way

	conn      *conn
	attempt   int // numbers connections, so that timers know theirs
	connected bool
	greeted   bool
	pending   []call
	sent      int64 // when it last sent a packet
	heard     int64
	alive     int64 // when it sent the last packet that was answered
	aliveOn   *host // the server that answered it
	thinking  bool
	left      int // requests not sent yet
	paths     []string
	server    *host // the server it is connected or connecting to
}

// call is a request that has not been answered yet.
type call struct {
	xid  int32
	op   jute.Op
	body []byte
	at   int64 // when it was sent
}

func newClient(w *World, index int) *client {
	c := &client{
		w: w, index: index, dice: dice(w.plan.Seed, fmt.Sprint("client", index)), user: digests[index%len(digests)],
		left: w.plan.Requests,
	}
	c.brief = dice(w.plan.Seed, fmt.Sprint("brief", index))
	c.mix = &traffic.Mix{
		Root: root, Name: fmt.Sprint(index), Wide: w.plan.Wide, TTL: w.plan.TTL, Life: w.plan.Life, Persistent: index%3 == 2,
		Rand: c.dice,
	}
	if c.user != "" {
		c.mix.Identity = traffic.DigestID(c.user)
	}
	c.asksRO = w.plan.ReadOnly && index%2 == 1
	c.begin()
	return c
}

// record adds e to the history unless the client is silent.
func (c *client) record(e history.Event) {
	if !c.silent {
		c.w.record(e)
	}
}

// connect tries to connect to a server.
func (c *client) connect() {
	if c.conn != nil {
		return
	}
	c.attempt++
	c.server = c.only
	if c.only == nil {
		c.server = c.w.servers[c.dice.IntN(len(c.w.servers))]
	}
	attempt := c.attempt
	c.w.after(dialPatience, func() {
		if c.attempt == attempt && c.conn == nil {
			c.again(0) // no answer in time
		}
	})
	c.dial(c.server)
}

// again connects after a pause.
func (c *client) again(pause int64) {
	c.attempt++
	attempt := c.attempt
	c.w.after(pause, func() {
		if c.attempt == attempt {
			c.connect()
		}
	})
}

// reconnectPause is how long a client waits before it tries another server.
func (c *client) reconnectPause() int64 { return between(c.dice, 5*millisecond, 300*millisecond) }

// dialled starts the handshake on a new connection; nil means that there is none.
func (c *client) dialled(k *conn) {
	if k == nil {
		c.again(c.reconnectPause())
		return
	}
	w := c.w
	c.conn, c.connected, c.greeted, c.pending = k, false, false, nil
	c.sent, c.heard = w.now, w.now
	q := jute.ConnectRequest{
		LastZxidSeen: c.zxid, Timeout: int32(c.asksTimeout() / millisecond), SessionID: c.session, Passwd: c.passwd,
		HasReadOnly: true, ReadOnly: c.asksRO,
	}
	if q.Passwd == nil {
		q.Passwd = make([]byte, jute.PasswdSize)
	}
	c.record(history.Event{
		Kind: history.KindConnect, Conn: k.id, Zxid: q.LastZxidSeen, Session: q.SessionID, Num: q.Timeout,
	})
	k.write(jute.AppendFrame(nil, q.Append))
	w.stats.Connects++
	c.timeout = c.asksTimeout()
	c.beat(k)
}

// beat sends pings and gives up on a server that stays silent.
func (c *client) beat(k *conn) {
	c.w.after(c.timeout/6, func() {
		switch {
		case c.conn != k:
			return
		case c.frozen > 0:
			c.awake(func() { c.beat(k) })
			return
		case c.w.now-c.heard > c.timeout*2/3:
			c.w.ledger.keeps(c)
			c.drop(c.reconnectPause())
			return
		case c.greeted && c.w.now-c.sent >= c.timeout/3:
			c.send(jute.OpPing, jute.XidPing, nil)
		}
		c.stuck()
		c.beat(k)
	})
}

// answerPatience is how long a request may take when nothing is in the way.
const answerPatience = 3 * second / 2

// stuck fails the World if a request has waited too long for its reply.
func (c *client) stuck() {
	if len(c.pending) == 0 || c.conn.closed || c.conn.l.ended {
		return
	}
	q := c.pending[0]
	patience := int64(answerPatience)
	if q.op == jute.OpReconfig {
		patience += lagPatience // time for a server that was empty to ask to join, twice at worst, and to catch up
	}
	if w := c.w; !slices.Contains(w.members(), c.server) && !slices.Contains(w.guests(), c.server) {
		patience += lagPatience // a removed server of an older version has to notice that its leader is silent
	}
	if waits := c.w.now - max(q.at, c.w.excusedTo(), c.w.heldAt, c.server.heldTo); waits > patience {
		c.w.fail("liveness: client %d waits for server %d to answer its %s of %.6f s, with nothing in the way", c.index,
			c.server.id, q.op, float64(q.at)/1e9)
	}
}

// drop ends the connection and connects again after a pause.
func (c *client) drop(pause int64) {
	if k := c.conn; k != nil {
		c.record(history.Event{Kind: history.KindDisconnect, Conn: k.id})
		c.conn, c.connected, c.greeted, c.pending, c.closing = nil, false, false, nil, false
		k.hangUp()
	}
	if c == c.w.restorer {
		// What it asked for may or may not have been done; nothing tells it.
		c.w.restoring.stored, c.task = nil, resting
		c.attempt++
		c.forget()
		return
	}
	if c.w.keeping.is(c) && c.w.healed {
		return
	}
	if c.readOnly && chance(c.dice, 70) || c.asksRO && !c.readOnly && chance(c.dice, 30) {
		// Otherwise it tries to resume the session, and is refused.
		zxid := c.zxid
		c.forget()
		if chance(c.dice, 50) {
			c.zxid = zxid // it remembers the last zxid seen
		}
	}
	c.again(pause)
}

// lost handles the end of the connection by the server.
func (c *client) lost(k *conn) {
	c.awake(func() {
		if c.conn == k {
			c.drop(c.reconnectPause())
		}
	})
}

// forget drops the session and begins a new life.
func (c *client) forget() {
	c.session, c.passwd, c.zxid, c.xid, c.watches, c.readOnly = 0, nil, 0, 0, traffic.Watches{}, false
	c.begin()
}

// begin decides how the next session begins: a local session may only read at first.
func (c *client) begin() {
	if c.w.plan.Local && c.index > 0 {
		c.quiet = pick(c.dice, 0, 0, 5, 30)
	}
}

// send sends a request; xid 0 means the next xid.
func (c *client) send(op jute.Op, xid int32, body []byte) {
	c.closed = c.closed || op == jute.OpCloseSession
	c.wrote = c.wrote || writes(op)
	if xid == 0 {
		c.xid++
		xid = c.xid
	}
	c.pending = append(c.pending, call{xid, op, body, c.w.now})
	c.sent = c.w.now
	c.w.stats.Requests++
	c.record(history.Event{Kind: history.KindRequest, Conn: c.conn.id, Xid: xid, Num: int32(op), Body: body})
	c.conn.write(jute.AppendRequest(nil, xid, op, jute.Encoded(body)))
}

// freeze stops the client for a while. When it resumes, it sends a request
// before it handles anything that has arrived meanwhile.
func (c *client) freeze(d int64) {
	c.frozen++
	c.w.after(d, func() {
		if c.frozen--; c.frozen > 0 {
			return
		}
		if c.greeted && !c.closing && c.conn != nil {
			q := jute.PathWatchRequest{Path: root}
			c.send(jute.OpExists, 0, q.Append(nil))
		}
		missed := c.missed
		c.missed = nil
		for _, run := range missed {
			run()
		}
	})
}

// awake calls run now or, if the client is frozen, when it resumes.
func (c *client) awake(run func()) {
	if c.frozen > 0 {
		c.missed = append(c.missed, run)
		return
	}
	run()
}

// received handles bytes from the server.
func (c *client) received(k *conn, b []byte) {
	if c.conn != k {
		return
	}
	if c.frozen > 0 {
		c.awake(func() { c.received(k, b) })
		return
	}
	c.heard = c.w.now
	k.clientIn = append(k.clientIn, b...)
	for c.conn == k && len(k.clientIn) >= 4 {
		n := int(binary.BigEndian.Uint32(k.clientIn))
		if len(k.clientIn) < 4+n {
			return
		}
		frame := k.clientIn[4 : 4+n : 4+n]
		k.clientIn = k.clientIn[4+n:]
		if !c.connected {
			c.answered(k, frame)
		} else {
			c.frame(k, frame)
		}
	}
}

// driftMargin bounds clock drift: it shortens a session's timeout by at most one part in driftMargin.
const driftMargin = 1000

// answered handles the reply to the connect request.
func (c *client) answered(k *conn, frame []byte) {
	var a jute.ConnectResponse
	d := jute.NewDecoder(frame)
	a.Decode(d)
	if d.Err() != nil {
		c.w.fail("client %d can't decode the reply to its connect request: %v", c.index, d.Err())
		return
	}
	// Record the shortest time that clock drift can make of the timeout.
	c.record(history.Event{
		Kind: history.KindConnected, Conn: k.id, Session: a.SessionID, Num: a.Timeout - a.Timeout/driftMargin,
	})
	if a.Timeout <= 0 {
		c.w.ledger.refused(c, k.l)
		c.w.stats.Expired++
		c.forget()
		c.drop(c.reconnectPause())
		return
	}
	if a.SessionID != c.session {
		c.born, c.closed, c.wrote = k.l, false, false
	}
	c.session, c.passwd, c.timeout = a.SessionID, append([]byte(nil), a.Passwd...), int64(a.Timeout)*millisecond
	c.connected, c.readOnly = true, a.ReadOnly
	if c.user != "" {
		p := jute.AuthPacket{Scheme: "digest", Auth: []byte(c.user)}
		c.send(jute.OpAuth, jute.XidAuth, p.Append(nil))
		return
	}
	c.greet()
}

// greet sends the first requests of every new connection.
func (c *client) greet() {
	c.greeted = true
	if op, body := c.watches.Request(c.zxid); body != nil {
		c.send(op, 0, body)
	}
	if c.mix != nil && (c.zxid == 0 && c.quiet == 0 || c.w.plan.Local && c.task == settling) {
		c.createRoot()
	}
	c.work()
}

// createRoot asks for the root, the parent of all other znodes of the mix.
func (c *client) createRoot() {
	q := jute.CreateRequest{Path: root, ACL: jute.WorldACL(jute.PermAll)}
	c.send(jute.OpCreate, 0, q.Append(nil))
}

// frame handles a reply or a notification.
func (c *client) frame(k *conn, frame []byte) {
	var h jute.ReplyHeader
	d := jute.NewDecoder(frame)
	h.Decode(d)
	if d.Err() != nil {
		c.w.fail("client %d got a frame of %d bytes", c.index, len(frame))
		return
	}
	body := append([]byte(nil), frame[jute.ReplyHeaderSize:]...)
	c.zxid = max(c.zxid, h.Zxid)
	if h.Xid == jute.XidNotification {
		c.w.stats.Events++
		c.record(history.Event{Kind: history.KindNotification, Conn: k.id, Zxid: h.Zxid, Body: body})
		var e jute.WatcherEvent
		e.Decode(d)
		c.watches.Fired(&e)
		return
	}
	c.w.stats.Replies++
	if c.readOnly {
		c.w.stats.ReadOnly++
	}
	switch h.Err {
	case jute.ErrThrottledOp:
		c.w.stats.Throttled++
	case jute.ErrEphemeralOnLocalSession:
		c.w.stats.Confined++
	}
	c.record(history.Event{Kind: history.KindReply, Conn: k.id, Xid: h.Xid, Zxid: h.Zxid, Num: int32(h.Err), Body: body})
	for i := range c.pending {
		if c.pending[i].xid == h.Xid {
			q := c.pending[i]
			if q.at > c.alive {
				c.alive, c.aliveOn = q.at, k.l.s
			}
			c.pending = append(c.pending[:i:i], c.pending[i+1:]...)
			c.reply(k, q, h.Err, body)
			return
		}
	}
}

// reply handles the reply to a request and continues.
func (c *client) reply(k *conn, q call, code jute.Code, body []byte) {
	c.watches.Answered(q.op, q.body, code)
	if c == c.w.restorer && (q.op == jute.OpCreate || q.op == tree.OpRestore) && c.w.restoring.stored != nil {
		c.restored(q.op, code)
	}
	switch q.op {
	case jute.OpAuth:
		if code == jute.OK {
			id := traffic.DigestID(c.user)
			c.record(history.Event{Kind: history.KindIdentity, Conn: k.id, Body: id.Append(nil)})
			c.greet()
		}
		return
	case jute.OpCloseSession:
		c.forget()
		c.drop(c.reconnectPause())
		return
	case jute.OpCreate, jute.OpCreate2:
		var p jute.CreateRequest
		if p.Decode(jute.NewDecoder(q.body)); c.w.plan.Upgrading && code == jute.OK && p.Flags.Ephemeral() {
			c.w.stats.Upgraded++
		}
	case jute.OpSync:
		if c.task == settling && len(c.pending) == 0 && code == jute.OK {
			c.settle()
		}
	case jute.OpSetData:
		switch {
		case c.task != settling || len(c.pending) > 0:
		case code == jute.OK:
			c.task = resting
		case code == jute.ErrNoNode: // creating the root was refused for lack of room
			c.createRoot()
		}
	case jute.OpReconfig:
		if c == c.w.operator {
			c.operated(code)
		}
	case jute.OpGetChildren2:
		if c.task == inspecting && code == jute.OK {
			var p jute.PathWatchRequest
			p.Decode(jute.NewDecoder(q.body))
			for _, name := range jute.NewDecoder(body).Strings() {
				c.paths = append(c.paths, p.Path+"/"+name)
			}
		}
	}
	c.work()
}

// work sends whatever the client's task needs next.
func (c *client) work() {
	if !c.greeted || c.closing {
		return
	}
	switch c.task {
	case working:
		if c == c.w.operator {
			c.operate()
			return
		}
		if c == c.w.restorer {
			c.restoreNext()
			return
		}
		if c.w.keeping.is(c) {
			c.keepNext()
			return
		}
		c.think()
	case settling:
		if len(c.pending) == 0 && !c.thinking {
			c.later(settlePause, func() {
				if _, in := find(c.w.wanted, c.server.id); c.readOnly && !in {
					c.drop(c.reconnectPause()) // that server never gets a leader again
				} else if c.task == settling && c.greeted && len(c.pending) == 0 {
					q := jute.PathRequest{Path: root}
					c.send(jute.OpSync, 0, q.Append(nil))
				}
			})
		}
	case inspecting:
		c.inspect()
	}
}

// writes reports whether an operation puts the client's session into the log.
func writes(op jute.Op) bool { return op.IsWrite() && op != jute.OpCloseSession }

// settlePause is the time between two attempts to come to rest.
const settlePause = 20 * millisecond

// settle writes once more: the ensemble has recovered only when that is accepted.
func (c *client) settle() {
	if c.mix == nil {
		c.task = resting
		return
	}
	q := jute.SetDataRequest{Path: root, Data: c.mix.Value(), Version: -1}
	c.send(jute.OpSetData, 0, q.Append(nil))
}

// think sends the next request of the mix after a while.
func (c *client) think() {
	if c.thinking || c.left == 0 {
		return
	}
	c.thinking = true
	c.w.after(int64(c.dice.ExpFloat64()*float64(c.w.plan.Think)), func() {
		c.thinking = false
		if c.frozen > 0 {
			c.awake(c.work)
			return
		}
		if c.task != working || !c.greeted || c.closing {
			c.work()
			return
		}
		if len(c.pending) > c.dice.IntN(c.w.plan.Window) {
			return // the next reply continues
		}
		c.left--
		switch n := c.dice.IntN(1000); {
		case n < c.w.plan.Quits && c.readOnly:
			c.drop(c.reconnectPause())
			return
		case n < c.w.plan.Quits:
			c.closing = true
			c.send(jute.OpCloseSession, 0, nil)
			return
		case n < 2*c.w.plan.Quits:
			c.drop(c.reconnectPause())
			return
		case n < 2*c.w.plan.Quits+3:
			// Stay away until the session is over, or nearly so.
			c.drop(c.timeout + between(c.dice, -c.timeout/8, 2*c.w.plan.Tick+second/2))
			return
		}
		op, body := c.mix.Next()
		for c.quiet > 0 && writes(op) {
			op, body = c.mix.Next()
		}
		if c.quiet == 0 && chance(c.brief, briefShare) {
			op, body = c.shortLived()
		}
		if c.w.plan.Watchful && chance(c.brief, watchfulShare) {
			q := jute.AddWatchRequest{Path: fmt.Sprintf("%s/watched%d", root, c.brief.IntN(watchfulPaths))}
			op, body = jute.OpAddWatch, q.Append(nil)
		}
		c.quiet = max(c.quiet-1, 0)
		if chance(c.dice, c.w.plan.Syncs) {
			q := jute.PathRequest{Path: root}
			op, body = jute.OpSync, q.Append(nil)
		}
		c.send(op, 0, body)
		c.think()
	})
}

// Of a watchful client's requests watchfulShare percent watch one of watchfulPaths paths: more than a server forgets at
// once when the connection ends.
const (
	watchfulShare = 60
	watchfulPaths = 300
)

// briefShare is the percentage of requests about short-lived znodes.
const briefShare = 8

// shortLived draws a request about a container and its only child, or a TTL znode.
func (c *client) shortLived() (jute.Op, []byte) {
	path := fmt.Sprintf("%s/brief%d-%d", root, c.index, c.brief.IntN(2))
	q := jute.CreateTTLRequest{
		CreateRequest: jute.CreateRequest{Path: path, ACL: jute.WorldACL(jute.PermAll)}, TTL: 500 + c.brief.Int64N(2500),
	}
	switch n := c.brief.IntN(8); {
	case n < 3 && c.w.plan.TTL && c.index%2 == 0:
		q.Flags = jute.ModePersistentWithTTL
		return jute.OpCreateTTL, q.Append(nil)
	case n < 3:
		q.Flags = jute.ModeContainer
		return jute.OpCreateContainer, q.CreateRequest.Append(nil)
	case n < 5:
		q.Path += "/child"
		return jute.OpCreate, q.CreateRequest.Append(nil)
	case n < 7:
		r := jute.PathVersionRequest{Path: path + "/child", Version: -1}
		return jute.OpDelete, r.Append(nil)
	}
	r := jute.SetDataRequest{Path: path, Data: c.mix.Value(), Version: -1}
	return jute.OpSetData, r.Append(nil)
}

// inspectWindow is how many requests an inspecting client has under way.
const inspectWindow = 8

// inspect reads every znode below the root.
func (c *client) inspect() {
	for len(c.paths) > 0 && len(c.pending) < inspectWindow {
		q := jute.PathWatchRequest{Path: c.paths[0]}
		c.paths = c.paths[1:]
		c.send(jute.OpGetData, 0, q.Append(nil))
		c.send(jute.OpGetChildren2, 0, q.Append(nil))
	}
	if len(c.paths) == 0 && len(c.pending) == 0 {
		c.task = resting
	}
}
