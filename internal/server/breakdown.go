package server

import (
	"fmt"
	"sync/atomic"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
)

// A breakdown is a panic while an entry was applied. The state may be half changed, so
// mu stays locked and nobody sees it.
type breakdown struct {
	dir      *storage.Dir
	version  string
	happened atomic.Bool // and mu is locked
	entry    quorum.Entry
	requests int // of entry that were applied
}

// breakDown is deferred while mu is held alone and entries are applied.
func (r *replica) breakDown(err *error) {
	if cause := recover(); cause != nil {
		b := &r.broken
		b.happened.Store(true)
		about := fmt.Sprintf("zooid %s, last zxid %#x, state at entry %d of term %d\n\n%s", b.version, r.tree.LastZxid(), r.tree.LastIndex(), r.tree.LastTerm(),
			tree.Describe(b.entry.Data[min(digestSize, len(b.entry.Data)):], b.requests))
		*err = quorum.Panicked(b.dir, b.entry, cause, about)
	}
}
