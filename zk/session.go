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
// Two goroutines work on it: run, which connects and then reads (receive.go), and for each connection a writer
// (send.go). Callers queue their requests and wait. One lock guards everything. No goroutine waits for anything else
// while holding it.
//
// Invariants:
//
//	S1  calls[:sent] were sent, in that order, and are unanswered; calls[sent:] were never handed to the network and
//	    may be withdrawn.
//	S2  replies complete calls in order; a reply with another xid closes the connection.
//	S3  when a connection is lost with unanswered calls, all queued calls fail with them, and epoch grows: nothing
//	    queued before a loss is sent after it, so no later call of a caller is applied when an earlier one was lost.
//	    Without unanswered calls nothing was lost, and the queue waits.
//	S4  the reply that registers a watch puts it in the table before the next frame is read; so no notification can
//	    miss it.
type session struct {
	opt   Options
	log   *slog.Logger
	hooks Hooks           // all of opt.Hooks
	ctx   context.Context // ends when the client is closed; only run and its helpers wait for it
	stop  context.CancelFunc
	done  chan struct{} // closed when run has returned

	pool *sync.Pool // of *call

	background sync.WaitGroup // work that continues after its caller has left; it ends with the session

	mu      sync.Mutex
	now     StateChange
	changed chan struct{} // closed and replaced at each change of now
	feeds   map[*States]struct{}
	after   []func() // for runAfter: hooks to call without the lock
	closing bool     // no more calls are accepted
	end     error    // why the session has ended; nil while it lasts

	// The queue of calls (S1).
	calls       callQueue
	sent        int
	unsentBytes int
	waiting     int           // callers waiting for room
	room        chan struct{} // holds a token if one of them should check again
	xid         int32         // the last one used
	epoch       int64         // counts losses (S3), from 1

	// The connection.
	link     *link // nil while there is none
	idle     bool  // its writer waits for a kick
	draining bool  // send nothing more; leave the server when all is answered
	auths    callQueue
	rearms   int   // setWatches requests not yet answered
	blamed   *call // the reply to it was too large to read

	// The session as the server knows it.
	id        int64
	passwd    []byte
	full      bool // whether the id comes from a server with quorum
	timing    timing
	heard     time.Time // when bytes last arrived on the last lost connection
	connects  int       // connections made so far
	flaps     int       // connections in a row that were lost within the time of one ping
	zxidSeen  int64     // the highest in any frame; servers that are behind it must not serve the session
	zxidReply int64     // the highest in any reply; all events up to it have arrived

	creds   []Auth
	watches watchTable
	list    *serverList
	ask     chan struct{}           // makes the client ask DNS for the servers; nil without Options.SRV
	srvKey  string                  // the last answer of DNS
	abandon context.CancelCauseFunc // ends the current attempt to connect
	trouble map[string]error        // the last failure of each server
}

// startSession starts the session's goroutines, which connect to a server. opt must be complete.
func startSession(servers []string, opt Options) *session {
	s := &session{
		opt: opt, log: opt.Logger, hooks: joinHooks(opt.Hooks), pool: newCallPool(), done: make(chan struct{}),
		room: make(chan struct{}, 1), changed: make(chan struct{}), feeds: map[*States]struct{}{}, epoch: 1,
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

// errMoving ends a connection because the client moves to a better server.
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

// serve starts the writer of l and reads l until it fails. It returns the reason.
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

// disconnected settles the calls queued on l (S3). Its error, if any, is final.
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
			s.auths.remove(i) // a credential sent by the session, not by a caller
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
		if k.shared && k.seen != nil { // nothing else reports it; see Pipeline
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

// finish ends the session.
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

// troubles lists the last failure of each server, for the end of an error's text. The caller holds s.mu.
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

// closeWait bounds how long Close waits for the server to end the session. lostWait bounds how long it waits for
// another server once the connection is lost: longer than a move within an ensemble takes, but too short to be noticed
// at a program's end. If no server ends the session, it ends by its timeout.
const (
	closeWait = 5 * time.Second
	lostWait  = time.Second
)

// close ends the client and, if tell is true, the session at the server. A request to end the session that is lost with
// its connection is sent again. It is the session's last request, so repeating it does no harm.
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
			again = errors.Is(bye.err, ErrClosed) // the request was lost
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

// sayBye queues the request to end the session. sent reports whether there is a connection for it; otherwise it waits
// for the next one. bye is nil if there is no session to end.
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

// byeWaits reports whether the request to end the session is queued or unanswered. The caller holds s.mu.
func (s *session) byeWaits() bool {
	for i := s.calls.n - 1; i >= 0; i-- {
		if s.calls.at(i).op == jute.OpCloseSession {
			return true
		}
	}
	return false
}
