package zk

import (
	"crypto/sha1"
	"encoding/base64"
	"net"
	"strconv"
	"strings"

	zooid "github.com/zooid-project/zooid/zk"
)

// DefaultPort is the port of servers whose port isn't given.
const DefaultPort = 2181

// The permissions of an ACL.
const (
	PermRead   = 1 << iota // read data and list children
	PermWrite              // replace data
	PermCreate             // create children
	PermDelete             // delete children
	PermAdmin              // replace the ACL
	PermAll    = 0x1f
)

// The kinds of znodes that Create, CreateContainer and CreateTTL make.
const (
	FlagPersistent                  = 0
	FlagEphemeral                   = 1
	FlagSequence                    = 2
	FlagEphemeralSequential         = 3
	FlagContainer                   = 4
	FlagTTL                         = 5
	FlagPersistentSequentialWithTTL = 6
)

// An EventType is the type of an Event.
type EventType int32

// The types of events. The client itself makes the last two: EventSession for a new State of the connection, and
// EventNotWatching for the end of a watch that hasn't fired.
const (
	EventNodeCreated         EventType = 1
	EventNodeDeleted         EventType = 2
	EventNodeDataChanged     EventType = 3
	EventNodeChildrenChanged EventType = 4

	EventSession     EventType = -1
	EventNotWatching EventType = -2
)

// String returns the constant's name, or Unknown.
func (t EventType) String() string {
	switch t {
	case EventNodeCreated:
		return "EventNodeCreated"
	case EventNodeDeleted:
		return "EventNodeDeleted"
	case EventNodeDataChanged:
		return "EventNodeDataChanged"
	case EventNodeChildrenChanged:
		return "EventNodeChildrenChanged"
	case EventSession:
		return "EventSession"
	case EventNotWatching:
		return "EventNotWatching"
	}
	return "Unknown"
}

// A State is the state of a connection and its session.
type State int32

// The states. A Conn goes through StateConnecting, StateConnected and StateHasSession. When the connection is lost, it
// goes to StateDisconnected and then again to StateConnecting. When the session has expired, StateExpired precedes
// StateDisconnected.
const (
	StateUnknown           State = -1
	StateDisconnected      State = 0
	StateConnecting        State = 1
	StateSyncConnected     State = 3 // in events of changed znodes
	StateAuthFailed        State = 4
	StateConnectedReadOnly State = 5
	StateSaslAuthenticated State = 6
	StateExpired           State = -112

	StateConnected  = State(100) // connected to a server, without a session yet
	StateHasSession = State(101) // calls are answered
)

// String returns the constant's name, or Unknown.
func (s State) String() string {
	switch s {
	case StateUnknown:
		return "StateUnknown"
	case StateDisconnected:
		return "StateDisconnected"
	case StateConnecting:
		return "StateConnecting"
	case StateSyncConnected:
		return "StateSyncConnected"
	case StateAuthFailed:
		return "StateAuthFailed"
	case StateConnectedReadOnly:
		return "StateConnectedReadOnly"
	case StateSaslAuthenticated:
		return "StateSaslAuthenticated"
	case StateExpired:
		return "StateExpired"
	case StateConnected:
		return "StateConnected"
	case StateHasSession:
		return "StateHasSession"
	}
	return "Unknown"
}

// An Event reports a change of a watched znode or of the connection.
type Event struct {
	Type   EventType
	State  State
	Path   string // of the znode; "" for EventSession
	Err    error  // why a watch has ended; for EventNotWatching only
	Server string // host:port; for EventSession only
}

// An EventCallback is called with each Event, one at a time. It must not block.
type EventCallback func(Event)

// A Stat is a znode's metadata. Times are in milliseconds since 1970.
type Stat struct {
	Czxid          int64 // of the change that created the znode
	Mzxid          int64 // of the last change of its data
	Ctime          int64 // when it was created
	Mtime          int64 // when its data was changed last
	Version        int32 // changes of its data
	Cversion       int32 // changes of its children
	Aversion       int32 // changes of its ACL
	EphemeralOwner int64 // the session that owns it; 0 if it isn't ephemeral
	DataLength     int32 // in bytes
	NumChildren    int32
	Pzxid          int64 // of the last change of its children
}

// An ACL is one entry of an access control list. Calls with an empty list fail with ErrInvalidACL.
type ACL struct {
	Perms  int32
	Scheme string
	ID     string
}

// AuthACL returns the list that grants perms to the creator's identities.
func AuthACL(perms int32) []ACL { return []ACL{{Perms: perms, Scheme: "auth"}} }

// WorldACL returns the list that grants perms to everybody.
func WorldACL(perms int32) []ACL { return []ACL{{Perms: perms, Scheme: "world", ID: "anyone"}} }

// DigestACL returns the list that grants perms to clients that call AddAuth("digest", user:password).
func DigestACL(perms int32, user, password string) []ACL {
	hash := sha1.Sum([]byte(user + ":" + password))
	return []ACL{{Perms: perms, Scheme: "digest", ID: user + ":" + base64.StdEncoding.EncodeToString(hash[:])}}
}

// FormatServers returns servers, with DefaultPort added to those without a port. An IPv6 address must have its port.
func FormatServers(servers []string) []string {
	full := make([]string, len(servers))
	for i, server := range servers {
		full[i] = server
		if !strings.Contains(server, ":") {
			full[i] = net.JoinHostPort(server, strconv.Itoa(DefaultPort))
		}
	}
	return full
}

func aclOf(list []ACL) []zooid.ACL {
	theirs := make([]zooid.ACL, len(list))
	for i, a := range list {
		// Bits without a meaning grant nothing.
		theirs[i] = zooid.ACL{Perms: zooid.Perm(a.Perms & PermAll), ID: zooid.ID{Scheme: a.Scheme, ID: a.ID}}
	}
	return theirs
}
