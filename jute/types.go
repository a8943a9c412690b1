package jute

// Perm is a set of permission bits in an ACL entry.
type Perm int32

// The permission bits. Servers store bits outside PermAll as sent.
const (
	PermRead   Perm = 1  // read data, list children
	PermWrite  Perm = 2  // replace data
	PermCreate Perm = 4  // create children
	PermDelete Perm = 8  // delete children
	PermAdmin  Perm = 16 // replace the access control list
	PermAll    Perm = 31 // all of these
)

// ID is an identity: a scheme, and the scheme's name for the identity. Apache calls the record Id.
type ID struct {
	Scheme string
	ID     string
}

// Append appends the record.
func (i *ID) Append(b []byte) []byte { return AppendString(AppendString(b, i.Scheme), i.ID) }

// Decode reads the record. The strings share the memory of d's input.
func (i *ID) Decode(d *Decoder) { i.Scheme, i.ID = d.String(), d.String() }

// ACL is one entry of an access control list.
type ACL struct {
	Perms Perm
	ID    ID
}

// Append appends the record.
func (a *ACL) Append(b []byte) []byte { return a.ID.Append(AppendInt(b, int32(a.Perms))) }

// Decode reads the record.
func (a *ACL) Decode(d *Decoder) {
	a.Perms = Perm(d.Int())
	a.ID.Decode(d)
}

// AppendACLs appends a vector of ACL. A nil v is encoded as null.
func AppendACLs(b []byte, v []ACL) []byte {
	if v == nil {
		return AppendInt(b, -1)
	}
	b = AppendInt(b, int32(len(v)))
	for i := range v {
		b = v[i].Append(b)
	}
	return b
}

// aclSizeMin is the encoded size of an ACL with empty strings in bytes.
const aclSizeMin = 12

// DecodeACLs reads a vector of ACL. It returns nil for null, and a slice that isn't nil for a count of 0.
func DecodeACLs(d *Decoder) []ACL {
	n := d.Count(aclSizeMin)
	if n < 0 {
		return nil
	}
	v := make([]ACL, n)
	for i := range v {
		v[i].Decode(d)
	}
	if d.Err() != nil {
		return nil
	}
	return v
}

// WorldACL returns the list with one entry that grants perms to everybody.
func WorldACL(perms Perm) []ACL { return []ACL{{perms, ID{"world", "anyone"}}} }

// Stat is a znode's metadata as clients see them, and the reply to exists, setData and setACL. Times are in
// milliseconds since 1970 by the leader's clock.
type Stat struct {
	Czxid          int64 // zxid of the change that created the znode
	Mzxid          int64 // zxid of the last change of its data
	Ctime          int64
	Mtime          int64
	Version        int32 // changes of its data
	Cversion       int32 // creations and deletions among its children
	Aversion       int32 // changes of its ACL
	EphemeralOwner int64 // session that owns it if it is ephemeral, otherwise 0
	DataLength     int32 // in bytes
	NumChildren    int32 // without their descendants
	Pzxid          int64 // zxid of the last creation or deletion among its children
}

// StatSize is the encoded size of a Stat in bytes.
const StatSize = 68

// Append appends the record, StatSize bytes.
func (s *Stat) Append(b []byte) []byte {
	b = AppendLong(b, s.Czxid)
	b = AppendLong(b, s.Mzxid)
	b = AppendLong(b, s.Ctime)
	b = AppendLong(b, s.Mtime)
	b = AppendInt(b, s.Version)
	b = AppendInt(b, s.Cversion)
	b = AppendInt(b, s.Aversion)
	b = AppendLong(b, s.EphemeralOwner)
	b = AppendInt(b, s.DataLength)
	b = AppendInt(b, s.NumChildren)
	return AppendLong(b, s.Pzxid)
}

