//go:build linux

package socket

import (
	"context"
	"errors"
	"net"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/zooid-project/zooid/internal/freeport"
)

// TestCloseListenerWhileProcessesStart: an address can be listened on again at once, although each process that starts
// meanwhile begins with a copy of the listener. Accept returns net.ErrClosed.
func TestCloseListenerWhileProcessesStart(t *testing.T) {
	t.Parallel()
	addr := freeport.Address(t)
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	defer all.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	program := filepath.Join(t.TempDir(), "none") // a process that doesn't get far will do
	for range 2 {
		all.Go(func() {
			for ctx.Err() == nil {
				exec.Command(program).Run()
			}
		})
	}
	for range 300 {
		accepted := make(chan error, 1)
		go func() {
			_, err := l.Accept()
			accepted <- err
		}()
		if err := CloseListener(l); err != nil {
			t.Fatal(err)
		}
		if err := <-accepted; !errors.Is(err, net.ErrClosed) {
			t.Fatalf("Accept returned %v", err)
		}
		if l, err = net.Listen("tcp", addr); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(CloseListener(l), CloseListener(struct{ net.Listener }{l})); !errors.Is(err, net.ErrClosed) {
		t.Errorf("closing a closed listener returned %v", err)
	}
}
