package replica

import (
	"slices"
	"time"

	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/internal/watch"
	"github.com/zooid-project/zooid/jute"
)

// A read blocks writers, so no read may hold the replica for longer than a fraction of a millisecond at a time.
//
//	many reads   A batch of reads, or the reads answered after a write, release the
//	             replica whenever they have done readWorkMax.
//	a long read  is done in steps. It still shows a single state: if its list
//	             has changed since its first step, it starts over (tree.Scan).
//	a large reply
//	             is a long read of two steps: the first computes the size of the reply,
//	             the second fills memory that was allocated in between.
//	one by one   Steps of long reads take turns, however many clients wait for one.
//
// A long read waits in its connection's queue like any other request. The flusher of the connection
// does its steps, and writes the output of each step to the socket before the next (takeOutput). So
// a client that doesn't read its replies gets no more of them.
//
// A long read that waits behind a write must be answered before the connection's next write is
// applied, or it would show that write too. So it holds back later writes, as a sync does.

const (
	// readWorkMax is how much read work is done before others get a turn: several hundred small reads.
	readWorkMax = 256 << 10
	// readWorkMin and readWorkInput are the work of a read in addition to the bytes of its reply: a
	// fixed part, and a factor for the bytes of its request, which may name a znode every few bytes.
	readWorkMin   = 256
	readWorkInput = 8
	// readWorkIdentity is the work for each identity of the reader, which is looked up in a long ACL.
	readWorkIdentity = 16
	// readWorkRuled is the work for each identity that a rule (auth.Rules) may be asked about 16 times.
	readWorkRuled = 1024
	// longReadZnodes and longReadInput are the number of znodes that a read looks at, and the bytes of
	// its request, beyond which a read that waits behind a write is long. A shorter read may be
	// answered while the replica is held for writing.
	longReadZnodes = 1024
	longReadInput  = 4 << 10
	// queuedReadsMax is how many single-znode reads may wait before the sizes of their replies are estimated. Once the
	// estimates of further reads add up to readWorkMax, the rest are done as long reads.
	queuedReadsMax = 32
	// largeReply is the smallest reply whose memory is worth a long read.
	largeReply = 32 << 10
	// memoryPage is the smallest unit of memory that the system provides; writing one byte of each
	// page makes the system provide it.
	memoryPage = 4 << 10
	// setWatchesStep is how many watches are set in one step.
	setWatchesStep = 128
	// watchTime is how long (ns) in each second a connection may keep the replica busy by setting the watches of
	// setWatches, and by removing them when it ends: some sixty thousand watches. All connections of its identity or
	// address together have as much. A step counts for at most watchStepMax (ns): a longer one includes others' time.
	// Beyond watchTime, a connection rests for watchRestMin (ns) or longer. For one request, and since it was last heard,
	// it rests for at most watchRestsMax (ns), or a quarter of its session's timeout if that is less: many clients may
	// have one address, and a resting connection may not be read. A connection that has ended rests for at most
	// watchForgetMax (ns).
	watchTime      = int64(1e9 / 16)
	watchStepMax   = int64(1e6)
	watchRestMin   = int64(2e6)
	watchRestsMax  = int64(2e9)
	watchForgetMax = int64(10e9)
	// multiReadFrames bounds the reply to a multiRead, as a multiple of jute.maxbuffer.
	multiReadFrames = 4
)

// readWork returns the work of a read of c, given the sizes of its request and reply.
func (r *reads) readWork(c *Client, request, reply int) int {
	ids := c.identities()
	work := readWorkMin + readWorkInput*request + reply + readWorkIdentity*len(ids)
	if rules := r.levels.rules.Load(); rules != nil {
		work += readWorkRuled * rules.Bearers(ids)
	}
	return work
}

// A longRead is a read that is done in steps. It is at the head of its connection's queue.
type longRead struct {
	scan    tree.Scan
	list    bool // it is a scan
	room    int  // bytes of memory that its reply or scan needs before the next step; 0 if it has them
	watches *setWatches
}

// begun reports whether the read has collected a part of a list.
func (l *longRead) begun() bool { return l.list && len(l.scan.Body) > scanHead }

// anew returns l as it was before its first step, except for its room.
func (l *longRead) anew() *longRead {
	s := &l.scan
	return &longRead{list: true, room: l.room, scan: tree.Scan{Op: s.Op, Path: s.Path, IDs: s.IDs, Session: s.Session,
		Body: newScanBody(), Room: scanRoom}}
}

