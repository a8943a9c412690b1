package jute

import "strconv"

// Code is an error code in a ReplyHeader. The list is closed, and the numbers never change. Every code except OK is an
// error, so errors.Is(err, ErrNoNode) works in clients and servers. Codes from -1 to -99 are system errors; those below
// -100 are errors of operations. A variable of type error that holds OK isn't nil: test for OK before a Code becomes an
// error.
type Code int32

// The codes. Their names and numbers are those of Apache's KeeperException.Code.
const (
	OK                              Code = 0    // the operation succeeded
	ErrSystemError                  Code = -1   // the server failed
	ErrRuntimeInconsistency         Code = -2   // in a failed multi, an operation after the one that failed
	ErrDataInconsistency            Code = -3   // from Zooid: data sent in pieces don't match their checksum
	ErrConnectionLoss               Code = -4   // made by clients: no reply came before the connection was lost
	ErrMarshallingError             Code = -5   // unreadable request; from Zooid also: too large a reply
	ErrUnimplemented                Code = -6   // the server doesn't know the operation, or it isn't enabled
	ErrOperationTimeout             Code = -7   // not sent by Zooid
	ErrBadArguments                 Code = -8   // an argument is invalid
	ErrUnknownSession               Code = -12  // a standalone server has lost the session
	ErrNewConfigNoQuorum            Code = -13  // reconfig: too few servers of the new membership are connected
	ErrReconfigInProgress           Code = -14  // reconfig: another change is under way
	ErrAPIError                     Code = -100 // only marks the range of the codes below it
	ErrNoNode                       Code = -101 // the znode, or the parent of a new one, doesn't exist
	ErrNoAuth                       Code = -102 // an access control list doesn't permit the operation
	ErrBadVersion                   Code = -103 // the version isn't the one expected
	ErrNoChildrenForEphemerals      Code = -108 // the parent is ephemeral
	ErrNodeExists                   Code = -110 // the znode to create exists
	ErrNotEmpty                     Code = -111 // the znode to delete has children
	ErrSessionExpired               Code = -112 // the session has ended
	ErrInvalidCallback              Code = -113 // not sent by Zooid
	ErrInvalidACL                   Code = -114 // the access control list is empty or invalid
	ErrAuthFailed                   Code = -115 // a credential was refused
	ErrSessionMoved                 Code = -118 // the session is at another server now
	ErrNotReadOnly                  Code = -119 // a write or sync at a read-only server
	ErrEphemeralOnLocalSession      Code = -120 // a local session can't have ephemeral znodes
	ErrNoWatcher                    Code = -121 // there is no such watch
	ErrRequestTimeout               Code = -122 // made by Apache's Java client: no reply within its request timeout
	ErrReconfigDisabled             Code = -123 // reconfig: reconfigEnabled is not set
	ErrSessionClosedRequireSASLAuth Code = -124 // the server requires a login and closes the connection
	ErrQuotaExceeded                Code = -125 // a hard quota would be exceeded
	ErrThrottledOp                  Code = -127 // the server sheds load; nothing was applied
)

var codeNames = map[Code]string{
	OK: "ok", ErrSystemError: "SystemError", ErrRuntimeInconsistency: "RuntimeInconsistency",
	ErrDataInconsistency: "DataInconsistency", ErrConnectionLoss: "ConnectionLoss",
	ErrMarshallingError: "MarshallingError", ErrUnimplemented: "Unimplemented",
	ErrOperationTimeout: "OperationTimeout", ErrBadArguments: "BadArguments",
	ErrUnknownSession: "Unknown session", ErrNewConfigNoQuorum: "NewConfigNoQuorum",
	ErrReconfigInProgress: "ReconfigInProgress", ErrAPIError: "APIError", ErrNoNode: "NoNode",
	ErrNoAuth: "NoAuth", ErrBadVersion: "BadVersion", ErrNoChildrenForEphemerals: "NoChildrenForEphemerals",
	ErrNodeExists: "NodeExists", ErrNotEmpty: "Directory not empty", ErrSessionExpired: "Session expired",
	ErrInvalidCallback: "Invalid callback", ErrInvalidACL: "InvalidACL", ErrAuthFailed: "AuthFailed",
	ErrSessionMoved: "Session moved", ErrNotReadOnly: "Not a read-only call",
	ErrEphemeralOnLocalSession: "Ephemeral node on local session", ErrNoWatcher: "No such watcher",
	ErrRequestTimeout: "Request timeout", ErrReconfigDisabled: "Reconfig is disabled",
	ErrSessionClosedRequireSASLAuth: "Session closed because client failed to authenticate",
	ErrQuotaExceeded:                "Quota has exceeded", ErrThrottledOp: "Op throttled due to high load",
}

// String returns Apache's name of the code, such as "NoNode", or "code N" if there is none.
func (c Code) String() string {
	if s, ok := codeNames[c]; ok {
		return s
	}
	return "code " + strconv.Itoa(int(c))
}

// Error returns "zookeeper: " followed by String.
func (c Code) Error() string { return "zookeeper: " + c.String() }