// Decode reads the record.
func (s *Stat) Decode(d *Decoder) {
	s.Czxid, s.Mzxid, s.Ctime, s.Mtime = d.Long(), d.Long(), d.Long(), d.Long()
	s.Version, s.Cversion, s.Aversion = d.Int(), d.Int(), d.Int()
	s.EphemeralOwner = d.Long()
	s.DataLength, s.NumChildren = d.Int(), d.Int()
	s.Pzxid = d.Long()
}

// CreateMode is the flags field of a create request.
type CreateMode int32

// The create modes. The server deletes an ephemeral znode with its session, a container once it has had children and
// has none left, and a znode with a TTL once it has had no children and its data haven't changed for that time.
const (
	ModePersistent                  CreateMode = 0
	ModeEphemeral                   CreateMode = 1
	ModePersistentSequential        CreateMode = 2
	ModeEphemeralSequential         CreateMode = 3
	ModeContainer                   CreateMode = 4
	ModePersistentWithTTL           CreateMode = 5
	ModePersistentSequentialWithTTL CreateMode = 6
)

// Valid reports whether m is one of the modes above.
func (m CreateMode) Valid() bool { return m >= ModePersistent && m <= ModePersistentSequentialWithTTL }

// Ephemeral reports whether the znode belongs to a session.
func (m CreateMode) Ephemeral() bool { return m == ModeEphemeral || m == ModeEphemeralSequential }

// Sequential reports whether the server appends a sequence number to the path.
func (m CreateMode) Sequential() bool {
	return m == ModePersistentSequential || m == ModeEphemeralSequential || m == ModePersistentSequentialWithTTL
}

// TTL reports whether the mode has a time to live.
func (m CreateMode) TTL() bool {
	return m == ModePersistentWithTTL || m == ModePersistentSequentialWithTTL
}

// TTLMax is the longest time to live in milliseconds, about 34.8 years. The shortest is 1; servers answer others with
// ErrBadArguments.
const TTLMax int64 = 0xffffffffff

// EventType says what happened to a watched path.
type EventType int32

// The event types. Servers send only those from EventNodeCreated to EventNodeChildrenChanged. Client libraries make the
// others for their users: EventNone for a change of the connection, the three whose names end with WatchRemoved for
// watches that were removed, and EventResync.
const (
	EventNone                   EventType = -1
	EventNodeCreated            EventType = 1
	EventNodeDeleted            EventType = 2
	EventNodeDataChanged        EventType = 3
	EventNodeChildrenChanged    EventType = 4
	EventDataWatchRemoved       EventType = 5
	EventChildWatchRemoved      EventType = 6
	EventPersistentWatchRemoved EventType = 7

	// EventResync is made by package zk when events may have been missed.
	EventResync EventType = 100
)

// KeeperState is the state field of a WatcherEvent. Servers always send StateSyncConnected.
type KeeperState int32

// The keeper states.
const (
	StateDisconnected      KeeperState = 0
	StateSyncConnected     KeeperState = 3
	StateAuthFailed        KeeperState = 4
	StateConnectedReadOnly KeeperState = 5
	StateSaslAuthenticated KeeperState = 6
	StateClosed            KeeperState = 7
	StateExpired           KeeperState = -112
)

// WatcherType selects watches in checkWatches and removeWatches.
type WatcherType int32

// The watcher types. WatcherChildren are the one-shot watches set by getChildren and getChildren2, and WatcherData
// those set by exists and getData.
const (
	WatcherChildren            WatcherType = 1
	WatcherData                WatcherType = 2
	WatcherAny                 WatcherType = 3
	WatcherPersistent          WatcherType = 4
	WatcherPersistentRecursive WatcherType = 5
)

// AddWatchMode is the mode of an addWatch request.
type AddWatchMode int32

// The addWatch modes: the znode alone, or the znode and all its descendants.
const (
	AddWatchPersistent          AddWatchMode = 0
	AddWatchPersistentRecursive AddWatchMode = 1
)
