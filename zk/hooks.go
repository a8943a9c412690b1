package zk

import (
	"context"
	"errors"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// Hooks are functions that a client calls for counting or tracing its work; each may be nil. Packages
// [github.com/zooid-project/zooid/zk/zkotel] and [github.com/zooid-project/zooid/zk/zkprom], which are modules of their
// own, make Hooks for OpenTelemetry and Prometheus.
//
// A hook must return at once and must not call methods of the client that wait. Several goroutines may call it at the
// same time, also while other hooks run.
type Hooks struct {
	// Request is called once for each request, when it ends: answered, failed, or abandoned by its caller. Retries by
	// Options.Retry count as part of the same request. Calls that make several requests, such as EnsurePath, CreateAll,
	// CreateProtected, DeleteAll, Typed.Update and those of recipes, are reported once for each request, under its own Op.
	// Calls that this client refuses because of their arguments aren't reported, and neither are requests that it makes by
	// itself, such as pings. ctx is the call's context. The hook runs on the caller's goroutine. For a call of a Pipeline
	// it runs on the goroutine that reads the connection, which waits for it.
	Request func(ctx context.Context, r RequestEnd)

	// Connect is called when an attempt to connect to a server has ended. server is the host:port in the list of
	// servers. err is nil if the server has accepted the session.
	Connect func(server string, took time.Duration, err error)

	// State is called for each change of the client's state, in order and one call at a time. before is the previous
	// state. A client begins in StateConnecting, for which there is no call. The last call has a final state. The first
	// call may come shortly after Client.Wait returns, but comes before the first reply.
	State func(before State, now StateChange)

	// Watch is called for each notification from a server, after the watches concerned have received it. The path is
	// absolute, without regard to the chroot. One notification may concern several watches.
	Watch func(e Event)
}

// A RequestEnd says how a request ended.
type RequestEnd struct {
	Op   string // ZooKeeper's name of the operation, such as "getData"
	Path string // as the caller gave it; "" if the operation has no path
	Ops  int    // the number of operations of a multi or multiRead, else 0

	// Server is the host:port of the server that answered or whose connection was lost. It is "" if there was none.
	Server string

	// Zxid is the zxid in the header of the reply: the last change that the server had applied, or for a write its own
	// change. It is 0 without a reply.
	Zxid int64

	// Err is nil if the request succeeded. It is an *Error with a Code if a server refused the request. Here,
	// Client.Exists for a missing znode ends with ErrNoNode.
	Err error

	Start    time.Time     // when the caller began, before any wait for room in the queue
	Duration time.Duration // until the end, with all attempts and pauses
	Attempts int           // 1, or more because of Options.Retry
	Sent     int           // bytes of the request with its length field, counted once even if it was sent again or never
	Received int           // the size of the reply in bytes, including its length field; 0 without a reply
}

// Result returns the outcome of the request as one word from a fixed set, for use as a metric's label: "OK", the name
// of the server's code without Err, such as "NoNode" or "ConnectionLoss", "UnknownCode" for a code that this client
// doesn't know, "Canceled", "DeadlineExceeded", "Closed", "ReplyTooLarge" or "Failed".
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

// codeWords maps the servers' codes to the names of their constants.
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

// An observation collects the facts about a call for Hooks.Request. It is nil if there is no such hook.
type observation struct {
	ctx      context.Context
	begun    time.Time
	attempts int
	sent     int // size of the request

	// From the last reply, set by the connection's reader before the call completes.
	server   string
	zxid     int64
	received int
}

// observe makes the end of k visible to Hooks.Request, if there is such a hook.
func (s *session) observe(ctx context.Context, k *call) {
	if s.hooks.Request != nil {
		k.seen = &observation{ctx: ctx, begun: time.Now(), attempts: 1, sent: len(k.req)}
	}
}

// ended tells Hooks.Request how k ended, if k is observed. Unless k has completed, it doesn't read the fields that the
// connection's reader sets.
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
		r.Path = "" // which is the scheme in an auth call
	}
	if completed {
		r.Server, r.Zxid, r.Received = seen.server, seen.zxid, seen.received
	}
	if failed, ok := errors.AsType[*Error](err); ok {
		r.Server = failed.Server
	}
	s.hooks.Request(seen.ctx, r)
}

// tellState makes runAfter call Hooks.State for the change. The caller holds s.mu.
func (s *session) tellState(before State, now StateChange) {
	if s.hooks.State != nil {
		s.after = append(s.after, func() { s.hooks.State(before, now) })
	}
}

// runAfter calls the functions that were collected under the lock. Only the session's own goroutine calls it, so
// changes of the state are reported in order.
func (s *session) runAfter() {
	s.mu.Lock()
	after := s.after
	s.after = nil
	s.mu.Unlock()
	for _, tell := range after {
		tell()
	}
}
