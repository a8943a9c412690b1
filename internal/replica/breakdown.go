package replica

import (
	"fmt"
	"sync/atomic"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
)

// stopsAtEntry is what to do about an entry that can't be applied.
const stopsAtEntry = "This server stops. Remove nothing, and keep a copy of its data and log directories for a report. " +
	"If starting it again doesn't help: " + storage.DoMove + ". " +
	"If all servers stop at this entry, or this server is alone, the entry or this version is at fault: start the version that wrote it"

// A breakdown is a panic while an entry was applied. The state may be half changed, so
// mu stays locked and no client sees it.
type breakdown struct {
	// report returns the error to end with, and keeps what is known.
	report   func(e quorum.Entry, cause any, about string) error
	happened atomic.Bool // and mu is locked
	applying atomic.Bool // an Apply is under way, and mu is locked
	entry    quorum.Entry
	requests int // of entry that were applied
}

// breakDown is deferred while mu is held alone and entries are applied.
func (r *Replica) breakDown(err *error) {
	if cause := recover(); cause != nil {
		b := &r.broken
		b.happened.Store(true)
		about := fmt.Sprintf("last zxid %#x, state at entry %d of term %d\n\n%s", r.tree.LastZxid(), r.tree.LastIndex(), r.tree.LastTerm(),
			tree.Describe(b.entry.Data[min(digestSize, len(b.entry.Data)):], b.requests))
		*err = b.report(b.entry, cause, about)
	}
}

// awaitApply waits until no Apply is under way, or the connections of a broken Replica are
// closed. Nothing that an entry means is shown before the whole entry is applied: if that
// panics, and operators skip the entry, none of it has happened.
func (r *Replica) awaitApply() {
	if r.broken.applying.Load() {
		r.mu.RLock()
		defer r.mu.RUnlock()
	}
}

// Broken reports whether applying an entry has panicked. Nothing else may be asked of
// the Replica then.
func (r *Replica) Broken() bool { return r.broken.happened.Load() }

// Abandon unlocks a Replica that is Broken, so that the goroutines that wait for it can
// end. All client connections must be closed before: the state may be half changed.
func (r *Replica) Abandon() { r.mu.Unlock() }
