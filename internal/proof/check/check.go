package check

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/jute"
)

// Check checks a whole history. It doesn't change h or the bytes of its bodies, takes memory of a small multiple of the
// history's size, and is deterministic. If the history has server logs, they give the order of changes, and no change
// is uncertain. Otherwise the zxids in the replies give the order.
func Check(h *history.History, opt Options) (rep *Report) {
	start := time.Now()
	c := &checker{h: h, opt: &opt, rep: &Report{Events: len(h.Events)}, sessions: map[int64]*session{}, m: newModel(&opt)}
	c.rep.Exact = len(h.Servers) > 0
	c.exact = c.rep.Exact
	rep = c.rep
	defer c.giveUp()
	c.wire()
	items := c.place()
	if c.exact {
		items = c.agree(items)
	}
	c.items = items
	together(func() {
		items = sortItems(items)
		c.firstAcks(items)
	}, func() { // doesn't need the order
		if c.exact {
			c.unlogged()
			c.holes()
			return
		}
		c.suppose()
		c.collectEvidence()
	})
	c.items = items
	c.sweep(items)
	c.watchEvents()
	c.checkDumps()
	c.immortals()
	c.afterEnd()
	c.rep.Unplaced = c.openWrites
	c.rep.Stale.fill(c.samples, c.rep.Reads)
	c.rep.Took = time.Since(start)
	return c.rep
}

// giveUp turns a panic of the checker itself into a violation. Only histories that no journal wrote are known to cause
// one: such a history isn't valid, and must not end a test run.
func (c *checker) giveUp() {
	if r := recover(); r != nil {
		c.rep.Violations = append(c.rep.Violations,
			Violation{
				Rule: Form, Reason: fmt.Sprintf("the checker failed on this history, which a journal would not have written like this: %v",
					r),
			})
	}
}

// together runs all tasks concurrently and returns when they have ended. If tasks panicked, it panics with the value of
// the first of them.
func together(tasks ...func()) {
	fails := make([]any, len(tasks))
	var all sync.WaitGroup
	for i, task := range tasks {
		all.Go(func() {
			defer func() { fails[i] = recover() }()
			task()
		})
	}
	all.Wait()
	for _, fail := range fails {
		if fail != nil {
			panic(fail)
		}
	}
}

// firstAcks prepares the measurement of staleness: for each write in order, the time of the first acknowledgement of
// that write or a later one.
func (c *checker) firstAcks(items []item) {
	c.acks = make([]ack, 0, c.rep.Acknowledged)
	for _, it := range items {
		if it.key&1 == 0 && it.ref >= 0 {
			c.acks = append(c.acks, ack{it.zxid(), c.h.Events[c.ops[it.ref].rep].Time})
		}
	}
	for i := len(c.acks) - 2; i >= 0; i-- {
		c.acks[i].time = min(c.acks[i].time, c.acks[i+1].time)
	}
}

type ack struct{ zxid, time int64 }

// stale measures how old the state at zxid was when a read was sent. Reads must come in the order of their zxids.
func (c *checker) stale(sent, zxid int64) {
	for c.nextAck < len(c.acks) && c.acks[c.nextAck].zxid <= zxid {
		c.nextAck++
	}
	if c.nextAck < len(c.acks) && sent > c.acks[c.nextAck].time {
		c.samples = append(c.samples, sent-c.acks[c.nextAck].time)
	}
}

// immortals looks for ephemerals that outlived their clients (S4).
func (c *checker) immortals() {
	if c.opt.ExpirySlack == 0 || len(c.h.Events) == 0 {
		return
	}
	end := c.h.Events[len(c.h.Events)-1].Time
	for _, id := range slices.Sorted(maps.Keys(c.m.ephemerals)) {
		s, n := c.sessions[id], c.m.ephemerals[id][0]
		if s == nil || n.seenAlive <= 0 {
			continue
		}
		sent := c.h.Events[n.seenAlive].Time
		if sent > s.lastSent+s.timeout+int64(c.opt.ExpirySlack) && end > s.lastSent {
			c.violate(S4, fmt.Sprintf("the ephemeral %s of session %#x was seen %.1f s after the session's client sent its last packet; its timeout is %.1f s",
				n.path, id, float64(sent-s.lastSent)/1e9, float64(s.timeout)/1e9), int(n.seenAlive))
		}
	}
}

