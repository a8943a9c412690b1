package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/zooid-project/zooid/internal/storage"
)

const logHelp = `usage: zooid log DATADIR [DATALOGDIR]

Lists the log segments, batches, entries and snapshots of a data directory, and
says where it is damaged. It changes nothing; the server should be stopped. A server
with a dataLogDir has two directories: name both.

Exit codes: 0 all of it is whole; 1 it can't be read, or the list can't be written;
2 wrong arguments; 4 something is damaged or missing. What a crash has cut off at the
log's end is no damage: no client was told of it.
`

// exitDamaged is the exit code for a directory that is not whole.
const exitDamaged = 4

// runLog prints what a data directory holds.
func runLog(args []string, stdout, stderr io.Writer) int {
	if len(args) > 0 && (args[0] == "-h" || args[0] == "--help") {
		fmt.Fprint(stdout, logHelp)
		return 0
	}
	if len(args) < 1 || len(args) > 2 {
		fmt.Fprint(stderr, logHelp)
		return 2
	}
	err := storage.Describe(stdout, storage.OS{}, args...)
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "zooid log:", err)
	if damage := (*storage.DamageError)(nil); errors.As(err, &damage) {
		return exitDamaged
	}
	return 1
}
