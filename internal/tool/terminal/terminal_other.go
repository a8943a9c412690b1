//go:build !unix

package terminal

import (
	"io"
	"os"
)

// Is reports whether w is a terminal, or another character device.
func Is(w any) bool { return Columns(w) >= 0 }

// Columns returns the width of a terminal: always 0 here, for unknown, and -1 if w is
// not a terminal.
func Columns(w any) int {
	if around, ok := w.(interface{ Unwrap() io.Writer }); ok {
		w = around.Unwrap()
	}
	f, ok := w.(*os.File)
	if !ok {
		return -1
	}
	if st, err := f.Stat(); err != nil || st.Mode()&os.ModeCharDevice == 0 {
		return -1
	}
	return 0
}

// Redraw does nothing: the line editor can't be told here, and its line comes back with
// the next key.
func Redraw() {}
