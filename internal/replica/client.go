package replica

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/busiest"
	"github.com/zooid-project/zooid/internal/invariant"
	"github.com/zooid-project/zooid/internal/memory"
	"github.com/zooid-project/zooid/internal/metrics"
	"github.com/zooid-project/zooid/internal/sasl"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// Limits of one connection.
const (
	// unansweredMax bounds the unanswered requests of one connection; beyond it the connection isn't
	// read. Neither Java clients nor kazoo have a limit of their own.
	unansweredMax = 1000
	// unansweredBytesMax bounds the bytes of one connection's unanswered requests.
	unansweredBytesMax = 4 << 20
	// outputPauseBytes is how much unread output stops the server from reading further requests: a
	// client that doesn't read its replies gets no more of them.
	outputPauseBytes = 4 << 20
	// outputMaxBytes is how much unread output ends the connection. Only one reply and notifications
	// can exceed outputPauseBytes, and notifications must not be dropped.
	outputMaxBytes = tree.ReplyBytesMax + 2*outputPauseBytes
	// outputKeepBytes is the largest output buffer that is reused until the connection is quiet. It
	// holds several replies of a thousand children each.
	outputKeepBytes = 256 << 10
	// largeKeptBytes bounds the memory of larger buffers that is kept for the next large replies of any connection: enough
	// for a dozen lists of a hundred thousand children.
	largeKeptBytes = 8 << 20
)

// A Client is one client connection as the replica sees it: its rights, its unanswered requests and its output. The
// server or simulator around the replica passes bytes in (Replica.Receive) and takes them out (TakeOutput).
//
// Fields that one goroutine or one lock owns form a type: reader, frame and input belong to the goroutine that reads
// the connection, arrival to Replica.mu. Client.mu guards the fields below it.
type Client struct {
	id      int64  // cnx: unique in the cluster, also across restarts
	remote  string // "address:port", for logs and operators
	address jute.ID
	Since   time.Time

	// Socket may be replaced before the connect request.
	Socket Socket
	// Login is the client's SASL login, if it succeeded and may be revoked.
	Login atomic.Pointer[sasl.Lasting]

	// Set when the session is attached, before established closes.
	hello       jute.ConnectRequest
	session     int64
	timeout     int32 // ms
	readOnly    bool  // connected while this server was read-only
	attachedAt  int64 // now (ns) when its attach was sent
	mayRestore  bool
	established chan struct{}

	lastHeard atomic.Int64                 // now (ms) of the last bytes from the client
	ids       atomic.Pointer[[]jute.ID]    // replaced, never modified
	grants    atomic.Pointer[[]auth.Grant] // the sources of its identities; replaced, never modified

	reader  // owned by the goroutine that reads the connection
	frame   // the same
	input   // the same
	limits  clientLimits
	ahead   ahead
	stats   clientStats
	arrival arrival     // guarded by Replica.mu
	syncs   clientSyncs // guarded by Replica.syncs.mu

	reported int64 // lastHeard when it was last reported to the leader; guarded by hearing.mu
	awaits   bool  // is in unanswered.waiting; guarded by unanswered.mu

	WriteBy time.Time // the socket's deadline; owned by the flusher

	mu         clientLock
	unanswered queue
	out        output
	steps      steps
	sampled    busiest.Client
	blocked    int64 // now (ns) when the reader began to wait for room to queue a request; 0 if it isn't waiting
	stirred    int64 // now (ns) of the last answer; see stir
	closing    bool  // close once the output is written; nothing more is appended
	closed     bool  // the socket is gone
	room       sync.Cond
	why        string // why the connection closes, for the log
}

// An arrival is the part of a client that Replica.mu guards: its progress towards a session.
type arrival struct {
	attach     []byte        // the record that attaches the session, until it is applied
	sent       bool          // attach was sent
	awaited    bool          // counted in Replica.connecting
	reserved   sessionOwners // count the session it has asked for
	newcomer   newcomer
	unrecorded bool  // the session began read-only and is in no table
	applied    int64 // seq of the last write that was applied
	touched    bool  // is in Replica.telling.touched
}

