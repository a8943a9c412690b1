package replica

import (
	"errors"

	"github.com/zooid-project/zooid/internal/memory"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// A verdict is admit's decision on a request: the request is taken, to be executed as the table
// of operations says, or the verdict says how it is answered instead, in its place among the
// replies. Only a taken request is stamped, so a refused one never becomes a proposal.
type verdict uint8

const (
	taken       verdict = iota
	unheard             // it follows a closeSession and gets no answer
	endsHere            // it closes a session that is in no log; the connection closes after the answer
	noSuchOp            // the operation doesn't exist or isn't for clients; the connection closes after the answer
	notInForce          // some member runs a version that doesn't know the operation
	notReadOnly         // it needs the log, and this server is read-only
	noRoom              // the disk or memory has no room for it
	tooFast             // it exceeds a per-second limit of its path
	tooMuch             // it exceeds a limit of its path or session
)

// refusals holds the error code for each verdict that refuses a request.
var refusals = [...]jute.Code{
	noSuchOp: jute.ErrUnimplemented, notInForce: jute.ErrUnimplemented, notReadOnly: jute.ErrNotReadOnly,
	noRoom: jute.ErrThrottledOp, tooFast: jute.ErrThrottledOp, // which means that it was not executed
	tooMuch: jute.ErrQuotaExceeded,
}

// refuses reports whether the request is refused without being executed.
func (v verdict) refuses() bool { return v >= noSuchOp }

// ErrUntold says that the next request on a connection is a write, and that the client doesn't
// know yet that an earlier one was refused. The caller passes the request in again later.
//
// A client that pipelines writes relies on their order (X6). After a write was refused for lack of
// disk space or memory, the next one is taken only once the client has received the refusal.
// Otherwise the later write could be applied before the client learns that the earlier one was
// refused.
var ErrUntold = errors.New("the client has yet to be told that a write was refused")

// admit decides on one request. The batch may hold the replica; admit releases it if the decision
// requires more than comparing a few numbers.
func (t *readBatch) admit(op *op, body []byte) (verdict, error) {
	c := t.c
	ends := op == &opCloseSession
	switch {
	case c.reader.inTable == leaving:
		return unheard, nil
	case c.reader.inTable == notEntered && ends:
		c.reader.inTable = leaving
		return endsHere, nil
	case c.readOnly && ends:
		return endsHere, nil
	case c.readOnly && (op.isWrite() || op.kind == kindSync):
		return notReadOnly, nil
	case op.kind == kindRefused || op == &opRestore && !c.mayRestore:
		return noSuchOp, nil
	}
	if b := t.limits; b != nil && b.Concerns(op.code, op.isWrite(), len(body), &t.r.limiter.sizes) {
		if v := t.within(b, op, body); v != taken {
			c.reader.refused = c.reader.refused || op.isWrite()
			return v, nil
		}
	}
	if len(body) > outputFreeBytes && c.out.short() && t.isLargeEcho(op, body) {
		c.reader.refused = c.reader.refused || op.isWrite()
		return noRoom, nil
	}
	if !op.isWrite() {
		if !t.affords(op, body) {
			return noRoom, nil
		}
		return taken, nil
	}
	if !ends && (t.r.room.none.Load() || !t.affords(op, body)) {
		c.reader.refused = true
		return noRoom, nil
	}
	if !ends && t.r.unanswered.manyRequests() && t.holdsBack() {
		return taken, ErrPaced
	}
	if c.reader.refused {
		if t.release(); !c.told() {
			return taken, ErrUntold
		}
		c.reader.refused = false
	}
	if !t.r.levels.InForce(op.code, body) {
		t.r.policyLog.Info("a request was refused: it needs a feature level that a member's version doesn't know; upgrade all servers",
			"client", c.remote, "operation", tree.OpName(op.code), "inForce", t.r.levels.level.Load())
		return notInForce, nil
	}
	return taken, nil
}

// affords reports whether there is memory for the request's additions.
func (t *readBatch) affords(op *op, body []byte) bool {
	r := t.r
	if r.memory.tight.Load() == 0 {
		return true
	}
	t.release()
	if memory.Step(r.memory.tight.Load()) < memory.RefuseGrowth || !r.grows(op.code, body, r.memory.asideMax()) {
		return true
	}
	r.memory.refused.Add(1)
	return false
}

// isLargeEcho reports whether the reply to a request repeats large paths, and counts it as refused.
func (t *readBatch) isLargeEcho(op *op, body []byte) bool {
	t.release()
	large := echoed(op.code, body) > outputFreeBytes
	if large {
		t.r.memory.refused.Add(1)
	}
	return large
}

// told reports whether the client has received the answers to all its requests so far.
func (c *Client) told() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unanswered.len() == 0 && len(c.out.frames) == 0 && !c.out.flushing && c.Socket.Acked()
}

// refuse appends the reply to a request that was not taken. r.mu is held at least for reading, and c.mu
// is held.
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
		h.Zxid = 0 // the tree's own quota refusal has a zxid; this one has no place in the order
	}
	h.Err = refusals[v]
	return jute.AppendReply(out, h, nil)
}
