package peer

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/zooid-project/zooid/internal/lograte"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/quorum/peer/handshake"
	"github.com/zooid-project/zooid/internal/socket"
)

const (
	// sendQueueBytesMax bounds the send queue for one peer. Messages beyond it are
	// dropped, which raft tolerates, and the connection is closed and made again, so that
	// forwarded requests are resent.
	sendQueueBytesMax = 64 << 20
	// forwardQueueBytes is how full the leader's send queue may be while requests are forwarded.
	// Without it, requests would fill the queue, and be sent again over the next connection.
	forwardQueueBytes = 4 << 20
	dialTimeout       = time.Second
	writeTimeout      = 5 * time.Second
	redialMin         = 20 * time.Millisecond
	redialMax         = 250 * time.Millisecond
	// eventsMax is how many events may wait for the loop. While the queue is full,
	// nothing is read from peers.
	eventsMax = 1024
)

// transport carries messages between this server and its peers.
type transport struct {
	id, cluster uint64
	log         *slog.Logger
	events      chan quorum.Event
	frames      frames
	snapshot    func(net.Conn, uint64) // takes over an accepted snapshot connection
	dial        func(ctx context.Context, addr string) (net.Conn, error)
	secure      Secure
	keys        *Keyring
	logRate     lograte.Repeats
	nonce       uint64          // see duplicateid.go
	accepted    atomic.Uint64   // number of accepted connections for messages
	level       uint32          // highest feature level that this server knows
	rules       []byte          // that this server announces
	inForce     atomic.Uint32   // feature level; 0 while this server finds out how to begin
	allProve    bool            // no peer can be of a version that proves nothing over TLS; set before listen
	noneIsFirst bool            // no peer can be of the first version, which proves nothing; set before listen
	configured  []quorum.Member // of the server's configuration; set before listen
	lineage     atomic.Uint64   // see lineage.go

	// While this server finds out how to begin: whether it is empty, and its claim.
	empty bool
	claim atomic.Pointer[quorum.Claim]
	// Afterwards: its state, and how its ensemble was founded, or nil.
	standing func() quorum.Status
	founding *quorum.Founding

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	older     sync.Map // ids of servers that have proved the secret by the older version
	strangers sync.Map // by server: key of a process that has turned down a proof made with the secret
	mu        sync.Mutex
	remotes   map[uint64]*remote
	listeners []net.Listener
	members   []quorum.Member // the members that setMembers was called with
	gate      gate
	reading   map[uint64]reading // by peer: the newest connection, ended or not
	visiting  atomic.Bool        // a round of announcements is under way

	notes   sync.Mutex      // held while notes are written to a connection
	skips   []byte          // the note passed to AnnounceSkips
	clients ClientAddresses // passed to AnnounceClients
}

func newTransport(id, cluster uint64, secure Secure, log *slog.Logger) *transport {
	t := &transport{
		id: id, cluster: cluster, log: log, events: make(chan quorum.Event, eventsMax), secure: secure, keys: secure.Keys,
		remotes: map[uint64]*remote{}, gate: newGate(), reading: map[uint64]reading{},
	}
	if t.keys == nil {
		t.keys, _ = OpenKeyring("", nil) // can't fail: it reads no file
	}
	t.nonce = newNonce()
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.dial = func(ctx context.Context, addr string) (net.Conn, error) {
		d := net.Dialer{Timeout: dialTimeout, Control: endUnacked} // resolves the name at each dial
		return d.DialContext(ctx, "tcp", addr)
	}
	return t
}

// listen accepts peers on l until l is closed. close closes it if it is still open.
func (t *transport) listen(l net.Listener) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		socket.CloseListener(l)
		return
	}
	t.listeners = append(t.listeners, l)
	t.wg.Go(func() {
		t.acceptAll(t.ctx, l, t.serve)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.listeners = slices.DeleteFunc(t.listeners, func(other net.Listener) bool { return other == l })
	})
}

