package zk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// A session is the state machine behind a Client.
//
//	          ┌── lost ───┐
//	          ▼           │
//	run: connecting ─▶ connected ─▶ closed
//	          │           │
//	          ▼           ▼
//	       expired    auth failed
//
// Two goroutines work on it: run, which connects and then reads (receive.go),
// and for each connection a writer (send.go). Callers queue their requests and
// wait. One lock guards everything; nothing waits while holding it.
//
// Invariants:
//
//	S1  calls[:sent] are on the wire, in that order, unanswered; calls[sent:]
//	    were never handed to the network and may be withdrawn.
//	S2  replies complete calls in order; a reply for another xid ends the
//	    connection.
//	S3  when a connection is lost with a call on the wire, all queued calls fail
//	    with it, and epoch grows: nothing queued before a loss is sent after it,
//	    so no later call of a caller is applied where an earlier was lost. With
//	    none on the wire nothing was lost, and the queue waits.
//	S4  a watch is in the table from the reply that registered it, before the
//	    next frame is read; so no notification can miss it.
type session struct {
	opt   Options
	log   *slog.Logger
	hooks Hooks           // all of opt.Hooks
	ctx   context.Context // ends when the client is closed; only run and its helpers wait on it
	stop  context.CancelFunc
	done  chan struct{} // closed when run has returned

	pool *sync.Pool // of *call

	background sync.WaitGroup // work that has outlived its caller; it ends with the session

	mu      sync.Mutex
	now     StateChange
	changed chan struct{} // closed and replaced at each change of now
	feeds   map[*States]struct{}
	after   []func() // for runAfter: hooks that are called without the lock
	closing bool     // no more calls are taken
	end     error    // why the session is over; nil while it isn't

	// The queue of calls (S1).
	calls       callQueue
	sent        int
	unsentBytes int
	waiting     int           // callers waiting for room
	room        chan struct{} // holds a token if one of them should look again
	xid         int32         // the last one given
	epoch       int64         // counts losses (S3), from 1

	// The connection.
	link     *link // nil while there is none
	idle     bool  // its writer waits for a kick
	draining bool  // send nothing more; leave the server when all is answered
	auths    callQueue
	rearms   int   // setWatches requests not yet answered
	blamed   *call // its reply was too large to read

	// The session as the server knows it.
	id        int64
	passwd    []byte
	full      bool // the id comes from a server with quorum, not from a read-only one
	timing    timing
	heard     time.Time // when the last lost connection was last heard from
	connects  int       // connections made
	flaps     int       // connections lost in a row that had not lived for one ping
	zxidSeen  int64     // the highest in any frame: no server behind it may serve us
	zxidReply int64     // the highest in any reply: all its events have come

	creds   []Auth
	watches watchTable
	list    *serverList
	ask     chan struct{}           // has DNS asked for the servers; nil without Options.SRV
	srvKey  string                  // what DNS said last
	abandon context.CancelCauseFunc // ends the attempt to connect that is under way
	trouble map[string]error        // the last failure of each server
}

