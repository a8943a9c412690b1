package replica

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/zooid-project/zooid/internal/busiest"
	"github.com/zooid-project/zooid/internal/sasl"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// Limits of one connection's queues.
const (
	// unansweredMax bounds the requests of one connection that wait for an
	// answer; beyond it the connection isn't read. Java clients have no limit of
	// their own, kazoo neither.
	unansweredMax = 1000
	// unansweredBytesMax bounds their size.
	unansweredBytesMax = 4 << 20
	// outputPauseBytes is how much unread output stops the reading of further
	// requests: a client that doesn't read its replies gets no more of them.
	outputPauseBytes = 4 << 20
	// outputMaxBytes is how much unread output ends the connection: only one reply
	// and notifications can go beyond the pause, and dropping one is not allowed.
	outputMaxBytes = tree.ReplyBytesMax + 2*outputPauseBytes
	// outputKeepBytes is the largest output buffer that is used again, until the
	// connection is quiet: some replies of a thousand children each.
	outputKeepBytes = 256 << 10
)

// A Client is one client connection as the replica sees it: what it is allowed,
// what it waits for and what it has been told. It has no socket; the shell moves
// bytes in (Replica.Receive) and out (TakeOutput).
type Client struct {
	id      int64  // cnx: unique in the cluster, over restarts too
	remote  string // "address:port", for people
	address jute.ID
	Since   time.Time

	// Wake is called, with mu held, when output waits and nobody is flushing
	// it. It must not block.
	Wake func()
	// Push, if not nil, does what Wake does on the caller's goroutine, as far as that
	// can't block. It is called without mu, after flushing was set.
	Push func()
	// Try, if not nil, writes as much as goes without waiting, and returns how many bytes
	// that was. Only the goroutine that flushes may call it.
	Try func([]byte) int

	// Withdrawn, if not nil, returns why the client's identities are no longer valid, "" if they are. It may
	// block.
	Withdrawn func() string
	// Login is the client's, if it has succeeded and may cease to hold.
	Login atomic.Pointer[sasl.Lasting]

	// Abort, if not nil, ends the connection at once, what is being written to it too. It is
	// called with mu held and must not block.
	Abort func()

	// Acked, if not nil, reports whether the other end has received all that was written.
	Acked func() bool

	// Set when the session is attached, before established closes.
	hello       jute.ConnectRequest
	attach      []byte // the record that attaches the session, until it is applied; guarded by Replica.mu
	attaching   bool   // attach was sent; guarded by Replica.mu
	connecting  bool   // counted in Replica.connecting; guarded by Replica.mu
	session     int64
	timeout     int32   // ms
	readOnly    bool    // connected while this server was read-only
	unrecorded  bool    // its session began read-only and is in no table; guarded by Replica.mu
	inTable     inTable // owned by the reader once established closes
	mayReplace  bool
	established chan struct{}

	reported  int64                     // lastHeard when it was last reported to the leader; guarded by Replica.mu
	lastHeard atomic.Int64              // now (ms) of the last bytes from the client
	ids       atomic.Pointer[[]jute.ID] // replaced, never changed
	seq       int64                     // of the last write sent; owned by the reader
	sasl      sasl.Login                // the login under way or over; owned by the reader
	records   []byte                    // writes of the readBatch under way, as records; owned by the reader
	recordIDs *[]jute.ID                // identities of the last of records; owned by the reader
	syncing   atomic.Int32              // syncs in unanswered that are not ready; only the reader adds
	longReads atomic.Int32              // long reads in unanswered; only the reader adds
	changing  atomic.Int32              // reconfigs in unanswered; only the reader adds
	touched   bool                      // is in Replica.touched
	input     atomic.Int64              // bytes of the reader's buffer

	// The owners that it counts for, and its use of their limits; owned by the reader, see pace.go.
	byAddress, byIdentity *owner // nil if none
	used                  rates
	pause, pacedSince     int64        // ns
	toldLimit             atomic.Int64 // now (ns) of the last line of the log about limits

	counts    atomic.Pointer[owner] // the owner of its unanswered requests
	heldSince int64                 // now (ns) since when a write of it is held back; owned by the reader
	newcomer  newcomer              // guarded by Replica.mu

	refused bool // a write was, and the client may not know it yet; owned by the reader
	leaves  bool // it has asked to close its session; owned by the reader
	waits   int  // entries of syncs.waiting; guarded by syncs.mu
	gone    bool // those are of no use; guarded by syncs.mu
	awaits  bool // is in unanswered.waiting; guarded by unanswered.mu

	stats   clientStats
	sampled busiest.Client // guarded by mu

	mu         sync.Mutex
	unanswered queue
	out        []byte        // frames to write
	spare      []byte        // the other output buffer
	events     clientEvents  // unread ones
	fired      int64         // now (ns) of the oldest event in out; 0 for none
	firedTaken atomic.Int64  // fired of the output that was taken, until Told returns
	applied    bool          // out may hold something of an Apply that is under way
	awaitApply func()        // waits for that
	taken      int           // bytes of the buffer that is being written
	large      *largeBuffers // takes buffers that are too large to be kept
	flushing   bool          // somebody is writing out's predecessor
	blocked    int64         // now (ns) when the reader began to wait for room to queue a request; 0 if it doesn't
	stirred    int64         // now (ns) of the last answer; see stir
	postponed  bool          // the flusher is to call more
	more       func(*Client)
	long       *longRead // of the head of unanswered, under way
	longDone   int32     // of longReads, those answered since c was postponed
	closing    bool      // close once out is written; nothing is appended any more
	closed     bool      // the socket is gone
	room       sync.Cond
	WriteBy    time.Time // the socket's deadline; owned by the flusher
	why        string    // reason of closing, for the log
}