// acceptAll hands the connections that l accepts to serve, each on a goroutine of its own, until l is closed or ctx
// ends and an Accept fails.
func (t *transport) acceptAll(ctx context.Context, l net.Listener, serve func(net.Conn)) {
	failed := func(err error) {
		if t.logRate.Due("accept", time.Now()) {
			t.log.Error("a peer's connection can't be accepted; if this continues, raise the limit of open files", "err", err)
		}
	}
	for c := range socket.Accepted(l, ctx.Done(), failed) {
		if old := t.gate.enter(c); old != nil && t.logRate.Due("gate"+hostOf(old), time.Now()) {
			t.log.Warn("too many connections to the peer port have not authenticated; the oldest is closed",
				"from", old.RemoteAddr().String())
		}
		t.wg.Go(func() {
			defer t.gate.leave(c)
			defer c.Close()
			serve(c)
		})
	}
}

// setPeer adds a peer or sets its addresses. It ignores this server itself, and an empty addrs.
func (t *transport) setPeer(id uint64, addrs []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.remotes[id]
	switch {
	case id == t.id || len(addrs) == 0:
	case r == nil:
		r = &remote{t: t, id: id, addrs: addrs, back: make(chan struct{}, 1)}
		r.ready.L = &r.mu
		t.remotes[id] = r
		t.wg.Go(r.run)
	default:
		r.mu.Lock()
		r.addrs, r.dropped = addrs, false
		r.mu.Unlock()
	}
}

// dropPeer stops connecting to a peer, until setPeer adds it again.
func (t *transport) dropPeer(id uint64) {
	r := t.remote(id)
	if r == nil {
		return
	}
	r.mu.Lock()
	r.dropped = true
	if r.up {
		r.conn.Close()
	}
	r.mu.Unlock()
	r.hurry()
	t.log.Info("this server no longer connects to a server that isn't a member and doesn't answer", "server", id)
}

// gone removes a remote if it is still dropped, and reports whether it is: setPeer may have added it again meanwhile.
func (t *transport) gone(r *remote) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dropped {
		delete(t.remotes, r.id)
		t.older.Delete(r.id)
	}
	return r.dropped
}

// addPeers calls setPeer for each of servers.
func (t *transport) addPeers(servers []quorum.Member) {
	for _, m := range servers {
		t.setPeer(m.ID, m.Addrs)
	}
}

func (t *transport) remote(id uint64) *remote {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.remotes[id]
}

// told returns of's result for each peer, by id, without zero values.
func told[T comparable](t *transport, of func(*remote) T) map[uint64]T {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := map[uint64]T{}
	for id, r := range t.remotes {
		r.mu.Lock()
		if what := of(r); what != *new(T) {
			all[id] = what
		}
		r.mu.Unlock()
	}
	return all
}

// send queues a frame for a peer. It returns false if it dropped the frame.
func (t *transport) send(to uint64, kind quorum.FrameKind, payload []byte) bool {
	r := t.remote(to)
	return r != nil && r.send(kind, payload)
}

// connected reports whether this server's connection to a peer is up.
func (t *transport) connected(id uint64) bool {
	r := t.remote(id)
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.up
}

// room reports whether less than forwardQueueBytes wait in a peer's send queue.
func (t *transport) room(id uint64) bool {
	r := t.remote(id)
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.queue) < forwardQueueBytes
}

// close closes all connections and waits for all goroutines.
func (t *transport) close() {
	t.abandon()
	t.wg.Wait()
}

// abandon closes all connections.
func (t *transport) abandon() {
	t.cancel()
	t.mu.Lock()
	for _, l := range t.listeners {
		socket.CloseListener(l)
	}
	for _, r := range t.remotes {
		r.close()
	}
	t.mu.Unlock()
	t.gate.close()
}

// tell hands an event to the loop. It blocks while the queue of events is full.
func (t *transport) tell(e quorum.Event) {
	select {
	case t.events <- e:
	case <-t.ctx.Done():
	}
}

