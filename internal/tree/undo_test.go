package tree

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// TestLargeMultis plays multis of hundreds of operations on many znodes of all kinds, and on quotas, which come back to
// the same znodes after many others. Half of the multis fail at their end, and nothing of them remains. A snapshot
// after each one holds the same state, and at times the session ends, with its ephemerals.
func TestLargeMultis(t *testing.T) {
	for seed := range uint64(6) {
		w := newWalker(t, seed)
		w.extend(seed%2 == 0)
		w.begin()
		for round := range 10 {
			o := modelOp{op: jute.OpMulti, sub: w.succeeding(100 + w.rnd.IntN(300))}
			if round%2 == 1 {
				o.sub = append(o.sub, modelOp{op: jute.OpDelete, path: "/none", version: -1})
			}
			w.play(&o)
			w.reloading()
			w.snapshotting()
			if w.one(4) {
				w.play(&modelOp{op: jute.OpCloseSession})
				w.begin()
			}
		}
	}
}

// TestParentIsCreatedAgain: a znode that is deleted and created again counts the creations of children, and its quota,
// anew, also in the multi that deletes it, and after that was undone.
func TestParentIsCreatedAgain(t *testing.T) {
	t.Parallel()
	one := func(op jute.Op, path string, flags jute.CreateMode, ttl int64) modelOp {
		return modelOp{op: op, path: path, data: []byte(path), acl: acls[0], flags: flags, ttl: ttl, version: -1}
	}
	create := func(path string, flags jute.CreateMode) modelOp { return one(jute.OpCreate2, path, flags, -1) }
	remove := func(path string) modelOp { return one(jute.OpDelete, path, 0, -1) }
	const stats, sequential = "/zookeeper/quota/p/zookeeper_stats", jute.ModePersistentSequential
	quota := []modelOp{
		create("/zookeeper/quota/p", 0), create("/zookeeper/quota/p/zookeeper_limits", 0), create(stats, 0),
	}
	first := []modelOp{
		create("/p", 0), create("/p/", sequential), create("/p/", sequential), create("/p/e", jute.ModeEphemeral),
		create("/p/", sequential),
	}
	again := []modelOp{
		remove("/p/0000000000"), remove("/p/0000000001"), remove("/p/0000000003"), remove("/p/e"), remove("/p"),
		one(jute.OpCreateContainer, "/p", jute.ModeContainer, -1), create("/p/", sequential), remove("/p/0000000000"),
		create("/p/", sequential), remove("/p/0000000001"), remove("/p"),
		one(jute.OpCreateTTL, "/p", jute.ModePersistentWithTTL, 50), create("/p/", sequential),
		remove(stats), create(stats, 0), create("/p/e", jute.ModeEphemeral),
	}
	failing := remove("/none")
	play := func(w *walker, multis ...[]modelOp) {
		for _, sub := range multis {
			w.play(&modelOp{op: jute.OpMulti, sub: slices.Clone(sub)})
			w.reloading()
		}
	}
	for round, multis := range [][][]modelOp{
		{quota, first, append(slices.Clone(again), failing), again},
		{slices.Concat(quota, first, again)},
		{slices.Concat(quota, first, again, []modelOp{failing}), slices.Concat(first, quota), again},
	} {
		w := newWalker(t, uint64(round))
		w.extend(true)
		w.begin()
		play(w, multis...)
		n := w.model.nodes["/p"]
		if n == nil || n.kind != ttl || n.stat.Cversion != 2 || w.model.nodes["/p/0000000000"] == nil {
			t.Fatalf("round %d: /p is %+v", round, n)
		}
		w.play(&modelOp{op: jute.OpCloseSession})
	}
}

// extend allows all kinds of znodes, and enforces quotas if they are to be.
func (w *walker) extend(quotas bool) {
	s := DefaultSettings()
	s.ExtendedTypes, s.EnforceQuota, s.FeatureLevel = true, quotas, FeatureLevelMax
	q := &Request{Op: OpSettings, Body: s.Append(nil)}
	w.apply(w.model.now+1, []*Request{q}, []func() modelResult{func() modelResult {
		w.model.settings = s
		return modelResult{zxid: w.model.zxid}
	}})
}

// begin begins session 1.
func (w *walker) begin() {
	q, want := w.newSession(&Request{Session: 1})
	w.apply(w.model.now+1, []*Request{q}, []func() modelResult{want})
}

// play applies an operation of session 1.
func (w *walker) play(o *modelOp) {
	s := w.model.sessions[1]
	q := &Request{Session: 1, Cnx: s.cnx, Seq: s.next, Op: o.op, Body: encode(o), Identities: identities[0]}
	w.apply(w.model.now+1, []*Request{q}, []func() modelResult{func() modelResult { return w.model.apply(o, q) }})
	w.check()
}

// reloading compares a snapshot, once it is loaded, with the model, and its account of memory with the tree's.
func (w *walker) reloading() {
	again, err := load(drain(w.tree, 1+w.rnd.IntN(5000)))
	if err != nil {
		w.t.Fatalf("load after entry %d: %v", w.index, err)
	}
	if s := cmp.Or(invariants(again), w.model.differ(again)); s != "" {
		w.t.Fatalf("loaded after entry %d: %s", w.index, s)
	}
	if again.Digest() != w.tree.Digest() {
		w.t.Fatalf("loaded after entry %d: another digest", w.index)
	}
	have, loaded := w.tree.quotas.paths, again.quotas.paths
	if !slices.Equal(slices.Sorted(maps.Keys(have)), slices.Sorted(maps.Keys(loaded))) {
		w.t.Fatalf("loaded after entry %d: quotas %v instead of %v", w.index, loaded, have)
	}
	if m, l := w.tree.Memory(), again.Memory(); m.Sessions != l.Sessions {
		w.t.Fatalf("loaded after entry %d: sessions take %d bytes instead of %d", w.index, l.Sessions, m.Sessions)
	}
}

// succeeding makes n operations that succeed one after another.
func (w *walker) succeeding(n int) (ops []modelOp) {
	m := w.model.clone()
	for len(ops) < n {
		o := modelOp{path: fmt.Sprintf("/%02d", w.rnd.IntN(100)), data: w.data(), acl: acls[0], version: -1, ttl: -1}
		switch {
		case w.one(6): // a quota, or one of its parents
			o.path = fmt.Sprintf("%s/%02d", pathQuota, w.rnd.IntN(5)) +
				[]string{"", "/" + limitsName, "/" + statsName}[w.rnd.IntN(3)]
		case w.one(2):
			o.path += fmt.Sprintf("/%d", w.rnd.IntN(4))
		}
		o.flags = jute.CreateMode(w.rnd.IntN(4))
		o.op = []jute.Op{jute.OpCreate, jute.OpCreate2, jute.OpDelete, jute.OpSetData, jute.OpSetData}[w.rnd.IntN(5)]
		if o.op == jute.OpCreate && w.one(3) {
			o.op, o.flags = jute.OpCreateContainer, jute.ModeContainer
		} else if o.op == jute.OpCreate2 && w.one(3) {
			o.op, o.flags, o.ttl = jute.OpCreateTTL, jute.CreateMode(5+w.rnd.IntN(2)), 1+w.rnd.Int64N(50)
		}
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
