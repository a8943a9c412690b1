package replica

import (
	"slices"

	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/internal/watch"
	"github.com/zooid-project/zooid/jute"
)

// A read blocks writers, so no client may hold the replica for longer than a fraction of a
// millisecond at a time.
//
//	many reads   A batch of reads, and what is answered behind a write, lets the
//	             replica go whenever it has done readWorkMax.
//	a long read  is done in steps. It gathers one state all the same: if its list
//	             has changed since its first step, it begins anew (tree.Scan).
//	a large reply
//	             is a long read of two steps: the first finds out how large it gets, and
//	             the second fills memory that was taken in between.
//	one by one   Steps of long reads take turns, however many clients wait for one.
//
// A long read stands in its connection's queue as any waiting request does. The flusher of
// the connection does its steps, and writes the output of each to the socket before the next
// (takeOutput): so a client that doesn't read its replies gets no more of them.
//
// Where a long read waits behind a write, it must be answered before the
// connection's next write is applied, or it would show that one too. So it holds
// the writes behind it back, as a sync does.

const (
	// readWorkMax is how much reading is done before others get their turn: some
	// hundred small reads.
	readWorkMax = 256 << 10
	// readWorkMin and readWorkInput are what a read counts beside the bytes of its
	// reply: itself, and each byte of its request, which may name a znode every few
	// bytes.
	readWorkMin   = 256
	readWorkInput = 8
	// longReadZnodes and longReadInput make a read long that waits behind a write:
	// the znodes and the bytes of the request it looks at. A shorter one may be
	// answered while the replica is held alone.
	longReadZnodes = 1024
	longReadInput  = 4 << 10
	// queuedReadsMax is how many reads of one znode each may wait before anybody
	// asks how large their replies are going to be. Once those of the next ones
	// come to readWorkMax, the rest is done as long reads are.
	queuedReadsMax = 32
	// largeReply is the least that is worth a long read for its memory.
	largeReply = 32 << 10
	// memoryPage is the least that the system gives at a time; touching one byte of each
	// page is enough to have it.
	memoryPage = 4 << 10
	// setWatchesStep is how many watches are set at a time.
	setWatchesStep = 128
	// multiReadFrames bounds the reply of a multiRead, in frames of jute.maxbuffer.
	multiReadFrames = 4
)

// readWork returns what a read counts, given the sizes of its request and reply.
func readWork(request, reply int) int { return readWorkMin + readWorkInput*request + reply }

// A longRead is a read that is done in steps: the one at the head of its
// connection's queue.
type longRead struct {
	scan    tree.Scan
	room    int // bytes of memory for a reply, instead of a scan
	watches *setWatches
}

// isLong reports whether a read that has to wait is to be done as a long one.
// r.mu is held at least shared, and c.mu.
func (r *Replica) isLong(c *Client, op jute.Op, body []byte) bool {
	switch op {
	case jute.OpSetWatches, jute.OpSetWatches2:
		return true
	case jute.OpMultiRead:
		return len(body) > longReadInput || r.tree.LargeValues()
	case jute.OpGetData:
		if r.tree.LargeValues() && r.tree.Room(op, body, nil, 0) > largeReply {
			return true
		}
	case jute.OpGetChildren, jute.OpGetChildren2, jute.OpGetEphemerals:
		path, _ := pathOnly(body)
		return r.tree.ReadWork(op, path, c.session) > longReadZnodes
	}
	if c.unanswered.reads < queuedReadsMax {
		return false
	}
	path, _ := pathOnly(body)
	c.unanswered.work += readWork(len(body), r.tree.ReadWork(op, path, c.session))
	return c.unanswered.work > readWorkMax
}

// postpone leaves the read at the head of c's queue to whoever flushes c; c.mu is
// held.
func (r *Replica) postpone(c *Client) {
	c.postponed, c.more = true, r.readMore
}

