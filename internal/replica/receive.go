package replica

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/zooid-project/zooid/authprovider"
	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/limit"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// ErrClosing says that the connection takes no more requests; Client.Ending returns the reason.
var ErrClosing = errors.New("the connection is closing")

// A readBatch is the input of one read of a connection's socket, while Receive processes it. It holds the replica
// during consecutive read requests, and counts them, so that each costs a lookup rather than a lock.
type readBatch struct {
	r       *Replica
	c       *Client
	now     int64
	held    bool
	since   int64  // earliest time (ns) since when the replica is or was held; 0 if that has to be looked up
	waited  bool   // the replica was locked, or an Apply has ended, since the input was read
	ahead   int    // number of coming reads whose znodes have been prefetched
	rest    []byte // the input from the current request on
	count   int64
	last    request // the request answered last
	metrics requestMetrics
	work    int            // work done since the replica was locked
	limits  *limit.InForce // nil for none

	writes int64 // number of writes whose records are in c.records
}

// Receive processes the input that arrived on an attached connection and returns how many bytes it
// used: all whole frames, unless it returns ErrUntold, ErrPaced or ErrNotUpToDate. It keeps no reference to in. It may
// block while the connection has too many unanswered requests.
func (r *Replica) Receive(c *Client, in []byte, now int64) (used int, err error) {
	t := readBatch{r: r, c: c, now: now, since: now, limits: r.limiter.inForce.Load()}
	requests, one := 0, false
	defer func() {
		t.release()
		t.hand()
		if t.limits != nil {
			t.use(requests, used)
		}
		r.meters.BytesReceived.Add(int64(used))
	}()
	if !c.frame.isLate(now) {
		c.lastHeard.Store(now / 1e6)
	}
	if t.outdated() {
		return 0, ErrNotUpToDate
	}
	if t.limits != nil {
		wait := false
		if wait, one = t.paced(in); wait {
			return 0, ErrPaced
		}
	}
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
		if requests++; one && used < len(in) {
			return used, ErrPaced
		}
	}
}

// request takes one request.
func (t *readBatch) request(xid int32, op *op, body []byte) error {
	if op.kind == kindLogin {
		t.release()
		t.since = 0
		t.hand() // a login may take a while
		t.c.reader.Blocks()
		if !t.c.awaitOutput() {
			return ErrClosing
		}
		return t.r.login(t.c, xid, op, body)
	}
	if !t.r.auth.Satisfied(t.c.identities()) {
		t.release()
		t.r.logins.tried(t.c, op, body, jute.ErrSessionClosedRequireSASLAuth, Refused)
		t.c.reply(jute.ReplyHeader{Xid: xid, Err: jute.ErrSessionClosedRequireSASLAuth}, nil)
		t.c.CloseAfter("it sent a request before it authenticated, which this server requires (enforce.auth.schemes)")
		return ErrClosing
	}
	v, err := t.admit(op, body)
	if err != nil || v == unheard {
		return err
	}
	if op.code == jute.OpPing {
		xid = jute.XidPing // Apache answers a ping with this xid, whatever the request's was
	}
	req := request{xid: xid, op: op, verdict: v, at: t.now}
	if req.isRead() && t.hold() {
		if t.waited && t.outdated() {
			return ErrNotUpToDate
		}
		if t.ahead == 0 {
			t.ahead = t.prefetch()
		}
		t.ahead--
		start := len(t.c.out.frames)
		out, ok := t.r.answer(t.c, t.c.out.frames, &req, body)
		if !ok {
			t.c.out.frames = out[:start]
			t.release()
			return t.enqueue(&req, body)
		}
		t.c.out.frames = out
		t.metrics.add(t.r, t.c, &req, body, out[start:])
		t.count++
		t.last = req
		if t.work += t.r.reads.readWork(t.c, len(body), len(out)-start); t.work >= readWorkMax {
			t.release()
		}
		return nil
	}
	t.release()
	return t.enqueue(&req, body)
}

