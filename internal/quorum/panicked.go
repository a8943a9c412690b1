package quorum

import (
	"fmt"
	"runtime/debug"

	"github.com/zooid-project/zooid/internal/storage"
)

// A PanicError says that applying an entry panicked. The state machine may be half
// changed, and must not be used or read any more. Use errors.As to find it.
type PanicError struct {
	Index, Term uint64
	Hash        string // SHA-256 of the entry's bytes, hexadecimal
	Cause       string // the value of the panic, quoted
	Report      string // path of the report, or why there is none
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("apply log entry %d of term %d (SHA-256 %s): it panicked: %s. This is a fault of this version. The entry is in the log, so this server stops at it each time it is started, and the others too, unless they run another version. Nothing is lost, and nothing is shown of a state that may be half changed. Remove nothing. The report is in %s; send it to the developers, with the .raw file beside it, which holds the entry. If the servers ran another version before, start that one. Otherwise an operator may decide that the ensemble goes on without the entry: stop all servers, run 'zooid skip-entry -why REASON zoo.cfg' on each of them, and start them",
		e.Index, e.Term, e.Hash, e.Cause, e.Report)
}

// causeMax bounds how much of a panic's cause is reported, in bytes.
const causeMax = 1 << 10

func cut(s string, most int) string { return s[:min(len(s), most)] }

// Panicked returns the error for a state machine that panicked with cause while it
// applied an entry, and writes a report next to the log. It must be called from the
// deferred function that recovers, so that the report has the panic's stack. about
// describes the state and the entry's request.
func Panicked(dir *storage.Dir, entry Entry, cause any, about string) error {
	// A client may control the text of the cause.
	escaped := fmt.Sprintf("%q", cut(fmt.Sprint(cause), causeMax))
	e := &PanicError{Index: entry.Index, Term: entry.Term, Hash: storage.HashEntry(entry.Data).String(), Cause: escaped}
	text := fmt.Sprintf("Applying this log entry panicked: %s\n%s\n%s\nThe whole entry, with the data of clients, is in the .raw file beside this one.\n",
		escaped, about, debug.Stack())
	path, _, err := dir.KeepReport(storage.Report{Index: e.Index, Term: e.Term, Data: entry.Data, Text: text})
	if e.Report = path; err != nil {
		e.Report = fmt.Sprintf("no file (%v)", err)
	}
	return e
}
