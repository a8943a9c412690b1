package server

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestWatchesWithoutAnEnd: a server that no stall of its log is to end watches for stalls all the same, and lets its
// clients go.
func TestWatchesWithoutAnEnd(t *testing.T) {
	s, err := Open(Options{DataDir: t.TempDir(), Listen: []string{"127.0.0.1:0"}}) // FsyncStall is 0
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	stacks := make([]byte, 8<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	if !strings.Contains(string(stacks), "(*stalls).watch") {
		t.Error("nothing watches")
	}
}

// TestStallCount: a write counts as stalled once it was seen to be under way for long enough. Other writes,
// and time in which the process stood still, don't count.
func TestStallCount(t *testing.T) {
	t.Parallel()
	c, now, writing := stallCount{most: 20 * time.Second}, int64(1e12), time.Duration(0)
	look := func(pass, under time.Duration) bool {
		now += int64(pass)
		writing = under
		return c.look(writing, now)
	}
	for range 100 {
		if look(stallLook, time.Millisecond) {
			t.Fatal("short writes count as one")
		}
	}
	look(stallLook, 0)
	looks := 1
	for under := stallLook; !look(stallLook, under); under += stallLook {
		looks++
	}
	if want := int(20*time.Second/stallLook) + 1; looks != want {
		t.Errorf("a write counts as stalled at look %d, want %d", looks, want)
	}
	look(stallLook, 0)
	if look(time.Hour, time.Hour) {
		t.Error("a write counts as stalled because the process stood still for an hour")
	}
	if look(stallLook, time.Millisecond) {
		t.Error("the next write counts as stalled")
	}
}