// serve handles an accepted connection until it ends.
func (t *transport) serve(raw net.Conn) {
	if t.ctx.Err() != nil {
		return
	}
	a, refusal, err := t.arrive(raw)
	if err == nil {
		err = a.readLineage()
	}
	if err != nil {
		t.closed(raw, a.hello.from, err)
		return
	}
	h := a.hello
	if a.mode == handshake.ModePair && t.keys.Secured() {
		t.letIn(raw, a)
		return
	}
	if sameID := h.kind == connPing && h.from == t.id; refusal == "" && a.legacy() && t.remote(h.from) == nil && !sameID {
		refusal = fmt.Sprintf("server %d is not in this server's configuration", h.from)
	}
	if refusal == "" && a.legacy() {
		refusal = t.verify(a.Conn, h)
	}
	if refusal == "" {
		refusal = t.refuse(h)
	}
	if refusal == "" {
		refusal = t.otherLineage(a.lineage)
	}
	if refusal == "" && h.kind == connClaim && a.legacy() {
		refusal = "a server that proves nothing isn't told what this one is"
	}
	if refusal == "" {
		refusal = t.duplicateIDOf(a)
	}
	if refusal == "" {
		refusal = t.verify(a.Conn, h)
	}
	if refusal == "" && !t.gate.prove(raw, h.from, a.legacy()) {
		refusal = "there are too many connections of this server already"
	}
	if _, encrypted := handshake.TLS(a.Conn); refusal == "" && a.legacy() && !t.mayBeBare(encrypted) {
		return // secured meanwhile: dropLegacy may have run before prove
	}
	if refusal != "" {
		t.noteForeign(a)
		t.noteSameID(a, refusal)
		t.refused(raw, h, refusal)
		writeAnswer(a.Conn, refusal)
		handshake.Linger(raw)
		return
	}
	number := uint64(0)
	if h.kind == connMessages {
		number = t.accepted.Add(1) // before the peer can send anything on the connection
	}
	if a.mode == handshake.ModeSecret {
		t.keys.Entered(h.from)
	}
	if err := writeAnswer(a.Conn, ""); err != nil {
		return
	}
	unveil(a.Conn, h.kind)
	a.SetDeadline(time.Time{})
	switch h.kind {
	case connSnapshot:
		t.snapshot(a.Conn, h.from)
	case connJoin:
		a.SetDeadline(time.Now().Add(2 * dialTimeout))
		t.joinRequest(a)
	case connClaim:
		t.answerWhat(a.Conn)
	case connMeet:
		a.SetDeadline(time.Now().Add(handshakeTimeout))
		t.met(a)
	case connGuest:
		a.SetDeadline(time.Now().Add(handshakeTimeout))
		t.visited(raw, a)
	case connMessages:
		t.hear(a, number)
	}
}

// hear hands the frames that a peer sends on a connection to the loop.
func (t *transport) hear(a arrival, number uint64) {
	from := a.hello.from
	t.noteEntered(a)
	done := t.supersede(from, a.Conn)
	defer close(done)
	if err := t.announce(a.Conn); err != nil { // after supersede, so that no later note is missed
		return
	}
	if err := t.announceDeparture(a.Conn, from); err != nil {
		return
	}
	if r := t.remote(from); r != nil {
		r.hurry()
	}
	err := t.read(a.Conn, from, number)
	if t.ctx.Err() == nil {
		if t.logRate.Due(fmt.Sprintf("ended %d", from), time.Now()) {
			t.log.Info("a peer's connection ended", "peer", from, "err", err)
		}
		t.tell(quorum.Event{Kind: quorum.EventLost, From: from})
	}
}

// supersede makes c the current connection from a peer. It closes the previous one and
// waits until all frames that arrived on it are handed to the loop, so that the frames
// of c come after them. The caller closes done when it has read c to its end.
func (t *transport) supersede(from uint64, c net.Conn) (done chan struct{}) {
	done = make(chan struct{})
	t.mu.Lock()
	old := t.reading[from]
	t.reading[from] = reading{c, done}
	t.mu.Unlock()
	if old.conn != nil {
		old.conn.Close()
		<-old.done
	}
	return done
}

// reading is a connection that frames of a peer are read from. done is closed after the
// last frame.
type reading struct {
	conn net.Conn
	done chan struct{}
}

// closed logs that a connection was closed before its hello. from is the id that the peer
// claimed, 0 if none. Two servers that start together may not have seen each other yet;
// that isn't logged.
func (t *transport) closed(raw net.Conn, from uint64, err error) {
	if errors.Is(err, handshake.ErrNoProof) || errors.Is(err, handshake.ErrUnpinned) && !t.keys.Secured() {
		return
	}
	if errors.Is(err, handshake.ErrUnpinned) && t.remote(from) == nil {
		if addr := t.keys.AdmittedAt(from); addr != "" {
			t.setPeer(from, []string{addr}) // the process that answers there is let in when it asks again
		}
	}
	if t.ctx.Err() == nil && t.logRate.Due(hostOf(raw)+err.Error(), time.Now()) {
		t.log.Warn("a connection to the peer port was closed", "from", raw.RemoteAddr().String(), "server", from, "err", err)
	}
}

