package zk

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// The errors that this client itself makes, in addition to the server's codes.
var (
	ErrClosed          = errors.New("the client is closed")
	ErrWatchEnded      = errors.New("the watch has ended")
	ErrStatesClosed    = errors.New("the subscription ended")   // by States.Close
	ErrRequestTooLarge = errors.New("the request is too large") // it was not sent; see Options.MaxRequestBytes
	ErrReplyTooLarge   = errors.New("the reply is too large")   // the connection was closed; see Options.MaxResponseBytes
)

// An Error says which operation failed, on which path, at which server and why. Err is a Code, or wraps one, if a
// server refused the request, the connection was lost, or the session has ended. If the call's context ended, Err is
// the context's Err, not its cause. If an argument is invalid, the request wasn't sent, and Err wraps a *jute.PathError
// (which isn't an ErrBadArguments), ErrBadArguments or ErrInvalidACL. Err can also be ErrClosed, ErrRequestTooLarge or
// ErrReplyTooLarge. If the server refused an operation of a Multi, Err is a *MultiError.
type Error struct {
	Op     string // ZooKeeper's name of the operation, such as "getData"
	Path   string // as the caller gave it; the scheme for AddAuth; "" if the operation has no path
	Server string // host:port of the server that answered or whose connection was lost; "" if there was none
	Err    error

	maybeApplied bool
	retryable    bool
	refusedAuth  bool // of AddAuth: the session goes on without the credentials
	detail       string
}

// Error returns one line with the operation, path, server and cause, and a hint where one helps.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("zk: " + e.Op)
	if e.Path != "" {
		b.WriteString(" " + e.Path)
	}
	if e.Server != "" {
		b.WriteString(" at " + e.Server)
	}
	b.WriteString(": " + strings.TrimPrefix(e.Err.Error(), "zookeeper: ")) // the prefix of a Code
	if e.detail != "" {
		b.WriteString(": " + e.detail)
	}
	if e.maybeApplied {
		b.WriteString(" (it may have been applied)")
	}
	return b.String()
}

// Unwrap returns Err, so that errors.Is(err, zk.ErrNoNode) works.
func (e *Error) Unwrap() error { return e.Err }

// A MultiError says which operation made a Multi fail.
type MultiError struct {
	Index int    // of the operation in the call, from 0
	Op    string // its name
	Path  string // as the caller gave it
	Code  Code
}

// Error returns the operation's index, name, path and code.
func (e *MultiError) Error() string {
	return fmt.Sprintf("operation %d (%s %s): %s; nothing was applied", e.Index, e.Op, e.Path, e.Code)
}

// Unwrap returns Code.
func (e *MultiError) Unwrap() error { return e.Code }

// MaybeApplied reports whether the write that failed with err may have been applied: the request was sent, and no reply
// came, because the connection was lost, the call's context ended, or the client ended (Close, Detach, ErrAuthFailed),
// or the reply was too large (ErrReplyTooLarge). Sending it again may apply it twice. To find out, call Sync on the
// same client until it succeeds, then read: without Sync the read may come from a server that is behind. After Sync, a
// write that wasn't applied never will be. If this client has ended, another one can find out once the session has
// ended or was resumed (Options.Resume). MaybeApplied returns false for reads (see Retryable), for requests that were
// never sent, and for errors that a server returned. The exception is an error of CreateProtected after an attempt
// whose reply was lost.
func MaybeApplied(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.maybeApplied
}

// stillUnknown returns lookErr, with which the look for the result of a write ended that had failed with err. The write
// may have been applied if it might have been before.
func stillUnknown(err, lookErr error) error {
	e, look := (*Error)(nil), (*Error)(nil)
	if errors.As(err, &e) && e.maybeApplied && errors.As(lookErr, &look) {
		return &Error{Op: e.Op, Path: e.Path, Server: look.Server, Err: look.Err, maybeApplied: true}
	}
	return lookErr
}

// Retryable reports whether the same request can be sent again on the same client without risk, and may then succeed.
// This is so if the connection was lost before a write was sent, if it was lost during a read, and if the server
// refused the request to shed load (ErrThrottledOp). It isn't so if the call's context ended first. All calls except
// creates, deletes, Set, SetACL, Multi and Reconfig count as reads: also Sync, AddAuth, AddWatch, CheckWatches and
// RemoveWatches.
func Retryable(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.retryable
}

// SessionLost reports whether err says that the session has ended, and this client with it: it expired, its credentials
// were refused, or it was closed. It is false for a Client.AddAuth whose new credentials were refused: the session
// continues without them.
func SessionLost(err error) bool {
	if e, ok := errors.AsType[*Error](err); ok && e.refusedAuth {
		return false
	}
	return errors.Is(err, ErrSessionExpired) || errors.Is(err, ErrAuthFailed) || errors.Is(err, ErrClosed)
}

// hint explains code for op where the code alone isn't clear.
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

// newError describes the failure of k by err at server, which is "" if k wasn't sent.
func newError(k *call, server string, err error) *Error {
	e := &Error{Op: k.op.String(), Path: k.path, Server: server, Err: err}
	if code, ok := errors.AsType[Code](err); ok {
		e.detail = hint(k.op, code)
		e.retryable = code == ErrThrottledOp
	}
	return e
}

// lossError describes the failure of k by a lost connection.
func lossError(k *call, server string, sent bool, why error) *Error {
	e := &Error{Op: k.op.String(), Path: k.path, Server: server, Err: ErrConnectionLoss}
	if why != nil {
		e.detail = why.Error()
	}
	e.maybeApplied = sent && k.op.IsWrite()
	e.retryable = !e.maybeApplied
	return e
}

// cancelError describes the failure of k because its caller stopped waiting.
func cancelError(ctx context.Context, k *call, server string, sent bool, doing string) *Error {
	e := &Error{Op: k.op.String(), Path: k.path, Server: server, Err: ctx.Err(), detail: doing}
	e.maybeApplied = sent && k.op.IsWrite()
	return e
}
