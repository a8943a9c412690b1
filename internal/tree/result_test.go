package tree

import (
	"bytes"
	"math"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// TestAppendReply: each operation's reply has what its clients read, byte by byte, and a refusal has none.
func TestAppendReply(t *testing.T) {
	t.Parallel()
	stat := jute.Stat{
		Czxid: 1, Mzxid: 2, Ctime: 3, Mtime: 4, Version: 5, Cversion: 6, Aversion: 7, DataLength: 8, Pzxid: 9,
	}
	multi := []jute.MultiResult{{Op: jute.OpCreate, Path: "/m"}, {Op: jute.OpDelete}}
	path, data := jute.AppendString(nil, "/a"), jute.AppendBuffer(nil, []byte("members"))
	created := stat.Append(bytes.Clone(path))
	all := multi[1].Append(multi[0].Append(nil))
	for op, want := range map[jute.Op][]byte{
		jute.OpCreate: path, jute.OpCreate2: created, jute.OpCreateContainer: created, jute.OpCreateTTL: created,
		jute.OpSetData: stat.Append(nil), jute.OpSetACL: stat.Append(nil), jute.OpReconfig: stat.Append(data),
		jute.OpMulti: jute.AppendMultiEnd(all), jute.OpDelete: nil, jute.OpCheck: nil, jute.OpCloseSession: nil,
	} {
		r := Result{Op: op, Path: "/a", Stat: stat, Data: []byte("members"), Multi: multi}
		if got := r.AppendReply([]byte("before")); string(got) != "before"+string(want) {
			t.Errorf("%v: %x, want %x", op, got, want)
		}
		r.Err = jute.ErrNoAuth
		if got := r.AppendReply([]byte("before")); string(got) != "before" {
			t.Errorf("%v, refused: %x", op, got)
		}
	}
}

// TestSessionsEnd: whoever closes a session and whoever lets it expire is told that it has ended.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	const other = 7
	w := newRestorer(t, New(Options{}))
	w.apply(Request{
		Op: jute.OpCreateSession, Session: other, Cnx: 70, Body: jute.AppendBuffer(jute.AppendInt(nil, 1000),
			make([]byte, jute.PasswdSize)),
	})
	if r := w.ask(jute.OpDelete, superIDs, jute.AppendInt(jute.AppendString(nil, "/none"), -1)); r.Closed {
		t.Error("a delete has ended a session")
	}
	expire := Request{Op: OpExpire, Session: other, Body: jute.AppendLong(nil, int64(w.tree.LastTerm()))}
	if r := w.apply(expire); !r.Closed || r.Session != other || w.tree.sessions.Count() != 1 {
		t.Errorf("it expires: closed is %v, %d sessions are left", r.Closed, w.tree.sessions.Count())
	}
	if r := w.apply(expire); r.Closed || r.Outcome != Ignored {
		t.Errorf("it expires again: closed is %v, %v", r.Closed, r.Outcome)
	}
	if r := w.ask(jute.OpCloseSession, nil, nil); !r.Closed || r.Session != replacer || w.tree.sessions.Count() != 0 {
		t.Errorf("it is closed: closed is %v, %d sessions are left", r.Closed, w.tree.sessions.Count())
	}
}

// TestCheckZnodeAtTheLimit: of each number of a replacement's znode the last good one is taken, and no other.
func TestCheckZnodeAtTheLimit(t *testing.T) {
	t.Parallel()
	root := AppendZnode(nil, &Foreign{Path: "/", ACL: jute.WorldACL(jute.PermAll)})
	for what, c := range map[string]struct {
		good, bad func(*Foreign)
	}{
		"TTL":     {func(z *Foreign) { z.TTL = jute.TTLMax }, func(z *Foreign) { z.TTL = jute.TTLMax + 1 }},
		"no TTL":  {func(z *Foreign) { z.TTL = 0 }, func(z *Foreign) { z.TTL = -1 }},
		"created": {func(z *Foreign) { z.Created = math.MaxInt32 }, func(z *Foreign) { z.Created = math.MaxInt32 + 1 }},
		"none":    {func(z *Foreign) { z.Created = 0 }, func(z *Foreign) { z.Created = -1 }},
		"czxid":   {func(z *Foreign) { z.Czxid = restoreZxidMax - 1 }, func(z *Foreign) { z.Czxid = restoreZxidMax }},
		"mzxid":   {func(z *Foreign) { z.Mzxid = restoreZxidMax - 1 }, func(z *Foreign) { z.Mzxid = restoreZxidMax }},
		"pzxid":   {func(z *Foreign) { z.Pzxid = restoreZxidMax - 1 }, func(z *Foreign) { z.Pzxid = restoreZxidMax }},
		"zero":    {func(z *Foreign) { z.Czxid = 0 }, func(z *Foreign) { z.Czxid = -1 }},
	} {
		list := func(change func(*Foreign)) []byte {
			z := Foreign{Path: "/z", ACL: jute.WorldACL(jute.PermAll)}
			change(&z)
			return AppendZnode(bytes.Clone(root), &z)
		}
		if _, ok := checkZnodes(list(c.good)); !ok {
			t.Errorf("%s: the last good one is refused", what)
		}
		if _, ok := checkZnodes(list(c.bad)); ok {
			t.Errorf("%s: one more is taken", what)
		}
	}
	kindAt := bytes.Index(AppendZnode(nil, &Foreign{Path: "/z"}), []byte("/z")) + len("/z")
	for k := range 2 * kinds {
		list := append(bytes.Clone(root), AppendZnode(nil, &Foreign{Path: "/z", ACL: jute.WorldACL(jute.PermAll)})...)
		list[len(root)+kindAt] = byte(k)
		if _, ok := checkZnodes(list); ok != (k == persistent || k == container) {
			t.Errorf("a znode without a TTL of kind %d: taken is %v", k, ok)
		}
	}
	if _, ok := checkZnodes(nil); ok {
		t.Error("nothing is taken")
	}
}

