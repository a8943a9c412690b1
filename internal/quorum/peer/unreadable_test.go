package peer

import (
	"errors"
	"fmt"
	"io/fs"
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
	fs := storage.NewMemFS()
	dir, state := disk(t, fs), &list{}
	p, _ := alone(t, dir, state, time.Millisecond)
	p.Start()
	for n := range uint64(20) {
		state.say(n + 1)
		p.Kick()
		for !state.has(n + 1) {
			time.Sleep(time.Millisecond)
		}
	}
	p.Close()
	if err := dir.Close(); err != nil {
		t.Fatal(err)
	}
	dir = disk(t, fs)
	defer dir.Close()
	fs.Hook = func(call storage.Call) error {
		if call.Op == "read" {
			return syscall.EIO
		}
		return nil
	}
	p, fatal := alone(t, dir, &list{}, time.Millisecond)
	p.Start()
	defer p.Close()
	if err := <-fatal; !errors.Is(err, syscall.EIO) {
		t.Errorf("the server ended with %v, want the disk's error", err)
	}
}
