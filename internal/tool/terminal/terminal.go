package terminal

import (
	"io"
	"os"
)

// Cleared is the text that clears a terminal before a new display.
const Cleared = "\x1b[H\x1b[2J"

// Is reports whether w is a terminal. On systems other than Unix it is also true for other character devices.
func Is(w any) bool { return Columns(w) >= 0 }

// FileOf returns the file that w is or wraps, or nil. Programs must get the file: a pipe is no terminal, and whoever
// starts a program waits until all its children have closed the pipe.
func FileOf(w any) *os.File {
	for {
		around, ok := w.(interface{ Unwrap() io.Writer })
		if !ok {
			f, _ := w.(*os.File)
			return f
		}
		w = around.Unwrap()
	}
}

// Colours reports whether w is a terminal that shows colours, and its user wants them
// (NO_COLOR is not set).
func Colours(w any) bool {
	return Is(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
