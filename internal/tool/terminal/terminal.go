package terminal

import (
	"io"
	"os"
)

// Cleared is the text that clears a terminal before a new display.
const Cleared = "\x1b[H\x1b[2J"

// Is reports whether w is a terminal. On systems other than Unix it is also true for other character devices.
func Is(w any) bool { return Columns(w) >= 0 }

// fileOf returns the file that w is or wraps, or nil.
func fileOf(w any) *os.File {
	if around, ok := w.(interface{ Unwrap() io.Writer }); ok {
		w = around.Unwrap()
	}
	f, _ := w.(*os.File)
	return f
}

// Colours reports whether w is a terminal that shows colours, and its user wants them
// (NO_COLOR is not set).
func Colours(w any) bool {
	return Is(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
