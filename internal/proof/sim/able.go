package sim

import (
	"cmp"
	"maps"
	"slices"

	"github.com/zooid-project/zooid/jute"
)

// The rules of docs/decisions/086-alive-means-able.md, for disks that are slow or hang and loops that stand. A server
// works if it runs, its loop turns, and its disk finishes writes in time. It is able if it reaches a working majority,
// itself included, and nothing else was in the way lately (World.excusedTo). That a server doesn't work is an excuse
// only
//
//   - for its own actions, until it works again (host.heldTo);
//   - for the others' actions, if no majority works without it;
//   - for delays because another server must lead, for as long after it stopped working as anything may take
//     (World.heldAt).
//
// The rules:
//
//	A1  A session isn't ended before its timeout has passed since a server answered its client (endedEarly), or since
//	    a packet of its client reached an able server (endedUnheard). Time in which its leader stood doesn't count, but
//	    for a second (endedUnlistened).
//	A2  No request of a session, pings included, is answered later after its end than X10 allows (answers).
//	A3  A server that works answers each request within answerPatience while the ensemble is able, regardless of the
//	    other servers' disks: reads and writes go on (client.stuck).
//	A4  A server whose disk hangs doesn't lead for longer than handOverPatience, if others can (leadsOn).
//	A5  A server that can't answer a client closes its connection early enough for it to find an able server within
//	    its timeout (keeps).
//	A6  A silent session ends as soon as its timeout and endPatience have passed since it was heard, or since its leader
//	    was elected or worked again: nothing is excused for longer (outlives).
//	A7  A server that no other one has heard for longer than its patience and cutOffPatience has no client with a
//	    session, and takes none, unless it serves for reading only (serves, takes).

// excusedTo returns when no excuse is left for effects on clients, whichever server serves them.
func (w *World) excusedTo() int64 { return max(w.lastFault, w.lastHeld) }

// able reports whether a server is able now.
func (w *World) able(s *host) bool {
	reached := 0
	for _, id := range w.voters {
		if m := w.servers[id-1]; m.works() && !w.cut(s.index, m.index) {
			reached++
		}
	}
	return w.now > w.excusedTo() && s.works() && s.life.rep != nil && !w.cut(0, s.index) && reached > len(w.voters)/2
}

// endedEarly checks A1 for a client that has been answered, when its session is ended. Of a server that has stood since
// then the leader can't have heard it.
func (g *ledger) endedEarly(c *client, timeout int64) {
	w := c.w
	if silent := w.now - c.alive; silent < timeout && c.greeted && c.alive > w.excusedTo() &&
		!c.aliveOn.keepsToItself(c.alive) {
		w.fail("A1: session %#x with a timeout of %d ms was ended %d ms after its client was answered, with nothing in the way",
			c.session, c.timeout/millisecond, silent/millisecond)
	}
}

// endedUnlistened checks A1 for the leader that ends a client's session: what counts is the time in which its loop
// turned. That other servers stood too, so that no majority worked, is no excuse.
func (g *ledger) endedUnlistened(c *client, leader *host, timeout int64) {
	w := c.w
	// The client may have given up on its server meanwhile.
	if listened := w.now - c.alive - leader.stoodStill(c.alive); c.alive > w.lastFault &&
		listened < timeout-second-reportTime {
		w.fail("A1: session %#x with a timeout of %d ms was ended by a leader that had listened for %d ms since its client was answered",
			c.session, c.timeout/millisecond, listened/millisecond)
	}
}

// keepsToItself reports whether the server's loop has stood since the time at, without time for a report in between:
// then no other server knows what it heard.
func (s *host) keepsToItself(at int64) bool {
	reported := at + reportTime
	for _, p := range s.pauses {
		if p.from < reported {
			reported = max(reported, p.to+reportTime)
		}
	}
	return s.w.now < reported
}

