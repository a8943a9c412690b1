package zk

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// The errors this client makes itself, besides the server's codes.
var (
	ErrClosed          = errors.New("the client is closed")
	ErrWatchEnded      = errors.New("the watch has ended")
	ErrRequestTooLarge = errors.New("the request is too large") // and was not sent; see Options.MaxRequestBytes
	ErrReplyTooLarge   = errors.New("the reply is too large")   // and cost the connection; see Options.MaxResponseBytes
)

// An Error says which operation failed, on what, at which server and why. Err is
// a Code if a server answered or the connection was lost; else a context's
// error, ErrClosed, or what was wrong with the arguments. A failed Multi wraps a
// *MultiError.
type Error struct {
	Op     string // ZooKeeper's name of the operation, such as "getData"
	Path   string // as the caller gave it; "" if the operation has none
	Server string // host:port; "" if the request was sent to none
	Err    error

	maybeApplied bool
	retryable    bool
	detail       string
}

// Error returns one line: operation, path, server, cause, and where it helps
// what to do about it.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("zk: " + e.Op)
	if e.Path != "" {
		b.WriteString(" " + e.Path)
	}
	if e.Server != "" {
		b.WriteString(" at " + e.Server)
	}
	b.WriteString(": " + strings.TrimPrefix(e.Err.Error(), "zookeeper: ")) // which a Code begins with
	if e.detail != "" {
		b.WriteString(": " + e.detail)
	}
	if e.maybeApplied {
		b.WriteString(" (it may have been applied)")
	}
	return b.String()
}

// Unwrap returns Err, so errors.Is(err, zk.ErrNoNode) works.
func (e *Error) Unwrap() error { return e.Err }

// A MultiError names the operation that made a Multi fail as a whole.
type MultiError struct {
	Index int    // of the operation in the call
	Op    string // its name
	Path  string // as the caller gave it
	Code  Code
}

// Error returns the operation's place, name, path and code.
func (e *MultiError) Error() string {
	return fmt.Sprintf("operation %d (%s %s): %s; nothing was applied", e.Index, e.Op, e.Path, e.Code)
}

// Unwrap returns Code.
func (e *MultiError) Unwrap() error { return e.Code }

// MaybeApplied reports whether the write that failed with err may have been
// applied: the request was sent, and no reply came. Sending it again may apply
// it twice. It is false for reads, for requests that never left, and for every
// answer of a server.
func MaybeApplied(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.maybeApplied
}

// Retryable reports whether the same request may be sent again on the same
// client without risk and may then succeed: the connection was lost before a
// write was sent or while a read was, or the server shed load.
func Retryable(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.retryable
}

// SessionLost reports whether err says that the session is over and this client
// with it: it expired, its credentials were refused, or it was closed.
func SessionLost(err error) bool {
	return errors.Is(err, ErrSessionExpired) || errors.Is(err, ErrAuthFailed) || errors.Is(err, ErrClosed)
}

// hint says what a code means for op, where that isn't obvious.
func hint(op jute.Op, code Code) string {
	switch code {
	case ErrNoNode:
		if op.IsCreate() {
			return "the parent doesn't exist"
		}
	case ErrUnimplemented:
		switch op {
		case jute.OpCreateTTL:
			return "TTL znodes need extendedTypesEnabled on the server"
		case jute.OpReconfig:
			return "a standalone server can't be reconfigured"
		}
		return "the server doesn't know this operation"
	case ErrSessionExpired:
		return "ephemeral znodes and watches are gone; open a new client"
	case ErrNotReadOnly:
		return "connected to a server without quorum, which answers reads only"
	case ErrInvalidACL:
		return "no entry names an identity the server accepts (scheme auth needs AddAuth first)"
	case ErrSessionClosedRequireSASLAuth:
		return "the server admits only clients that prove who they are (Options.SASL, Options.Auth)"
	case ErrThrottledOp:
		return "the server sheds load; try again later"
	}
	return ""
}

// newError describes the failure of k by err at server ("" if it wasn't sent).
func newError(k *call, server string, err error) *Error {
	e := &Error{Op: k.op.String(), Path: k.path, Server: server, Err: err}
	if code, ok := errors.AsType[Code](err); ok {
		e.detail = hint(k.op, code)
		e.retryable = code == ErrThrottledOp
	}
	return e
}

// lossError describes the loss of the connection under k.
func lossError(k *call, server string, sent bool, why error) *Error {
	e := &Error{Op: k.op.String(), Path: k.path, Server: server, Err: ErrConnectionLoss}
	if why != nil {
		e.detail = why.Error()
	}
	e.maybeApplied = sent && k.op.IsWrite()
	e.retryable = !e.maybeApplied
	return e
}

// cancelError describes that the caller stopped waiting for k.
func cancelError(ctx context.Context, k *call, server string, sent bool, doing string) *Error {
	e := &Error{Op: k.op.String(), Path: k.path, Server: server, Err: ctx.Err(), detail: doing}
	e.maybeApplied = sent && k.op.IsWrite()
	return e
}
