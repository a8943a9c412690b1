package jute

import "strconv"

// Code is an error code in a ReplyHeader. The list is closed, and the numbers never change. Every code except OK is an
// error, so errors.Is(err, ErrNoNode) works in clients and servers. Codes above -100 are system errors, the others
// errors of operations.
type Code int32

// The codes. Their names and numbers are those of Apache's KeeperException.Code.
const (
	OK                              Code = 0
	ErrSystemError                  Code = -1
	ErrRuntimeInconsistency         Code = -2
	ErrDataInconsistency            Code = -3
	ErrConnectionLoss               Code = -4
	ErrMarshallingError             Code = -5
	ErrUnimplemented                Code = -6
	ErrOperationTimeout             Code = -7
	ErrBadArguments                 Code = -8
	ErrUnknownSession               Code = -12
	ErrNewConfigNoQuorum            Code = -13
	ErrReconfigInProgress           Code = -14
	ErrAPIError                     Code = -100
	ErrNoNode                       Code = -101
	ErrNoAuth                       Code = -102
	ErrBadVersion                   Code = -103
	ErrNoChildrenForEphemerals      Code = -108
	ErrNodeExists                   Code = -110
	ErrNotEmpty                     Code = -111
	ErrSessionExpired               Code = -112
	ErrInvalidCallback              Code = -113
	ErrInvalidACL                   Code = -114
	ErrAuthFailed                   Code = -115
	ErrSessionMoved                 Code = -118
	ErrNotReadOnly                  Code = -119
	ErrEphemeralOnLocalSession      Code = -120
	ErrNoWatcher                    Code = -121
	ErrRequestTimeout               Code = -122
	ErrReconfigDisabled             Code = -123
	ErrSessionClosedRequireSASLAuth Code = -124
	ErrQuotaExceeded                Code = -125
	ErrThrottledOp                  Code = -127
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
