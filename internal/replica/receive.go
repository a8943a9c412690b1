package replica

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// ErrClosing says that the connection takes no more requests; the reason is on
// the client.
var ErrClosing = errors.New("the connection is closing")

// A readBatch is what one read of a connection has brought, while Receive takes it: it
// holds the replica over consecutive requests that read, and counts them, so that each
// costs a lookup and not a lock.
type readBatch struct {
	r       *Replica
	c       *Client
	now     int64
	held    bool
	ahead   int    // reads whose znodes were fetched, and still come
	rest    []byte // what arrived, from the request at hand on
	count   int64
	last    request // answered last
	metrics requestMetrics
	work    int // done since the replica was held

	writes int64 // whose records are in c.records
}

// Receive takes what arrived on an attached connection and returns how many
// bytes it used up: all the whole frames. A frame's bytes are not kept. It may
// block while the connection has too much unanswered.
func (r *Replica) Receive(c *Client, in []byte, now int64) (used int, err error) {
	t := readBatch{r: r, c: c, now: now}
	defer func() {
		t.release()
		t.hand()
		r.meters.BytesReceived.Add(int64(used))
	}()
	c.lastHeard.Store(now / 1e6)
	for {
		rest := in[used:]
		if len(rest) < 4 {
			return used, nil
		}
		n := int(int32(binary.BigEndian.Uint32(rest)))
		if n < 0 || n > r.limits.frameMax {
			r.meters.largeRejected.Inc()
			return used, &jute.FrameSizeError{Size: n, Max: r.limits.frameMax}
		}
		if len(rest)-4 < n {
			return used, nil
		}
		if n < jute.RequestHeaderSize {
			return used, fmt.Errorf("request of %d bytes: a header alone takes %d", n, jute.RequestHeaderSize)
		}
		t.rest = rest
		frame := rest[4 : 4+n]
		xid, code := int32(binary.BigEndian.Uint32(frame)), jute.Op(int32(binary.BigEndian.Uint32(frame[4:])))
		if err := t.request(xid, lookup(code), frame[jute.RequestHeaderSize:]); err != nil {
			return used, err
		}
		used += 4 + n
	}
}

// request takes one request.
func (t *readBatch) request(xid int32, op *op, body []byte) error {
	if op.kind == kindLogin {
		t.release()
		return t.r.login(t.c, xid, op, body)
	}
	if !t.r.auth.Satisfied(t.c.identities()) {
		t.release()
		t.c.reply(jute.ReplyHeader{Xid: xid, Err: jute.ErrSessionClosedRequireSASLAuth}, nil)
		t.c.CloseAfter("it sent a request before it authenticated, which this server requires (enforce.auth.schemes)")
		return ErrClosing
	}
	if t.c.inTable != entered {
		if op = t.c.localOp(op); op == nil {
			return nil
		}
	}
	if t.c.readOnly {
		op = readOnlyOp(op)
	}
	if op.isWrite() && op != &opCloseSession {
		var err error
		if op, err = t.mayWrite(op, body); err != nil {
			return err
		}
	} else {
		op = t.afford(op, body)
	}
	if op.isWrite() && !t.r.InForce(op.code) {
		op = &opNotInForce
	}
	if !op.isWrite() && op.kind != kindSync && t.hold() {
		if t.ahead == 0 {
			t.ahead = t.prefetch()
		}
		t.ahead--
		start := len(t.c.out)
		out, ok := t.r.answer(t.c, t.c.out, op, xid, body)
		if !ok {
			t.c.out = out[:start]
			t.release()
			return t.enqueue(xid, op, body)
		}
		t.c.out = out
		t.metrics.add(t.r.meters, t.c, op.code, body, out[start:])
		t.count++
		t.last = request{xid: xid, op: op, at: t.now}
		if t.work += readWork(len(body), len(out)-start); t.work >= readWorkMax {
			t.release()
		}
		return nil
	}
	t.release()
	return t.enqueue(xid, op, body)
}