// ahead counts the unanswered requests that hold back the writes behind them. A new write must not overtake a sync or a
// long read. It also waits for a reconfig: a reconfig's answer has the zxid of a later entry than its own, and the
// answer to a later write must not have a smaller zxid. Only the reader adds.
type ahead struct {
	syncs     atomic.Int32 // that are not ready
	longReads atomic.Int32
	reconfigs atomic.Int32
}

// any reports whether a new write has to wait before it is sent.
func (a *ahead) any() bool {
	return a.syncs.Load() > 0 || a.longReads.Load() > 0 || a.reconfigs.Load() > 0
}

// An output is the data that waits to be written to a client; Client.mu guards it. The replica appends frames to it,
// and the flusher takes them. Only one goroutine at a time is a client's flusher.
type output struct {
	zxids      invariant.Rising // of the answers and notifications appended
	frames     []byte
	spare      []byte          // the other buffer
	events     clientEvents    // unread notifications
	fired      int64           // now (ns) of the oldest event in frames; 0 for none
	firedTaken atomic.Int64    // fired of the output that was taken, until Told returns
	applied    bool            // frames may hold effects of an Apply that is under way
	awaitApply func()          // waits for the end of that Apply
	taken      int             // size of the buffer that is being written
	large      *memory.Buffers // takes buffers that are too large to be kept here
	flushing   bool            // a goroutine is writing what it has taken
	withheld   bool            // frames may not be written now (see uptodate.go)
	held       *memory.Holder  // the memory of the output; nil until registered
}

// full reports whether the client may get no more replies until it has read some.
func (o *output) full() bool {
	n := len(o.frames)
	return n >= outputPauseBytes || n >= outputFreeBytes && o.short()
}

// short reports whether the client should keep little memory for output.
func (o *output) short() bool { return o.held != nil && o.held.Short() }

// steps are the reads of a client that its flusher does in steps (see longread.go); Client.mu guards them.
type steps struct {
	due         bool // the flusher has to call more, and then rest for as long as more returns
	more        func(*Client) time.Duration
	parked      bool             // not now: the read waits for room (see takeRoom)
	promised    int              // bytes of room that read has reserved for its reply and doesn't use yet
	read        *longRead        // the read at the head of unanswered, if it is done in steps and has begun
	done        int32            // how many of ahead.longReads were answered since the reads are due
	roomAwaited *metrics.Counter // reads that waited for room
}

// Remote returns the client's address as text, for logs and operators.
func (c *Client) Remote() string { return c.remote }

// Session returns the id of the client's session, once Established reports true.
func (c *Client) Session() int64 { return c.session }

// Wanted returns the id of the session that the client's connect request names, 0 for a new one.
func (c *Client) Wanted() int64 { return c.hello.SessionID }

// Timeout returns the time (ms) after which the session of a silent client ends; it is known once
// the connect request has been accepted.
func (c *Client) Timeout() int32 { return c.timeout }

// Identities returns the identities that the client has proved. The caller must not modify them.
func (c *Client) Identities() []jute.ID { return c.identities() }

// MayRestore allows the client to send tree.OpRestore. It is called only for the server's own client.
func (c *Client) MayRestore() { c.mayRestore = true }

// Identify sets the identities of the server's own client, which has proved nothing.
func (c *Client) Identify(ids []jute.ID) { c.ids.Store(&ids) }

// Answered returns a channel that is closed once the connect request was answered.
func (c *Client) Answered() <-chan struct{} { return c.established }

// Established reports whether the connect request was answered.
func (c *Client) Established() bool {
	select {
	case <-c.established:
		return true
	default:
		return false
	}
}

// identities returns the identities that the client has proved; the slice is shared.
func (c *Client) identities() []jute.ID { return *c.ids.Load() }

// NewClient returns a client for an accepted connection. id is its cnx, unique in the cluster and across restarts.
func NewClient(id int64, remote string, address jute.ID, socket Socket) *Client {
	c := &Client{
		id: id, remote: remote, address: address, Socket: socket, established: make(chan struct{}), sampled: busiest.Client{
			Sampler: busiest.NewSampler(uint64(id)),
		},
	}
	c.reader.Blocks = func() {}
	c.room.L = &c.mu
	c.ids.Store(&[]jute.ID{address})
	c.grants.Store(new([]auth.Grant))
	return c
}