// goOn takes the memory that the read needs next, whether there is room or not.
func (l *longRead) goOn(c *Client) {
	if l.list {
		l.scan.Room, l.room = 0, 0
	} else {
		c.out.frames = slices.Grow(c.out.frames, l.room)
	}
}

// scanHead is the number of bytes before the list in a scan's body.
const scanHead = frameLengthSize + jute.ReplyHeaderSize

func newScanBody() []byte {
	frame, _ := jute.BeginFrame(nil)
	return append(frame, noHeader[:]...)
}

// isLong reports whether a read that has to wait is treated as a long one. r.mu is held at least
// for reading, and c.mu is held.
func (r *reads) isLong(c *Client, op jute.Op, body []byte) bool {
	switch op {
	case jute.OpSetWatches, jute.OpSetWatches2:
		return true
	case jute.OpMultiRead:
		return len(body) > longReadInput || r.tree.LargeValues()
	case jute.OpGetData:
		if r.tree.LargeValues() && r.tree.Room(op, body, nil, 0) > largeReply {
			return true
		}
	case jute.OpGetACL:
		if r.tree.Room(op, body, nil, 0) > largeReply {
			return true
		}
	case jute.OpGetChildren, jute.OpGetChildren2:
		path, _ := pathOnly(body)
		return r.tree.ReadWork(op, path, c.session) > longReadZnodes || r.tree.LargeList(path)
	case jute.OpGetEphemerals:
		return true // their paths may be long
	}
	if c.unanswered.reads < queuedReadsMax {
		return false
	}
	path, _ := pathOnly(body)
	c.unanswered.work += r.readWork(c, len(body), r.tree.ReadWork(op, path, c.session))
	return c.unanswered.work > readWorkMax
}

// postpone leaves the read at the head of c's queue to c's flusher; c.mu is held.
func (r *Replica) postpone(c *Client) {
	c.steps.due, c.steps.more = true, r.readMore
}

// readMore does the next step of the reads that c has postponed. If c must rest first, readMore
// only returns for how long.
func (r *Replica) readMore(c *Client) time.Duration {
	now := r.now()
	if rest := c.restNow(now); rest > 0 {
		return rest
	}
	defer r.unanswered.wake()
	out, ok := r.roomWanted(c)
	if !ok {
		return 0
	}
	r.heavy.Lock()
	defer r.heavy.Unlock()
	r.mu.RLock()
	defer r.mu.RUnlock()
	held := r.now()
	defer func() { r.holds[holdReads].Note(held, r.now()) }()
	c.mu.Lock()
	defer c.mu.Unlock()
	if out != nil && !c.closed {
		if len(c.out.frames) == 0 && cap(c.out.spare) == 0 {
			c.out.spare = c.out.frames // for the small replies that follow this one
		}
		c.out.frames = slices.Grow(append(out, c.out.frames...), cap(out)) // a notification may have come meanwhile
		c.steps.promised = 0
	}
	defer c.noteOutput()
	defer func() {
		if len(c.out.frames) > 0 {
			r.freshness.withhold(c, held) // the read may have begun long ago
		}
	}()
	for work := 0; work < readWorkMax && c.canAnswer(); {
		if c.out.full() {
			return 0 // continue when that is written
		}
		req := c.unanswered.front()
		before := len(c.out.frames)
		done := r.step(c, req)
		work += r.reads.readWork(c, len(req.body), len(c.out.frames)-before)
		if !done {
			return 0
		}
		var t requestMetrics
		t.add(r, c, req, req.body, c.out.frames[before:])
		t.flush(r.meters, c)
		if req.long {
			c.steps.done++
		}
		r.finish(c, req, r.tree.LastZxid(), now)
	}
	if c.steps.due = c.canAnswer(); !c.steps.due {
		// Not earlier: a write sent earlier might be applied before the reads ahead of it are answered.
		c.ahead.longReads.Add(-c.steps.done)
		c.steps.done = 0
		r.letGo(c)
	}
	return 0
}

// restNow returns how long c has to rest before the next step of the watches that it is setting.
func (c *Client) restNow(now int64) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.steps.read == nil || c.steps.read.watches == nil || c.closed {
		return 0
	}
	most := min(watchRestsMax, int64(c.timeout)*1e6/4)
	rested := &c.steps.read.watches.rested
	return c.watchRest(now, min(most-*rested, c.lastHeard.Load()*1e6+most-now), rested)
}