// A packet is the last one of a session that reached a server.
type packet struct {
	at        int64 // when it did, or when the server's loop turned again, which reports it
	timeout   int64
	l         *life
	able      bool  // l was able at that time
	prolonged int64 // when it was last prolonged by something else (ledger.prolongs)
}

// arrived records that a packet of a client has reached a server.
func (g *ledger) arrived(k *conn) {
	session := k.serving.Session()
	if _, begun := g.begun[session]; !begun || k.w.plan.Local { // it may be a read-only one
		return
	}
	at, timeout := max(k.w.now, k.l.s.stoodTo), int64(k.serving.Timeout())*millisecond
	g.packets[session] = packet{at: at, timeout: timeout, l: k.l, able: k.w.able(k.l.s)}
}

// prolongs records that a server has reason to think that a session's client lives: it has taken a connect request that
// names the session, with its password, or it can't take requests that wait and doesn't read what follows them, until
// it closes the connection.
func (g *ledger) prolongs(w *World, session int64) {
	if p, ok := g.packets[session]; ok {
		p.prolonged = w.now
		g.packets[session] = p
	}
}

// reportTime is how long it may take until the leader has heard of a packet.
const reportTime = 200 * millisecond

// unreported records that the loop of a server stands until a time, and only then reports what has just reached it.
func (g *ledger) unreported(l *life, to int64) {
	for session, p := range g.packets {
		if p.l == l && p.at > l.w.now-reportTime {
			p.at = max(p.at, to)
			g.packets[session] = p
		}
	}
}

// endedUnheard checks A1 for a session whose last packet has reached an able server, when it is ended.
func (g *ledger) endedUnheard(w *World, session int64) {
	p, ok := g.packets[session]
	silent := w.now - p.at
	if ok && p.able && !p.l.ended && p.at > max(w.excusedTo(), p.l.s.heldTo) && silent > reportTime &&
		silent < p.timeout-p.timeout/driftMargin && g.restoredAt == 0 {
		w.fail("A1: session %#x with a timeout of %d ms was ended %d ms after a packet of its client reached server %d, which is able",
			session, p.timeout/millisecond, silent/millisecond, p.l.s.id)
	}
}

// answerBound is how long a session may be answered after its end (X10), by a server's clock.
func answerBound(timeout int32) int64 { return max(int64(timeout)*millisecond/3, second) }

// answerSlack is the time that a message's way and a clock's rate add to answerBound.
const answerSlack = 20 * millisecond

// answers checks A2 for the server's output to a client, which was decided at the time at.
func (g *ledger) answers(k *conn, out []byte, at int64) {
	greeted := k.answered
	k.answered = true
	ended, over := g.ended[k.serving.Session()]
	if !over || k.c.readOnly || at <= ended+answerBound(k.serving.Timeout())+answerSlack {
		return
	}
	for d := jute.NewDecoder(out); d.Remaining() > 0; greeted = true {
		frame := d.Buffer()
		if !greeted || d.Err() != nil {
			continue
		}
		var h jute.ReplyHeader
		h.Decode(jute.NewDecoder(frame))
		if h.Xid != jute.XidNotification {
			k.w.fail("X10: server %d answers request %d of session %#x, with a timeout of %d ms, %d ms after the session's end",
				k.l.s.id, h.Xid, k.serving.Session(), k.serving.Timeout(), (at-ended)/millisecond)
			return
		}
	}
}

// handOverPatience is how long a server may lead whose disk hangs, with nothing else in the way.
const handOverPatience = second

// leadsOn checks A4.
func (g *ledger) leadsOn(l *life) {
	w := l.w
	if l.pending == nil || l.s.disk.hung.log == 0 || !l.loop.IsLeader() || !w.without(l.s) {
		l.spared = 0
		return
	}
	l.spared = cmp.Or(l.spared, w.now)
	if d := w.now - max(l.spared, l.pendingAt, w.excusedTo()); d > handOverPatience {
		w.fail("A4: server %d has led for %d ms with a disk that hangs, with nothing else in the way", l.s.id, d/millisecond)
	}
}

