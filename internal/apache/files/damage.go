package files

import "fmt"

// A DamageError reports that a file isn't as Apache wrote it. Apache doesn't accept it either, or at least 3.9 doesn't.
// Find it with errors.As.
type DamageError struct {
	File   string
	Offset int64  // of the damaged record; in a compressed file, within the decompressed content
	Reason string // what was expected and what was found
	Do     string // what to do
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s is damaged at offset %d: %s. %s", e.File, e.Offset, e.Reason, e.Do)
}

// Instructions for DamageError.Do.
const (
	doOtherServer = "Apache doesn't start from it either. Use the data directory of another server of the ensemble, or a backup"
	// DoRestartOld is for a snapshot that only Apache 3.9 refuses.
	DoRestartOld = "Apache 3.9 doesn't start from it either, but earlier versions do: start and stop one once, so that it writes a new file"
)