// watchRest returns how long c must rest before its watches keep the replica busy again, no longer than most (ns), and
// adds that to rested.
func (c *Client) watchRest(now, most int64, rested *int64) time.Duration {
	rest := c.limits.watchRate.Owes(now)
	if o := c.limits.owner(); o != nil {
		rest = max(rest, o.watchRate.Owes(now))
	}
	if rest = min(rest, most); rest < watchRestMin {
		return 0
	}
	*rested += rest
	return time.Duration(rest)
}

// noteWatches records that watches of c have kept the replica busy from begun until now.
func (r *reads) noteWatches(c *Client, begun int64) {
	now := r.now()
	took := min(now-begun, watchStepMax)
	c.limits.watchRate.Use(now, took, watchTime)
	if o := c.limits.owner(); o != nil {
		o.watchRate.Use(now, took, watchTime)
	}
}

// canAnswer reports whether the head of c's queue can be answered now; c.mu is held.
func (c *Client) canAnswer() bool {
	if c.unanswered.len() == 0 || c.closing || c.closed {
		return false
	}
	req := c.unanswered.front()
	return !req.isWrite() && (!req.isSync() || req.ready)
}

// step does one step of a read, and reports whether its reply is in c.out. r.mu is held at least
// for reading, and c.mu is held.
func (r *Replica) step(c *Client, req *request) (done bool) {
	r.mu.RHeld()
	c.mu.Held()
	begin := len(c.out.frames)
	if c.steps.read == nil || c.steps.read.room > 0 && !c.steps.read.list {
		out, ok := r.answer(c, c.out.frames, req, req.body)
		if c.out.frames = out; ok {
			c.steps.read = nil
			return true
		}
		c.out.frames = c.out.frames[:begin]
		had := 0
		if c.steps.read != nil {
			had = c.steps.read.room
		}
		c.steps.read = r.reads.beginLong(c, req)
		if l := c.steps.read; had > 0 && !l.list {
			l.room = max(l.room, 2*had) // a list of a multiRead is longer than Room can tell
		}
	}
	if l := c.steps.read; l != nil {
		if l.room > 0 {
			return false
		}
		if l.watches != nil {
			begun := r.now()
			done = r.reads.stepWatches(c, l.watches, req)
			r.reads.noteWatches(c, begun)
		} else {
			done = r.reads.stepScan(c, &l.scan, req)
		}
		if !done {
			return false
		}
		c.steps.read = nil
	}
	return true
}

// roomWanted returns memory for the reply to c's long read, or nil if the read needs none or already has it for its
// list. It returns false if the read waits for room. It holds neither the replica nor c while it allocates the memory
// and touches its pages, which takes about as long as filling them.
func (r *Replica) roomWanted(c *Client) (out []byte, ok bool) {
	l := c.takeRoom()
	if l == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		return nil, !c.steps.parked
	}
	if out = r.large.Get(l.room); out == nil {
		out = make([]byte, l.room)
		for i := 0; i < len(out); i += memoryPage {
			out[i] = 1
		}
	}
	if !l.list {
		return out[:0], true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.steps.read == l {
		l.scan.Body = append(out[:0], l.scan.Body...)
		l.scan.Room, l.room, c.steps.promised = cap(out), 0, 0
		c.noteOutput()
	}
	return nil, true
}

// beginLong returns a longRead for a read that answer found too long.
func (r *reads) beginLong(c *Client, req *request) *longRead {
	if code := req.op.code; code == jute.OpSetWatches || code == jute.OpSetWatches2 {
		return &longRead{watches: beginWatches(req.body, code)}
	}
	n := r.tree.Room(req.op.code, req.body, c.identities(), r.multiReadMax())
	if req.op.code == jute.OpMultiRead {
		n = max(n, 2*scanRoom) // it had room for scanRoom, and that isn't enough
	}
	if n > largeReply {
		return &longRead{room: n + frameLengthSize + jute.ReplyHeaderSize}
	}
	path, _, _ := pathWatch(req.body)
	if req.op.code == jute.OpGetEphemerals {
		path, _ = pathOnly(req.body)
	}
	return &longRead{list: true, scan: tree.Scan{
		Op: req.op.code, Path: path, IDs: c.identities(), Session: c.session, Body: newScanBody(), Room: scanRoom,
	}}
}

