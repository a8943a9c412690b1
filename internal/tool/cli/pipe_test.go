//go:build linux

package cli

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestInterruptAtASilentPipe interrupts commands that wait for a pipe: to be opened by
// somebody, and to be written to.
func TestInterruptAtASilentPipe(t *testing.T) {
	t.Parallel()
	v := newSession(t, startZooid(t))
	v.must(t, "create", "/p", "before")
	folder := t.TempDir()
	alone, silent := filepath.Join(folder, "alone"), filepath.Join(folder, "silent")
	for _, name := range []string{alone, silent} {
		if err := syscall.Mkfifo(name, 0o600); err != nil {
			t.Skipf("there are no pipes: %v", err)
		}
	}
	held, err := os.OpenFile(silent, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	for _, line := range []string{"set /p @%s", "create /q @%s", "txn -f %s", "import -format json %s /q"} {
		for _, name := range []string{alone, silent} {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(20*time.Millisecond, cancel)
			v.out.Reset()
			v.s.line(ctx, fmt.Sprintf(line, name))
			if v.s.exit != exitInterrupted {
				t.Errorf(line+": exit code %d: %s", name, v.s.exit, v.out.String())
			}
		}
	}
	// Whoever opens the other end lets the openings go that nobody waits for.
	last, err := os.OpenFile(alone, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	last.Close()
	if out := v.must(t, "get", "/p"); out != "before\n" {
		t.Errorf("the value became %q", out)
	}
}

// TestSecondInterrupt ends a program that the first interrupt doesn't reach: nobody
// reads the pipe that it opens.
func TestSecondInterrupt(t *testing.T) {
	t.Parallel()
	address := startZooid(t)
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skipf("there are no pipes: %v", err)
	}
	v := atTerminal(t, nil, "-server", address, "export", "-format", "json", "/", pipe)
	ended := make(chan error, 1)
	go func() { ended <- v.process.Wait() }()
	for {
		select {
		case <-ended:
			return
		case <-time.After(50 * time.Millisecond):
			v.press(ctrlC)
		}
	}
}
