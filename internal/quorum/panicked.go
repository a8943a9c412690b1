package quorum

import "fmt"

// A PanicError says that applying an entry panicked: the state machine may have been
// changed half, and must not be used or read any more. Found with errors.As.
type PanicError struct {
	Index, Term uint64
	Hash        string // SHA-256 of the entry's bytes, hexadecimal
	Cause       string // what it panicked with
	Report      string // file with the report, or why there is none
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("apply log entry %d of term %d (SHA-256 %s): it panicked: %s. This is a fault of this version. The entry is in the log, so this server stops at it each time it is started, and the others too, unless they run another version. Nothing is lost, and nothing is shown of a state that may be half changed. Remove nothing. The report is in %s; send it to the developers, with the .raw file beside it, which holds the entry. If the servers ran another version before, start that one.",
		e.Index, e.Term, e.Hash, e.Cause, e.Report)
}
