package replica

import (
	"errors"

	"github.com/zooid-project/zooid/internal/memory"
	"github.com/zooid-project/zooid/jute"
)

// A verdict is what admit finds of a request: that it is taken, to be done as the table
// of operations says, or what it is answered with here, in its place among the replies.
// Only what is taken is stamped, so what is refused never reaches the outbox.
type verdict uint8

const (
	taken       verdict = iota
	unheard             // it comes behind a closeSession, and gets no answer
	endsHere            // it closes a session that is in no log; the connection closes behind the answer
	noSuchOp            // the operation doesn't exist or isn't for clients; the connection closes behind the answer
	notInForce          // some member's version doesn't know the operation
	notReadOnly         // it needs the log, and this server is read-only
	noRoom              // the disk or memory has no room for it
	tooFast             // a limit in a second of its path is used up
	tooMuch             // it exceeds a limit of its path or session
)

// refusals are the codes that requests are refused with.
var refusals = [...]jute.Code{
	noSuchOp: jute.ErrUnimplemented, notInForce: jute.ErrUnimplemented, notReadOnly: jute.ErrNotReadOnly,
	noRoom: jute.ErrThrottledOp, tooFast: jute.ErrThrottledOp, // which says that it was not executed
	tooMuch: jute.ErrQuotaExceeded,
}

// refuses reports whether the request is not done at all.
func (v verdict) refuses() bool { return v >= noSuchOp }

// ErrUntold says that the next request on a connection is a write, and that the client
// has yet to be told that an earlier one was refused. It is to be brought again.
//
// A client that pipelines writes means them in that order (X6). After a write was
// refused for lack of room on the disk or of memory, the next one is taken only once
// the client has received the refusal. Otherwise the later write could be applied
// while the client knows nothing about the earlier one.
var ErrUntold = errors.New("the client has yet to be told that a write was refused")

// admit decides on one request. The replica may be held, and is let go where the
// decision takes longer than a look at a few numbers.
func (t *readBatch) admit(op *op, body []byte) (verdict, error) {
	c := t.c
	ends := op == &opCloseSession
	switch {
	case c.inTable == leaving:
		return unheard, nil
	case c.inTable == notEntered && ends:
		c.inTable = leaving
		return endsHere, nil
	case c.readOnly && ends:
		return endsHere, nil
	case c.readOnly && (op.isWrite() || op.kind == kindSync):
		return notReadOnly, nil
	case op.kind == kindRefused || op == &opReplace && !c.mayReplace:
		return noSuchOp, nil
	}
	if b := t.bounds; b != nil && b.concerns(t.r, op, len(body)) {
		if v := t.within(b, op, body); v != taken {
			c.refused = c.refused || op.isWrite()
			return v, nil
		}
	}
	if !op.isWrite() {
		if !t.affords(op, body) {
			return noRoom, nil
		}
		return taken, nil
	}
	if !ends && (t.r.noRoom.Load() || !t.affords(op, body)) {
		c.refused = true
		return noRoom, nil
	}
	if !ends && t.r.unanswered.manyRequests() && t.holdsBack() {
		return taken, ErrPaced
	}
	if c.refused {
		if t.release(); !c.told() {
			return taken, ErrUntold
		}
		c.refused = false
	}
	if !t.r.InForce(op.code) {
		return notInForce, nil
	}
	return taken, nil
}

// affords reports whether there is memory for what a request makes larger.
func (t *readBatch) affords(op *op, body []byte) bool {
	r := t.r
	if r.memory.tight.Load() == 0 {
		return true
	}
	t.release()
	if memory.Step(r.memory.tight.Load()) < memory.RefuseGrowth || !r.grows(op.code, body) {
		return true
	}
	r.memory.refused.Add(1)
	return false
}

// told reports whether all answers to what the client sent so far have reached it.
func (c *Client) told() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unanswered.len() == 0 && len(c.out) == 0 && !c.flushing && (c.Acked == nil || c.Acked())
}

// refuse appends the reply to a request that was not taken. r.mu is held at least
// shared, and c.mu.
func (r *Replica) refuse(c *Client, out []byte, v verdict, xid int32) []byte {
	h := jute.ReplyHeader{Xid: xid, Zxid: r.tree.LastZxid()}
	switch v {
	case endsHere:
		if l := r.locals.sessions[c.session]; l != nil {
			l.left = true
		}
		c.closeLocked("its client closed the session")
		return jute.AppendReply(out, h, nil)
	case noSuchOp:
		h.Zxid = -1
		c.closeLocked("it sent an operation that does not exist or is not for clients")
	case tooMuch:
		h.Zxid = 0 // a quota's refusal has one of its own; this one has no place in the order
	}
	h.Err = refusals[v]
	return jute.AppendReply(out, h, nil)
}
