package replica

import (
	"github.com/zooid-project/zooid/internal/proposals"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// enqueue puts a request in the client's queue and, if it is a write, also in the batch.
func (t *readBatch) enqueue(req *request, body []byte) error {
	r, c := t.r, t.c
	if req.isWrite() {
		if c.reader.inTable == notEntered {
			if !r.locals.enter(c) {
				return ErrClosing
			}
			c.reader.inTable = entered
		}
		return t.write(req, body)
	}
	t.hand() // the batch's writes are ahead of this request
	req.size = int(proposals.SizeOf(&tree.Request{Body: body}))
	if !c.reserve(&r.unanswered, req.size, t.hand) {
		return ErrClosing
	}
	c.stats.received.Add(1)
	r.stats.received.Add(1)
	req.body = append([]byte(nil), body...)
	if req.isSync() {
		c.mu.Lock()
		req.seq = int64(r.syncs.ask(c, false))
		c.unanswered.push(*req)
		c.ahead.syncs.Add(1)
		c.mu.Unlock()
		r.kick()
	} else {
		r.mu.RLock()
		c.mu.Lock()
		if req.long = r.reads.isLong(c, req.code(), body); req.long {
			c.ahead.longReads.Add(1)
		}
		c.unanswered.push(*req)
		// The requests ahead of it may have been answered meanwhile.
		r.drain(c, t.now)
		if len(c.out.frames) > 0 || c.closing || c.steps.due {
			c.queued()
		}
		c.mu.Unlock()
		r.mu.RUnlock()
		r.unanswered.wake()
	}
	return nil
}

// write puts a write in the client's queue and in the batch.
func (t *readBatch) write(req *request, body []byte) error {
	r, c := t.r, t.c
	if req.op.code == jute.OpReconfig {
		t.hand() // the writes ahead of it need not wait for vet
		c.reader.Blocks()
		body = r.vetted(body, c.identities())
	}
	if err := r.auth.Judge(req.op.code, body); err != nil {
		r.clientLog.Error("an ACL is refused, because a provider panicked", "client", c.remote,
			"session", SessionText(c.session), "err", err, "code", "ZD-3143")
	}
	c.reader.leaves = c.reader.leaves || req.op == &opCloseSession
	c.reader.seq++
	req.seq = c.reader.seq
	ids := c.ids.Load()
	stamped := tree.Request{
		Op: req.op.code, Session: c.session, Cnx: c.id, Seq: c.reader.seq, Xid: req.xid, Identities: *ids, Body: body,
	}
	req.size = int(proposals.SizeOf(&stamped))
	held, ok := c.expect(req, &stamped, !r.alone, &r.unanswered, t.hand)
	if !ok {
		return ErrClosing
	}
	switch {
	case held:
		c.stats.received.Add(1)
		r.stats.received.Add(1)
		return nil
	case t.isFirst(req):
		c.stats.received.Add(1)
		r.stats.received.Add(1)
		r.proposals.AddFirst(tree.AppendRecord(nil, &stamped))
		r.kick()
		return nil
	case len(c.reader.records) > 0 && ids == c.reader.recordIDs && r.levels.level.Load() >= 2:
		c.reader.records = tree.AppendNextRecord(c.reader.records, &stamped)
	case req.body != nil:
		c.reader.records, c.reader.recordIDs = append(c.reader.records, req.body...), ids
	default:
		c.reader.recordIDs = ids
		c.reader.records = tree.AppendRecord(c.reader.records, &stamped)
	}
	t.writes++
	return nil
}

// vetted returns a reconfig's body followed by the code that Options.Vet returned. A reconfig that
// would be refused anyway is not vetted: only a client that may change the membership can make the
// server dial the addresses in the request, and learn whether they answer.
func (r *Replica) vetted(body []byte, ids []jute.ID) []byte {
	code := jute.OK
	if r.vet != nil && r.mayReconfig(body, ids) {
		code = r.vet(body)
	}
	return jute.AppendInt(append([]byte(nil), body...), int32(code))
}

func (s *state) mayReconfig(body []byte, ids []jute.ID) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.tree.ReconfigCode(body, ids) == jute.OK
}