// prefetch has the tree fetch what the reads that come next are about to need, and
// returns how many they are, 1 at least. The replica is held.
func (t *readBatch) prefetch() int {
	if t.r.tree.NodeCount() < tree.PrefetchNodesMin {
		return tree.PrefetchMax
	}
	var paths [tree.PrefetchMax]string
	var d jute.Decoder
	n := 0
	for rest := t.rest; n < len(paths) && len(rest) >= 4+jute.RequestHeaderSize; n++ {
		size := 4 + int(binary.BigEndian.Uint32(rest))
		if size < 4+jute.RequestHeaderSize || size > len(rest) || lookup(jute.Op(int32(binary.BigEndian.Uint32(rest[8:])))).kind != kindRead {
			break
		}
		d.Reset(rest[4+jute.RequestHeaderSize : size])
		paths[n] = d.String() // garbage if the request has no path; the result is only a prefetch hint
		rest = rest[size:]
	}
	if n > 1 {
		t.r.tree.Prefetch(paths[:n])
	}
	return max(n, 1)
}

// hold makes sure that the replica and the client are held, and reports whether
// the client has nothing unanswered, so that a read may be answered at once.
func (t *readBatch) hold() bool {
	if t.held {
		return len(t.c.out) < outputPauseBytes && !t.c.closing
	}
	t.r.mu.RLock()
	t.c.mu.Lock()
	if t.c.unanswered.len() > 0 || t.c.closing || len(t.c.out) >= outputPauseBytes {
		t.c.mu.Unlock()
		t.r.mu.RUnlock()
		return false
	}
	t.held = true
	return true
}

// release lets go what hold took, and accounts for the reads answered since.
func (t *readBatch) release() {
	if !t.held {
		return
	}
	t.held, t.work = false, 0
	zxid := t.r.tree.LastZxid()
	t.metrics.flush(t.r.meters, t.c)
	t.c.mu.Unlock()
	t.r.mu.RUnlock()
	if t.count > 0 {
		t.c.stats.received.Add(t.count)
		t.r.stats.received.Add(t.count)
		t.r.stats.sent.Add(t.count)
		t.r.stats.latency.observe(0, t.count-1)
		t.c.stats.sent.Add(t.count - 1)
		t.r.answered(t.c, &t.last, zxid, t.r.now())
		t.count = 0
	}
}

// hand puts the batch's writes in the outbox: together, so that they are one entry
// of the log, and the loop is told once.
func (t *readBatch) hand() {
	r, c := t.r, t.c
	if t.writes == 0 {
		return
	}
	c.stats.received.Add(t.writes) // before they can be answered
	r.stats.received.Add(t.writes)
	t.writes = 0
	r.outbox.addRecords(c.records)
	if c.records = c.records[:0]; cap(c.records) > bufferKeepBytes {
		c.records = nil
	}
	r.kick()
}

// enqueue puts a request in the client's queue and, if it is a write, in the
// batch's.
func (t *readBatch) enqueue(xid int32, op *op, body []byte) error {
	r, c := t.r, t.c
	if op.isWrite() && c.inTable == notEntered {
		if !r.enter(c) {
			return ErrClosing
		}
		c.inTable = entered
	}
	req := request{xid: xid, op: op, at: t.now}
	if op.isWrite() {
		return t.write(&req, body)
	}
	t.hand() // they are ahead of it
	req.size = requestOverhead + len(body)
	if !c.reserve(&r.unanswered, req.size, t.hand) {
		return ErrClosing
	}
	c.stats.received.Add(1)
	r.stats.received.Add(1)
	switch op.kind {
	case kindSync:
		req.body = append([]byte(nil), body...)
		c.mu.Lock()
		req.seq = int64(r.syncs.ask(c, false))
		c.unanswered.push(req)
		c.syncing.Add(1)
		c.mu.Unlock()
		r.kick()
	default:
		req.body = append([]byte(nil), body...)
		r.mu.RLock()
		c.mu.Lock()
		if req.long = r.isLong(c, op, body); req.long {
			c.longReads.Add(1)
		}
		c.unanswered.push(req)
		// What was ahead of it may have been answered meanwhile.
		r.drain(c, t.now)
		if len(c.out) > 0 || c.closing || c.postponed {
			c.queued()
		}
		c.mu.Unlock()
		r.mu.RUnlock()
		r.unanswered.wake()
	}
	return nil
}

