package tree

import (
	"encoding/binary"

	"github.com/zooid-project/zooid/jute"
)

// Ensembles that were founded before cluster ids were random have the same id if they had the same server lines. So the
// first leader at levelLineage draws a random number, the lineage, which distinguishes the history of its ensemble from
// any other. It is in the log, in snapshots and in the digest.

// levelLineage is the first feature level at which an ensemble agrees on a lineage.
const levelLineage = 3

const lineageSize = 8

// AppendLineage appends the body of an OpLineage request.
func AppendLineage(b []byte, lineage uint64) []byte { return jute.AppendLong(b, int64(lineage)) }

// Lineage returns the lineage of the tree's history, 0 if there is none yet.
func (t *Tree) Lineage() uint64 { return t.lineage }

// applyLineage sets the lineage of an OpLineage request. Only the first lineage counts, since two leaders may each have
// drawn one.
func (t *Tree) applyLineage(body []byte, r *Result) {
	if t.lineage != 0 || len(body) != lineageSize || binary.BigEndian.Uint64(body) == 0 {
		r.Outcome = Ignored
		return
	}
	t.setLineage(binary.BigEndian.Uint64(body))
}

func (t *Tree) setLineage(lineage uint64) {
	t.totals.digest -= lineageDigest(&t.key, t.lineage)
	t.lineage = lineage
	t.totals.digest += lineageDigest(&t.key, t.lineage)
}