// A request is one entry of a client's queue of unanswered requests.
type request struct {
	xid     int32
	op      *op   // as the client sent it; what is executed also depends on verdict
	seq     int64 // a write's sequence number, from 1; a sync's ticket
	at      int64 // now (ns) when it arrived
	ready   bool  // a sync whose answer may go out
	long    bool  // a read that is, or may have to be, done in steps (see longread.go)
	held    bool  // a write that waits for earlier requests before it is sent (see holds)
	verdict verdict
	size    int    // its share of the unanswered bytes
	body    []byte // a read's record, or a write's, if the write may have to be sent again
}

// isWrite reports whether the request is answered once its log entry is applied.
func (q *request) isWrite() bool { return q.verdict == taken && q.op.kind == kindWrite }

// isSync reports whether the request is answered once everything acknowledged before it is applied.
func (q *request) isSync() bool { return q.verdict == taken && q.op.kind == kindSync }

// isRead reports whether the request is answered as soon as its turn comes: a read, or a refused request.
func (q *request) isRead() bool {
	return q.verdict != taken || q.op.kind != kindWrite && q.op.kind != kindSync
}

// code returns the request's operation in statistics: OpError if it was refused.
func (q *request) code() jute.Op {
	if q.verdict.refuses() {
		return jute.OpError
	}
	return q.op.code
}

// queue is a FIFO of requests that reuses its memory.
type queue struct {
	items []request
	head  int
	bytes int
	reads int // how many of the requests are reads or syncs
	work  int // the estimated work of some of the reads (see isLong)
}

func (q *queue) len() int { return len(q.items) - q.head }

func (q *queue) front() *request { return &q.items[q.head] }

func (q *queue) push(r request) {
	if invariant.Checked {
		q.checkPush(&r)
	}
	if q.head > 0 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, r)
	q.bytes += r.size
	if !r.isWrite() {
		q.reads++
	}
}

func (q *queue) pop() {
	if invariant.Checked {
		q.checkSums()
	}
	q.bytes -= q.items[q.head].size
	if !q.items[q.head].isWrite() {
		if q.reads--; q.reads == 0 {
			q.work = 0
		}
	}
	q.items[q.head] = request{}
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
}

// reserve waits until the connection may queue another request of size bytes, and adds the request
// to all. When the whole server has too much unanswered, a connection with little or nothing
// unanswered still gets its turn, unless the request is large. blocks is called before reserve
// waits, with mu held. reserve returns false once the connection is closing.
func (c *Client) reserve(all *unanswered, size int, blocks func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reserveLocked(all, size, blocks)
}

func (c *Client) reserveLocked(all *unanswered, size int, blocks func()) bool {
	for !c.closing && !c.closed {
		n := c.unanswered.len()
		full := n >= unansweredMax || c.unanswered.bytes >= unansweredBytesMax || c.out.full()
		if !full && !all.holds(n, c.reader.Crowded) {
			if all.manyBytes(size) {
				all.await(c)
			}
			if !all.manyBytes(size) {
				all.add(1, int64(size))
				c.blocked = 0
				return true
			}
		}
		blocks()
		c.reader.Blocks()
		if len(c.out.frames) > 0 {
			c.queued() // the reader would write it at the end of its batch, but is waiting here
		}
		if c.closing {
			return false
		}
		if c.blocked == 0 {
			c.blocked = max(all.now(), 1)
		}
		c.room.Wait()
	}
	return false
}

// awaitOutput makes a request that is answered at once wait until the client reads its output. It returns false if the
// connection is closing.
func (c *Client) awaitOutput() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.out.full() && !c.closing && !c.closed {
		c.queued()
		c.room.Wait()
	}
	return !c.closing && !c.closed
}

