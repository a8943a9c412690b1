package replica

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/internal/watch"
	"github.com/zooid-project/zooid/jute"
)

// A Replica is one server's copy of the service: the tree, and the clients
// connected here with what they wait for. It computes; sockets, the clock and
// randomness are its callers' (see Client and ReplicaOptions), so that a simulator can
// hold one as well as a server.
//
// It is the quorum's state machine: the methods of a quorum.StateMachine belong to
// the quorum's loop, all others but DigestAt to any goroutine.
type Replica struct {
	limits    limits
	auth      *auth.Registry
	sasl      SASLOptions
	log       *slog.Logger
	clientLog *slog.Logger  // for lines about single clients, of which there is a limit
	now       func() int64  // a monotonic clock, ns
	wall      func() int64  // the clock that stamps batches, ms since 1970
	secret    func() []byte // 16 random bytes
	kick      func()        // tells the quorum that the outbox or syncs wait
	// observe, if not nil, sees each evaluated request before its client does.
	observe func(*tree.Result)

	settings          tree.Settings // this server's, for when it leads
	restore           func(storage.Meta, *storage.Snapshot) (*tree.Tree, error)
	membership        Membership
	membershipChanged func() // may be nil
	vet               func(body []byte) jute.Code
	alone             bool // no ensemble: nothing is ever sent again
	// readOnlyMode says that clients are served read-only while this server is cut off.
	readOnlyMode bool

	outbox     outbox
	syncs      syncs
	unanswered unanswered
	correction atomic.Int64  // of the leader's clock, ms
	level      atomic.Uint32 // feature level in force
	noRoom     atomic.Bool   // the disk is nearly full: clients' writes are refused
	memory     memoryAccount
	stats      serverStats
	meters     *Meters
	broken     breakdown

	mu       sync.RWMutex
	tree     *tree.Tree
	clients  map[int64]*Client // by cnx, from the connect request on
	sessions map[int64]*Client // by session, those attached here
	// connecting is how many of clients wait for the answer to their connect request.
	connecting       int
	readOnlySessions int       // of clients, in no table
	noRoomSessions   int       // that began since the disk was found nearly full
	touched          []*Client // got output during this Apply
	scratch          []int64   // watchers of one event
	event            []byte    // encoded notification
	expiry           expiry
	locals           locals
	// heardLast are sessions whose connection ended before the leader was told that
	// they were heard. There are none without a leader.
	heardLast []int64
	leader    quorum.Leadership
	serving   bool // something of a leader's term was applied, so no old state is shown
	cutOff    bool // no leader for too long: clients are refused

	leaderlessSince int64 // now (ms)

	// Owned by the quorum's loop.
	doubtful  bool  // a leader told of another state than this
	supported int32 // feature level that all members know, as the leader's loop told
	snapshots snapshotRule
	digests   digests
	batch     []byte       // proposed or forwarded last; its memory serves again
	writes    namespaceRun // guarded by mu
	answers   answers      // guarded by mu; empty between Applies
	progress  progress     // guarded by mu

	watchMu sync.Mutex
	watches *watch.Table
}

// limits are the settings that bound clients.
type limits struct {
	timeoutMin, timeoutMax int32 // session timeout, ms
	frameMax               int   // jute.maxbuffer
}

