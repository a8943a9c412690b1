package txnlog

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
)

// Newest returns the state after the last entry of a log, with which a standalone server would start. unconfirmed is
// the number of entries that the log doesn't mark as committed; an ensemble may have replaced them by others. Newest
// changes and locks nothing, so a server may be running; then the state is that of some moment during the call.
func Newest(o Options) (t *tree.Tree, unconfirmed int, err error) {
	var notes bytes.Buffer
	o.From, o.To, o.JSON, o.Data = math.MaxInt64, 0, false, false // starts from the newest snapshot
	r := &reader{o: o, out: printer{w: &notes}, expected: map[uint64]uint64{}}
	if err := storage.Walk(nil, o.Dirs, r.step); err != nil {
		return nil, 0, err
	}
	unconfirmed = len(r.held)
	if err := r.finish(); err != nil {
		return nil, 0, err
	}
	if err := storage.Describe(io.Discard, nil, o.Dirs...); err != nil {
		return nil, 0, err
	}
	if !r.begun {
		return nil, 0, fmt.Errorf("read the log in %s: there is only a snapshot, and no log. If dataLogDir is another directory, name it after dataDir, or name the server's zoo.cfg instead",
			strings.Join(o.Dirs, " and "))
	}
	if said := strings.TrimSpace(notes.String()); r.tree == nil || r.unequal {
		return nil, 0, fmt.Errorf("read the log in %s: the state after it is unknown: %s", strings.Join(o.Dirs, " and "),
			said)
	}
	return r.tree, unconfirmed, nil
}
