package tree

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// replacement is what OpRestore takes of a tree.
func replacement(t *Tree) (list []byte) {
	t.Znodes(func(z *Foreign) bool {
		list = AppendZnode(list, z)
		return true
	})
	return list
}

const (
	replacer     = int64(99) // session
	replacerCnx  = int64(990)
	piecesPrefix = RestorePath + "/x"
)

var superIDs = []jute.ID{{Scheme: "super"}}

// A restorer asks a tree to replace what it holds.
type restorer struct {
	t     *testing.T
	tree  *Tree
	index uint64
	seq   int64
}

// apply applies one request and returns a copy of its result.
func (w *restorer) apply(q Request) Result {
	w.t.Helper()
	w.index++
	var got Result
	err := w.tree.Apply(w.tree.LastTerm(), w.index, AppendRecord(AppendBatchHeader(nil, 5), &q), func(r *Result) {
		got = *r
		got.Events, got.Ended = slices.Clone(r.Events), slices.Clone(r.Ended)
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

// ask applies a request of the session that replaces.
func (w *restorer) ask(op jute.Op, ids []jute.ID, body []byte) Result {
	w.seq++
	return w.apply(Request{Op: op, Session: replacer, Cnx: replacerCnx, Seq: w.seq, Identities: ids, Body: body})
}

// begin puts level 2 in force and begins the session that replaces.
func newRestorer(t *testing.T, tree *Tree) *restorer {
	w := &restorer{t: t, tree: tree, index: tree.LastIndex()}
	settings := tree.Settings()
	settings.FeatureLevel = 2
	w.apply(Request{Op: OpSettings, Body: settings.Append(nil)})
	w.apply(Request{
		Op: jute.OpCreateSession, Session: replacer, Cnx: replacerCnx, Body: jute.AppendBuffer(jute.AppendInt(nil, 1000),
			make([]byte, jute.PasswdSize)),
	})
	dir := jute.CreateRequest{Path: RestorePath, ACL: jute.WorldACL(0)}
	w.ask(jute.OpCreate, superIDs, dir.Append(nil))
	return w
}

// send stores a list in pieces and returns the body that puts it in force.
func (w *restorer) send(list []byte, size int) []byte {
	w.t.Helper()
	n := 0
	for rest := list; len(rest) > 0; n++ {
		piece := jute.CreateRequest{
			Path: PiecePath(piecesPrefix, n), Data: rest[:min(size, len(rest))], ACL: jute.WorldACL(0),
			Flags: jute.ModeEphemeral,
		}
		if r := w.ask(jute.OpCreate, superIDs, piece.Append(nil)); r.Err != jute.OK && r.Err != jute.ErrNodeExists {
			w.t.Fatal(r.Err)
		}
		rest = rest[len(piece.Data):]
	}
	return AppendRestore(nil, piecesPrefix, n, sha256.Sum256(list))
}

// lasting leaves out of a listing what a snapshot doesn't bring back.
func lasting(t *Tree) string {
	var b strings.Builder
	t.Znodes(func(z *Foreign) bool {
		if z.Owner == 0 && restorable(z.Path) {
			fmt.Fprintf(&b, "%+v\n", *z)
		}
		return true
	})
	return b.String()
}

// TestRestore brings trees back to what they held before, whatever has happened since, and
// to what other trees held.
func TestRestore(t *testing.T) {
	t.Parallel()
	seeds := uint64(12)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		w := newWalker(t, 300+seed)
		if seed%3 == 1 {
			w.tree.rekey(colliding(1))
			w.model.keyed = true
		}
		for range 300 {
			w.step()
		}
		list, want := replacement(w.tree), lasting(w.tree)
		for range 200 {
			w.step()
		}
		later := w.tree
		if seed%2 == 1 {
			other := newWalker(t, 900+seed)
			other.step()
			later = other.tree // its zxids are below those of the list
		}
		r := newRestorer(t, later)
		body := r.send(list, 100+int(seed)*50)
		open := 0
		later.sessions.All(func(Session) bool { open++; return true })
		config, _ := later.membership.Members()
		whole := drain(later, 300)
		img := later.BeginSnapshot()
		img.size = 300
		before := later.LastZxid()
		got := r.ask(OpRestore, superIDs, body)
		if got.Err != jute.OK || got.Zxid <= before || later.LastZxid() != got.Zxid {
			t.Fatalf("seed %d: %v at zxid %#x, the last one was %#x", seed, got.Err, got.Zxid, before)
		}
		if have := lasting(later); have != want {
			t.Fatalf("seed %d: the tree holds\n%.4000s\ninstead of\n%.4000s", seed, have, want)
		}
		if broken := invariants(later); broken != "" {
			t.Fatalf("seed %d: %s", seed, broken)
		}
		if later.Digest() != later.RecomputeDigest() {
			t.Fatalf("seed %d: the digest isn't that of the state", seed)
		}
		if len(got.Ended) != open-1 || later.sessions.Count() != 1 || len(got.Events) != 0 || got.Closed {
			t.Fatalf("seed %d: %d of %d other sessions ended, %d are left", seed, len(got.Ended), open-1, later.sessions.Count())
		}
		if now, _ := later.membership.Members(); now != config || later.EphemeralsCount() != 0 {
			t.Fatalf("seed %d: the membership changed, or %d ephemerals are there", seed, later.EphemeralsCount())
		}
		later.Znodes(func(z *Foreign) bool {
			if max(z.Czxid, z.Mzxid, z.Pzxid) > got.Zxid {
				t.Fatalf("seed %d: %s has a zxid above the last one", seed, z.Path)
			}
			return true
		})
		var chunks [][]byte
		for more := true; more; {
			var c []byte
			c, more = img.Next(nil)
			chunks = append(chunks, c)
		}
		img.Close()
		if !slices.EqualFunc(chunks, whole, bytes.Equal) {
			t.Fatalf("seed %d: a snapshot begun before isn't of its instant", seed)
		}
		again, err := load(drain(later, chunkSize))
		if err != nil || again.Digest() != later.Digest() {
			t.Fatalf("seed %d: a snapshot of it isn't it: %v", seed, err)
		}
		if !maps.Equal(again.quotas.paths, later.quotas.paths) {
			t.Fatalf("seed %d: a server that loads it counts for the quotas of %v, one that replaced it for %v", seed,
				again.quotas.paths, later.quotas.paths)
		}
	}
}

// TestRestoreGoesOnAbove: zxids go on above all that came with a replacement, in the epoch after theirs, also if the
// highest of them is that of the replacement itself.
func TestRestoreGoesOnAbove(t *testing.T) {
	t.Parallel()
	for _, ahead := range []int64{-1, 0, 1} {
		r := newRestorer(t, New(Options{Key: [16]byte{1}}))
		z := Foreign{Path: "/", ACL: jute.WorldACL(jute.PermAll)}
		next := r.tree.LastZxid() + 2 // of the replacement, after the piece's
		z.Mzxid = next + ahead
		list := AppendZnode(nil, &z)
		got := r.ask(OpRestore, superIDs, r.send(list, len(list)))
		want := next
		if ahead >= 0 {
			want = (z.Mzxid>>32+1)<<32 + 1
		}
		if got.Err != jute.OK || got.Zxid != want || r.tree.LastZxid() != want {
			t.Errorf("a znode changed at %#x: %v at %#x, want %#x", z.Mzxid, got.Err, got.Zxid, want)
		}
	}
}

// TestRestoreIsRefused changes nothing if anything about a replacement is wrong.
func TestRestoreIsRefused(t *testing.T) {
	t.Parallel()
	source := newWalker(t, 7)
	for range 300 {
		source.step()
	}
	list := replacement(source.tree)
	tree := New(Options{Key: [16]byte{1}})
	r := newRestorer(t, tree)
	good := r.send(list, 1000)
	count := (len(list) + 999) / 1000
	sum := sha256.Sum256(list)
	root := func(change func(*Foreign)) []byte {
		z := Foreign{Path: "/", ACL: jute.WorldACL(jute.PermAll)}
		change(&z)
		return AppendZnode(nil, &z)
	}
	child := func(path string) []byte {
		return AppendZnode(root(func(*Foreign) {}), &Foreign{Path: path, ACL: jute.WorldACL(jute.PermAll)})
	}
	refused := func(what string, want jute.Code, ids []jute.ID, body []byte) {
		t.Helper()
		held := func() string { // without the last line, which has the zxid
			all := listing(tree)
			return all[:strings.LastIndexByte(strings.TrimSuffix(all, "\n"), '\n')]
		}
		before, sessions := held(), tree.sessions.Count()
		got := r.ask(OpRestore, ids, body)
		if got.Err != want {
			t.Errorf("%s: %v, want %v", what, got.Err, want)
		}
		if held() != before || tree.sessions.Count() != sessions || len(got.Ended) > 0 {
			t.Errorf("%s: the tree has changed", what)
		}
	}
	refused("another's", jute.ErrNoAuth, identities[1], good)
	refused("cut short", jute.ErrMarshallingError, superIDs, good[:len(good)-1])
	refused("a piece too many", jute.ErrNoNode, superIDs, AppendRestore(nil, piecesPrefix, count+1, sum))
	refused("the last piece left out", jute.ErrDataInconsistency, superIDs, AppendRestore(nil, piecesPrefix, count-1, sum))
	refused("no piece", jute.ErrDataInconsistency, superIDs, AppendRestore(nil, piecesPrefix, 0, sum))
	refused("nothing at all", jute.ErrBadArguments, superIDs, AppendRestore(nil, piecesPrefix, 0, sha256.Sum256(nil)))
	refused("less than nothing", jute.ErrBadArguments, superIDs, AppendRestore(nil, piecesPrefix, -1, sha256.Sum256(nil)))
	lasting := jute.CreateRequest{Path: PiecePath("/zookeeper/restore/y", 0), Data: list, ACL: jute.WorldACL(0)}
	r.ask(jute.OpCreate, superIDs, lasting.Append(nil))
	refused("a piece that is no ephemeral of the session", jute.ErrNoNode, superIDs,
		AppendRestore(nil, "/zookeeper/restore/y", 1, sum))
	for what, bad := range map[string][]byte{
		"a list cut short":             list[:len(list)-1],
		"no root":                      list[len(root(func(*Foreign) {})):],
		"two roots":                    append(root(func(*Foreign) {}), root(func(*Foreign) {})...),
		"no parent":                    child("/a/b"),
		"a path that isn't one":        child("/a/"),
		"a name that no path has":      child("/."),
		"a character that no path has": child("/\x01"),
		"a zxid below 0":               root(func(z *Foreign) { z.Mzxid = -1 }),
		"a zxid beyond all":            root(func(z *Foreign) { z.Mzxid = restoreZxidMax }),
		"a TTL root":                   root(func(z *Foreign) { z.TTL = 1 }),
		"a container root":             root(func(z *Foreign) { z.Container = true }),
		"children below none":          root(func(z *Foreign) { z.Created = -1 }),
		"too many children created":    root(func(z *Foreign) { z.Created = 1 << 40 }),
		"a TTL beyond the longest": append(root(func(*Foreign) {}),
			AppendZnode(nil, &Foreign{Path: "/t", TTL: jute.TTLMax + 1})...),
		"the membership": bytes.Replace(append(child("/zookeeper"),
			child("/zookeeper/confiX")[len(root(func(*Foreign) {})):]...), []byte("confiX"), []byte("config"), 1),
		"garbage": bytes.Repeat([]byte{0x5a}, 1000),
	} {
		r.apply(Request{Op: jute.OpCloseSession, Session: replacer, Cnx: replacerCnx, Seq: r.seq + 1})
		r.seq = 0
		r.apply(Request{
			Op: jute.OpCreateSession, Session: replacer, Cnx: replacerCnx, Body: jute.AppendBuffer(jute.AppendInt(nil, 1000),
				make([]byte, jute.PasswdSize)),
		})
		refused(what, jute.ErrBadArguments, superIDs, r.send(bad, 1000))
	}
	older := New(Options{Key: [16]byte{1}, LevelMax: 1})
	batch := AppendRecord(AppendBatchHeader(nil, 1), &Request{Op: OpRestore, Session: 1, Body: good})
	if err := older.Apply(1, 1, batch, nil); err == nil {
		t.Error("a version that doesn't know it applies it")
	}
	if got := r.apply(Request{Op: OpRestore, Identities: superIDs, Body: good}); got.Err != jute.ErrUnimplemented {
		t.Errorf("asked by no session: %v", got.Err)
	}
}

// FuzzCheckZnodes: what checkZnodes lets through can be put in force.
func FuzzCheckZnodes(f *testing.F) {
	tree := New(Options{})
	f.Add(replacement(tree))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, list []byte) {
		if _, ok := checkZnodes(list); !ok {
			return
		}
		tree := New(Options{})
		tree.removeAll()
		tree.insertAll(list)
		if broken := invariants(tree); broken != "" {
			t.Fatal(broken)
		}
		if tree.Digest() != tree.RecomputeDigest() {
			t.Fatal("the digest is wrong")
		}
	})
}
