package server

import (
	"fmt"

	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// refusal is the reason why a connect request gets no answer but a closed
// connection, as from Apache: the client is to try another server.
type refusal string

func (e refusal) Error() string { return string(e) }

// clampTimeout returns the session timeout granted for the one wanted, in ms.
func (l *limits) clampTimeout(wanted int32) int32 {
	return min(max(wanted, l.timeoutMin), l.timeoutMax)
}

// connect takes a connect request: it registers the client and sends the
// request to attach a session through the log. c.established is closed once
// that is decided (see attached); an error is the reason to close at once.
// newID draws ids for sessions.
func (r *replica) connect(c *client, req *jute.ConnectRequest, newID func() int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.readOnly():
		return r.connectReadOnly(c, req, newID)
	case !r.serving || r.cutOff:
		return refusal("the server is not serving yet")
	case req.LastZxidSeen > r.tree.LastZxid():
		return refusal(fmt.Sprintf("the client has seen zxid 0x%x, this server is at 0x%x; it must try another server", req.LastZxidSeen, r.tree.LastZxid()))
	}
	r.register(c, req)
	if req.SessionID != 0 {
		r.meters.reconnected.Inc()
	}
	if r.connectLocal(c, req, newID) {
		return nil
	}
	if req.SessionID == 0 {
		c.hello.SessionID = newID()
		r.submitAttach(c, jute.OpCreateSession, r.secret())
		return nil
	}
	r.expiry.touch(req.SessionID, c.lastHeard.Load()) // no end of the session may follow in the log
	r.submitAttach(c, tree.OpAttach, c.hello.Passwd)
	return nil
}

// register makes c one of this server's clients; mu is held alone.
func (r *replica) register(c *client, req *jute.ConnectRequest) {
	if old := r.sessions[req.SessionID]; old != nil {
		// A client that comes back over a new connection has given up the old one.
		old.closeAfter("its client reconnected")
	}
	c.hello = *req
	c.hello.Passwd = append([]byte(nil), req.Passwd...)
	c.timeout = r.limits.clampTimeout(req.Timeout)
	c.lastHeard.Store(r.now() / 1e6)
	r.clients[c.id] = c
	c.stats.received.Add(1)
	r.stats.received.Add(1)
	r.meters.connectionRequests.Inc()
}

func (r *replica) submitAttach(c *client, op jute.Op, passwd []byte) {
	c.hello.Passwd = passwd
	req := tree.Request{Op: op, Session: c.hello.SessionID, Cnx: c.id, Identities: c.identities(), Body: attachBody(op, c.timeout, passwd)}
	c.attach = tree.AppendRecord(make([]byte, 0, tree.RecordSize(&req)), &req)
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

// sendAttach sends the request to attach c's session, which is done once: a copy
// that comes late would give the session back to a connection that it has left,
// or begin it again after its end, and the writes of that connection, which their
// sequence numbers tell apart only while they don't begin anew, could be applied
// twice. mu is held alone.
func (r *replica) sendAttach(c *client) {
	c.attaching = true
	r.outbox.addRecords(c.attach)
	r.kick()
}

// attached answers a connect request whose entry has been applied; mu is held
// alone. It is also how every server learns that a session is alive.
func (r *replica) attached(res *tree.Result) {
	if res.Outcome != tree.Applied {
		return // it was sent twice
	}
	if res.Err == jute.OK {
		r.expiry.heard(res.Session, res.Timeout, r.now()/1e6)
		if old := r.sessions[res.Session]; old != nil && old.id != res.Cnx {
			old.closeAfter("its session moved to another connection")
			delete(r.sessions, res.Session)
		}
	}
	c := r.clients[res.Cnx]
	if c == nil || c.attach == nil {
		return // gone, or answered: a refused request that was sent twice is refused twice
	}
	reply := jute.ConnectResponse{HasReadOnly: c.hello.HasReadOnly, Passwd: make([]byte, jute.PasswdSize)}
	why := ""
	switch {
	case res.Err == jute.OK:
		reply.Timeout, reply.SessionID, reply.Passwd = c.timeout, res.Session, c.hello.Passwd
		c.session = res.Session
		r.sessions[res.Session] = c
	case r.locals.sessions[res.Session] != nil:
		c.closeAfter("its session has yet to enter the table; it tries again")
		return
	case res.Op == jute.OpCreateSession:
		why = "its new session id was taken; the client tries again"
	default:
		why = "its session is over or the password is wrong"
	}
	if res.Op == jute.OpCreateSession {
		r.answered(c, &request{op: &opCreateSession, at: c.lastHeard.Load() * 1e6}, res.Zxid, r.now())
		r.meters.did(res.Op, 1)
	} else {
		c.stats.sent.Add(1)
	}
	r.answerConnect(c, &reply, why)
	r.touch(c)
}

// answerConnect queues the answer to c's connect request; why, if not empty, is
// why the connection closes behind it. mu is held alone.
func (r *replica) answerConnect(c *client, reply *jute.ConnectResponse, why string) {
	c.mu.Lock()
	c.attach = nil
	var start int
	c.out, start = jute.BeginFrame(c.out)
	c.out = jute.EndFrame(reply.Append(c.out), start)
	r.stats.sent.Add(1)
	if why != "" {
		c.closeLocked(why)
	}
	c.mu.Unlock()
	close(c.established)
}

// ended closes the connection of a session that is over; mu is held alone.
func (r *replica) ended(res *tree.Result, now int64) {
	if !res.Closed {
		if c := r.clients[res.Cnx]; c != nil && res.Op == jute.OpCloseSession {
			c.closeAfter("its session ended")
		}
		return
	}
	r.expiry.forget(res.Session)
	if res.Op == tree.OpExpire {
		r.meters.sessionsExpired.Inc()
	}
	c := r.sessions[res.Session]
	if c == nil {
		return
	}
	delete(r.sessions, res.Session)
	if res.Op == jute.OpCloseSession && c.id == res.Cnx {
		r.complete(c, res, now)
		c.closeAfter("its client closed the session")
	} else {
		c.closeAfter("its session expired")
	}
}

// disconnected forgets a client whose socket is gone. Its session lives on until
// it expires or reconnects.
func (r *replica) disconnected(c *client) {
	r.mu.Lock()
	delete(r.clients, c.id)
	if r.sessions[c.session] == c {
		delete(r.sessions, c.session)
		if r.locals.sessions[c.session] != nil {
			r.leftLocal(c)
		} else if r.leader.IsLeader {
			r.expiry.touch(c.session, c.lastHeard.Load())
		} else if r.leader.Leader != 0 && c.lastHeard.Load() > c.reported {
			r.heardLast = append(r.heardLast, c.session)
		}
	}
	r.watchMu.Lock()
	r.watches.RemoveWatcher(c.id)
	r.watchMu.Unlock()
	r.mu.Unlock()
	r.outstanding.Add(-int64(c.disconnected()))
}
