package terminal

import "os"

// Colours reports whether w is a terminal that shows colours, and its user wants them
// (NO_COLOR is not set).
func Colours(w any) bool {
	return Is(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
