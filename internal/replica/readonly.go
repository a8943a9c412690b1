package replica

import (
	"bytes"
	"fmt"

	"github.com/zooid-project/zooid/jute"
)

// Read-only mode (readonlymode.enabled): a server of an ensemble that has been without a leader for
// long enough doesn't refuse all clients. It serves clients that ask for it
// (ConnectRequest.ReadOnly) from its own state, which gets stale.
//
//	read-only = cut off (no leader for Options.Patience) and enabled
//
// When the mode begins, every connection is closed, so that each client decides again; when there
// is a leader again, the connections of read-only clients are closed. So a connection is read-only
// for its whole life or never.
//
// The session of a read-only client lives as long as its connection, on this server alone: it isn't
// in the log, and can't have znodes. Its password marks it as read-only, so that any server can
// tell a client that tries to resume the session that it is over. A local session that only this
// server knows continues. About other sessions a read-only server knows too little: their clients
// have to ask another server, or wait.

// readOnlyPasswd begins the password of a read-only session. The next 8 bytes are random,
// though knowing them gains nothing.
var readOnlyPasswd = []byte("readonly")

// readOnly reports whether this server serves read-only now; mu is held at least
// for reading.
func (r *Replica) readOnly() bool { return r.readOnlyMode && r.cutOff }

// connectReadOnly takes a connect request while this server is read-only, and answers it at once.
// An error is the reason to close the connection without an answer. mu is held for writing.
func (r *Replica) connectReadOnly(c *Client, req *jute.ConnectRequest, newID func() int64) error {
	over := bytes.HasPrefix(req.Passwd, readOnlyPasswd)
	switch {
	case !req.ReadOnly:
		return refusal("this server has no leader and is read-only, which the client did not ask for")
	case req.LastZxidSeen > r.tree.LastZxid():
		return refusal(fmt.Sprintf("the client has seen zxid 0x%x, this read-only server is at 0x%x; it must try another server",
			req.LastZxidSeen, r.tree.LastZxid()))
	case r.locals.here(req.SessionID):
		r.register(c, req)
		c.readOnly = true
		r.connectLocal(c, req, r.locals.scope, newID)
		return nil
	case req.SessionID != 0 && !over:
		return refusal("a session can't be resumed on a read-only server")
	}
	r.register(c, req)
	c.readOnly = true
	reply := jute.ConnectResponse{HasReadOnly: req.HasReadOnly, ReadOnly: true, Passwd: make([]byte, jute.PasswdSize)}
	why := ""
	if req.SessionID == 0 {
		c.session, c.arrival.unrecorded = newID(), true
		r.readOnlySessions++
		reply.Timeout, reply.SessionID = c.timeout, c.session
		copy(reply.Passwd, readOnlyPasswd)
		copy(reply.Passwd[len(readOnlyPasswd):], r.secret())
	} else {
		why = "its read-only session ended with its connection"
	}
	c.stats.sent.Add(1)
	r.answerConnect(c, &reply, why)
	return nil
}

// endReadOnly closes the connections of read-only clients; mu is held for writing.
func (s *state) endReadOnly() {
	for _, c := range s.clientsByID() {
		if c.readOnly {
			c.CloseAfter("there is a leader again; reconnecting gives a session that can write")
		}
	}
}

// endSilent closes the connections of read-only clients that have been silent for their timeout at
// now (ms), because no leader expires them. mu is held.
func (s *state) endSilent(now int64) {
	for _, c := range s.clientsByID() {
		if c.readOnly && now-c.lastHeard.Load() > int64(c.timeout) {
			c.CloseAfter("nothing was heard of its client for its timeout")
		}
	}
}