// expect reserves room for a write, as reserve does, and queues it until it is answered. It reports whether the write
// has to wait before it is sent (see holds). Only once there is room does it make r.body, the record of stamped, which
// is needed if the write waits, or, as again says, if it may have to be sent again.
func (c *Client) expect(r *request, stamped *tree.Request, again bool, all *unanswered, blocks func()) (held, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.op == &opCloseSession && !c.closing && !c.closed {
		all.add(1, int64(r.size)) // it is the connection's last request, and frees more than it uses
	} else if !c.reserveLocked(all, r.size, blocks) {
		return false, false
	}
	if r.held = c.ahead.any(); r.held || again {
		r.body = tree.AppendRecord(make([]byte, 0, tree.RecordSize(stamped)), stamped)
	}
	if r.op.code == jute.OpReconfig {
		c.ahead.reconfigs.Add(1)
	}
	c.unanswered.push(*r)
	if invariant.Checked {
		c.checkAhead()
	}
	return r.held, true
}

// queued is called with mu held after something was appended to out.
func (c *Client) queued() {
	c.mu.Held()
	c.noteOutput()
	if len(c.out.frames) > outputMaxBytes {
		c.closeLocked("it does not read what it is sent")
		c.out.frames = nil
		c.out.events.drop()
		c.Socket.Abort()
	}
	if !c.out.flushing && !c.out.withheld {
		c.out.flushing = true
		c.Socket.Wake()
	}
}

// reply appends a reply frame with header h and the body that body appends; body may be nil.
func (c *Client) reply(h jute.ReplyHeader, body func([]byte) []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing || c.closed {
		return
	}
	c.out.frames = jute.AppendReply(c.out.frames, h, body)
	c.stats.sent.Add(1)
	c.queued()
}

// CloseAfter closes the connection after its queued output is written.
func (c *Client) CloseAfter(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeLocked(why)
	if !c.out.flushing && !c.closed {
		c.out.flushing = true
		c.Socket.Wake()
	}
}

// Ending returns why the connection is about to close, or "" if it isn't.
func (c *Client) Ending() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why
}

func (c *Client) closeLocked(why string) {
	c.mu.Held()
	if c.out.withheld {
		c.out.withheld, c.out.frames = false, nil
	}
	if !c.closing {
		c.closing, c.why = true, why
		c.room.Broadcast()
	}
}

// cut ends the connection at once: its output is dropped, and a write under way ends. The session lives on until its
// timeout. mu is held.
func (c *Client) cut(why string) {
	c.mu.Held()
	c.closeLocked(why)
	c.out.frames, c.steps.read = nil, nil
	c.out.events.drop()
	c.noteOutput()
	c.Socket.Abort()
	if !c.out.flushing && !c.closed {
		c.out.flushing = true
		c.Socket.Wake()
	}
}

// Quiet releases the buffers and the queue of a connection on which little happens. The connection's reader calls it.
func (c *Client) Quiet() {
	c.reader.records = nil
	c.reader.recordsKept.Store(0)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unanswered.len() == 0 {
		c.unanswered = queue{}
	}
	if len(c.out.frames) == 0 && !c.out.flushing {
		c.out.frames, c.out.spare = nil, nil
	}
}

// disconnected marks the socket as gone, frees the output that waited for it, and wakes the reader. It returns the
// requests that will never be answered. Replica.mu is held.
func (c *Client) disconnected() (l leftover) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	l.requests, l.bytes = int64(c.unanswered.len()), int64(c.unanswered.bytes)
	for i := c.unanswered.head; i < len(c.unanswered.items); i++ {
		switch q := &c.unanswered.items[i]; {
		case !q.isWrite() || q.held:
			l.unsent++
		case q.seq > c.arrival.applied:
			l.sent++
			l.sentBytes += int64(q.size)
		}
	}
	c.unanswered, c.out.frames, c.out.spare, c.steps.read = queue{}, nil, nil, nil
	c.leaveRooms()
	c.out.events.drop()
	c.room.Broadcast()
	return l
}

// leftover is what a connection that ends has unanswered.
type leftover struct {
	requests, bytes int64
	unsent          int   // requests that will never be executed
	sent, sentBytes int64 // writes that were sent, and aren't applied yet
}
