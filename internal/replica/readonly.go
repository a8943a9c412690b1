package replica

import (
	"bytes"
	"fmt"

	"github.com/zooid-project/zooid/jute"
)

// Read-only mode (readonlymode.enabled): a server of an ensemble that has been
// without a leader for long enough doesn't refuse all clients. It serves those
// that ask for it (ConnectRequest.ReadOnly) with what it knows, which gets old.
//
//	read-only = cut off (no leader for Options.Patience) and enabled
//
// When it begins, every connection is closed, so that each client decides anew
// what it wants; when there is a leader again, those of read-only clients are.
// So a connection is read-only for all of its life or never.
//
// The session of such a client lives as long as its connection, on this server
// alone: no log can hold it, and it can have no znodes. Its password shows what
// it is, so that any server can tell a client that comes back with it that it is
// over. A local session that this server alone knows goes on. About any other
// session a read-only server knows too little: the client is to ask another one, or
// to wait.

// readOnlyPasswd begins the password of a read-only session. The 8 bytes behind
// it are secret, though nothing can be got with them.
var readOnlyPasswd = []byte("readonly")

// readOnly reports whether this server serves read-only now; mu is held at least
// shared.
func (r *Replica) readOnly() bool { return r.readOnlyMode && r.cutOff }

// connectReadOnly takes a connect request while this server is read-only, and
// answers it at once; mu is held alone. An error is the reason to close without
// an answer.
func (r *Replica) connectReadOnly(c *Client, req *jute.ConnectRequest, newID func() int64) error {
	over := bytes.HasPrefix(req.Passwd, readOnlyPasswd)
	switch {
	case !req.ReadOnly:
		return refusal("this server has no leader and is read-only, which the client did not ask for")
	case req.LastZxidSeen > r.tree.LastZxid():
		return refusal(fmt.Sprintf("the client has seen zxid 0x%x, this read-only server is at 0x%x; it must try another server", req.LastZxidSeen, r.tree.LastZxid()))
	case r.locals.here(req.SessionID):
		r.register(c, req)
		c.readOnly = true
		r.connectLocal(c, req, newID)
		return nil
	case req.SessionID != 0 && !over:
		return refusal("a session can't be resumed on a read-only server")
	}
	r.register(c, req)
	c.readOnly = true
	reply := jute.ConnectResponse{HasReadOnly: req.HasReadOnly, ReadOnly: true, Passwd: make([]byte, jute.PasswdSize)}
	why := ""
	if req.SessionID == 0 {
		c.session, c.unrecorded = newID(), true
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

// endReadOnly closes the connections of read-only clients; mu is held alone.
func (r *Replica) endReadOnly() {
	for _, c := range r.clientsByID() {
		if c.readOnly {
			c.CloseAfter("there is a leader again; reconnecting gives a session that can write")
		}
	}
}

// endSilent closes the connections of read-only clients that were silent for
// their timeout at now (ms): no leader watches over them. mu is held.
func (r *Replica) endSilent(now int64) {
	for _, c := range r.clientsByID() {
		if c.readOnly && now-c.lastHeard.Load() > int64(c.timeout) {
			c.CloseAfter("nothing was heard of its client for its timeout")
		}
	}
}
