package replica

import (
	"github.com/zooid-project/zooid/internal/expiry"
	"github.com/zooid-project/zooid/internal/proposals"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// Local sessions (localSessionsEnabled) begin, resume and end on the server that their client is
// connected to, and cost no log entry while they only read. Before its first write, a session
// enters the replicated table. From then on it is like any other session, except that its scope
// keeps it from owning ephemeral znodes (tree.Scope).
//
// A server whose disk is nearly full begins such sessions too, after noRoomSessionsMax sessions in
// its log. They get the scope LocalUpgrading, so that nothing is denied to them once there is room
// again.
//
//	not entered   here only: in locals, expires by this server's clock
//	entering      its OpEnter record is sent, ahead of its first write
//	entered       in the tree, and no longer in locals
//
// OpEnter records are handled like this server's own writes: they are numbered, kept until they are
// applied, and sent again in order with all other unapplied writes. The tree accepts each number
// once (tree.Entrance). So a session enters exactly once: it isn't lost with a leader, and a late
// copy of its record doesn't begin it again after its end.

// locals holds the local sessions of this server that have not entered; Replica.mu guards it.
type locals struct {
	*outside
	*state
	hearing   *hearing
	proposals *proposals.Queue
	counts    *sessionCounts
	global    *expiry.Queue // of the sessions in the table

	scope    tree.Scope // of new sessions; Global if new sessions aren't local
	server   int64      // its high byte is the high byte of all ids generated here
	sessions map[int64]*localSession
	expiry   *expiry.Queue
	entrance int64   // id of this server's sequence of OpEnter records; 0 before the first session enters
	entering []int64 // sessions, in order of their sequence
	last     int64   // sequence number of the last session in entering
}

// A localSession is one session in locals.
type localSession struct {
	passwd  []byte
	timeout int32
	scope   tree.Scope
	enter   []byte // its OpEnter record, once it is entering
	// left says that the session's client closed it. Only the connection that has the session writes it, holding
	// Replica.mu for reading.
	left bool
}

// inTable says whether a client's session is in the replicated table.
type inTable uint8

const (
	entered    inTable = iota // in the table, or its OpEnter record was sent
	notEntered                // in locals only
	leaving                   // in locals, and its client has asked to close it
)

func newLocals(o *Options, now int64) locals {
	l := locals{
		server: int64(o.ID << 56), sessions: map[int64]*localSession{},
		expiry: expiry.New(o.ExpireInterval().Milliseconds(), now),
	}
	if o.LocalSessions && o.Servers > 0 {
		l.scope = tree.Local
		if o.LocalSessionsUpgrading {
			l.scope = tree.LocalUpgrading
		}
	}
	return l
}

// here reports whether a session is known only here.
func (l *locals) here(session int64) bool {
	s := l.sessions[session]
	return s != nil && s.enter == nil
}

// connectLocal begins a local session for a registered client, or resumes one that has not entered, and answers the
// connect request. scope is a new session's scope. connectLocal returns false if the session has to be attached through
// the log instead. mu is held for writing.
func (r *Replica) connectLocal(c *Client, req *jute.ConnectRequest, scope tree.Scope, newID func() int64) bool {
	id, l := req.SessionID, r.locals.sessions[req.SessionID]
	reply := jute.ConnectResponse{
		HasReadOnly: req.HasReadOnly, ReadOnly: c.readOnly, Passwd: make([]byte, jute.PasswdSize),
	}
	why := ""
	switch {
	case id == 0 && scope != tree.Global && !c.mayRestore:
		id = newID()
		l = &localSession{passwd: r.passwd(id), scope: scope}
		r.locals.sessions[id] = l
		r.hearing.isLocal(id, true)
		r.counts.count(id, c)
		r.stats.answered(c, &request{op: &opCreateSession, at: c.lastHeard.Load() * 1e6}, r.tree.LastZxid(), r.now())
		r.meters.did(jute.OpCreateSession, 1)
	case !r.locals.here(id):
		return false
	case !samePasswd(l.passwd, c.hello.Passwd):
		r.logins.tried(c, &opAttach, nil, jute.ErrAuthFailed, Refused)
		why = sessionOver
	case l.left:
		why = sessionOver
	default:
		r.replaceConnection(id, c)
	}
	if req.SessionID != 0 {
		c.stats.sent.Add(1)
	}
	if why == "" {
		l.timeout = c.timeout
		r.locals.expiry.Heard(id, l.timeout, c.lastHeard.Load())
		reply.Timeout, reply.SessionID, reply.Passwd = l.timeout, id, l.passwd
		c.session, c.reader.inTable = id, notEntered
		r.hearing.attach(id, c)
	}
	r.answerConnect(c, &reply, why)
	return true
}

// enter sends the request that makes c's local session enter the table, and reports whether c
// still has the session. c's reader calls it before the first write.
func (l *locals) enter(c *Client) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.sessions[c.session]
	if s == nil || l.hearing.attached[c.session] != c {
		return false // it expired, or was resumed on another connection
	}
	if l.entrance == 0 {
		// Connection ids grow from one start of the server to the next, unless the clock was set back.
		l.entrance = c.id
		if newest, _ := l.tree.Sessions().Entrance(c.id); newest != 0 {
			l.entrance = max(c.id, newest+1)
		}
	}
	l.last++
	l.entering = append(l.entering, c.session)
	s.enter = tree.AppendRecord(nil, &tree.Request{
		Op: tree.OpEnter, Session: c.session, Cnx: c.id, Seq: l.last,
		Body: tree.AppendEnter(nil, l.entrance, s.scope, s.passwd, s.timeout),
	})
	l.proposals.AddRecords(s.enter)
	l.kick()
	return true
}

