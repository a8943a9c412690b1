package jute

import (
	"fmt"
	"testing"
)

func TestTypeNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		v    fmt.Stringer
		want string
	}{
		{PermAll, "cdrwa"}, {PermRead | PermCreate, "cr"}, {Perm(0), "none"}, {PermAdmin | 64, "a+0x40"},
		{Perm(-1), "cdrwa+0xffffffe0"},
		{ModePersistent, "PERSISTENT"}, {ModePersistentSequentialWithTTL, "PERSISTENT_SEQUENTIAL_WITH_TTL"},
		{CreateMode(7), "CreateMode(7)"}, {CreateMode(-1), "CreateMode(-1)"},
		{EventNodeCreated, "NodeCreated"}, {EventResync, "Resync"}, {EventType(42), "EventType(42)"},
		{StateSyncConnected, "SyncConnected"}, {StateExpired, "Expired"}, {KeeperState(9), "KeeperState(9)"},
		{WatcherAny, "Any"}, {WatcherType(0), "WatcherType(0)"},
		{AddWatchPersistentRecursive, "PERSISTENT_RECURSIVE"}, {AddWatchMode(2), "AddWatchMode(2)"},
	} {
		if got := fmt.Sprint(c.v); got != c.want {
			t.Errorf("%T(%d) is printed as %q, want %q", c.v, c.v, got, c.want)
		}
	}
	for m := ModePersistent; m.Valid(); m++ {
		if m.String() == "" {
			t.Errorf("mode %d has no name", int32(m))
		}
	}
}
