package server

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
)

// PanicError is what Failed delivers of a server on which applying an entry panicked.
// What the server holds must not be shown any more: the process had best end without
// Close, which would wait for requests that nobody will answer.
type PanicError = quorum.PanicError

// A breakdown is a panic while an entry was applied. The state may be half changed, so
// mu stays locked and nobody sees it. A report is kept beside the log.
type breakdown struct {
	dir      *storage.Dir
	version  string
	happened atomic.Bool // and mu is locked
	entry    quorum.Entry
	requests int // of entry that were applied
}

// breakDown is deferred while mu is held alone and entries are applied.
func (r *replica) breakDown(err *error) {
	cause := recover()
	if cause == nil {
		return
	}
	b, stack := &r.broken, debug.Stack()
	b.happened.Store(true)
	e := &quorum.PanicError{Index: b.entry.Index, Term: b.entry.Term, Hash: storage.HashEntry(b.entry.Data).String(), Cause: fmt.Sprint(cause)}
	text := fmt.Sprintf("Applying this log entry panicked: %v\nzooid %s, last zxid %#x, state at entry %d of term %d\n\n%s\n%s\nThe whole entry, with the data of clients, is in the .raw file beside this one.\n",
		cause, b.version, r.tree.LastZxid(), r.tree.LastIndex(), r.tree.LastTerm(), b.describe(), stack)
	var failed error
	if e.Report, _, failed = b.dir.KeepReport(storage.Report{Index: e.Index, Term: e.Term, Data: b.entry.Data, Text: text}); failed != nil {
		e.Report = fmt.Sprintf("no file (%v)", failed)
	}
	*err = e
}

// describe tells what the entry asks for. It may be that which can't be read.
func (b *breakdown) describe() (text string) {
	defer func() {
		if cause := recover(); cause != nil {
			text = fmt.Sprintf("(its requests can't be told: %v)\n", cause)
		}
	}()
	return tree.Describe(b.entry.Data[min(digestSize, len(b.entry.Data)):], b.requests)
}

// yield lets those go on who wait for a replica that broke down. Their connections must
// be closed before, so that nobody is shown what they see.
func (b *breakdown) yield(r *replica) {
	if b.happened.CompareAndSwap(true, false) {
		r.mu.Unlock()
	}
}
