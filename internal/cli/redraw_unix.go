//go:build unix

package cli

import "syscall"

// redrawPrompt makes the line editor draw its line again, below what was printed
// meanwhile. The editor has no call for it, but does so when the window changes.
func redrawPrompt() {
	// An error leaves the line undrawn until the next key.
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGWINCH)
}