// stepScan does one step of a read of children or ephemerals.
func (r *reads) stepScan(c *Client, scan *tree.Scan, req *request) (done bool) {
	done, code := r.tree.Step(scan)
	if !done {
		if code == tree.NoRoom {
			c.steps.read.room = 2 * scan.Room
		}
		return false
	}
	if code == tree.TooLong {
		code = r.tooLong(c)
	}
	h := jute.ReplyHeader{Xid: req.xid, Zxid: r.tree.LastZxid(), Err: code}
	switch {
	case code != jute.OK:
		c.out.frames = jute.AppendReply(c.out.frames, h, nil)
		return true
	case len(c.out.frames) == 0:
		c.out.frames = scan.Body
	default:
		c.out.frames = append(c.out.frames, scan.Body...)
	}
	frame := c.out.frames[len(c.out.frames)-len(scan.Body):]
	jute.PutReplyHeader(frame[frameLengthSize:], h)
	jute.EndFrame(frame, 0)
	if path, wanted, ok := pathWatch(req.body); ok && wanted && scan.Op != jute.OpGetEphemerals {
		r.watches.add(c, path, watch.Child)
	}
	return true
}

// setWatches is a setWatches or setWatches2 request under way. Its paths are read from the request
// one by one, because there may be a quarter of a million.
type setWatches struct {
	malformed bool
	lists     int // number of lists in the request
	relative  int64
	rest      jute.Decoder
	list      int   // the current list, counted from 1
	left      int   // paths left in the current list
	rested    int64 // how long (ns) the client has rested for this request
}

// beginWatches starts the request with record body; code is setWatches or setWatches2.
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

// next returns the next path and the index of its list, from 0, or false if there is none.
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

// stepWatches sets some of a reconnected client's watches. For a watch whose event seems to have
// happened while the client was away, it appends a notification instead.
func (r *reads) stepWatches(c *Client, w *setWatches, req *request) (done bool) {
	if w.malformed {
		c.out.frames = jute.AppendReply(c.out.frames,
			jute.ReplyHeader{Xid: req.xid, Zxid: r.tree.LastZxid(), Err: jute.ErrMarshallingError}, nil)
		return true
	}
	begin := len(c.out.frames)
	for n := 0; n < setWatchesStep && !done && !c.closing && len(c.out.frames)-begin <= outputFreeBytes; n++ {
		done = !r.setWatch(c, w)
	}
	if c.closing || !r.keepsWatches(c) {
		return false
	}
	if done {
		c.out.frames = jute.AppendReply(c.out.frames, jute.ReplyHeader{Xid: req.xid, Zxid: r.tree.LastZxid()}, nil)
	}
	return done
}

// keepsWatches closes a client whose watches exceed a limit of watches, or don't fit while memory is short, and then
// returns false. An error wouldn't do as an answer: Java's client ignores an error of setWatches and goes on as if it
// had the watches. r.mu is held at least for reading, and c.mu is held.
func (r *reads) keepsWatches(c *Client) bool {
	if b := r.limiter.inForce.Load(); b != nil && !r.limiter.mayHoldWatches(c, b, 0) {
		c.cut("it sets more watches again than it may have (limits.connection, limits.address, limits.identity)")
		return false
	}
	r.watches.mu.Lock()
	all, own := r.watches.table.Memory(), r.watches.table.MemoryOf(c.id)
	r.watches.mu.Unlock()
	r.memory.watches.Store(all)
	if own > r.memory.watchBytesMax() {
		r.closeForMemory(c, forWatches, own)
		return false
	}
	return true
}

// setWatch sets the next watch, or appends the notification of its event. It returns false if there are no more.
func (r *reads) setWatch(c *Client, w *setWatches) bool {
	tell := func(typ jute.EventType, path string) {
		if len(path) > outputFreeBytes && c.out.short() {
			r.closeForMemory(c, forReplies, int64(len(path)))
			return
		}
		c.out.frames = appendNotification(c.out.frames, -1, typ, path)
		c.stats.sent.Add(1)
	}
	kind, path, ok := w.next()
	if !ok {
		return false
	}
	stat, exists := r.tree.Stat(path)
	switch {
	case r.tree.Access().Denies(path, jute.PermRead, c.identities()): // ACLs aren't checked here, as in Apache
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

// rewatch sets a watch on path, of the kind that belongs to one of the lists of setWatches.
func (r *reads) rewatch(c *Client, path string, list int) {
	r.watches.add(c, path, [...]watch.Kind{watch.Data, watch.Data, watch.Child, watch.Persistent, watch.Recursive}[list])
}