// refused logs that a peer was refused.
func (t *transport) refused(raw net.Conn, h hello, reason string) {
	if !t.logRate.Due(hostOf(raw)+reason, time.Now()) {
		return
	}
	from := raw.RemoteAddr().String()
	if strings.Contains(reason, quorum.SameID) {
		t.log.Warn("a peer was refused, because another server has its id", "from", from, "server", h.from, "why", reason)
		return
	}
	t.log.Warn("a peer was refused", "from", from, "server", h.from, "why", reason)
}

// hostOf returns the address of a connection's other end without its port.
func hostOf(c net.Conn) string {
	host, _, _ := net.SplitHostPort(c.RemoteAddr().String())
	return host
}

// refuse returns the reason to refuse a hello, or "" if it is acceptable.
func (t *transport) refuse(h hello) string {
	switch {
	case t.isSelf(h):
		return ""
	case h.kind == connJoin || h.kind == connPing || h.kind == connClaim:
		if h.from == t.id {
			return fmt.Sprintf("you call yourself server %d, and so do I: %s", h.from, quorum.SameID)
		}
		return cmp.Or(t.misdirected(h), t.outdated(h))
	case h.cluster != t.cluster:
		return fmt.Sprintf("this server belongs to cluster %016x, you to %016x: one of the two has the other's address, or a data directory of another cluster",
			t.cluster, h.cluster)
	case h.to != t.id:
		return t.misdirected(h)
	case h.from == t.id:
		return fmt.Sprintf("you call yourself server %d, and so do I: %s", h.from, quorum.SameID)
	case h.kind == connGuest:
		return ""
	case t.remote(h.from) == nil:
		return fmt.Sprintf("server %d is not in this server's configuration", h.from)
	case h.kind != connMessages && h.kind != connSnapshot && h.kind != connMeet:
		return fmt.Sprintf("unknown kind of connection %d", h.kind)
	}
	return ""
}

// misdirected returns the reason to refuse a hello to a server other than this one, or "". This server's statements
// about itself must not pass for the other's.
func (t *transport) misdirected(h hello) string {
	if h.to == t.id {
		return ""
	}
	return fmt.Sprintf("this is server %d, you asked for %d: check the server lines and the myid files", t.id, h.to)
}

func (t *transport) read(c net.Conn, from, number uint64) error {
	r := io.Reader(c)
	if _, buffered := c.(*handshake.Sealed); !buffered {
		r = bufio.NewReaderSize(c, 256<<10)
	}
	for {
		kind, payload, err := readFrame(r, t.frames.take())
		if err != nil {
			return err
		}
		e, ok := kind.Event(from, number, payload)
		if !ok {
			return fmt.Errorf("unknown kind of frame %d: upgrade this server", kind)
		}
		t.tell(e)
	}
}

// A remote is a peer to which this server connects, with its send queue.
type remote struct {
	t    *transport
	id   uint64
	back chan struct{} // capacity 1: the peer has just connected to this server

	mu      sync.Mutex
	ready   sync.Cond
	addrs   []string
	addr    string // the address that conn was made to
	queue   []byte
	up      bool
	closed  bool
	dropped bool // nothing more is sent to the peer
	conn    net.Conn
	public  []byte          // public key of the process at the other end of conn, nil if it sent none
	legacy  bool            // the peer has proven nothing on conn
	lineage uint64          // sent by the peer on conn, 0 if none
	clients ClientAddresses // that the peer sent last
	foreign foreign         // what the peer said when it was refused
	sameID  sameID          // that there are two servers with the peer's id, or with this server's
}

// send queues a frame. While there is no connection, frames are dropped: raft repeats
// what matters, and requests are sent again once the connection is up.
func (r *remote) send(kind quorum.FrameKind, payload []byte) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.up {
		return false
	}
	if len(r.queue)+len(payload) > sendQueueBytesMax {
		r.conn.Close()
		return false
	}
	r.queue = append(appendFrameHead(r.queue, kind, len(payload)), payload...)
	r.ready.Signal()
	return true
}

func (r *remote) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	if r.conn != nil {
		r.conn.Close()
	}
	r.ready.Broadcast()
}