// checkDumps compares the servers' contents at the end with the model.
func (c *checker) checkDumps() {
	type dump struct {
		zxid  int64
		found map[*node]bool
		event int
	}
	dumps := map[int32]*dump{}
	var servers []int32
	for _, i := range c.dumps {
		e := &c.h.Events[i]
		d := dumps[e.Conn]
		if d == nil {
			d = &dump{e.Zxid, map[*node]bool{}, int(i)}
			dumps[e.Conn] = d
			servers = append(servers, e.Conn)
		}
		c.dec.Reset(e.Body)
		n := c.m.node(c.dec.String())
		var r jute.GetDataResponse
		r.Decode(&c.dec)
		if n.opaque {
			continue
		}
		d.found[n] = true
		s := n.at(e.Zxid)
		switch {
		case s == nil:
			c.violate(Durability, fmt.Sprintf("server %d holds %s, which doesn't exist at zxid %#x", e.Conn, n.path, e.Zxid),
				int(i))
		case string(r.Data) != string(s.data):
			c.violate(Durability,
				fmt.Sprintf("server %d holds %s as the data of %s, which is %s", e.Conn, short(r.Data), n.path, short(s.data)),
				int(i))
		default:
			if bad := c.statEqual(n, s, &r.Stat); bad.found() {
				c.violate(Durability, fmt.Sprintf("on server %d, %s", e.Conn, bad.String()), int(i))
			}
		}
	}
	for _, id := range servers {
		d := dumps[id]
		if d.zxid < c.acked {
			c.violate(Durability, fmt.Sprintf("server %d ended at zxid %#x, but zxid %#x was acknowledged", id, d.zxid, c.acked),
				d.event)
		}
		var missing []string
		for path, n := range c.m.nodes {
			if !n.opaque && n.at(d.zxid) != nil && !d.found[n] {
				missing = append(missing, path)
			}
		}
		slices.Sort(missing)
		for _, path := range missing {
			c.violate(Durability, fmt.Sprintf("server %d doesn't hold %s, which exists at zxid %#x", id, path, d.zxid), d.event)
		}
	}
}

// describe formats an event for a report.
func describe(h *history.History, i int) string {
	e := &h.Events[i]
	at := fmt.Sprintf("#%d %.6f s, connection %d: ", i, float64(e.Time)/1e9, e.Conn)
	switch e.Kind {
	case history.KindConnect:
		return at + fmt.Sprintf("connect, session %#x, last zxid seen %#x", e.Session, e.Zxid)
	case history.KindConnected:
		return at + fmt.Sprintf("connected, session %#x, timeout %d ms", e.Session, e.Num)
	case history.KindRequest:
		return at + fmt.Sprintf("request %d %s %s", e.Xid, e.Op(), firstPath(e))
	case history.KindReply:
		return at + fmt.Sprintf("reply to %d, zxid %#x, %s, %d bytes", e.Xid, e.Zxid, e.Code(), len(e.Body))
	case history.KindNotification:
		var w jute.WatcherEvent
		var d jute.Decoder
		d.Reset(e.Body)
		w.Decode(&d)
		return at + fmt.Sprintf("notification, zxid %#x, %s %s", e.Zxid, w.Type.String(), w.Path)
	case history.KindDisconnect:
		return at + "disconnect"
	case history.KindDump:
		return at + fmt.Sprintf("dump of %s at zxid %#x", firstPath(e), e.Zxid)
	}
	return at + "identity"
}

// firstPath returns the path at the start of a record.
func firstPath(e *history.Event) string {
	if e.Kind == history.KindRequest && !e.Op().HasPath() {
		return ""
	}
	return jute.NewDecoder(e.Body).String()
}