// Apply evaluates committed entries, in order, and queues everything they mean
// for the clients connected here. An error means that our own log holds
// something we didn't write; to go on would be to diverge.
func (r *Replica) Apply(entries []quorum.Entry) (err error) {
	var push *Client
	defer func() {
		if push != nil {
			push.Push()
		}
	}()
	now := r.now()
	r.mu.Lock()
	r.broken.applying.Store(true)
	defer r.breakDown(&err)
	visit := func(res *tree.Result) { r.applied(res, now); r.broken.requests++ }
	for _, e := range entries {
		r.broken.entry, r.broken.requests = e, 0
		if err := r.applyEntry(e, visit); err != nil {
			r.broken.applying.Store(false)
			r.mu.Unlock()
			newer, diverged := (*tree.NewerError)(nil), (*quorum.DivergedAloneError)(nil)
			if errors.As(err, &newer) || errors.As(err, &diverged) {
				return fmt.Errorf("apply log entry %d of term %d: %w", e.Index, e.Term, err)
			}
			return fmt.Errorf("apply log entry %d of term %d: %w. %s", e.Index, e.Term, err, stopsAtEntry)
		}
		r.countEntry(e, now)
		r.catchUp()
	}
	r.writes.flush()
	r.answers.flush(r)
	push = r.flush()
	r.broken.entry = quorum.Entry{} // its memory is the log's
	r.broken.applying.Store(false)
	r.mu.Unlock()
	return nil
}

// flush wakes the connections that got output. If there is only one it may return
// it instead, to be pushed once mu is free: waking a goroutine would take longer
// than the write. Several are written to beside each other and beside the log.
func (r *Replica) flush() (push *Client) {
	alone := len(r.touched) == 1
	for _, c := range r.touched {
		c.touched = false
		c.mu.Lock()
		switch {
		case len(c.out) == 0 && !c.closing && !c.postponed:
		case alone && c.Push != nil && !c.flushing && !c.postponed && len(c.out) <= pushBytesMax:
			c.flushing, push = true, c
		default:
			c.queued()
		}
		c.mu.Unlock()
	}
	r.touched = r.touched[:0]
	r.unanswered.wake()
	return push
}

// tellAtOnce is how many watchers of a change are told before they are written to:
// those needn't wait until all others are told.
const tellAtOnce = 32

// pushBytesMax is what is worth writing on the quorum's goroutine.
const pushBytesMax = 4 << 10

// touch notes that c got output during this Apply; mu is held alone.
func (r *Replica) touch(c *Client) {
	if !c.touched {
		c.touched = true
		r.touched = append(r.touched, c)
	}
}

// applied does what one evaluated request means here; mu is held alone.
func (r *Replica) applied(res *tree.Result, now int64) {
	r.snapshots.since++
	r.progress.requests++
	r.progress.noteDigest(res.Zxid, r.tree)
	if r.observe != nil {
		r.observe(res)
	}
	for i := range res.Events {
		r.changed(&res.Events[i], res)
		r.fire(&res.Events[i], res.Zxid)
	}
	switch res.Op {
	case tree.OpSettings:
		r.noteLevel()
	case jute.OpCreateSession, tree.OpAttach:
		r.attached(res)
		return
	case tree.OpEnter:
		r.entered(res)
		return
	case jute.OpCloseSession, tree.OpExpire:
		r.ended(res, now)
		return
	}
	c := r.clients[res.Cnx]
	if c == nil || res.Session == 0 {
		return
	}
	switch res.Outcome {
	case tree.Applied:
		if res.Limit != tree.NoLimit {
			r.refused(c, res.Limit)
		}
		if res.OverQuota != "" {
			r.meters.overQuota.With(strings.Clone(namespace(res.OverQuota))).Inc()
		}
		r.complete(c, res, now)
	case tree.Moved:
		c.CloseAfter("its session moved to another connection")
	case tree.SessionGone:
		if r.locals.sessions[res.Session] == nil { // else it enters, and the write is sent again behind that
			c.CloseAfter("its session ended")
		}
	}
}