// TestNoTime: an entry without a time leaves the tree's where it is; the first millisecond of all is one.
func TestNoTime(t *testing.T) {
	t.Parallel()
	const now = int64(1_800_000_000_000)
	s := &timed{t: t, tree: New(Options{})}
	settings := DefaultSettings()
	settings.FeatureLevel = 2
	put := Request{Op: OpSettings, Body: settings.Append(nil)}
	s.apply(now, put)
	for _, c := range []struct{ ms, want int64 }{
		{0, now}, {now - 1, now}, {now - timeBackMin, now}, {now - timeBackMin - 1, now - timeBackMin - 1}, {1, 1}, {0, 1},
	} {
		if s.apply(c.ms, put); s.tree.Time() != c.want {
			t.Errorf("after %d it is %d, want %d", c.ms, s.tree.Time(), c.want)
		}
	}
}

// TestOpNames: each operation of the log has its name, and the codes around them that of no operation.
func TestOpNames(t *testing.T) {
	t.Parallel()
	for i, row := range ops {
		if op := OpAttach - jute.Op(i); op != row.op || OpName(op) != row.name {
			t.Errorf("%d is %d, %s, want %s", op, row.op, OpName(op), row.name)
		}
	}
	for _, op := range []jute.Op{OpAttach + 1, OpAttach - jute.Op(len(ops)), math.MinInt32, jute.OpCreate, math.MaxInt32} {
		if OpName(op) != op.String() {
			t.Errorf("%d is %s, want %s", op, OpName(op), op)
		}
	}
}

// TestSnapshotVersions: a snapshot has the lowest version that can hold what the tree has, so that the earlier servers
// that may still run can read it.
func TestSnapshotVersions(t *testing.T) {
	t.Parallel()
	tree := New(Options{})
	for _, c := range []struct {
		what string
		set  func()
		want byte
	}{
		{"nothing", func() {}, 1},
		{"an entrance", func() { tree.sessions.entrances[0].id = 1 }, 2},
		{"a time set back", func() { tree.position.back = 1 }, 3},
		{"a secret", func() { tree.position.back, tree.keyed = 0, true }, 3},
		{"a change of members", func() { tree.membership.change.id = 1 }, 4},
		{"a lineage", func() { tree.lineage = 1 }, 5},
	} {
		c.set()
		if got := (&Image{tree: tree}).lowestVersion(); got != c.want {
			t.Errorf("with %s the version is %d, want %d", c.what, got, c.want)
		}
	}
}

// TestCutShort: what is cut short anywhere is refused: reads together, a multi that may set rules, settings.
func TestCutShort(t *testing.T) {
	t.Parallel()
	tree := New(Options{})
	reads := jute.AppendMulti(nil, []jute.MultiOp{{Op: jute.OpGetData, Path: "/"}, {Op: jute.OpGetChildren, Path: "/"}})
	if _, code := tree.AppendMultiRead(nil, reads, nil, 1<<20); code != jute.OK {
		t.Fatalf("reads: %v", code)
	}
	for n := range reads {
		if got, code := tree.AppendMultiRead(nil, reads[:n], nil, 1<<20); code != jute.ErrMarshallingError || len(got) > 0 {
			t.Errorf("reads cut at %d: %v, %d bytes", n, code, len(got))
		}
	}
	rules := jute.AppendMulti(nil, []jute.MultiOp{
		{Op: jute.OpSetData, Path: "/zookeeper/policy"}, {Op: jute.OpCheck, Path: "/"},
	})
	if !setsRules(jute.OpMulti, rules) {
		t.Error("a multi that sets the policy sets no rules")
	}
	for n := range rules {
		if setsRules(jute.OpMulti, rules[:n]) {
			t.Errorf("a multi that can't be decoded sets rules: it is cut at %d", n)
		}
	}
	settings := DefaultSettings()
	whole := settings.Append(nil)
	for n := range whole {
		d := jute.NewDecoder(whole[:n])
		if err := new(Settings).Decode(d); err == nil && d.Err() == nil {
			t.Errorf("settings cut at %d of %d are read", n, len(whole))
		}
	}
}
