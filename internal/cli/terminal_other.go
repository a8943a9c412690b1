//go:build !unix

package cli

import "os"

// isTerminal reports whether w is a terminal, or another character device.
func isTerminal(w any) bool { return columns(w) >= 0 }

// columns returns the width of a terminal, here always 0 for unknown, -1 if w is
// none.
func columns(w any) int {
	f, ok := w.(*os.File)
	if !ok {
		return -1
	}
	if st, err := f.Stat(); err != nil || st.Mode()&os.ModeCharDevice == 0 {
		return -1
	}
	return 0
}

// redrawPrompt does nothing where the line editor can't be told: its line comes
// back with the next key.
func redrawPrompt() {}