// write puts a write in the client's queue and in the batch's.
func (t *readBatch) write(req *request, body []byte) error {
	r, c := t.r, t.c
	if req.op.code == jute.OpReconfig {
		t.hand() // what is ahead of it needn't wait
		body = r.vetted(body, c.identities())
	}
	c.seq++
	req.seq = c.seq
	ids := c.ids.Load()
	stamped := tree.Request{Op: req.op.code, Session: c.session, Cnx: c.id, Seq: c.seq, Xid: req.xid, Identities: *ids, Body: body}
	if !r.alone || c.holds() {
		// It may have to be sent again, or later.
		req.body = tree.AppendRecord(make([]byte, 0, tree.RecordSize(&stamped)), &stamped)
	}
	req.size = requestOverhead + len(body)
	held, ok := c.expect(req, &r.unanswered, t.hand)
	if !ok {
		return ErrClosing
	}
	switch {
	case held:
		c.stats.received.Add(1)
		r.stats.received.Add(1)
		return nil
	case len(c.records) > 0 && ids == c.recordIDs && r.level.Load() >= 2:
		c.records = tree.AppendNextRecord(c.records, &stamped)
	case req.body != nil:
		c.records, c.recordIDs = append(c.records, req.body...), ids
	default:
		c.recordIDs = ids
		c.records = tree.AppendRecord(c.records, &stamped)
	}
	t.writes++
	return nil
}

// vetted returns a reconfig's body followed by the code that this server found.
// What would be refused anyway is not looked into further: only a client that may
// change the membership makes the server dial what the request names, and learns
// whether that answers.
func (r *Replica) vetted(body []byte, ids []jute.ID) []byte {
	code := jute.OK
	if r.vet != nil && r.mayReconfig(body, ids) {
		code = r.vet(body)
	}
	return jute.AppendInt(append([]byte(nil), body...), int32(code))
}

func (r *Replica) mayReconfig(body []byte, ids []jute.ID) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.tree.ReconfigCode(body, ids) == jute.OK
}

// answer appends the whole reply frame of a read, or returns false for one that
// must be done in steps. r.mu is held at least shared, and c.mu.
func (r *Replica) answer(c *Client, out []byte, op *op, xid int32, body []byte) ([]byte, bool) {
	zxid := r.tree.LastZxid()
	if op.kind == kindRefused {
		c.closeLocked("it sent an operation that does not exist or is not for clients")
		return appendReply(out, jute.ReplyHeader{Xid: xid, Zxid: -1, Err: jute.ErrUnimplemented}), true
	}
	out, start := jute.BeginFrame(out)
	head := len(out)
	out = append(out, noHeader[:]...)
	out, code := op.read(r, c, out, body)
	switch code {
	case jute.OK:
	case tree.LongRead:
		return out, false
	case tree.TooLong:
		code = r.tooLong(c)
		out = out[:head+jute.ReplyHeaderSize]
	default:
		out = out[:head+jute.ReplyHeaderSize]
	}
	jute.PutReplyHeader(out[head:], jute.ReplyHeader{Xid: xid, Zxid: zxid, Err: code})
	return jute.EndFrame(out, start), true
}

var noHeader [jute.ReplyHeaderSize]byte

// login handles auth and sasl, which are answered at once.
func (r *Replica) login(c *Client, xid int32, op *op, body []byte) error {
	c.stats.received.Add(1)
	r.stats.received.Add(1)
	r.stats.sent.Add(1)
	d := jute.NewDecoder(body)
	if op.code == jute.OpSASL {
		return r.saslLogin(c, xid, d)
	}
	var p jute.AuthPacket
	p.Decode(d)
	ids, err := c.identities(), d.Err()
	if err == nil {
		ids, err = r.auth.Authenticate(ids, c.address, &p)
	}
	switch {
	case errors.Is(err, auth.ErrWrongEnsemble):
		c.CloseAfter(err.Error())
		return ErrClosing
	case err != nil:
		r.clientLog.Warn("a client failed to authenticate", "client", c.remote, "session", SessionText(c.session), "err", err)
		r.stats.authFailed.Add(1)
		c.reply(jute.ReplyHeader{Xid: xid, Err: jute.ErrAuthFailed}, nil)
		c.CloseAfter("it failed to authenticate")
		return ErrClosing
	}
	c.ids.Store(&ids)
	c.reply(jute.ReplyHeader{Xid: xid}, nil)
	return nil
}

// SessionText writes a session id as Apache does.
func SessionText(id int64) string { return fmt.Sprintf("0x%x", uint64(id)) }
