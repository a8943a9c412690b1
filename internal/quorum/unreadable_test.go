package quorum

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/storage"
)

// TestUnreadable tells the failures of a disk, after which the server ends and
// says so, from those of this program, which must stay panics.
func TestUnreadable(t *testing.T) {
	var index runtime.Error
	func() {
		defer func() { index = recover().(runtime.Error) }()
		_ = []int{}[len(t.Name())]
	}()
	for _, c := range []struct {
		failure any
		disk    bool
	}{
		{fmt.Errorf("read entries 1 to 2: %w", &fs.PathError{Op: "read", Path: "1.log", Err: syscall.EIO}), true},
		{fmt.Errorf("read entries 1 to 2: %w", &storage.DamageError{File: "1.log"}), true},
		{errors.New("invariant broken"), false},
		{"tocommit(8) is out of range [lastIndex(7)]", false},
		{index, false},
	} {
		if err := unreadable(c.failure); (err != nil) != c.disk {
			t.Errorf("%v: %v; is it the disk? %v", c.failure, err, c.disk)
		}
	}
}

// TestLogThatCannotBeRead starts a Peer whose committed entries lie where the
// disk fails: that must come to Fatal, and not be a panic.
func TestLogThatCannotBeRead(t *testing.T) {
	t.Parallel()
	c := newColony(t, 1, 2, 3)
	b := c.leader()
	for n := range uint64(20) {
		b.say(n + 1)
		c.step(1)
	}
	if err := b.dir.Close(); err != nil {
		t.Fatal(err)
	}
	dir, err := storage.Open(storage.Options{
		FS: b.fs, Dir: "/data", ClusterID: 7, SegmentSize: 64 << 10, CacheSize: 1, Rand: rand.NewChaCha8([32]byte{1}),
		Space: storage.SpaceLimits{ReserveBytes: -1},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	b.fs.Hook = func(call storage.Call) error {
		if call.Op == "read" {
			return syscall.EIO
		}
		return nil
	}
	failed := make(chan error, 1)
	p, err := Open(Options{
		ID: b.id, Dir: dir, Cluster: 7, State: b, Members: []Member{{ID: 1}, {ID: 2}, {ID: 3}}, Tick: time.Millisecond, ElectionTicks: 10, SnapshotsKept: 1,
		Log: slog.New(slog.DiscardHandler), Fatal: func(err error) { failed <- err },
	})
	if err != nil {
		t.Fatal(err)
	}
	p.Start()
	defer p.Close()
	if err := <-failed; !errors.Is(err, syscall.EIO) {
		t.Errorf("the server ended with %v, want the disk's error", err)
	}
}