// run keeps up a connection to the peer and writes the queued frames to it.
func (r *remote) run() {
	pause, early := redialMin, redialMin
	said := false
	for r.t.ctx.Err() == nil && !r.isClosed() && !r.t.gone(r) {
		c, err := r.connect()
		if err != nil {
			if r.t.ctx.Err() == nil && r.t.logRate.Due(err.Error(), time.Now()) {
				said = true
				r.t.log.Warn("a peer can't be reached; this server keeps trying", "peer", r.id, "err", err)
			}
			r.wait(pause)
			pause = min(2*pause, redialMax)
			continue
		}
		if said {
			r.t.log.Info("a peer is reached", "peer", r.id)
		}
		pause, said = redialMin, false
		began := time.Now()
		r.t.tell(quorum.Event{Kind: quorum.EventConnected, From: r.id})
		err = r.write(c)
		c.Close()
		r.mu.Lock()
		r.up, r.queue, r.conn, r.public = false, nil, nil, nil
		r.mu.Unlock()
		if r.t.ctx.Err() == nil && r.t.logRate.Due(fmt.Sprintf("lost %d", r.id), time.Now()) {
			r.t.log.Info("the connection to a peer ended", "peer", r.id, "err", err)
		}
		if time.Since(began) > earlyEnd {
			early = redialMin
			continue
		}
		// Perhaps two servers with this server's id keep closing each other's connection.
		r.wait(early)
		early = min(2*early, earlyPauseMax)
	}
}

// A connection that ends within earlyEnd is made again after a pause, which grows up to
// earlyPauseMax while connections end early.
const (
	earlyEnd      = time.Second
	earlyPauseMax = 2 * time.Second
)

func (r *remote) isClosed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closed
}

func (r *remote) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-r.back:
	case <-r.t.ctx.Done():
	}
}

// hurry ends a wait, because the peer has just connected. Without it a server that has
// just started might lead and get no answers for redialMax.
func (r *remote) hurry() {
	select {
	case r.back <- struct{}{}:
	default:
	}
}

func (r *remote) addresses() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.addrs
}

// connect tries the peer's addresses in turn.
func (r *remote) connect() (net.Conn, error) {
	var errs []error
	for _, addr := range r.addresses() {
		c, err := r.t.greet(r.t.ctx, addr, hello{connMessages, r.t.cluster, r.t.id, r.id}, true)
		r.noteRefused(err)
		if err != nil {
			errs = append(errs, fmt.Errorf("connect to server %d at %s: %w", r.id, addr, err))
			continue
		}
		r.mu.Lock()
		r.conn, r.addr, r.up, r.queue, r.public, r.legacy = c.Conn, addr, !r.closed, nil, c.public, c.legacy
		r.lineage = 0
		r.mu.Unlock()
		if c.legacy && !r.t.mayBeBare(r.t.secure.Client != nil) {
			c.Close() // secured meanwhile: dropLegacy may have run before conn was set
		}
		if !c.legacy {
			r.t.gate.know(c.Conn.RemoteAddr())
		}
		return c.Conn, nil
	}
	return nil, errors.Join(errs...)
}

// write writes the queued frames until the connection fails. It also reads the peer's notes
// (notes.go) from the connection, and so notices when the connection ends.
func (r *remote) write(c net.Conn) error {
	ended := make(chan error, 1)
	go func() {
		ended <- readNotes(c, func(e quorum.Event) {
			e.From = r.id
			r.t.tell(e)
		}, r.heardLineage, r.heardClients)
		r.mu.Lock()
		r.ready.Broadcast()
		r.mu.Unlock()
	}()
	var out, spare []byte
	for {
		r.mu.Lock()
		for len(r.queue) == 0 && !r.closed && len(ended) == 0 {
			r.ready.Wait()
		}
		if r.closed || len(ended) > 0 {
			r.mu.Unlock()
			c.Close()
			return <-ended
		}
		out, r.queue = r.queue, spare[:0]
		r.mu.Unlock()
		c.SetWriteDeadline(time.Now().Add(writeTimeout))
		if _, err := c.Write(out); err != nil {
			c.Close()
			<-ended
			return fmt.Errorf("write: %w", err)
		}
		if spare = out; cap(spare) > sendQueueBytesMax/16 {
			spare = nil
		}
	}
}
