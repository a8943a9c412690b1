//go:build unix

package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/zooid-project/zooid/internal/runbook"
	"github.com/zooid-project/zooid/internal/server"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
)

// TestCodesOfErrors: each kind of error has its code, whatever wraps it, and a code that an error has already stays.
func TestCodesOfErrors(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"ZD-1110": &storage.DamageError{File: "x"},
		"ZD-2001": &storage.FatalError{Err: syscall.EIO},
		"ZD-1111": &storage.ClusterError{},
		"ZD-1112": &storage.MissingError{},
		"ZD-1115": &tree.NewerError{},
		"ZD-3405": &server.DivergedAloneError{},
		"ZD-3406": &server.DivergedError{},
		"ZD-3408": &server.UndecidedError{},
		"ZD-3420": &server.PanicError{},
		"ZD-1116": fmt.Errorf("%w: here", server.ErrDuplicateID),
		"ZD-1113": syscall.EWOULDBLOCK,
		"ZD-1114": syscall.ENOSPC,
	} {
		if _, ok := runbook.Find(want); !ok {
			t.Errorf("%s is not in the runbook", want)
		}
		if text := errorText(fmt.Errorf("start: %w", err)); !strings.HasSuffix(text, " ("+want+")") {
			t.Errorf("%T: %q, want %s", err, text, want)
		}
	}
	if text := errorText(&storage.FormatError{}); !strings.HasSuffix(text, " (ZD-1115)") {
		t.Errorf("a file of a newer format, which is also a DamageError: %q", text)
	}
	if text := errorText(runbook.Errorf("ZD-1203", "read: %w",
		syscall.ENOSPC)); text != "read: no space left on device (ZD-1203)" {
		t.Errorf("%q", text)
	}
	if text := errorText(fmt.Errorf("plain")); text != "plain" {
		t.Errorf("%q", text)
	}
}