// prefetch makes the tree prefetch the data of the next reads, and returns the number of these
// reads, at least 1. The replica is held.
func (t *readBatch) prefetch() int {
	if t.r.tree.NodeCount() < tree.PrefetchNodesMin {
		return tree.PrefetchMax
	}
	var paths [tree.PrefetchMax]string
	var d jute.Decoder
	n := 0
	for rest := t.rest; n < len(paths) && len(rest) >= 4+jute.RequestHeaderSize; n++ {
		size := 4 + int(binary.BigEndian.Uint32(rest))
		if size < 4+jute.RequestHeaderSize || size > len(rest) ||
			lookup(jute.Op(int32(binary.BigEndian.Uint32(rest[8:])))).kind != kindRead {
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

// hold makes sure that the replica and the client are held, and reports whether the client has
// nothing unanswered, so that a read may be answered at once.
func (t *readBatch) hold() bool {
	if t.held {
		return !t.c.out.full() && !t.c.closing
	}
	t.lock()
	t.c.mu.Lock()
	if t.c.unanswered.len() > 0 || t.c.closing || t.c.out.full() {
		t.c.mu.Unlock()
		t.r.mu.RUnlock()
		return false
	}
	t.held = true
	return true
}

// lock locks the replica for reading, which may take as long as an Apply or another client's request.
func (t *readBatch) lock() {
	if !t.r.mu.TryRLock() {
		t.r.mu.RLock()
		t.now, t.waited = t.r.now(), true
		t.since = t.now
	} else if t.since == 0 {
		t.since = t.r.now()
	}
	if t.now < t.r.appliedAt {
		t.now, t.waited = t.r.appliedAt, true
	}
}

// outdated reports whether this server can't tell if the client's session is still alive.
func (t *readBatch) outdated() bool {
	f := &t.r.freshness
	return f.mayBeOutdated(t.now) && f.age(t.c, t.now) > upToDateBound(t.c.timeout) && !t.c.readOnly &&
		t.c.reader.inTable == entered
}

// release unlocks what hold locked, and accounts for the reads answered since.
func (t *readBatch) release() {
	if !t.held {
		return
	}
	t.held, t.work = false, 0
	zxid := t.r.tree.LastZxid()
	t.metrics.flush(t.r.meters, t.c)
	t.c.noteOutput()
	t.c.mu.Unlock()
	t.r.mu.RUnlock()
	if t.count > 0 {
		t.c.stats.received.Add(t.count)
		t.r.stats.received.Add(t.count)
		t.r.stats.sent.Add(t.count)
		t.r.stats.latency.observe(0, t.count-1)
		t.c.stats.sent.Add(t.count - 1)
		end := t.r.now()
		t.r.holds[holdReads].Note(t.since, end)
		t.r.stats.answered(t.c, &t.last, zxid, end)
		t.count = 0
	}
	t.since = 0
}

// recordsKeepBytes is the largest buffer for a connection's writes that is kept between batches.
const recordsKeepBytes = 256 << 10

// hand puts the batch's writes in the proposals, all at once, so that they are in one log entry and
// the quorum is told once.
func (t *readBatch) hand() {
	r, c := t.r, t.c
	if t.writes == 0 {
		return
	}
	c.stats.received.Add(t.writes) // before they can be answered
	r.stats.received.Add(t.writes)
	t.writes = 0
	r.proposals.AddRecords(c.reader.records)
	if c.reader.records = c.reader.records[:0]; cap(c.reader.records) > recordsKeepBytes {
		c.reader.records = nil
	}
	if n := int64(cap(c.reader.records)); n != c.reader.recordsKept.Load() { // it hardly ever changes
		c.reader.recordsKept.Store(n)
	}
	r.kick()
}

// login handles auth and sasl requests, which are answered at once.
func (r *Replica) login(c *Client, xid int32, op *op, body []byte) error {
	d, old := jute.NewDecoder(body), c.identities()
	guess := auth.SASLGuess(old, c.address)
	var p jute.AuthPacket
	if op.code == jute.OpAuth {
		p.Decode(d)
		guess = r.auth.GuessOf(old, c.address, &p)
	}
	if err := r.logins.throttled(c, &guess); err != nil {
		if errors.Is(err, ErrClosing) {
			r.logins.tried(c, op, body, jute.OK, Undecided)
		}
		return err
	}
	if op.code == jute.OpSASL {
		return r.saslLogin(c, xid, d, &guess)
	}
	err := d.Err()
	var proof auth.Proof
	if err == nil {
		proof, err = r.auth.Authenticate(old, c.address, &p, r.dataOf)
		r.meters.countEnsemble(&p, err, r.auth.ChecksEnsemble())
	}
	r.logins.throttle.Judged(&guess, err, r.now())
	switch {
	case errors.Is(err, authprovider.ErrUndecided):
		r.clientLog.Warn("a client's credential could not be checked; its connection is closed, so that it tries again",
			"client", c.remote, "session", SessionText(c.session), "err", err)
		r.logins.tried(c, op, body, jute.OK, Undecided)
		c.CloseAfter("its credential could not be judged; it tries again")
		return ErrClosing
	case errors.Is(err, auth.ErrWrongEnsemble):
		r.logins.tried(c, op, body, jute.ErrAuthFailed, Tried)
		c.CloseAfter(err.Error())
		return ErrClosing
	case err != nil:
		r.clientLog.Warn("a client failed to authenticate", "client", c.remote, "session", SessionText(c.session), "err", err)
		r.stats.authFailed.Add(1)
		r.logins.tried(c, op, body, jute.ErrAuthFailed, Tried)
		c.reply(jute.ReplyHeader{Xid: xid, Err: jute.ErrAuthFailed}, nil)
		c.CloseAfter("it failed to authenticate")
		return ErrClosing
	}
	if !r.logins.proved(c, &proof) {
		return ErrClosing
	}
	r.logins.tried(c, op, body, jute.OK, Tried)
	if why := r.counts.belongs(c); why != "" {
		c.CloseAfter(why)
		return ErrClosing
	}
	c.reply(jute.ReplyHeader{Xid: xid}, nil)
	return nil
}

// Became reports the result of a request that changes nothing (Options.Answered).
type Became uint8

const (
	Tried     Became = iota // it was done, or failed; see the code
	Refused                 // it was refused without being tried
	Undecided               // a login whose credential could not be judged; there is no answer
)

// tried reports a login to Options.Answered.
func (l *logins) tried(c *Client, op *op, body []byte, code jute.Code, how Became) {
	if l.seeAnswer != nil {
		l.seeAnswer(c, op.code, body, code, how)
	}
}

const (
	loginPatience = int64(10e9) // ns for which a login waits to be judged, but at most a third of its session's timeout
	loginPause    = int64(50e6) // ns between two looks
)

// throttled returns ErrPaced while too many logins like a client's have failed: the login waits, since it may be right.
// After loginPatience throttled closes the connection without an answer: clients would not retry after an answer. If a
// login may be judged, throttled counts it and returns nil.
func (l *logins) throttled(c *Client, g *auth.Guess) error {
	now := l.now()
	if l.throttle.Allows(g, now) {
		c.reader.loginSince = 0
		c.stats.received.Add(1)
		l.stats.received.Add(1)
		l.stats.sent.Add(1)
		return nil
	}
	c.reader.loginSince = cmp.Or(c.reader.loginSince, now)
	if now-c.reader.loginSince < min(loginPatience, int64(c.timeout)*1e6/3) {
		c.reader.pause = loginPause + c.id%16*1e6 // so that waiting logins take turns
		return ErrPaced
	}
	l.meters.loginsThrottled.Inc()
	c.CloseAfter(auth.ErrTooMany.Error())
	return ErrClosing
}

// dataOf returns the data of a znode, for authentication providers.
func (s *state) dataOf(path string) ([]byte, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	body, code := s.tree.AppendGetData(nil, path, []jute.ID{{Scheme: "super"}})
	return jute.NewDecoder(body).Buffer(), code == jute.OK
}

// SessionText formats a session id as Apache does.
func SessionText(id int64) string { return fmt.Sprintf("0x%x", uint64(id)) }