// Remote returns the client's address, for people.
func (c *Client) Remote() string { return c.remote }

// Session returns the client's session, once it is Established.
func (c *Client) Session() int64 { return c.session }

// Timeout returns the time (ms) after which the session ends if nothing is heard of
// the client; it is known once the connect request was taken.
func (c *Client) Timeout() int32 { return c.timeout }

// Identities returns who the client has proved to be. They must not be changed.
func (c *Client) Identities() []jute.ID { return c.identities() }

// MayReplace lets the client, which is the server itself, ask for tree.OpReplace.
func (c *Client) MayReplace() { c.mayReplace = true }

// Identify says who the client has proved to be before it sent anything.
func (c *Client) Identify(ids []jute.ID) { c.ids.Store(&ids) }

// NoteInput says how many bytes the memory has into which the client's requests are read.
func (c *Client) NoteInput(bytes int) { c.input.Store(int64(bytes)) }

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

// identities returns who the client has proved to be; the slice is shared.
func (c *Client) identities() []jute.ID { return *c.ids.Load() }

// NewClient returns a client for a connection that was accepted. id is its cnx,
// unique in the cluster and over restarts. wake is called when output waits and
// nobody is flushing it; it is called with the client held, so it may only note
// that TakeOutput is to be called.
func NewClient(id int64, remote string, address jute.ID, wake func()) *Client {
	c := &Client{id: id, remote: remote, address: address, Wake: wake, established: make(chan struct{}), sampled: busiest.Client{Sampler: busiest.NewSampler(uint64(id))}}
	c.room.L = &c.mu
	c.ids.Store(&[]jute.ID{address})
	c.stats.reset()
	return c
}

// A request is one entry of a client's queue of unanswered requests.
type request struct {
	xid     int32
	op      *op   // as the client asked; what is done also depends on verdict
	seq     int64 // of a write, from 1; of a sync its ticket
	at      int64 // now (ns) when it arrived
	ready   bool  // a sync whose answer may go out
	long    bool  // a read that is done in steps, or might be (see longread.go)
	held    bool  // a write that is not sent before what holds it ahead of it is done (see holds)
	verdict verdict
	size    int    // what it counts among the unanswered bytes
	body    []byte // a read's body, or a write's record in case it must be sent again
}

// isWrite reports whether the request is answered once the log has brought it.
func (q *request) isWrite() bool { return q.verdict == taken && q.op.kind == kindWrite }

// isSync reports whether it is answered once everything acknowledged before is applied.
func (q *request) isSync() bool { return q.verdict == taken && q.op.kind == kindSync }

// isRead reports whether it is answered in its turn: a read, or what was not taken.
func (q *request) isRead() bool {
	return q.verdict != taken || q.op.kind != kindWrite && q.op.kind != kindSync
}

