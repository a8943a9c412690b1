//go:build unix

package terminal

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Columns returns the width of a terminal, 0 if it is unknown, -1 if w is not a terminal.
func Columns(w any) int {
	f := FileOf(w)
	if f == nil {
		return -1
	}
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return -1
	}
	return int(size.Col)
}

// Redraw makes the line editor draw its line again, below what was printed
// meanwhile. The editor has no call for it, but does so when the window changes.
func Redraw() {
	// If this fails, the line stays undrawn until the next key.
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGWINCH)
}
