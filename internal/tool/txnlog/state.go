package txnlog

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/internal/treeload"
	"github.com/zooid-project/zooid/jute"
)

// begin loads the state to which the log is applied: the oldest snapshot, so that as much as possible is shown, or, if
// Options.From is set, the newest snapshot before it. base is the index before the log's first entry.
func (r *reader) begin(base uint64) {
	indexes := r.snapshots()
	if r.o.From != 0 {
		slices.Reverse(indexes)
	}
	for _, index := range indexes {
		if index < base {
			continue
		}
		t := r.snapshotAt(index)
		if t == nil || r.o.From != 0 && t.LastZxid() >= r.o.From {
			continue
		}
		if r.o.From == 0 && base == 0 {
			break // the log is complete
		}
		r.tree, r.start, r.applied = t, index, index
		return
	}
	r.applied = base
	if base == 0 {
		r.tree = tree.New(r.options())
		return
	}
	r.unknown("the log begins after entry %d, and there is no snapshot of it here", base)
}

func (r *reader) options() tree.Options {
	return treeload.Options(r.cluster, r.o.Reconfigure, tree.FeatureLevelMax)
}

func (r *reader) snapshots() (all []uint64) {
	for _, dir := range r.o.Dirs {
		indexes, err := storage.SnapshotIndexes(storage.OS{}, dir)
		if err == nil {
			all = append(all, indexes...)
		}
	}
	slices.Sort(all)
	return all
}

// snapshotAt returns the state in a snapshot, nil if it can't be read.
func (r *reader) snapshotAt(index uint64) *tree.Tree {
	for _, dir := range r.o.Dirs {
		if t, _, err := loadSnapshot(dir, index, r.o.Reconfigure); err == nil {
			return t
		}
	}
	return nil
}

// loadSnapshot reads a snapshot and verifies all of its bytes.
func loadSnapshot(dir string, index uint64, reconfigure tree.Reconfigure) (t *tree.Tree, m storage.Meta, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			t, err = nil, fmt.Errorf("read the snapshot at entry %d: %v", index, cause)
		}
	}()
	snap, err := storage.PeekSnapshotAt(storage.OS{}, dir, index)
	if err != nil {
		return nil, m, err
	}
	defer snap.Close()
	if m = snap.Meta; m.Index != index || m.BodyFormat != tree.BodyFormat {
		return nil, m, fmt.Errorf("read the snapshot at entry %d: it is one at entry %d in format %d; this version reads format %d",
			index, m.Index, m.BodyFormat, tree.BodyFormat)
	}
	t, err = treeload.Tree(m, snap, treeload.Options(m.ClusterID, reconfigure, tree.FeatureLevelMax))
	return t, m, err
}

// digestHead is the size of an entry's head: the index of an earlier entry, and the digest of the leader's state after
// it.
const digestHead = 16

// entry shows the effects of a log entry.
func (r *reader) entry(e *held) {
	if e.Index <= r.start {
		r.requests(e) // the snapshot has its changes, but not its results
		return
	}
	if r.tree != nil && e.Index <= r.applied {
		r.unknown("entry %d of term %d replaces an entry that isn't in the log", e.Index, e.Term)
	}
	if r.tree != nil && e.Index != r.applied+1 {
		r.unknown("the log continues with entry %d after entry %d", e.Index, r.applied)
	}
	r.applied = e.Index
	skip, skipped := r.skips[e.Index]
	skipped = skipped && skip.Term == e.Term && skip.Hash == storage.HashEntry(e.Data)
	switch {
	case r.tree == nil:
		r.requests(e)
	case e.Consensus || len(e.Data) == 0 || skipped:
		if skipped {
			r.out.note("entry %d is skipped by the operators' decision: %s", e.Index, skip.Why)
		}
		if err := r.tree.NewTerm(e.Term, e.Index); err != nil {
			r.unknown("%v", err)
		}
	default:
		r.apply(e)
	}
	r.remember(e)
}