// keeps checks A5 when a client gives up on a server that has been silent for two thirds of the session's timeout.
// Timeouts of less than keptMin leave too little time between the server's bound and that. A disk that has finished a
// write meanwhile is slow rather than hung: its server follows the ensemble, and so need not close anything, though an
// answer may take three such writes. The server's time counts from when the client asked, or from when its loop turned
// between two stalls, since it then learned that the session lives: half of the timeout, for which it may rely on that
// knowledge, and a while longer if it led.
func (g *ledger) keeps(c *client) {
	w, l := c.w, c.conn.l
	if c.timeout < keptMin || c.conn.closed || l.ended || l.s.paused() || c.heard < w.excusedTo() ||
		w.cut(0, c.server.index) || !c.greeted || l.s.disk.hung.relented > c.heard ||
		len(c.pending) == 0 || w.now-max(c.pending[0].at, l.s.turnedAt()) < c.timeout/2+handOverPatience {
		return
	}
	w.fail("A5: server %d neither answers client %d, whose session has a timeout of %d ms, nor closes its connection",
		l.s.id, c.index, c.timeout/millisecond)
}

// keptMin is the least timeout for which A5 is checked.
const keptMin = 6 * second

// endPatience is how long the end of a session may take once it is due.
const endPatience = 2 * second

// outlives checks A6 on a leader.
func (g *ledger) outlives(l *life) {
	w := l.w
	if !l.loop.IsLeader() || !w.able(l.s) || g.restoredAt != 0 {
		return
	}
	since := max(w.excusedTo(), l.s.heldTo, g.since[l.loop.Status().Term])
	for _, session := range slices.Sorted(maps.Keys(g.packets)) {
		p := g.packets[session]
		if g.over[session] {
			delete(g.packets, session)
		} else if late := w.now - max(p.at, p.prolonged, since) - p.timeout - w.plan.Tick; late > endPatience {
			w.fail("A6: session %#x with a timeout of %d ms goes on, %d ms after its end was due", session, p.timeout/millisecond,
				late/millisecond)
		}
	}
}

// cutOffPatience is how long beyond its patience a server that no other one hears may have clients: it has to find out
// first.
const cutOffPatience = 5 * second / 2

// cutOff returns for how long l must have known by now that no other server hears it; negative if it need not know it.
func (l *life) cutOff() int64 {
	w, s := l.w, l.s
	since := max(s.heldTo, s.stoodTo, l.ledAt) // with another leader, or none, its patience begins again
	for _, m := range w.servers {
		if m != s && w.cuts[s.index][m.index] == 0 || len(w.servers) == 1 {
			return -1
		}
		since = max(since, w.cutFrom[s.index][m.index])
	}
	if alone := len(w.voters) == 1 && w.voters[0] == s.id; alone || w.plan.ReadOnly {
		return -1
	}
	if n := len(s.pauses); n > 0 { // it finds out once it goes on
		since = max(since, s.pauses[n-1].to-l.patience())
	}
	return w.now - since - l.patience() - cutOffPatience
}

// serves checks A7 for the clients that a server has.
func (g *ledger) serves(l *life) {
	d, n := l.cutOff(), 0
	for _, k := range l.conns {
		if !k.closed && k.serving != nil && k.serving.Established() && k.serving.Ending() == "" {
			n++
		}
	}
	if d > 0 && n > 0 && l.rep != nil {
		l.w.fail("A7: server %d has clients, %d ms after it must have known that no other server hears it", l.s.id,
			d/millisecond)
	}
}

// takes checks A7 for a client whose connect request a server has taken.
func (g *ledger) takes(k *conn) {
	if d := k.l.cutOff(); d > 0 {
		k.w.fail("A7: server %d takes a client, %d ms after it must have known that no other server hears it", k.l.s.id,
			d/millisecond)
	}
}