// readMore does the next step of what c has postponed.
func (r *Replica) readMore(c *Client) {
	now := r.now()
	defer r.unanswered.wake()
	out := r.roomWanted(c)
	r.heavy.Lock()
	defer r.heavy.Unlock()
	r.mu.RLock()
	defer r.mu.RUnlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if out != nil && !c.closed {
		if len(c.out) == 0 && cap(c.spare) == 0 {
			c.spare = c.out // for the small replies behind this one
		}
		c.out = slices.Grow(append(out, c.out...), cap(out)) // a notification may have come meanwhile
	}
	for work := 0; work < readWorkMax && r.canAnswer(c); {
		if len(c.out) >= outputPauseBytes {
			return // more when that is written
		}
		req := c.unanswered.front()
		before := len(c.out)
		done := r.step(c, req)
		work += readWork(len(req.body), len(c.out)-before)
		if !done {
			return
		}
		var t requestMetrics
		t.add(r, c, req, req.body, c.out[before:])
		t.flush(r.meters, c)
		if req.long {
			c.longDone++
		}
		r.finish(c, req, r.tree.LastZxid(), now)
	}
	if c.postponed = r.canAnswer(c); !c.postponed {
		// Only now: a write that is sent earlier may be applied before the reads ahead
		// of it are answered.
		c.longReads.Add(-c.longDone)
		c.longDone = 0
		r.letGo(c)
	}
}

// canAnswer reports whether the head of c's queue can be answered now; c.mu is
// held.
func (r *Replica) canAnswer(c *Client) bool {
	if c.unanswered.len() == 0 || c.closing || c.closed {
		return false
	}
	req := c.unanswered.front()
	return !req.isWrite() && (!req.isSync() || req.ready)
}

// step does a part of a read, and reports whether its reply is in c.out. r.mu is
// held at least shared, and c.mu.
func (r *Replica) step(c *Client, req *request) (done bool) {
	begin := len(c.out)
	if c.long == nil || c.long.room > 0 {
		out, ok := r.answer(c, c.out, req, req.body)
		if c.out = out; ok {
			c.long = nil
			return true
		}
		c.out = c.out[:begin]
		c.long = r.beginLong(c, req)
	}
	if l := c.long; l != nil {
		if l.room > 0 {
			return false
		}
		if l.watches != nil {
			done = r.stepWatches(c, l.watches, req)
		} else {
			done = r.stepScan(c, &l.scan, req)
		}
		if !done {
			return false
		}
		c.long = nil
	}
	return true
}

// roomWanted returns memory for the reply that c's long read is going to have, or nil
// if it wants none. Neither the replica nor c is held while it is taken, and its pages
// are had from the system, which takes as long again as filling them does.
func (r *Replica) roomWanted(c *Client) []byte {
	c.mu.Lock()
	n := 0
	if c.long != nil {
		n = c.long.room
	}
	c.mu.Unlock()
	if n == 0 {
		return nil
	}
	if out := r.large.get(n); out != nil {
		return out
	}
	out := make([]byte, n)
	for i := 0; i < n; i += memoryPage {
		out[i] = 1
	}
	return out[:0]
}

// beginLong returns the read that answer has found too long.
func (r *Replica) beginLong(c *Client, req *request) *longRead {
	if code := req.op.code; code == jute.OpSetWatches || code == jute.OpSetWatches2 {
		return &longRead{watches: beginWatches(req.body, code)}
	}
	if n := r.tree.Room(req.op.code, req.body, c.identities(), r.multiReadMax()); n > largeReply {
		return &longRead{room: n + frameLengthSize + jute.ReplyHeaderSize}
	}
	path, _, _ := pathWatch(req.body)
	if req.op.code == jute.OpGetEphemerals {
		path, _ = pathOnly(req.body)
	}
	frame, _ := jute.BeginFrame(nil)
	return &longRead{scan: tree.Scan{
		Op: req.op.code, Path: path, IDs: c.identities(), Session: c.session, Body: append(frame, noHeader[:]...),
	}}
}

