package zk

import "github.com/zooid-project/zooid/jute"

// The protocol's types are those of package jute, so that a program imports this package alone.
type (
	// A Stat is a znode's metadata. Its fields are Czxid, Mzxid and Pzxid, the zxids of its creation, of the last change
	// of its data, and of the last creation or deletion of a child; Ctime and Mtime, in milliseconds since 1970 (see
	// Time); Version, Cversion and Aversion, which count the changes of its data, children and ACL; EphemeralOwner, the ID
	// of the session that an ephemeral znode belongs to, else 0; DataLength, in bytes; and NumChildren.
	Stat = jute.Stat

	// An ACL is one entry of an access control list: Perms for ID. OpenACL, CreatorACL and DigestACL return whole lists.
	ACL = jute.ACL

	// An ID is an identity: a Scheme and the ID in it.
	ID = jute.ID

	// A Perm is a set of permissions, such as PermRead|PermWrite, printed as letters such as "rw".
	Perm = jute.Perm

	// A CreateMode says what kind of znode to create: ModePersistent, ModeEphemeral, ModePersistentSequential,
	// ModeEphemeralSequential, ModeContainer, or one with a TTL.
	CreateMode = jute.CreateMode

	// An EventType says what happened to a watched path: EventNodeCreated, EventNodeDeleted, EventNodeDataChanged,
	// EventNodeChildrenChanged or EventResync.
	EventType = jute.EventType

	// A WatcherType says which watches to check or remove: WatcherAny, WatcherData and so on.
	WatcherType = jute.WatcherType

	// An AddWatchMode says what AddWatch covers: AddWatchPersistent a znode, AddWatchPersistentRecursive a subtree.
	AddWatchMode = jute.AddWatchMode

	// A MultiOp is one operation of a Multi or MultiRead. CreateOp, DeleteOp, GetOp and the other functions named after
	// operations return one.
	MultiOp = jute.MultiOp

	// A Code is the error code of a server's reply, such as ErrNoNode. It is an error.
	Code = jute.Code

	// An Identity is one identity that WhoAmI returns: a Scheme and the User in it.
	Identity = jute.ClientInfo
)

// The permission bits.
const (
	PermRead   = jute.PermRead   // read data, list children
	PermWrite  = jute.PermWrite  // replace data
	PermCreate = jute.PermCreate // create children
	PermDelete = jute.PermDelete // delete children
	PermAdmin  = jute.PermAdmin  // replace the access control list
	PermAll    = jute.PermAll    // all of these
)

// The create modes. An ephemeral znode is deleted with the session that created it and can't have children. The name of
// a sequential one gets a number, which grows with each child of the parent, on Apache's servers up to 2147483647. The
// server deletes a container within about a minute once it has had children and has none left. Those with a TTL need
// CreateTTL.
const (
	ModePersistent                  = jute.ModePersistent
	ModeEphemeral                   = jute.ModeEphemeral
	ModePersistentSequential        = jute.ModePersistentSequential
	ModeEphemeralSequential         = jute.ModeEphemeralSequential
	ModeContainer                   = jute.ModeContainer
	ModePersistentWithTTL           = jute.ModePersistentWithTTL
	ModePersistentSequentialWithTTL = jute.ModePersistentSequentialWithTTL
)

// The event types that a Watch delivers. A server never sends EventResync; this client makes it when events may have
// been missed, because the connection was lost or the watch's queue overflowed. The program must then read again
// everything that the watch covers.
const (
	EventNodeCreated         = jute.EventNodeCreated
	EventNodeDeleted         = jute.EventNodeDeleted
	EventNodeDataChanged     = jute.EventNodeDataChanged
	EventNodeChildrenChanged = jute.EventNodeChildrenChanged
	EventResync              = jute.EventResync
)

