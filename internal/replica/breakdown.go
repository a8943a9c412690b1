package replica

import (
	"fmt"
	"sync/atomic"

	"github.com/zooid-project/zooid/internal/describe"
	"github.com/zooid-project/zooid/internal/proposals"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
)

// stopsAtEntry tells the operator how to deal with an entry that can't be applied.
const stopsAtEntry = "This server stops. Remove nothing, and keep a copy of its data and log directories for a report. " +
	"If starting it again doesn't help: " + storage.DoMove + ". " +
	"If all servers stop at this entry, or this server is alone, the entry or this version is at fault: start the version that wrote it"

// A breakdown is a panic while applying an entry. The state may be half changed, so mu stays locked
// and no client sees it.
type breakdown struct {
	// report returns the error to stop with, and saves the facts about the panic.
	report   func(e quorum.Entry, cause any, about string) error
	happened atomic.Bool // a panic has happened, and mu is locked
	applying atomic.Bool // an Apply is under way, and mu is locked
	entry    quorum.Entry
	requests int // how many requests of entry were applied
}

// breakDown recovers from a panic while entries are applied. It is deferred with mu held for writing.
func (r *Replica) breakDown(err *error) {
	if cause := recover(); cause != nil {
		r.mu.Leave() // to Abandon
		b := &r.broken
		b.happened.Store(true)
		about := fmt.Sprintf("last zxid %#x, state at entry %d of term %d\n\n%s", r.tree.LastZxid(), r.tree.LastIndex(),
			r.tree.LastTerm(),
			describe.Batch(b.entry.Data[min(proposals.DigestSize, len(b.entry.Data)):], b.requests))
		*err = b.report(b.entry, cause, about)
	}
}

// awaitApply waits until no Apply is under way, or until the connections of a broken Replica are
// closed. No effect of an entry is shown before the whole entry is applied: if applying it panics
// and operators skip the entry, none of its effects have been seen.
func (r *Replica) awaitApply() {
	if r.broken.applying.Load() {
		r.mu.RLock()
		defer r.mu.RUnlock()
	}
}

// Broken reports whether applying an entry has panicked. After that, no method but Abandon may be
// called.
func (r *Replica) Broken() bool { return r.broken.happened.Load() }

// Abandon unlocks a Replica that is Broken, so that the goroutines waiting for it can end. All
// client connections must be closed first: the state may be half changed.
func (r *Replica) Abandon() { r.mu.Unlock() }
