// Package txnlog shows the files of a data directory in ZooKeeper's terms: the transactions in the log with their
// results, and the znodes and sessions in a snapshot. It also removes a torn batch from the end of the log.
//
// The log has requests without results. The results are computed as a server does, by applying the log to the state of
// a snapshot. Only Repair changes files.
package txnlog

import (
	"errors"
	"fmt"
	"io"

	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
)

// Options configure what is shown.
type Options struct {
	// Dirs are a data directory, and the log's if it is separate.
	Dirs []string
	// Reconfigure evaluates reconfig requests as the server does.
	Reconfigure tree.Reconfigure
	// From and To are the first and last zxid to show; 0 for no bound.
	From, To int64
	JSON     bool // one JSON object per line
	Data     bool // show the data of znodes
}

// Show prints the transactions of a log. The error is that of w or of reading, or a storage.DamageError if the files
// are incomplete or damaged. Everything before the damage is shown.
func Show(w io.Writer, o Options) error {
	r := &reader{o: o, out: printer{w: w, json: o.JSON, data: o.Data}, expected: map[uint64]uint64{}}
	err := storage.Walk(nil, o.Dirs, r.step)
	if err == nil {
		err = r.finish()
	}
	if err != nil && !errors.Is(err, errPastRange) {
		return err
	}
	return storage.Describe(io.Discard, nil, o.Dirs...)
}

// errPastRange ends a walk after Options.To.
var errPastRange = errors.New("past the last zxid asked for")

// held is an entry that a later batch may still replace.
type held struct {
	storage.LoggedEntry
	committed bool
}

// heldBytesMax bounds the entries that are held back because the log doesn't say that they are committed. Beyond it,
// they are shown anyway.
const heldBytesMax = 64 << 20

// reader reads a log and applies it to the tree.
type reader struct {
	o   Options
	out printer

	tree    *tree.Tree // nil if the state isn't known
	begun   bool
	cluster uint64
	start   uint64 // index of the snapshot that the tree was loaded from
	applied uint64 // the index of the last entry shown
	skips   map[uint64]storage.Skip

	held      []held
	heldBytes int
	unequal   bool // the log has a digest that differs from this state's
	// expected has the digest of the state after an entry, by its index, until a later entry has the leader's.
	expected map[uint64]uint64
}

func (r *reader) step(s storage.LogStep) error {
	if s.Begins {
		return r.segment(s)
	}
	for _, e := range s.Entries {
		for n := len(r.held); n > 0 && r.held[n-1].Index >= e.Index; n-- {
			r.heldBytes -= len(r.held[n-1].Data)
			r.held = r.held[:n-1]
		}
		e.Data = append([]byte{}, e.Data...)
		r.held = append(r.held, held{LoggedEntry: e})
		r.heldBytes += len(e.Data)
	}
	for len(r.held) > 0 && (r.held[0].Index <= s.Committed || r.heldBytes > heldBytesMax) {
		if err := r.next(r.held[0].Index <= s.Committed); err != nil {
			return err
		}
	}
	return nil
}

// finish shows the entries that the log doesn't mark as committed.
func (r *reader) finish() error {
	for len(r.held) > 0 {
		if err := r.next(false); err != nil {
			return err
		}
	}
	return r.out.err
}

// next shows the first held entry.
func (r *reader) next(committed bool) error {
	e := r.held[0]
	e.committed = committed
	r.held = r.held[1:]
	r.heldBytes -= len(e.Data)
	r.entry(&e)
	if r.out.err == nil && r.o.To != 0 && r.tree != nil && r.tree.LastZxid() > r.o.To {
		return errPastRange
	}
	return r.out.err
}

// segment loads the state before the log, or the state of a snapshot received from a peer.
func (r *reader) segment(s storage.LogStep) error {
	switch {
	case !r.begun:
		r.begun, r.cluster = true, s.Cluster
		r.noteSkips()
		r.begin(s.After)
	case s.Reset:
		r.held, r.heldBytes = nil, 0
		r.out.note("a snapshot at entry %d, of another server, replaces everything before it", s.After)
		r.tree = r.snapshotAt(s.After)
		r.start, r.applied = s.After, s.After
		if r.tree == nil {
			r.unknown("that snapshot can't be read")
		}
	}
	return r.out.err
}

// noteSkips reads which entries the servers have agreed to skip.
func (r *reader) noteSkips() {
	r.skips = map[uint64]storage.Skip{}
	for _, dir := range r.o.Dirs {
		all, err := storage.Skips(storage.OS{}, dir, r.cluster)
		if err != nil {
			r.out.note("the decisions to skip entries can't be read: %v", err)
		}
		for _, s := range all {
			r.skips[s.Index] = s
		}
	}
}

// unknown prints a note that results are unknown from here on, and why.
func (r *reader) unknown(format string, args ...any) {
	r.tree = nil
	r.out.note("%s: zxids and results are unknown from here on", fmt.Sprintf(format, args...))
}
