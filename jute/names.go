package jute

import "strconv"

var permLetters = [...]struct {
	perm   Perm
	letter byte
}{{PermCreate, 'c'}, {PermDelete, 'd'}, {PermRead, 'r'}, {PermWrite, 'w'}, {PermAdmin, 'a'}}

// String returns the letters of the permissions in zkCli's order, such as "cdrwa", or "none". Bits outside PermAll
// follow, as in "r+0x20".
func (p Perm) String() string {
	if p == 0 {
		return "none"
	}
	var b []byte
	for _, l := range permLetters {
		if p&l.perm != 0 {
			b = append(b, l.letter)
		}
	}
	if rest := p &^ PermAll; rest != 0 {
		b = append(append(b, '+'), "0x"+strconv.FormatUint(uint64(uint32(rest)), 16)...)
	}
	return string(b)
}

var modeNames = [...]string{
	ModePersistent: "PERSISTENT", ModeEphemeral: "EPHEMERAL",
	ModePersistentSequential: "PERSISTENT_SEQUENTIAL", ModeEphemeralSequential: "EPHEMERAL_SEQUENTIAL",
	ModeContainer: "CONTAINER", ModePersistentWithTTL: "PERSISTENT_WITH_TTL",
	ModePersistentSequentialWithTTL: "PERSISTENT_SEQUENTIAL_WITH_TTL",
}

// String returns Apache's name of the mode, or "CreateMode(N)".
func (m CreateMode) String() string {
	if m.Valid() {
		return modeNames[m]
	}
	return numbered("CreateMode", int32(m))
}

var eventNames = map[EventType]string{
	EventNone: "None", EventNodeCreated: "NodeCreated", EventNodeDeleted: "NodeDeleted",
	EventNodeDataChanged: "NodeDataChanged", EventNodeChildrenChanged: "NodeChildrenChanged",
	EventDataWatchRemoved: "DataWatchRemoved", EventChildWatchRemoved: "ChildWatchRemoved",
	EventPersistentWatchRemoved: "PersistentWatchRemoved", EventResync: "Resync",
}

// String returns Apache's name of the type, or "EventType(N)".
func (t EventType) String() string { return nameOr(eventNames, t, "EventType") }

var keeperStateNames = map[KeeperState]string{
	StateDisconnected: "Disconnected", StateSyncConnected: "SyncConnected", StateAuthFailed: "AuthFailed",
	StateConnectedReadOnly: "ConnectedReadOnly", StateSaslAuthenticated: "SaslAuthenticated",
	StateClosed: "Closed", StateExpired: "Expired",
}

// String returns Apache's name of the state, or "KeeperState(N)".
func (s KeeperState) String() string { return nameOr(keeperStateNames, s, "KeeperState") }

var watcherTypeNames = map[WatcherType]string{
	WatcherChildren: "Children", WatcherData: "Data", WatcherAny: "Any",
	WatcherPersistent: "Persistent", WatcherPersistentRecursive: "PersistentRecursive",
}

// String returns Apache's name of the type, or "WatcherType(N)".
func (t WatcherType) String() string { return nameOr(watcherTypeNames, t, "WatcherType") }

var addWatchModeNames = map[AddWatchMode]string{
	AddWatchPersistent: "PERSISTENT", AddWatchPersistentRecursive: "PERSISTENT_RECURSIVE",
}

// String returns Apache's name of the mode, or "AddWatchMode(N)".
func (m AddWatchMode) String() string { return nameOr(addWatchModeNames, m, "AddWatchMode") }

// nameOr returns the name of v, or its type and number if there is none.
func nameOr[T ~int32](names map[T]string, v T, typ string) string {
	if name, ok := names[v]; ok {
		return name
	}
	return numbered(typ, int32(v))
}

func numbered(typ string, n int32) string { return typ + "(" + strconv.Itoa(int(n)) + ")" }