// stepScan does a step of a read of children or ephemerals.
func (r *Replica) stepScan(c *Client, scan *tree.Scan, req *request) (done bool) {
	done, code := r.tree.Step(scan)
	if !done {
		return false
	}
	if code == tree.TooLong {
		code = r.tooLong(c)
	}
	h := jute.ReplyHeader{Xid: req.xid, Zxid: r.tree.LastZxid(), Err: code}
	switch {
	case code != jute.OK:
		c.out = jute.AppendReply(c.out, h, nil)
		return true
	case len(c.out) == 0:
		c.out = scan.Body
	default:
		c.out = append(c.out, scan.Body...)
	}
	frame := c.out[len(c.out)-len(scan.Body):]
	jute.PutReplyHeader(frame[frameLengthSize:], h)
	jute.EndFrame(frame, 0)
	if path, wanted, ok := pathWatch(req.body); ok && wanted && scan.Op != jute.OpGetEphemerals {
		r.watch(c, path, watch.Child)
	}
	return true
}

// setWatches is a setWatches or setWatches2 under way. Its paths are read from the
// request one by one: there may be a quarter of a million.
type setWatches struct {
	malformed bool
	lists     int // in the request
	relative  int64
	rest      jute.Decoder
	list      int // of its lists, the one at hand, from 1 on
	left      int // of its paths
}

// beginWatches begins with the record of code.
func beginWatches(body []byte, code jute.Op) *setWatches {
	w := &setWatches{lists: 3}
	if code == jute.OpSetWatches2 {
		w.lists = 5
	}
	w.rest.Reset(body)
	w.relative = w.rest.Long()
	all := w.rest
	for range w.lists {
		for range max(0, all.Count(4)) {
			all.Buffer()
		}
	}
	w.malformed = all.Err() != nil
	return w
}

// next returns the next path and the kind of its list, from 0 on, or false if there
// is none.
func (w *setWatches) next() (kind int, path string, ok bool) {
	for w.left == 0 {
		if w.list == w.lists {
			return 0, "", false
		}
		w.list++
		w.left = max(0, w.rest.Count(4))
	}
	w.left--
	return w.list - 1, w.rest.String(), true
}

// stepWatches leaves some of a reconnected client's watches, and appends a
// notification for each whose event happened while it was away, as far as that
// shows.
func (r *Replica) stepWatches(c *Client, w *setWatches, req *request) (done bool) {
	if w.malformed {
		c.out = jute.AppendReply(c.out, jute.ReplyHeader{Xid: req.xid, Zxid: r.tree.LastZxid(), Err: jute.ErrMarshallingError}, nil)
		return true
	}
	for range setWatchesStep {
		if !r.setWatch(c, w) {
			c.out = jute.AppendReply(c.out, jute.ReplyHeader{Xid: req.xid, Zxid: r.tree.LastZxid()}, nil)
			return true
		}
	}
	return false
}

// setWatch leaves the next watch, or tells of its event. It returns false if there
// is none.
func (r *Replica) setWatch(c *Client, w *setWatches) bool {
	tell := func(typ jute.EventType, path string) {
		c.out = appendNotification(c.out, -1, typ, path)
		c.stats.sent.Add(1)
	}
	kind, path, ok := w.next()
	if !ok {
		return false
	}
	stat, exists := r.tree.Stat(path)
	switch {
	case r.tree.Denies(path, jute.PermRead, c.identities()): // ACLs aren't asked here, as in Apache
		r.rewatch(c, path, kind)
	case kind == 0 && !exists, kind == 2 && !exists:
		tell(jute.EventNodeDeleted, path)
	case kind == 0 && stat.Mzxid > w.relative:
		tell(jute.EventNodeDataChanged, path)
	case kind == 1 && exists:
		tell(jute.EventNodeCreated, path)
	case kind == 2 && stat.Pzxid > w.relative:
		tell(jute.EventNodeChildrenChanged, path)
	default:
		r.rewatch(c, path, kind)
	}
	return true
}

// rewatch leaves a watch of one of the lists of setWatches.
func (r *Replica) rewatch(c *Client, path string, list int) {
	r.watch(c, path, [...]watch.Kind{watch.Data, watch.Data, watch.Child, watch.Persistent, watch.Recursive}[list])
}
