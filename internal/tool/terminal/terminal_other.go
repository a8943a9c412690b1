//go:build !unix

package terminal

import "os"

// Columns returns the width of a terminal: always 0 here, for unknown, and -1 if w is
// not a terminal.
func Columns(w any) int {
	f := FileOf(w)
	if f == nil {
		return -1
	}
	if st, err := f.Stat(); err != nil || st.Mode()&os.ModeCharDevice == 0 {
		return -1
	}
	return 0
}

// Redraw does nothing: the line editor can't be notified on this system. Its line comes back with the next key.
func Redraw() {}