// code is the operation that the request counts for: none if it was refused.
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
	reads int // how many of them are reads or syncs
	work  int // what replies to some of the reads are going to count (see isLong)
}

func (q *queue) len() int { return len(q.items) - q.head }

func (q *queue) front() *request { return &q.items[q.head] }

func (q *queue) push(r request) {
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

// reserve waits until the connection may queue another request, of that size, and
// counts that in all. When the whole server has too much unanswered, a connection
// with nothing or little unanswered still gets its turn, unless the request is large. blocks
// is called before it waits, with mu held. It reports false once the connection is
// closing.
func (c *Client) reserve(all *unanswered, size int, blocks func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reserveLocked(all, size, blocks)
}

func (c *Client) reserveLocked(all *unanswered, size int, blocks func()) bool {
	for !c.closing && !c.closed {
		n := c.unanswered.len()
		full := n >= unansweredMax || c.unanswered.bytes >= unansweredBytesMax || len(c.out) >= outputPauseBytes
		if !full && !all.holds(n) {
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
		if len(c.out) > 0 {
			c.queued() // the reader, which would write it at the end of its batch, waits here
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

// expect is reserve, and queues a write for an answer later on. It reports whether
// that has to wait before it is sent (see holds).
func (c *Client) expect(r *request, all *unanswered, blocks func()) (held, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.op == &opCloseSession && !c.closing && !c.closed {
		all.add(1, int64(r.size)) // it is the connection's last, and frees more than it takes
	} else if !c.reserveLocked(all, r.size, blocks) {
		return false, false
	}
	r.held = c.holds()
	if r.op.code == jute.OpReconfig {
		c.changing.Add(1)
	}
	c.unanswered.push(*r)
	return r.held, true
}

// holds reports whether writes that come now have to wait: for a sync or a long read,
// which they must not overtake, or for a reconfig, whose answer has the zxid of a
// later entry than its own, and theirs must not be smaller.
func (c *Client) holds() bool {
	return c.syncing.Load() > 0 || c.longReads.Load() > 0 || c.changing.Load() > 0
}

// queued is called with mu held after something was appended to out.
func (c *Client) queued() {
	if len(c.out) > outputMaxBytes {
		c.closeLocked("it does not read what it is sent")
		c.out = nil
		c.events.drop()
		if c.Abort != nil {
			c.Abort()
		}
	}
	if !c.flushing {
		c.flushing = true
		c.Wake()
	}
}

// reply appends a frame with a header and whatever body appends, which may be
// nil.
func (c *Client) reply(h jute.ReplyHeader, body func([]byte) []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing || c.closed {
		return
	}
	c.out = jute.AppendReply(c.out, h, body)
	c.stats.sent.Add(1)
	c.queued()
}

// CloseAfter lets what is queued go out, then closes the connection.
func (c *Client) CloseAfter(why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeLocked(why)
	if !c.flushing && !c.closed {
		c.flushing = true
		c.Wake()
	}
}

// Ending returns why the connection is to be closed, "" if it isn't.
func (c *Client) Ending() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.why
}

func (c *Client) closeLocked(why string) {
	if !c.closing {
		c.closing, c.why = true, why
		c.room.Broadcast()
	}
}

// Quiet gives back the buffers and the queue of a connection on which little happens; its
// reader calls it.
func (c *Client) Quiet() {
	c.records = nil
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unanswered.len() == 0 {
		c.unanswered = queue{}
	}
	if len(c.out) == 0 && !c.flushing {
		c.out, c.spare = nil, nil
	}
}

// disconnected marks the socket gone, frees what waited for it and returns how many
// requests, of how many bytes, will never be answered, and how many of them are writes that
// were sent.
func (c *Client) disconnected() (count, bytes, sent int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	count, bytes = c.unanswered.len(), c.unanswered.bytes
	for i := c.unanswered.head; i < len(c.unanswered.items); i++ {
		if q := &c.unanswered.items[i]; q.isWrite() && !q.held {
			sent++
		}
	}
	c.unanswered, c.out, c.spare, c.long = queue{}, nil, nil, nil
	c.events.drop()
	c.room.Broadcast()
	return count, bytes, sent
}