// resend puts the requests of sessions that are entering in the proposals
// again, ahead of the sessions' writes; mu is held for writing.
func (l *locals) resend() {
	for _, id := range l.entering {
		l.proposals.AddRecords(l.sessions[id].enter)
	}
}

// entered updates this server after a session has entered the table, whichever server it began on;
// mu is held for writing.
func (l *locals) entered(res *tree.Result) {
	if res.Outcome == tree.Applied && res.Err == jute.OK {
		l.global.Heard(res.Session, res.Timeout, l.now()/1e6)
	}
	l.settle()
	if c := l.clients[res.Cnx]; c != nil && res.Err != jute.OK {
		c.CloseAfter("its new session id was taken; the client tries again")
	}
}

// settle removes from locals the sessions that are already in the tree; mu is held for writing.
func (l *locals) settle() {
	id, next := l.tree.Sessions().Entrance(l.entrance)
	if l.entrance == 0 || id != l.entrance {
		return
	}
	for l.last-int64(len(l.entering))+1 < next && len(l.entering) > 0 {
		l.forget(l.entering[0])
		l.entering = l.entering[1:]
	}
}

// forget removes a session from locals; mu is held for writing.
func (l *locals) forget(id int64) {
	delete(l.sessions, id)
	l.hearing.isLocal(id, false)
	l.expiry.Forget(id)
}

// end records that a session that has not entered is over; mu is held for writing.
func (l *locals) end(id int64) {
	l.forget(id)
	l.counts.uncount(id)
}

// left updates c's session, which has not entered, after c has disconnected; mu is held for writing.
func (l *locals) left(c *Client) {
	l.expiry.Touch(c.session, c.lastHeard.Load())
	if l.sessions[c.session].left {
		l.meters.ends[sessionClosed].Inc()
		l.end(c.session)
	}
}

// expire ends the sessions that are due at now (ms) and have not entered. stalled is the time
// (ms) for which this server did nothing. mu is held for writing.
func (l *locals) expire(now, stalled int64) {
	if len(l.sessions) == 0 {
		return
	}
	l.expiry.Excuse(now, stalled)
	for _, id := range l.expiry.Due(now, l.hearing.heardAt) {
		if l.sessions[id].enter != nil {
			continue // the leader expires it once it has entered
		}
		l.clientLog.Info("local session expired: nothing was heard of its client for its timeout", "session", SessionText(id))
		l.meters.sessionsExpired.Inc()
		l.meters.ends[sessionExpired].Inc()
		l.end(id)
		if c := l.hearing.attached[id]; c != nil {
			l.hearing.detach(id)
			c.CloseAfter("its session expired")
		}
	}
}