// The modes of AddWatch. AddWatchPersistent covers the znode, with the events of ExistsW and ChildrenW. A recursive
// watch covers the znode and all its descendants. It reports created, deleted and changed znodes, and no
// EventNodeChildrenChanged.
const (
	AddWatchPersistent          = jute.AddWatchPersistent
	AddWatchPersistentRecursive = jute.AddWatchPersistentRecursive
)

// The watcher types of CheckWatches and RemoveWatches. WatcherData are the one-shot watches of GetW and ExistsW,
// WatcherChildren those of ChildrenW, and WatcherAny those of every type.
const (
	WatcherChildren            = jute.WatcherChildren
	WatcherData                = jute.WatcherData
	WatcherAny                 = jute.WatcherAny
	WatcherPersistent          = jute.WatcherPersistent
	WatcherPersistentRecursive = jute.WatcherPersistentRecursive
)

// The error codes of servers' replies, with what they mean to this client's callers; package jute describes the others.
// Test for them with errors.Is. This client itself reports ErrConnectionLoss, ErrSessionExpired and ErrAuthFailed, and
// ErrBadArguments and ErrInvalidACL for arguments that no server would accept.
const (
	ErrSystemError                  = jute.ErrSystemError
	ErrRuntimeInconsistency         = jute.ErrRuntimeInconsistency
	ErrDataInconsistency            = jute.ErrDataInconsistency
	ErrConnectionLoss               = jute.ErrConnectionLoss   // the connection was lost before the reply
	ErrMarshallingError             = jute.ErrMarshallingError // unreadable request, or too large a reply
	ErrUnimplemented                = jute.ErrUnimplemented    // the operation is unknown or not enabled
	ErrOperationTimeout             = jute.ErrOperationTimeout
	ErrBadArguments                 = jute.ErrBadArguments // the server refuses an argument
	ErrUnknownSession               = jute.ErrUnknownSession
	ErrNewConfigNoQuorum            = jute.ErrNewConfigNoQuorum  // Reconfig: too few new servers are connected
	ErrReconfigInProgress           = jute.ErrReconfigInProgress // Reconfig: another change is under way
	ErrAPIError                     = jute.ErrAPIError
	ErrNoNode                       = jute.ErrNoNode                  // no such znode, or no parent for a new one
	ErrNoAuth                       = jute.ErrNoAuth                  // an access control list doesn't permit it
	ErrBadVersion                   = jute.ErrBadVersion              // the znode has another version
	ErrNoChildrenForEphemerals      = jute.ErrNoChildrenForEphemerals // the parent is ephemeral
	ErrNodeExists                   = jute.ErrNodeExists              // the znode to create exists
	ErrNotEmpty                     = jute.ErrNotEmpty                // the znode to delete has children
	ErrSessionExpired               = jute.ErrSessionExpired          // the session has ended
	ErrInvalidCallback              = jute.ErrInvalidCallback
	ErrInvalidACL                   = jute.ErrInvalidACL // the access control list is empty or invalid
	ErrAuthFailed                   = jute.ErrAuthFailed // the server refused credentials
	ErrSessionMoved                 = jute.ErrSessionMoved
	ErrNotReadOnly                  = jute.ErrNotReadOnly             // a write or Sync at a read-only server
	ErrEphemeralOnLocalSession      = jute.ErrEphemeralOnLocalSession // a local session can't have ephemeral znodes
	ErrNoWatcher                    = jute.ErrNoWatcher               // there is no such watch
	ErrRequestTimeout               = jute.ErrRequestTimeout
	ErrReconfigDisabled             = jute.ErrReconfigDisabled             // Reconfig: reconfigEnabled is not set
	ErrSessionClosedRequireSASLAuth = jute.ErrSessionClosedRequireSASLAuth // the server requires a login
	ErrQuotaExceeded                = jute.ErrQuotaExceeded                // a hard quota would be exceeded
	ErrThrottledOp                  = jute.ErrThrottledOp                  // the server sheds load; nothing was applied
)

// AnyVersion as the version of a Delete, Set, SetACL or check matches every version.
const AnyVersion int32 = -1
