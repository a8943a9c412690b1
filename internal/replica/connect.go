package replica

import (
	"crypto/subtle"
	"fmt"

	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// refusal is the reason to close a connection instead of answering its connect request, as Apache does: the client
// should try another server.
type refusal string

func (e refusal) Error() string { return string(e) }

// clampTimeout returns the session timeout granted to a client that asks for wanted, in ms.
func (l *limits) clampTimeout(wanted int32) int32 {
	return min(max(wanted, l.timeoutMin), l.timeoutMax)
}

// Limits of connect requests.
const (
	// connectsMax bounds the connect requests that wait for an answer, separately for new sessions and
	// for known ones. It is more than the log takes in a second, so only a flood reaches it; a refused
	// client tries again, or tries another server.
	connectsMax = 10_000
	// noRoomSessionsMax bounds the sessions that begin in the log while the disk is nearly full. They use a small part of
	// the log's reserve even if each begin and end is an entry of its own. Later sessions are local ones, which need no
	// room, so that operators and monitors still get one. A local session is over when its client moves to another server,
	// so the first noRoomSessionsMax are not local.
	noRoomSessionsMax = 1000
)

// Connect accepts a connect request and registers the client. c.established is closed once the request is answered; an
// error is the reason to close the connection at once. newID generates session ids.
//
// A new session, or a known one if the password is right, is attached to the connection through the log (see attached).
// No other connect request reaches the log, closes another connection or prolongs a session.
func (r *Replica) Connect(c *Client, req *jute.ConnectRequest, newID func() int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, gone := r.auth.Withdrawn(c.Grants()); gone { // a recheck of all clients may have missed it
		return refusal(supersReplaced)
	}
	switch {
	case req.SessionID == 0 && r.newcomers.count() >= connectsMax, req.SessionID != 0 &&
		r.newcomers.connecting-r.newcomers.count() >= connectsMax:
		return refusal(fmt.Sprintf("%d connect requests wait for an answer, as many for new sessions, or for known ones, as are allowed; the client must try again",
			connectsMax))
	case r.readOnly():
		return r.connectReadOnly(c, req, newID)
	case !r.serving || r.cutOff:
		return refusal("the server is not serving yet")
	case r.freshness.at.Load() != 0 && r.freshness.mayBeOutdated(r.now()) && !r.locals.here(req.SessionID):
		return refusal("this server can't tell now which sessions are alive; the client must try another server")
	case req.SessionID == 0 && r.locals.scope != tree.Global && r.leader.Leader == 0:
		// A session in the log would wait for a leader; a local one would begin at once, though the client can't write.
		return refusal("this server has no leader; the client must try another server")
	case req.SessionID == 0 && r.room.logWaits.Load() && !r.alone && !r.room.needed.Load() &&
		r.locals.scope == tree.Global:
		// A client would lose a local session by moving to another server. If no other server serves, a local session is
		// better than none.
		return refusal("this server's log has no room; the client must try another server")
	case req.LastZxidSeen > r.tree.LastZxid():
		return refusal(fmt.Sprintf("the client has seen zxid 0x%x, this server is at 0x%x; it must try another server",
			req.LastZxidSeen, r.tree.LastZxid()))
	}
	if why := r.memory.refuses(c, req); why != "" {
		r.meters.ends[sessionRefused].Inc()
		return refusal(why)
	}
	if !r.limiter.belongs(c) {
		return refusal(tooManyOfIdentity)
	}
	if req.SessionID == 0 && !r.limiter.mayBegin(c) {
		r.meters.ends[sessionRefused].Inc()
		return refusal(tooManySessions)
	}
	scope := r.sessionScope(req.SessionID)
	r.register(c, req)
	if req.SessionID != 0 {
		r.meters.reconnected.Inc()
	}
	if r.connectLocal(c, req, scope, newID) {
		return nil
	}
	if req.SessionID == 0 {
		c.hello.SessionID = newID()
		r.newcomers.add(c)
		r.counts.reserve(c)
		if r.beginSessions(); c.arrival.newcomer == waitsToBegin {
			r.meters.overload[sessionsHeld].Inc()
		}
		return nil
	}
	r.resume(c, false)
	return nil
}

// sessionScope returns the scope of the session that a connect request asks for, if it is a new one,
// and counts those that begin in the log while the disk is nearly full. mu is held for writing.
func (r *Replica) sessionScope(session int64) tree.Scope {
	switch {
	case !r.room.none.Load():
		r.room.sessions = 0
	case session != 0 || r.locals.scope != tree.Global: // no session begins in the log
	case r.room.sessions >= noRoomSessionsMax || r.room.logWaits.Load():
		if r.alone || r.leader.Leader != 0 {
			return tree.LocalUpgrading
		}
	default:
		r.room.sessions++
	}
	return r.locals.scope
}

// register makes c one of this server's clients; mu is held for writing.
func (r *Replica) register(c *Client, req *jute.ConnectRequest) {
	c.hello = *req
	c.hello.Passwd = append([]byte(nil), req.Passwd...)
	c.timeout = r.limits.clampTimeout(req.Timeout)
	c.lastHeard.Store(r.now() / 1e6)
	r.clients[c.id] = c
	c.mu.Lock()
	c.out.awaitApply, c.out.large, c.out.events.all = r.awaitApply, r.large, &r.unread
	r.rooms.share(c, r.meters.roomAwaited)
	c.mu.Unlock()
	c.arrival.awaited = true
	r.newcomers.connecting++
	c.stats.received.Add(1)
	r.stats.received.Add(1)
	r.meters.connectionRequests.Inc()
}

// settled records that c's connect request no longer waits for an answer; mu is held for writing.
func (r *Replica) settled(c *Client) {
	if c.arrival.awaited {
		c.arrival.awaited = false
		r.newcomers.connecting--
		r.counts.release(c)
		if r.newcomers.remove(c) {
			r.meters.overload[sessionsDropped].Inc()
		}
		r.beginSessions()
	}
}

// resume attaches the session that a registered client names, if its password is right. current
// says that this server has applied everything acknowledged before the client connected, so it
// knows every existing session. mu is held for writing.
func (r *Replica) resume(c *Client, current bool) {
	id, passwd := c.hello.SessionID, c.hello.Passwd
	known, right := r.proves(id, passwd)
	switch {
	case right:
		r.replaceConnection(id, c)
		r.expiry.Touch(id, c.lastHeard.Load()) // so that no expiry of the session follows in the log
		r.submitAttach(c, tree.OpAttach, passwd)
	case known, current:
		if known {
			r.logins.tried(c, &opAttach, nil, jute.ErrAuthFailed, Refused)
		}
		c.stats.sent.Add(1)
		reply := jute.ConnectResponse{HasReadOnly: c.hello.HasReadOnly, Passwd: make([]byte, jute.PasswdSize)}
		r.answerConnect(c, &reply, sessionOver)
	default:
		// The leader may know the session: a round trip to the leader settles that without a log entry.
		r.syncs.ask(c, true)
		r.kick()
	}
}

// sessionOver is the reason for refusing a client that names a session.
const sessionOver = "its session is over or the password is wrong"

// proves reports whether a session is known, in the table or as one of this server's local
// sessions, and whether passwd is its password; mu is held at least for reading.
func (r *Replica) proves(session int64, passwd []byte) (known, right bool) {
	if l := r.locals.sessions[session]; l != nil {
		return true, samePasswd(l.passwd, passwd)
	}
	s, known := r.tree.Sessions().Get(session)
	return known, known && samePasswd(s.Passwd[:], passwd)
}

// provesRecord is proves for an OpAttach request.
func (r *Replica) provesRecord(q *tree.Request) bool {
	var d jute.Decoder
	d.Reset(q.Body)
	_, right := r.proves(q.Session, d.Buffer())
	return right && d.Err() == nil
}

// samePasswd compares in a time that doesn't depend on where a and b differ.
func samePasswd(a, b []byte) bool { return subtle.ConstantTimeCompare(a, b) == 1 }

// replaceConnection closes the connection that a session is attached to, since the session's client
// has proved over c that it has abandoned that connection. mu is held for writing.
func (r *Replica) replaceConnection(session int64, c *Client) {
	if old := r.hearing.attached[session]; old != nil && old != c {
		r.movedFrom(old, "its client reconnected")
	}
}

// movedFrom closes a connection whose session has moved to another one, and counts the move once.
func (r *Replica) movedFrom(old *Client, why string) {
	if old.Ending() == "" {
		r.meters.ends[sessionMoved].Inc()
	}
	old.CloseAfter(why)
}

func (r *Replica) submitAttach(c *Client, op jute.Op, passwd []byte) {
	c.hello.Passwd = passwd
	req := tree.Request{
		Op: op, Session: c.hello.SessionID, Cnx: c.id, Identities: c.identities(), Body: attachBody(op, c.timeout, passwd),
	}
	c.arrival.attach = tree.AppendRecord(make([]byte, 0, tree.RecordSize(&req)), &req)
	if r.alone || r.leader.Leader != 0 {
		r.sendAttach(c)
	}
}

// attachBody returns the body of a request that attaches a session.
func attachBody(op jute.Op, timeout int32, passwd []byte) []byte {
	b := make([]byte, 0, 4+4+len(passwd))
	if op == jute.OpCreateSession {
		return jute.AppendBuffer(jute.AppendInt(b, timeout), passwd)
	}
	return jute.AppendInt(jute.AppendBuffer(b, passwd), timeout)
}

// sendAttach sends the request to attach c's session. It is sent only once: a late copy would return the session to a
// connection that it has left, or begin the session again after its end. The writes of that connection could then be
// applied twice: sequence numbers prevent that only as long as they don't start over. mu is held for writing.
func (r *Replica) sendAttach(c *Client) {
	c.arrival.sent, c.attachedAt = true, r.now()
	// If the session is entering, its OpEnter record waits among the proposals and must not be overtaken.
	if c.arrival.newcomer == begins || r.locals.sessions[c.hello.SessionID] != nil {
		r.proposals.AddRecords(c.arrival.attach)
	} else {
		r.proposals.AddFirst(c.arrival.attach)
	}
	r.kick()
}

// attached answers a connect request whose entry has been applied. It also tells every server
// that a session is alive. mu is held for writing.
func (r *Replica) attached(res *tree.Result) {
	if res.Outcome != tree.Applied {
		return // it was sent twice
	}
	if res.Err == jute.OK {
		r.expiry.Heard(res.Session, res.Timeout, r.now()/1e6)
		r.counts.countAttached(res)
		if old := r.hearing.attached[res.Session]; old != nil && old.id != res.Cnx {
			r.movedFrom(old, "its session moved to another connection")
			r.hearing.detach(res.Session)
		}
	}
	c := r.clients[res.Cnx]
	if c == nil || c.arrival.attach == nil {
		return // the client is gone, or answered: a refused request that was sent twice is refused twice
	}
	reply := jute.ConnectResponse{HasReadOnly: c.hello.HasReadOnly, Passwd: make([]byte, jute.PasswdSize)}
	why := ""
	switch {
	case res.Err == jute.OK:
		reply.Timeout, reply.SessionID, reply.Passwd = c.timeout, res.Session, c.hello.Passwd
		c.session = res.Session
		r.hearing.attach(res.Session, c)
	case r.locals.sessions[res.Session] != nil:
		c.CloseAfter("its session has yet to enter the table; it tries again")
		return
	case res.Op == jute.OpCreateSession:
		why = "its new session id was taken; the client tries again"
	default:
		why = sessionOver
	}
	if res.Op == jute.OpCreateSession {
		r.stats.answered(c, &request{op: &opCreateSession, at: c.lastHeard.Load() * 1e6}, res.Zxid, r.now())
		r.meters.did(res.Op, 1)
	} else {
		c.stats.sent.Add(1)
	}
	r.answerConnect(c, &reply, why)
	r.touch(c)
}

// answerConnect queues the answer to c's connect request; if why isn't empty, the connection closes
// after the answer, for that reason. mu is held for writing.
func (r *Replica) answerConnect(c *Client, reply *jute.ConnectResponse, why string) {
	r.settled(c)
	c.mu.Lock()
	c.arrival.attach, c.out.applied = nil, true
	c.out.frames = jute.AppendFrame(c.out.frames, reply.Append)
	r.stats.sent.Add(1)
	if why != "" {
		r.meters.ends[sessionRefused].Inc()
		c.closeLocked(why)
	}
	c.mu.Unlock()
	close(c.established)
}

// ended closes the connection of a session that has ended; mu is held for writing.
func (r *Replica) ended(res *tree.Result, now int64) {
	if !res.Closed {
		if c := r.clients[res.Cnx]; c != nil && res.Op == jute.OpCloseSession {
			c.CloseAfter("its session ended")
		}
		return
	}
	r.expiry.Forget(res.Session)
	r.counts.uncount(res.Session)
	how := sessionClosed
	if res.Op == tree.OpExpire {
		r.meters.sessionsExpired.Inc()
		how = sessionExpired
	}
	if !r.progress.replaying {
		r.meters.ends[how].Inc()
	}
	c := r.hearing.attached[res.Session]
	if c == nil {
		return
	}
	r.hearing.detach(res.Session)
	if res.Op == jute.OpCloseSession && c.id == res.Cnx {
		r.complete(c, res, now)
		c.CloseAfter("its client closed the session")
	} else {
		c.CloseAfter("its session expired")
	}
}

// Disconnected forgets a client whose socket is gone. Its session lives on until it expires or reconnects. The client's
// requests that aren't proposed yet are dropped, unless one of them closes its session: that one must come after the
// client's other writes. Its writes that were sent count until they are applied or dropped.
func (r *Replica) Disconnected(c *Client) {
	r.mu.Lock()
	if r.clients[c.id] == c && c.arrival.unrecorded {
		r.readOnlySessions--
	}
	delete(r.clients, c.id)
	l := c.disconnected()
	mayWait := int(l.requests) > l.unsent || c.arrival.awaited && c.arrival.sent
	r.proposals.Gone(c.id, l.sent, l.sentBytes, mayWait && !c.reader.leaves)
	r.settled(c)
	if r.hearing.attached[c.session] == c {
		r.hearing.detach(c.session)
		if r.locals.sessions[c.session] != nil {
			r.locals.left(c)
		} else if r.leader.IsLeader {
			r.expiry.Touch(c.session, c.lastHeard.Load())
		} else if r.leader.Leader != 0 {
			r.hearing.left(c)
		}
	}
	r.mu.Unlock()
	if b := r.limiter.inForce.Load(); b != nil {
		c.spend(b, r.now())
	}
	r.limiter.addresses.leave(c.limits.address.Load(), c)
	r.limiter.identified.leave(c.limits.identity.Load(), c)
	r.syncs.forget(c)
	r.unanswered.add(l.sent-l.requests, l.sentBytes-l.bytes) // what was sent still uses memory
	r.meters.droppedStale(l.unsent)
	r.unanswered.wake()
	r.forgetWatches(c)
}

// watchesForgotten is how many watches are removed before other goroutines get a turn: a
// connection may have left a million.
const watchesForgotten = 128

// watchesForgottenAtOnce is the number of watches that are removed without yielding first; most
// connections have no more.
const watchesForgottenAtOnce = 64

// forgetWatches removes the watches of a disconnected client. Events that fire them meanwhile find no client to notify.
func (r *Replica) forgetWatches(c *Client) {
	forget := func(n int) (more bool) {
		r.watches.mu.Lock()
		defer r.watches.mu.Unlock()
		if more = r.watches.table.RemoveSome(c.id, n); !more {
			r.watches.table.RemoveWatcher(c.id)
		}
		return more
	}
	rested := int64(0)
	for more := forget(watchesForgottenAtOnce); more; {
		c.relax(c.watchRest(r.now(), watchForgetMax-rested, &rested))
		r.heavy.Lock()
		begun := r.now()
		more = forget(watchesForgotten)
		r.reads.noteWatches(c, begun)
		r.heavy.Unlock()
	}
}