// remember stores the digest of the state after an entry, for as many entries as a leader may have in flight.
func (r *reader) remember(e *held) {
	const kept = 4096
	if r.tree == nil {
		return
	}
	r.expected[e.Index] = r.tree.Digest()
	delete(r.expected, e.Index-min(kept, e.Index))
}

// apply applies an entry. An entry at which a server would stop ends the evaluation.
func (r *reader) apply(e *held) {
	if len(e.Data) < digestHead {
		r.unknown("entry %d has %d bytes, too few for its digest", e.Index, len(e.Data))
		return
	}
	at, digest := binary.BigEndian.Uint64(e.Data), binary.BigEndian.Uint64(e.Data[8:])
	if own, ok := r.expected[at]; ok && own != digest {
		r.unequal = true
		r.out.note("after entry %d the state here has digest %#x, that of the leader %#x: the two differ", at, own, digest)
	}
	batch := e.Data[digestHead:]
	records := tree.NewRecords(batch)
	defer func() {
		if cause := recover(); cause != nil {
			r.unknown("entry %d can't be applied: %v", e.Index, cause)
		}
	}()
	var q tree.Request
	err := r.tree.Apply(e.Term, e.Index, batch, func(res *tree.Result) {
		if records.Next(&q) {
			r.result(e, &q, res)
		}
	})
	if err != nil {
		r.unknown("%v", err)
	}
}

// requests shows an entry with unknown results.
func (r *reader) requests(e *held) {
	if e.Consensus || len(e.Data) <= digestHead || r.o.From != 0 || r.o.To != 0 {
		return
	}
	records := tree.NewRecords(e.Data[digestHead:])
	for q := (tree.Request{}); records.Next(&q); {
		t := describe(&q, r.o.Data)
		t.Time = timeText(records.Time())
		r.show(e, &t)
	}
	if err := records.Err(); err != nil {
		r.out.note("entry %d: %v", e.Index, err)
	}
}

// result shows a request that took a zxid. Other requests change nothing that clients see.
func (r *reader) result(e *held, q *tree.Request, res *tree.Result) {
	switch {
	case res.Outcome != tree.Applied && res.Outcome != tree.Staged, q.Op == tree.OpAttach, q.Op == tree.OpEnter,
		q.Op == tree.OpSettings, q.Op == tree.OpSecret, q.Op == tree.OpLineage:
		return
	case res.Zxid < r.o.From, r.o.To != 0 && res.Zxid > r.o.To:
		return
	}
	t := describe(q, r.o.Data)
	t.Zxid, t.Time = fmt.Sprintf("%#x", uint64(res.Zxid)), timeText(res.Time)
	t.Result = res.Err.String()
	if res.Path != "" && res.Err == jute.OK {
		t.Path = clone(res.Path)
	}
	if res.Outcome == tree.Staged {
		t.Result = "staged"
	}
	if q.Op == jute.OpCloseSession || q.Op == tree.OpExpire {
		t.Deleted = deleted(res)
	}
	t.results(res.Multi)
	r.show(e, &t)
}

// results sets the results of a multi's operations. If one failed, those before it were rolled back, and those after it
// weren't tried.
func (t *transaction) results(results []jute.MultiResult) {
	failed := slices.IndexFunc(results, func(m jute.MultiResult) bool { return m.Err != jute.OK })
	for i := range min(len(results), len(t.Operations)) {
		o, m := &t.Operations[i], &results[i]
		switch {
		case failed < 0:
			o.Result = m.Err.String()
			if m.Path != "" {
				o.Path = clone(m.Path)
			}
		case i < failed:
			o.Result = "taken back"
		case i == failed:
			o.Result = m.Err.String()
			t.Result = o.Result
		default:
			o.Result = "not tried"
		}
	}
}

// deleted returns the paths of the znodes deleted with a session.
func deleted(res *tree.Result) (paths []string) {
	for i := range res.Events {
		if ev := &res.Events[i]; ev.Type == jute.EventNodeDeleted {
			paths = append(paths, clone(ev.Path))
		}
	}
	return paths
}

func (r *reader) show(e *held, t *transaction) {
	t.Entry, t.Term, t.Committed = e.Index, e.Term, e.committed
	r.out.transaction(t)
}
