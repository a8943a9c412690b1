package replica

import (
	"github.com/zooid-project/zooid/internal/invariant"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// answer appends the whole reply frame of a read. It returns false if the read must be done in
// steps. r.mu is held at least for reading, and c.mu is held.
func (r *Replica) answer(c *Client, out []byte, req *request, body []byte) ([]byte, bool) {
	r.mu.RHeld()
	c.mu.Held()
	if req.verdict != taken {
		return r.refuse(c, out, req.verdict, req.xid), true
	}
	zxid := r.tree.LastZxid()
	out, start := jute.BeginFrame(out)
	head := len(out)
	out = append(out, noHeader[:]...)
	out, code := req.op.read(&r.reads, c, out, body)
	switch code {
	case jute.OK:
	case tree.LongRead, tree.NoRoom:
		return out, false
	case tree.TooLong:
		code = r.tooLong(c)
		out = out[:head+jute.ReplyHeaderSize]
	default:
		out = out[:head+jute.ReplyHeaderSize]
	}
	c.out.zxids.Take(zxid, "the zxid of what a connection reads")
	jute.PutReplyHeader(out[head:], jute.ReplyHeader{Xid: req.xid, Zxid: zxid, Err: code})
	return jute.EndFrame(out, start), true
}

var noHeader [jute.ReplyHeaderSize]byte

// complete answers the write at the head of c's queue, and runs the reads that waited behind it.
func (r *Replica) complete(c *Client, res *tree.Result, now int64) {
	r.mu.Held()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.closing {
		return
	}
	if c.unanswered.len() == 0 || c.unanswered.front().seq != res.Seq {
		c.closeLocked("its queue of requests lost step with the log")
		r.touch(c)
		r.log.Error("invariant broken: an applied write is not the first unanswered one of its connection", "client", c.remote,
			"seq", res.Seq)
		return
	}
	req := c.unanswered.front()
	invariant.Holds(req.isWrite() && !req.held, "what is applied is a write that was sent")
	c.out.zxids.Take(res.Zxid, "the zxid of a connection's writes")
	c.out.applied = true
	out, start := jute.BeginFrame(c.out.frames)
	h := jute.ReplyHeader{Xid: req.xid, Zxid: res.Zxid, Err: res.Err}
	out = h.Append(out)
	if res.Err == jute.OK {
		out = res.AppendReply(out)
	}
	r.loop.answersLate(c, req, res, now)
	if weight := c.sampled.Take(&r.stats.traffic); weight > 0 {
		r.stats.sample(c, weight, req, res.Request.Body, len(out)-len(c.out.frames))
	}
	r.stats.answers.add(r, c, req, int64(len(out)-len(c.out.frames)-frameLengthSize), res.Zxid, now)
	c.out.frames = jute.EndFrame(out, start)
	r.freshness.withhold(c, now)
	c.unanswered.pop()
	c.stir(now)
	c.room.Signal()
	if res.Op == jute.OpReconfig {
		c.ahead.reconfigs.Add(-1)
		defer r.letGo(c)
	}
	if res.Op != jute.OpCloseSession && c.unanswered.len() > 0 && !c.unanswered.front().isWrite() {
		// Nothing queued after the end of a session is answered.
		r.stats.answers.flush(r)
		r.drain(c, now)
	}
	r.touch(c)
	if invariant.Checked {
		c.checkAhead()
	}
}

// finish removes the answered request at the head of c's queue; c.mu is held.
func (r *Replica) finish(c *Client, req *request, zxid, now int64) {
	c.mu.Held()
	invariant.Holds(req == c.unanswered.front(), "only the head of a queue is answered")
	r.loop.answersLate(c, req, nil, now)
	r.stats.answered(c, req, zxid, now)
	r.stats.sent.Add(1)
	r.unanswered.add(-1, -int64(req.size))
	c.unanswered.pop()
	c.stir(now)
	c.room.Signal()
}

// drain answers what can be answered at the head of c's queue: reads, and syncs that are ready. At
// a long read it stops and postpones the rest. c.mu is held, and r.mu is held at least for reading.
func (r *Replica) drain(c *Client, now int64) {
	r.mu.RHeld()
	c.mu.Held()
	var t requestMetrics
	defer func() { t.flush(r.meters, c) }()
	for !c.steps.due && c.canAnswer() {
		req := c.unanswered.front()
		if req.long {
			r.postpone(c)
			return
		}
		start := len(c.out.frames)
		out, ok := r.answer(c, c.out.frames, req, req.body)
		if c.out.frames = out; !ok { // the list it reads has grown since it was queued
			c.out.frames = c.out.frames[:start]
			for !r.step(c, req) {
				c.steps.read.goOn(c)
			}
		}
		t.add(r, c, req, req.body, c.out.frames[start:])
		r.finish(c, req, r.tree.LastZxid(), now)
	}
}
