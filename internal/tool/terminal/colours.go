package terminal

import "os"

// Cleared is what empties a terminal, for what is shown there anew.
const Cleared = "\x1b[H\x1b[2J"

// Colours reports whether w is a terminal that shows colours, and its user wants them
// (NO_COLOR is not set).
func Colours(w any) bool {
	return Is(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
