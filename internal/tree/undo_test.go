package tree

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// TestLargeMultis plays multis of hundreds of operations on many znodes, which come back to the same ones after many
// others. Half of the multis fail at their end, and nothing of them remains.
func TestLargeMultis(t *testing.T) {
	for seed := range uint64(6) {
		w := newWalker(t, seed)
		begin, begun := w.newSession(&Request{Session: 1})
		w.apply(1, []*Request{begin}, []func() modelResult{begun})
		for round := range 10 {
			o := modelOp{op: jute.OpMulti, sub: w.succeeding(100 + w.rnd.IntN(300))}
			if round%2 == 1 {
				o.sub = append(o.sub, modelOp{op: jute.OpDelete, path: "/none", version: -1})
			}
			s := w.model.sessions[1]
			q := &Request{Session: 1, Cnx: s.cnx, Seq: s.next, Op: o.op, Body: encode(&o), Identities: identities[0]}
			w.apply(w.model.now+1, []*Request{q}, []func() modelResult{func() modelResult { return w.model.apply(&o, q) }})
			w.check()
			w.snapshotting()
		}
	}
}

// succeeding makes n operations that succeed one after another.
func (w *walker) succeeding(n int) (ops []modelOp) {
	m := w.model.clone()
	for len(ops) < n {
		path := fmt.Sprintf("/%02d", w.rnd.IntN(100))
		if w.one(2) {
			path += fmt.Sprintf("/%d", w.rnd.IntN(4))
		}
		o := modelOp{path: path, data: w.data(), acl: acls[0], version: -1, ttl: -1, flags: jute.CreateMode(w.rnd.IntN(4))}
		o.op = []jute.Op{jute.OpCreate, jute.OpCreate2, jute.OpDelete, jute.OpSetData, jute.OpSetData}[w.rnd.IntN(5)]
		var code jute.Code
		switch o.op {
		case jute.OpDelete:
			code = m.delete(&o, identities[0], &modelResult{})
		case jute.OpSetData:
			_, code = m.change(&o, identities[0], &modelResult{})
		default:
			_, _, code = m.create(&o, 1, identities[0], &modelResult{})
		}
		if code == jute.OK {
			ops = append(ops, o)
		}
	}
	return ops
}

// TestUndoneQuotaKeepsNoRequest: a quota whose deletion is undone doesn't keep the memory of the request.
func TestUndoneQuotaKeepsNoRequest(t *testing.T) {
	l := newLimiter(t, 3)
	l.multi([]jute.MultiOp{plain("/q"), plain(pathQuota + "/q"), plain(pathQuota + "/q/" + limitsName)})
	body := jute.AppendMulti(nil, []jute.MultiOp{
		{Op: jute.OpDelete, Path: pathQuota + "/q/" + limitsName, Version: -1},
		{Op: jute.OpCheck, Path: "/none", Version: -1},
	})
	q := Request{Op: jute.OpMulti, Session: 1, Cnx: 1, Seq: nextSeq(l.tree) + 1, Identities: l.ids, Body: body}
	batch := AppendRecord(AppendBatchHeader(nil, 1), &q)
	if err := l.tree.Apply(1, l.tree.LastIndex()+1, batch, nil); err != nil {
		t.Fatal(err)
	}
	clear(batch)
	if _, ok := l.tree.quotas.paths["/q"]; !ok || len(l.tree.quotas.paths) != 1 {
		t.Errorf("the quotas are of %q", slices.Collect(maps.Keys(l.tree.quotas.paths)))
	}
}

// TestUndoIsSmall: a creation and a deletion in a multi are one step of the undo log each, changes of a new znode are
// none, and a znode that changes again is saved once.
func TestUndoIsSmall(t *testing.T) {
	const n = 5000
	var create, set, both, remove []jute.MultiOp
	for i := range n {
		path := fmt.Sprintf("/d/%d", i)
		create = append(create, plain(path))
		set = append(set, jute.MultiOp{Op: jute.OpSetData, Path: "/d", Data: []byte(path), Version: -1})
		both = append(both, plain(path), jute.MultiOp{Op: jute.OpSetData, Path: path, Data: []byte(path), Version: -1})
		remove = append(remove, jute.MultiOp{Op: jute.OpDelete, Path: path, Version: -1})
	}
	l := newLimiter(t, 3)
	l.multi([]jute.MultiOp{plain("/d")})
	for _, m := range []struct {
		what         string
		ops          []jute.MultiOp
		steps, saved int
	}{
		// /d is saved again now and then, when other znodes have taken its place among those remembered.
		{"creates", create, n + n/16, n / 16}, {"deletes", remove, n + n/16, n / 16}, {"sets of one znode", set, 2, 1},
		{"creates and sets", both, n + n/16, n / 16},
	} {
		steps, saved := 0, 0
		l.tree.changing = func(string, []byte, []byte) {
			u := &l.tree.undo
			steps = stackChunk*len(u.steps.full) + len(u.steps.top)
			saved = stackChunk*len(u.nodes.full) + len(u.nodes.top)
		}
		l.multi(m.ops)
		if steps > m.steps || saved > m.saved {
			t.Errorf("%d %s: %d steps, %d saved znodes; want at most %d and %d", n, m.what, steps, saved, m.steps, m.saved)
		}
	}
}