// startSession begins to connect. opt must be complete.
func startSession(servers []string, opt Options) *session {
	s := &session{
		opt: opt, log: opt.Logger, hooks: joinHooks(opt.Hooks), pool: newCallPool(), done: make(chan struct{}),
		room:    make(chan struct{}, 1),
		changed: make(chan struct{}), feeds: map[*States]struct{}{}, epoch: 1,
		zxidSeen: opt.Resume.LastZxid, id: opt.Resume.ID, passwd: slices.Clone(opt.Resume.Passwd), full: opt.Resume.ID != 0,
		creds: slices.Clone(opt.Auth), watches: newWatchTable(), trouble: map[string]error{},
		timing: timingOf(opt.SessionTimeout, len(servers)), heard: time.Now(),
	}
	s.list = newServerList(servers, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
	s.ctx, s.stop = context.WithCancel(context.Background())
	s.now.SessionID = s.id
	if opt.SRV != "" {
		s.list, s.ask = newOrderedList(), make(chan struct{}, 1)
	}
	go s.run()
	return s
}

// errMoving ends a connection in favour of one to a better server.
var errMoving = errors.New("moving to another server")

// run is the main loop of the session.
func (s *session) run() {
	defer close(s.done)
	defer s.stop()
	if s.ask != nil {
		if err := s.firstServers(); err != nil {
			s.finish(err)
			s.runAfter()
			return
		}
		var side sync.WaitGroup
		defer side.Wait()
		defer s.stop()
		side.Go(s.answerAsks)
	}
	for {
		l, err := s.connect()
		if err == nil {
			err = s.serve(l)
			err = s.disconnected(l, err)
		}
		if err != nil {
			s.finish(err)
		}
		s.runAfter()
		if err != nil {
			return
		}
	}
}

// serve reads l until it fails, with its writer beside it, and returns why.
func (s *session) serve(l *link) error {
	ctx, cancel := context.WithCancel(s.ctx)
	defer context.AfterFunc(s.ctx, func() { l.close(ErrClosed) })()
	s.mu.Lock()
	prelude := s.prelude()
	s.mu.Unlock()
	var side sync.WaitGroup
	side.Go(func() { s.send(l, prelude) })
	if l.readOnly {
		side.Go(func() { s.seekFull(ctx, l) })
	}
	l.close(s.receive(l))
	cancel()
	side.Wait()
	return l.why
}

// disconnected settles what was queued on l (S3). Its error, if any, is final.
func (s *session) disconnected(l *link, why error) (final error) {
	if s.ctx.Err() == nil {
		s.log.Info("zookeeper: connection lost", "server", l.server, "session", fmt.Sprintf("0x%x", s.id), "reason", why)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = l.lastHeard()
	if s.flaps++; time.Since(l.since) > l.timing.ping {
		s.flaps = 0
	}
	s.link, s.idle, s.draining, s.rearms = nil, false, false, 0
	if !errors.Is(why, errMoving) {
		s.list.lost(l.server)
	}
	defer func() { s.blamed = nil }()
	var cause error = ErrConnectionLoss
	switch {
	case s.closing:
		cause = ErrClosed
		if s.ctx.Err() != nil || !s.byeWaits() {
			final = ErrClosed
		}
	case errors.Is(why, ErrAuthFailed):
		final, cause = why, ErrAuthFailed
	}
	for i := s.auths.n - 1; i >= 0; i-- {
		if s.auths.at(i).done == nil {
			s.auths.remove(i) // ours, not a caller's
		}
	}
	if s.sent > 0 || s.auths.n > 0 || final != nil {
		s.failCalls(l.server, cause, why)
		s.epoch++
	}
	if final == nil {
		s.askServers()
		s.become(StateChange{State: StateConnecting, Server: l.server, SessionID: s.id, Err: why})
	}
	return final
}

// failCalls completes every queued call with cause. The caller holds s.mu.
func (s *session) failCalls(server string, cause, why error) {
	fail := func(k *call, sent bool) {
		e := lossError(k, server, sent, why)
		if tooLarge, ok := errors.AsType[*jute.FrameSizeError](why); ok && sent && k == s.blamed {
			*e = Error{Op: e.Op, Path: e.Path, Server: server, Err: ErrReplyTooLarge, maybeApplied: e.maybeApplied,
				detail: fmt.Sprintf("it has %d bytes, and Options.MaxResponseBytes is %d", tooLarge.Size, tooLarge.Max)}
		} else if !errors.Is(cause, ErrConnectionLoss) {
			e.Err, e.retryable = cause, false
		}
		k.err = e
		if k.watch != nil {
			s.watches.arrived(k.abs)
		}
		if k.shared && k.seen != nil { // nobody else tells; see Pipeline
			s.after = append(s.after, func() { s.ended(k, true, k.err) })
		}
		k.finish()
	}
	for s.auths.n > 0 {
		fail(s.auths.pop(), true)
	}
	for ; s.calls.n > 0; s.sent = max(s.sent-1, 0) {
		fail(s.calls.pop(), s.sent > 0)
	}
	s.unsentBytes = 0
	s.wake()
}

// finish ends the session for good.
func (s *session) finish(end error) {
	state := StateClosed
	switch {
	case errors.Is(end, ErrSessionExpired):
		state = StateExpired
	case errors.Is(end, ErrAuthFailed):
		state = StateAuthFailed
	}
	s.log.Log(context.Background(), levelOf(state), "zookeeper: session ended", "session", fmt.Sprintf("0x%x", s.id),
		"state", state.String(), "reason", end)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end = end
	s.failCalls("", end, nil)
	s.watches.end(end)
	s.become(StateChange{State: state, SessionID: s.id, Err: end})
	for f := range s.feeds {
		f.box.close(end)
	}
	clear(s.feeds)
}

func levelOf(state State) slog.Level {
	if state == StateClosed {
		return slog.LevelInfo
	}
	return slog.LevelWarn
}

// troubles lists the last failure of each server, for an error's end. The caller
// holds s.mu.
func (s *session) troubles() string {
	var b strings.Builder
	if err := s.trouble[s.opt.SRV]; err != nil && s.opt.SRV != "" {
		fmt.Fprintf(&b, "; %v", err)
	}
	for _, server := range s.list.servers {
		if err := s.trouble[server]; err != nil {
			fmt.Fprintf(&b, "; %s: %v", server, err)
		}
	}
	return b.String()
}

// closeWait bounds how long Close waits for the server to end the session, and lostWait how long for another server
// once the connection is lost: longer than a move within an ensemble takes, shorter than who waits for a program's end
// would notice. If no server does it, the session ends by its timeout.
const (
	closeWait = 5 * time.Second
	lostWait  = time.Second
)

// close ends the client; the server ends the session too if told to. A request to end it that is lost with its
// connection is sent again: it is a session's last, so nothing can be done twice.
func (s *session) close(tell bool) {
	s.mu.Lock()
	first := !s.closing && s.end == nil
	s.closing = true
	s.draining = false
	s.wake()
	s.mu.Unlock()
	limit := time.NewTimer(closeWait)
	defer limit.Stop()
	for again := first && tell; again; {
		bye, sent := s.sayBye()
		if bye == nil {
			break
		}
		if !sent {
			limit.Reset(lostWait)
		}
		select {
		case <-bye.done:
			again = errors.Is(bye.err, ErrClosed) // it was lost
		case <-limit.C:
			again = false
		}
	}
	if first {
		s.stop()
	}
	<-s.done
	s.background.Wait()
}

// sayBye queues the request to end the session, for the connection there is (sent) or the next one. It is nil if there
// is no session to end.
func (s *session) sayBye() (bye *call, sent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.id == 0 || s.end != nil {
		return nil, false
	}
	bye = s.pool.Get().(*call)
	bye.op = jute.OpCloseSession
	bye.end(bye.begin())
	s.enqueue(bye)
	return bye, s.link != nil
}

// byeWaits reports whether the request to end the session is unanswered. The caller holds s.mu.
func (s *session) byeWaits() bool {
	for i := s.calls.n - 1; i >= 0; i-- {
		if s.calls.at(i).op == jute.OpCloseSession {
			return true
		}
	}
	return false
}