// complete answers the write at the head of c's queue, and runs the reads that
// waited behind it.
func (r *Replica) complete(c *Client, res *tree.Result, now int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.closing {
		return
	}
	if c.unanswered.len() == 0 || c.unanswered.front().seq != res.Seq {
		c.closeLocked("its queue of requests lost step with the log")
		r.touch(c)
		r.log.Error("invariant broken: an applied write is not the first unanswered one of its connection", "client", c.remote, "seq", res.Seq)
		return
	}
	req := c.unanswered.front()
	c.applied = true
	out, start := jute.BeginFrame(c.out)
	h := jute.ReplyHeader{Xid: req.xid, Zxid: res.Zxid, Err: res.Err}
	out = h.Append(out)
	if res.Err == jute.OK {
		out = res.AppendReply(out)
	}
	r.answers.add(r, c, req, int64(len(out)-len(c.out)-frameLengthSize), res.Zxid, now)
	c.out = jute.EndFrame(out, start)
	c.unanswered.pop()
	c.room.Signal()
	if res.Op == jute.OpReconfig {
		c.changing.Add(-1)
		defer r.letGo(c)
	}
	if res.Op != jute.OpCloseSession && c.unanswered.len() > 0 && !c.unanswered.front().op.isWrite() {
		// Nothing that stands behind the end of a session is answered.
		r.answers.flush(r)
		r.drain(c, now)
	}
	r.touch(c)
}

// finish takes the head of c's queue off it; c.mu is held.
func (r *Replica) finish(c *Client, req *request, zxid, now int64) {
	r.answered(c, req, zxid, now)
	r.stats.sent.Add(1)
	r.unanswered.add(-1, -int64(req.size))
	c.unanswered.pop()
	c.room.Signal()
}

// drain answers what can be answered at the head of c's queue: reads, syncs that
// are ready. Long reads, and what is behind them, it postpones. c.mu is held, and
// r.mu at least shared.
func (r *Replica) drain(c *Client, now int64) {
	var t requestMetrics
	defer func() { t.flush(r.meters, c) }()
	for !c.postponed && r.canAnswer(c) {
		req := c.unanswered.front()
		if req.long {
			r.postpone(c)
			return
		}
		start := len(c.out)
		out, ok := r.answer(c, c.out, req.op, req.xid, req.body)
		if c.out = out; !ok { // its list has grown since it was queued
			c.out = c.out[:start]
			for !r.step(c, req) {
			}
		}
		t.add(r.meters, c, req.op.code, req.body, c.out[start:])
		r.finish(c, req, r.tree.LastZxid(), now)
	}
}

// fire queues a notification for everybody who waits for the event and may read
// the znode; mu is held alone.
func (r *Replica) fire(ev *tree.Event, zxid int64) {
	if len(r.clients) == 0 {
		return // at the start, while the log is replayed
	}
	r.watchMu.Lock()
	r.scratch = r.watches.Trigger(r.scratch[:0], ev.Type, ev.Path)
	r.watchMu.Unlock()
	if len(r.scratch) == 0 {
		return
	}
	r.meters.told(ev.Type, len(r.scratch))
	told := 0
	r.event = appendNotification(r.event[:0], zxid, ev.Type, ev.Path)
	for _, id := range r.scratch {
		c := r.clients[id]
		if c == nil || !r.tree.Permits(ev.ACL, jute.PermRead, c.identities()) {
			continue
		}
		c.mu.Lock()
		if !c.closed && !c.closing {
			c.out, c.applied = append(c.out, r.event...), true
			c.stats.sent.Add(1)
			told++
			r.touch(c)
		}
		c.mu.Unlock()
		if len(r.touched) >= tellAtOnce {
			r.flush()
		}
	}
	r.stats.sent.Add(int64(told))
	r.meters.watchBytes.Add(int64(told * (len(r.event) - frameLengthSize)))
}

// appendNotification appends a whole notification frame.
func appendNotification(b []byte, zxid int64, typ jute.EventType, path string) []byte {
	b, start := jute.BeginFrame(b)
	h := jute.ReplyHeader{Xid: jute.XidNotification, Zxid: zxid}
	ev := jute.WatcherEvent{Type: typ, State: jute.StateSyncConnected, Path: path}
	return jute.EndFrame(ev.Append(h.Append(b)), start)
}
