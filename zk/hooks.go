package zk

import (
	"context"
	"errors"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// Hooks are told what a client does, to count it or to trace it; each may be nil. Packages
// [github.com/zooid-project/zooid/zk/zkotel] and [github.com/zooid-project/zooid/zk/zkprom] make
// them for OpenTelemetry and Prometheus, as modules of their own.
//
// A hook must return at once and may call no method of the client that waits. It may be called
// by several goroutines at the same time, and while other hooks run.
type Hooks struct {
	// Request is called once for each call that a program makes, when it has ended: answered,
	// failed, or left by its caller. Repetitions by Options.Retry belong to the one call. A call
	// whose arguments this client refuses is no request. ctx is the call's. The goroutine is the
	// caller's; for calls of a Pipeline it is the connection's reader, which waits meanwhile.
	Request func(ctx context.Context, r RequestEnd)

	// Connect is called when an attempt to connect to a server has ended: server is host:port as
	// the list of servers has it, and err is nil if the session is served there.
	Connect func(server string, took time.Duration, err error)

	// State is called for each change of the client's state, in order; before is the state that
	// it leaves. A client begins with StateConnecting, for which there is no call. The last call
	// has a final state. The first may come a moment after Client.Wait returns; it comes before
	// the first reply.
	State func(before State, now StateChange)

	// Watch is called for each notification that a server sends, once the watches that it is
	// for have it; the path is absolute, whatever the chroot. One notification may be for several
	// watches.
	Watch func(e Event)
}

// A RequestEnd says how a request ended.
type RequestEnd struct {
	Op   string // ZooKeeper's name of the operation, such as "getData"
	Path string // as the caller gave it; "" if the operation has none
	Ops  int    // the number of operations of a multi or multiRead, else 0

	// Server is the host:port that answered or whose connection was lost, "" if the request was
	// sent to none.
	Server string

	// Zxid is what the reply says the server had applied: of a write, its own change. It is 0
	// without a reply.
	Zxid int64

	// Err is nil if the request succeeded. It is an *Error with a Code if a server refused. The
	// answer to Client.Exists for a missing znode is ErrNoNode here.
	Err error

	Start    time.Time     // when the caller began, room in the queue not yet waited for
	Duration time.Duration // until the end, all attempts and pauses included
	Attempts int           // 1, or more by Options.Retry
	Sent     int           // the size of the request in bytes, its length included
	Received int           // the size of the reply in bytes, its length included; 0 without one
}

// Result returns how the request ended as one word out of a fixed set, so that it can be a label
// of metrics: "OK", the name of the server's code without Err, such as "NoNode" or
// "ConnectionLoss", "UnknownCode" for a code that this client doesn't know, "Canceled",
// "DeadlineExceeded", "Closed", "ReplyTooLarge" or "Failed".
func (r RequestEnd) Result() string {
	code, isCode := errors.AsType[Code](r.Err)
	switch {
	case r.Err == nil:
		return "OK"
	case isCode:
		return codeWord(code)
	case errors.Is(r.Err, context.Canceled):
		return "Canceled"
	case errors.Is(r.Err, context.DeadlineExceeded):
		return "DeadlineExceeded"
	case errors.Is(r.Err, ErrClosed):
		return "Closed"
	case errors.Is(r.Err, ErrReplyTooLarge):
		return "ReplyTooLarge"
	}
	return "Failed"
}

// codeWords has the codes a server answers with, by the names of the constants.
var codeWords = map[Code]string{
	ErrSystemError: "SystemError", ErrRuntimeInconsistency: "RuntimeInconsistency",
	ErrDataInconsistency: "DataInconsistency", ErrConnectionLoss: "ConnectionLoss",
	ErrMarshallingError: "MarshallingError", ErrUnimplemented: "Unimplemented",
	ErrOperationTimeout: "OperationTimeout", ErrBadArguments: "BadArguments", ErrUnknownSession: "UnknownSession",
	ErrNewConfigNoQuorum: "NewConfigNoQuorum", ErrReconfigInProgress: "ReconfigInProgress", ErrAPIError: "APIError",
	ErrNoNode: "NoNode", ErrNoAuth: "NoAuth", ErrBadVersion: "BadVersion",
	ErrNoChildrenForEphemerals: "NoChildrenForEphemerals", ErrNodeExists: "NodeExists", ErrNotEmpty: "NotEmpty",
	ErrSessionExpired: "SessionExpired", ErrInvalidCallback: "InvalidCallback", ErrInvalidACL: "InvalidACL",
	ErrAuthFailed: "AuthFailed", ErrSessionMoved: "SessionMoved", ErrNotReadOnly: "NotReadOnly",
	ErrEphemeralOnLocalSession: "EphemeralOnLocalSession", ErrNoWatcher: "NoWatcher",
	ErrRequestTimeout: "RequestTimeout", ErrReconfigDisabled: "ReconfigDisabled",
	ErrSessionClosedRequireSASLAuth: "SessionClosedRequireSASLAuth", ErrQuotaExceeded: "QuotaExceeded",
	ErrThrottledOp: "ThrottledOp",
}

func codeWord(code Code) string {
	if word, ok := codeWords[code]; ok {
		return word
	}
	return "UnknownCode"
}

// joinHooks returns one Hooks that calls each of all in turn.
func joinHooks(all []Hooks) Hooks {
	var joined Hooks
	for _, h := range all {
		if before, next := joined.Request, h.Request; before == nil {
			joined.Request = next
		} else if next != nil {
			joined.Request = func(ctx context.Context, r RequestEnd) { before(ctx, r); next(ctx, r) }
		}
		if before, next := joined.Connect, h.Connect; before == nil {
			joined.Connect = next
		} else if next != nil {
			joined.Connect = func(server string, took time.Duration, err error) {
				before(server, took, err)
				next(server, took, err)
			}
		}
		if before, next := joined.State, h.State; before == nil {
			joined.State = next
		} else if next != nil {
			joined.State = func(left State, now StateChange) { before(left, now); next(left, now) }
		}
		if before, next := joined.Watch, h.Watch; before == nil {
			joined.Watch = next
		} else if next != nil {
			joined.Watch = func(e Event) { before(e); next(e) }
		}
	}
	return joined
}

// An observation is what Hooks.Request will be told of a call. A call has one only if there is
// such a hook.
type observation struct {
	ctx      context.Context
	begun    time.Time
	attempts int
	sent     int // size of the request

	// Of the last reply, set by the connection's reader before the call completes.
	server   string
	zxid     int64
	received int
}

// observe makes k one that Hooks.Request is told of, if there is such a hook.
func (s *session) observe(ctx context.Context, k *call) {
	if s.hooks.Request != nil {
		k.seen = &observation{ctx: ctx, begun: time.Now(), attempts: 1, sent: len(k.req)}
	}
}

// ended tells Hooks.Request how k ended, if k is observed. What belongs to the connection's
// reader is left alone unless k has completed.
func (s *session) ended(k *call, completed bool, err error) {
	seen := k.seen
	if seen == nil {
		return
	}
	r := RequestEnd{
		Op: k.op.String(), Path: k.path, Ops: len(k.ops), Err: err, Start: seen.begun, Duration: time.Since(seen.begun),
		Attempts: seen.attempts, Sent: seen.sent,
	}
	if k.op == jute.OpAuth {
		r.Path = "" // k has the scheme there
	}
	if completed {
		r.Server, r.Zxid, r.Received = seen.server, seen.zxid, seen.received
	}
	if failed, ok := errors.AsType[*Error](err); ok {
		r.Server = failed.Server
	}
	s.hooks.Request(seen.ctx, r)
}

// tellState has Hooks.State called for the change by runAfter. The caller holds s.mu.
func (s *session) tellState(before State, now StateChange) {
	if s.hooks.State != nil {
		s.after = append(s.after, func() { s.hooks.State(before, now) })
	}
}

// runAfter calls what was to be called without the lock. Only the session's own goroutine calls
// it, so that changes of the state are told in order.
func (s *session) runAfter() {
	s.mu.Lock()
	after := s.after
	s.after = nil
	s.mu.Unlock()
	for _, tell := range after {
		tell()
	}
}
