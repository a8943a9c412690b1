package zk

import "github.com/zooid-project/zooid/jute"

// The protocol's types are those of package jute, so that a program imports this package alone.
type (
	// A Stat is a znode's metadata: Czxid, Version, EphemeralOwner, NumChildren and so on. Its times are in
	// milliseconds since 1970; see Time.
	Stat = jute.Stat

	// An ACL is one entry of an access control list: Perms for ID. OpenACL,
	// CreatorACL and DigestACL return whole lists.
	ACL = jute.ACL

	// An ID is an identity: a Scheme and the ID in it.
	ID = jute.ID

	// A Perm is a set of permissions, printed as letters such as "cdrwa".
	Perm = jute.Perm

	// A CreateMode says what kind of znode to create.
	CreateMode = jute.CreateMode

	// An EventType says what happened to a watched path.
	EventType = jute.EventType

	// A WatcherType says which watches to check or remove.
	WatcherType = jute.WatcherType

	// An AddWatchMode says what AddWatch covers.
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
	PermRead   = jute.PermRead
	PermWrite  = jute.PermWrite
	PermCreate = jute.PermCreate
	PermDelete = jute.PermDelete
	PermAdmin  = jute.PermAdmin
	PermAll    = jute.PermAll
)

// The create modes. Those with a TTL belong to CreateTTL.
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

// The modes of AddWatch. A recursive watch covers the znode and all its descendants. It reports created, deleted and
// changed znodes, and no EventNodeChildrenChanged.
const (
	AddWatchPersistent          = jute.AddWatchPersistent
	AddWatchPersistentRecursive = jute.AddWatchPersistentRecursive
)

// The watcher types of CheckWatches and RemoveWatches.
const (
	WatcherChildren            = jute.WatcherChildren
	WatcherData                = jute.WatcherData
	WatcherAny                 = jute.WatcherAny
	WatcherPersistent          = jute.WatcherPersistent
	WatcherPersistentRecursive = jute.WatcherPersistentRecursive
)

// The error codes of servers' replies. Test for them with errors.Is.
const (
	ErrSystemError                  = jute.ErrSystemError
	ErrRuntimeInconsistency         = jute.ErrRuntimeInconsistency
	ErrDataInconsistency            = jute.ErrDataInconsistency
	ErrConnectionLoss               = jute.ErrConnectionLoss
	ErrMarshallingError             = jute.ErrMarshallingError
	ErrUnimplemented                = jute.ErrUnimplemented
	ErrOperationTimeout             = jute.ErrOperationTimeout
	ErrBadArguments                 = jute.ErrBadArguments
	ErrUnknownSession               = jute.ErrUnknownSession
	ErrNewConfigNoQuorum            = jute.ErrNewConfigNoQuorum
	ErrReconfigInProgress           = jute.ErrReconfigInProgress
	ErrAPIError                     = jute.ErrAPIError
	ErrNoNode                       = jute.ErrNoNode
	ErrNoAuth                       = jute.ErrNoAuth
	ErrBadVersion                   = jute.ErrBadVersion
	ErrNoChildrenForEphemerals      = jute.ErrNoChildrenForEphemerals
	ErrNodeExists                   = jute.ErrNodeExists
	ErrNotEmpty                     = jute.ErrNotEmpty
	ErrSessionExpired               = jute.ErrSessionExpired
	ErrInvalidCallback              = jute.ErrInvalidCallback
	ErrInvalidACL                   = jute.ErrInvalidACL
	ErrAuthFailed                   = jute.ErrAuthFailed
	ErrSessionMoved                 = jute.ErrSessionMoved
	ErrNotReadOnly                  = jute.ErrNotReadOnly
	ErrEphemeralOnLocalSession      = jute.ErrEphemeralOnLocalSession
	ErrNoWatcher                    = jute.ErrNoWatcher
	ErrRequestTimeout               = jute.ErrRequestTimeout
	ErrReconfigDisabled             = jute.ErrReconfigDisabled
	ErrSessionClosedRequireSASLAuth = jute.ErrSessionClosedRequireSASLAuth
	ErrQuotaExceeded                = jute.ErrQuotaExceeded
	ErrThrottledOp                  = jute.ErrThrottledOp
)

// AnyVersion makes Delete, Set and SetACL unconditional.
const AnyVersion int32 = -1
