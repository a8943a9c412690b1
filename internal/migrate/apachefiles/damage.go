package apachefiles

import "fmt"

// A DamageError says that a file isn't what Apache wrote. Apache doesn't go on with it
// either. Found with errors.As.
type DamageError struct {
	File   string
	Offset int64  // of the record that is wrong; in a compressed file, of its content
	Reason string // what was expected and what was found
	Do     string // what to do
}

func (e *DamageError) Error() string {
	return fmt.Sprintf("%s is damaged at offset %d: %s. %s", e.File, e.Offset, e.Reason, e.Do)
}

// What to do about damage.
const (
	doOtherServer = "Apache doesn't start on it either. Take the data directory of another server of the ensemble, or a backup"
)
