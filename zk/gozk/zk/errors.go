package zk

import (
	"context"
	"errors"
	"fmt"

	"github.com/zooid-project/zooid/jute"
	zooid "github.com/zooid-project/zooid/zk"
)

// The errors of calls. They aren't wrapped, so == works, except for ErrInvalidFlags, which needs errors.Is. A server's
// code without a variable becomes an error of its own, whose text has the number, and so does a flag that isn't one of
// the constants. ErrUnknown is never returned.
var (
	// ErrConnectionClosed says that the Conn was closed, or that the connection was lost before the reply; the server
	// may have carried out the request or not.
	ErrConnectionClosed = errors.New("zk: connection closed")

	// ErrNoServer says that no server could be reached; the call was not sent.
	ErrNoServer = errors.New("zk: could not connect to a server")

	// ErrInvalidPath says that a path is invalid; the call was not sent.
	ErrInvalidPath = errors.New("zk: invalid path")

	ErrUnknown                 = errors.New("zk: unknown error")
	ErrAPIError                = errors.New("zk: api error")
	ErrNoNode                  = errors.New("zk: node does not exist")
	ErrNoAuth                  = errors.New("zk: not authenticated")
	ErrBadVersion              = errors.New("zk: version conflict")
	ErrNoChildrenForEphemerals = errors.New("zk: ephemeral nodes may not have children")
	ErrNodeExists              = errors.New("zk: node already exists")
	ErrNotEmpty                = errors.New("zk: node has children")
	ErrSessionExpired          = errors.New("zk: session has been expired by the server")
	ErrInvalidACL              = errors.New("zk: invalid ACL specified")
	ErrInvalidFlags            = errors.New("zk: invalid flags specified") // for a flag of another method
	ErrAuthFailed              = errors.New("zk: client authentication failed")
	ErrClosing                 = errors.New("zk: zookeeper is closing") // for watches, when the Conn is closed
	ErrNothing                 = errors.New("zk: no server responses to process")
	ErrSessionMoved            = errors.New("zk: session moved to another server, so operation is ignored")
	ErrReconfigDisabled        = errors.New("attempts to perform a reconfiguration operation when reconfiguration feature is disabled")
	ErrBadArguments            = errors.New("invalid arguments")
)

// Errors of records. Only ErrShortBuffer is used: for a request larger than WithMaxConnBufferSize allows.
var (
	ErrUnhandledFieldType = errors.New("zk: unhandled field type")
	ErrPtrExpected        = errors.New("zk: encode/decode expect a non-nil pointer to struct")
	ErrShortBuffer        = errors.New("zk: buffer too small")
)

// An ErrCode is a server's error code. No function here uses it.
type ErrCode int32

// errorOfCode returns the variable for a server's code. If there is none, it returns an error with the code.
func errorOfCode(code zooid.Code) error {
	switch code {
	case jute.OK:
		return nil
	case zooid.ErrConnectionLoss:
		return ErrConnectionClosed
	case zooid.ErrBadArguments:
		return ErrBadArguments
	case -100:
		return ErrAPIError
	case zooid.ErrNoNode:
		return ErrNoNode
	case zooid.ErrNoAuth:
		return ErrNoAuth
	case zooid.ErrBadVersion:
		return ErrBadVersion
	case zooid.ErrNoChildrenForEphemerals:
		return ErrNoChildrenForEphemerals
	case zooid.ErrNodeExists:
		return ErrNodeExists
	case zooid.ErrNotEmpty:
		return ErrNotEmpty
	case zooid.ErrSessionExpired:
		return ErrSessionExpired
	case zooid.ErrInvalidACL:
		return ErrInvalidACL
	case zooid.ErrAuthFailed:
		return ErrAuthFailed
	case -116:
		return ErrClosing
	case -117:
		return ErrNothing
	case zooid.ErrSessionMoved:
		return ErrSessionMoved
	case zooid.ErrReconfigDisabled:
		return ErrReconfigDisabled
	}
	return fmt.Errorf("unknown error: %d", int32(code))
}

// errorOf returns the variable for an error of the client.
func errorOf(err error) error {
	if err == nil {
		return nil
	}
	if code, ok := errors.AsType[zooid.Code](err); ok {
		return errorOfCode(code)
	}
	if _, ok := errors.AsType[*jute.PathError](err); ok {
		return ErrInvalidPath
	}
	switch {
	case errors.Is(err, context.Canceled): // the contexts used are only those of rounds
		return ErrNoServer
	case errors.Is(err, zooid.ErrRequestTooLarge):
		return ErrShortBuffer
	case errors.Is(err, zooid.ErrClosed), errors.Is(err, zooid.ErrReplyTooLarge): // which closes the connection
		return ErrConnectionClosed
	}
	return err
}
