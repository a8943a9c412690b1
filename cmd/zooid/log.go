package main

import (
	"fmt"
	"io"

	"github.com/zooid-project/zooid/internal/storage"
)

const logHelp = `usage: zooid log DATADIR

Lists the log segments, batches, entries and snapshots of a data directory, and
says where it is damaged. It changes nothing; the server should be stopped.
`

// runLog prints what a data directory holds.
func runLog(args []string, stdout, stderr io.Writer) int {
	if len(args) != 1 {
		fmt.Fprint(stderr, logHelp)
		return 2
	}
	if args[0] == "-h" || args[0] == "--help" {
		fmt.Fprint(stdout, logHelp)
		return 0
	}
	if err := storage.Describe(stdout, storage.OS{}, args[0]); err != nil {
		fmt.Fprintln(stderr, "zooid log:", err)
		return 1
	}
	return 0
}
