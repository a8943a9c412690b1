package tree

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// A walker drives a tree and the model with the same random requests and
// compares everything both say.
type walker struct {
	t     *testing.T
	rnd   *rand.Rand
	tree  *Tree
	model *model
	index uint64
	log   []walkerEntry // everything applied
	seen  uint64        // hash of all results

	image  *Image
	chunks [][]byte // of image so far
	whole  [][]byte // what image must become
}

type walkerEntry struct {
	term  uint64
	batch []byte
}

var (
	alice      = jute.ID{Scheme: "digest", ID: "alice:aaa="}
	bob        = jute.ID{Scheme: "digest", ID: "bob:bbb="}
	address    = jute.ID{Scheme: "ip", ID: "10.0.0.1"}
	identities = [][]jute.ID{{address}, {address, alice}, {address, bob, alice}, {address, {Scheme: "super"}}, {}}
	acls       = [][]jute.ACL{
		jute.WorldACL(jute.PermAll), jute.WorldACL(jute.PermAll), jute.WorldACL(jute.PermAll), jute.WorldACL(jute.PermAll),
		jute.WorldACL(jute.PermRead), jute.WorldACL(0),
		{{Perms: jute.PermAll, ID: jute.ID{Scheme: "auth"}}},
		{{Perms: jute.PermAll, ID: alice}, {Perms: jute.PermRead, ID: bob}},
		{{Perms: jute.PermAll, ID: alice}, {Perms: jute.PermAll, ID: alice},
			{Perms: jute.PermRead | jute.PermCreate, ID: jute.ID{Scheme: "world", ID: "anyone"}}},
		{{Perms: jute.PermAll, ID: address}},
		{{Perms: jute.PermAll, ID: jute.ID{Scheme: "world", ID: "someone"}}},
		{{Perms: jute.PermAll, ID: jute.ID{Scheme: "nope", ID: "x"}}},
		{}, nil,
	}
	oddPaths = []string{"", "/", "a", "/a/", "//", "//a", "/a//b", "/a/./b", "/..", "/a\x00b", "/a\x01", "/é", "/😀",
		"/zookeeper", "/zookeeper/config", "/zookeeper/quota"}
)

func newWalker(t *testing.T, seed uint64) *walker {
	w := &walker{t: t, rnd: rand.New(rand.NewPCG(seed, 1)), tree: New(Options{Key: [16]byte{1}}), model: newModel()}
	w.term()
	return w
}

func (w *walker) one(n int) bool { return w.rnd.IntN(n) == 0 }

func (w *walker) path() string {
	if w.one(12) {
		return oddPaths[w.rnd.IntN(len(oddPaths))]
	}
	path := ""
	for range 1 + w.rnd.IntN(3) {
		path += "/" + string(rune('a'+w.rnd.IntN(3)))
	}
	if w.one(4) {
		path = "/zookeeper/quota" + path[:2+2*w.rnd.IntN(len(path)/2)]
		path += []string{"", "/zookeeper_limits", "/zookeeper_stats"}[w.rnd.IntN(3)]
	} else if w.one(3) { // one that exists, if possible
		if slot := 1 + w.rnd.Uint32N(w.tree.nodes.used); w.tree.live(slot) {
			path = string(w.tree.appendPath(nil, slot))
		}
	}
	return path
}

func (w *walker) data() []byte {
	switch w.rnd.IntN(8) {
	case 0:
		return nil
	case 1:
		return []byte{}
	case 2:
		return fmt.Appendf(nil, "count=%d,bytes=%d=;byteHardLimit=%d;countHardLimit=%d", w.rnd.IntN(5), w.rnd.IntN(50),
			w.rnd.IntN(100)-1, w.rnd.IntN(8)-1)
	case 3:
		return bytes.Repeat([]byte{'x'}, w.rnd.IntN(700))
	case 4:
		if w.one(10) {
			return bytes.Repeat([]byte{'y'}, blockMax-3+w.rnd.IntN(6)+w.rnd.IntN(2)*blockMax)
		}
	}
	return bytes.Repeat([]byte{'z'}, w.rnd.IntN(20))
}

func (w *walker) version() int32 { return []int32{-1, -1, -1, 0, 1, 2}[w.rnd.IntN(6)] }

// op makes a random operation that may stand in a multi, if plain isn't wanted.
func (w *walker) op() modelOp {
	o := modelOp{path: w.path(), data: w.data(), acl: acls[0], version: w.version()}
	if w.one(3) {
		o.acl = acls[w.rnd.IntN(len(acls))]
	}
	o.op = []jute.Op{jute.OpCreate, jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL,
		jute.OpDelete, jute.OpDelete, jute.OpSetData, jute.OpSetData}[w.rnd.IntN(9)]
	o.flags = jute.CreateMode(w.rnd.IntN(4))
	switch {
	case w.one(8):
		o.flags = jute.CreateMode(w.rnd.IntN(9) - 1)
	case o.op == jute.OpCreateContainer:
		o.flags = jute.ModeContainer
	case o.op == jute.OpCreateTTL:
		o.flags = jute.CreateMode(5 + w.rnd.IntN(2))
	}
	o.ttl = []int64{1, 5, 50, 1000, jute.TTLMax, jute.TTLMax + 1, 0, -1, -7}[w.rnd.IntN(9)]
	return o
}

func encode(o *modelOp) []byte {
	m := jute.MultiOp{Op: o.op, Path: o.path, Data: o.data, ACL: o.acl, Flags: o.flags, TTL: o.ttl, Version: o.version}
	switch o.op {
	case jute.OpSetACL:
		r := jute.SetACLRequest{Path: o.path, ACL: o.acl, Version: o.version}
		return r.Append(nil)
	case jute.OpMulti:
		var ops []jute.MultiOp
		for _, s := range o.sub {
			ops = append(ops,
				jute.MultiOp{Op: s.op, Path: s.path, Data: s.data, ACL: s.acl, Flags: s.flags, TTL: s.ttl, Version: s.version})
		}
		return jute.AppendMulti(nil, ops)
	case jute.OpReconfig:
		r := jute.ReconfigRequest{CurConfigID: -1}
		return jute.AppendInt(r.Append(nil), int32(jute.OK))
	case jute.OpCloseSession, jute.OpDeleteContainer:
		return nil
	}
	b := jute.AppendMulti(nil, []jute.MultiOp{m})
	return b[9 : len(b)-9]
}

// apply puts requests into the log as one batch and compares each result with
// what want says when its turn comes.
func (w *walker) apply(ms int64, requests []*Request, want []func() modelResult) {
	batch := AppendBatchHeader(nil, ms)
	for _, q := range requests {
		batch = AppendRecord(batch, q)
	}
	w.index++
	w.model.now = max(w.model.now, ms)
	w.log = append(w.log, walkerEntry{w.model.term, batch})
	i := 0
	err := w.tree.Apply(w.model.term, w.index, batch, func(r *Result) {
		w.seen = hashResult(w.seen, r)
		m := want[i]()
		got := modelResult{r.Outcome, r.Zxid, r.Err, r.Path, r.Stat, r.Multi, r.Events}
		if !reflect.DeepEqual(normal(got), normal(m)) {
			w.t.Fatalf("entry %d request %d (%v):\n got %+v\nwant %+v", w.index, i, r.Op, got, m)
		}
		if w.model.zxid != w.tree.LastZxid() {
			w.t.Fatalf("entry %d request %d (%v): the tree is at %#x instead of %#x", w.index, i, r.Op, w.tree.LastZxid(),
				w.model.zxid)
		}
		i++
	})
	if err != nil || i != len(requests) {
		w.t.Fatalf("apply entry %d: %d of %d requests, %v", w.index, i, len(requests), err)
	}
}

func normal(r modelResult) modelResult {
	if len(r.multi) == 0 {
		r.multi = nil
	}
	if len(r.events) == 0 {
		r.events = nil
	}
	return r
}

func hashResult(seed uint64, r *Result) uint64 {
	b := fmt.Appendf(nil, "%d %v %d %v %v", seed, r.Outcome, r.Zxid, r.Err, r.Events)
	k := newHashKey([16]byte{})
	return k.bytes(seed, r.AppendReply(b))
}

func (w *walker) check() {
	if s := invariants(w.tree); s != "" {
		w.t.Fatalf("after entry %d: invariant: %s", w.index, s)
	}
	if s := w.model.differ(w.tree); s != "" {
		w.t.Fatalf("after entry %d: %s", w.index, s)
	}
}

// term begins a new term.
func (w *walker) term() {
	w.model.term++
	w.index++
	w.model.zxid = (w.model.zxid>>32 + 1) << 32
	w.log = append(w.log, walkerEntry{w.model.term, nil})
	if err := w.tree.NewTerm(w.model.term, w.index); err != nil {
		w.t.Fatal(err)
	}
}

// step applies one random batch.
func (w *walker) step() {
	if w.one(50) {
		w.term()
		return
	}
	var requests []*Request
	var want []func() modelResult
	next := map[int64]int64{} // what a session's next sequence will be in this batch
	for range 1 + w.rnd.IntN(4) {
		q, f := w.request(next)
		requests = append(requests, q)
		want = append(want, f)
	}
	w.apply(w.model.now+int64(w.rnd.IntN(12))-2, requests, want)
}

// request makes a random request and what the model makes of it.
func (w *walker) request(next map[int64]int64) (*Request, func() modelResult) {
	m := w.model
	id := int64(1 + w.rnd.IntN(4))
	s := m.sessions[id]
	q := &Request{Session: id, Xid: int32(w.rnd.Uint32()), Identities: identities[w.rnd.IntN(len(identities))]}
	switch {
	case s == nil && w.one(2), w.one(60):
		return w.newSession(q)
	case s == nil || w.one(60):
		return w.enter(q)
	case w.one(40):
		return w.attach(q)
	case w.one(60):
		return w.expire(q)
	case w.one(60):
		return w.settings(q)
	case w.one(100) && m.settings.FeatureLevel >= 2:
		return w.secret(q)
	case w.one(100) && m.settings.FeatureLevel >= levelLineage:
		return w.lineage(q)
	case w.one(20):
		return w.reap(q)
	}
	q.Cnx = s.cnx
	if next[id] == 0 {
		next[id] = s.next
	}
	q.Seq = next[id]
	next[id]++
	switch w.rnd.IntN(40) {
	case 0:
		q.Seq--
	case 1:
		q.Seq++
	case 2:
		q.Cnx++
	}
	o := w.op()
	switch {
	case w.one(5):
		o.op = jute.OpSetACL
	case w.one(4):
		o.op = jute.OpMulti
		for range w.rnd.IntN(6) {
			s := w.op()
			if w.one(5) {
				s.op = jute.OpCheck
			}
			o.sub = append(o.sub, s)
		}
	case w.one(100):
		o.op = []jute.Op{jute.OpCloseSession, jute.OpReconfig, jute.OpDeleteContainer}[w.rnd.IntN(3)]
	}
	q.Op, q.Body = o.op, encode(&o)
	return q, func() modelResult { return m.apply(&o, q) }
}

func (w *walker) passwd(id int64) []byte { return bytes.Repeat([]byte{byte(id)}, jute.PasswdSize) }

func (w *walker) newSession(q *Request) (*Request, func() modelResult) {
	m, timeout := w.model, int32(w.rnd.IntN(1000))
	q.Op, q.Cnx = jute.OpCreateSession, int64(1+w.rnd.IntN(20))
	q.Body = jute.AppendBuffer(jute.AppendInt(nil, timeout), w.passwd(q.Session))
	return q, func() modelResult {
		if s := m.sessions[q.Session]; s != nil && s.cnx == q.Cnx {
			return modelResult{zxid: m.zxid, outcome: Duplicate}
		}
		m.zxid++
		if m.sessions[q.Session] != nil {
			return modelResult{zxid: m.zxid, err: jute.ErrSystemError}
		}
		m.sessions[q.Session] = &modelSession{cnx: q.Cnx, next: 1, timeout: timeout, passwd: string(w.passwd(q.Session))}
		return modelResult{zxid: m.zxid}
	}
}

// enter lets a local session in, sometimes late, early or by an old entrance.
func (w *walker) enter(q *Request) (*Request, func() modelResult) {
	m, timeout, scope := w.model, int32(w.rnd.IntN(1000)), Scope(1+w.rnd.IntN(2))
	at := m.entrance
	if w.one(10) || at[0] == 0 {
		at = [2]int64{at[0] + int64(w.rnd.IntN(4)) - 1, 1}
	}
	if w.one(8) {
		at[1] += int64(w.rnd.IntN(3)) - 1
	}
	q.Op, q.Cnx, q.Seq = OpEnter, int64(1+w.rnd.IntN(20)), at[1]
	q.Body = AppendEnter(nil, at[0], scope, w.passwd(q.Session), timeout)
	return q, func() modelResult {
		newer := m.entrance[0] == 0 || at[0] > m.entrance[0]
		next := m.entrance[1]
		if newer {
			next = 1
		}
		switch {
		case at[0] <= 0: // of another server, or none
			return modelResult{zxid: m.zxid, err: jute.ErrMarshallingError}
		case !newer && at[0] != m.entrance[0]:
			return modelResult{zxid: m.zxid, outcome: Ignored}
		case at[1] < next:
			return modelResult{zxid: m.zxid, outcome: Duplicate}
		case at[1] > next:
			return modelResult{zxid: m.zxid, outcome: Gap}
		}
		m.entrance = [2]int64{at[0], next + 1}
		if m.sessions[q.Session] != nil {
			return modelResult{zxid: m.zxid, err: jute.ErrSystemError}
		}
		m.sessions[q.Session] = &modelSession{
			cnx: q.Cnx, next: 1, timeout: timeout, scope: scope, passwd: string(w.passwd(q.Session)),
		}
		return modelResult{zxid: m.zxid}
	}
}

func (w *walker) attach(q *Request) (*Request, func() modelResult) {
	m, timeout, wrong := w.model, int32(w.rnd.IntN(1000)), w.one(4)
	q.Op, q.Cnx = OpAttach, int64(1+w.rnd.IntN(20))
	passwd := w.passwd(q.Session)
	if wrong {
		passwd[3]++
	}
	q.Body = jute.AppendInt(jute.AppendBuffer(nil, passwd), timeout)
	return q, func() modelResult {
		s := m.sessions[q.Session]
		if s == nil || wrong {
			return modelResult{zxid: m.zxid, err: jute.ErrSessionExpired}
		}
		if s.cnx == q.Cnx {
			return modelResult{zxid: m.zxid, outcome: Duplicate}
		}
		s.cnx, s.next, s.timeout = q.Cnx, 1, timeout
		return modelResult{zxid: m.zxid}
	}
}

func (w *walker) expire(q *Request) (*Request, func() modelResult) {
	m, term := w.model, w.model.term-uint64(w.rnd.IntN(2))
	q.Op, q.Body = OpExpire, jute.AppendLong(nil, int64(term))
	return q, func() modelResult {
		r := modelResult{zxid: m.zxid}
		if m.sessions[q.Session] == nil || term != m.term {
			r.outcome = Ignored
			return r
		}
		m.zxid++
		r.zxid = m.zxid
		m.end(q.Session, &r)
		return r
	}
}

func (w *walker) settings(q *Request) (*Request, func() modelResult) {
	m, s := w.model, DefaultSettings()
	for _, v := range []*bool{&s.ExtendedTypes, &s.EnforceQuota, &s.ReconfigEnabled} {
		*v = w.one(2)
	}
	s.SkipACL = w.one(8)
	if w.one(4) {
		s.Schemes = s.Schemes[:1]
	}
	s.FeatureLevel = m.settings.FeatureLevel
	if w.one(3) {
		s.FeatureLevel = FeatureLevelMax
	}
	q.Op, q.Session, q.Body = OpSettings, 0, s.Append(nil)
	return q, func() modelResult {
		m.settings = s
		return modelResult{zxid: m.zxid}
	}
}

// secret proposes a key of the hashes, of which the first counts.
func (w *walker) secret(q *Request) (*Request, func() modelResult) {
	m := w.model
	q.Op, q.Session, q.Body = OpSecret, 0, bytes.Repeat([]byte{byte(w.rnd.Uint32())}, SecretSize)
	return q, func() modelResult {
		if m.keyed {
			return modelResult{zxid: m.zxid, outcome: Ignored}
		}
		m.keyed = true
		return modelResult{zxid: m.zxid}
	}
}

// lineage proposes a lineage, of which the first counts.
func (w *walker) lineage(q *Request) (*Request, func() modelResult) {
	m := w.model
	q.Op, q.Session, q.Body = OpLineage, 0, AppendLineage(nil, w.rnd.Uint64()|1)
	return q, func() modelResult {
		if m.lineage {
			return modelResult{zxid: m.zxid, outcome: Ignored}
		}
		m.lineage = true
		return modelResult{zxid: m.zxid}
	}
}

func (w *walker) reap(q *Request) (*Request, func() modelResult) {
	m, path, neverUsed := w.model, w.path(), int64(w.rnd.IntN(3)*20)
	if due, _ := w.tree.Reapable(0, 1000, m.now, neverUsed); len(due) > 0 {
		path = due[w.rnd.IntN(len(due))]
	}
	q.Op, q.Session, q.Body = jute.OpDeleteContainer, 0, AppendDeleteContainer(nil, path, neverUsed)
	return q, func() modelResult {
		r := modelResult{zxid: m.zxid}
		if !m.reapable(path, neverUsed) {
			r.outcome = Ignored
			return r
		}
		m.zxid++
		r.zxid = m.zxid
		m.remove(path, &r)
		return r
	}
}

// snapshotting advances the snapshot that is being written while the tree
// changes, and begins another when it is done.
func (w *walker) snapshotting() {
	switch {
	case w.image == nil && w.one(8):
		size := 1 + w.rnd.IntN(400)
		w.whole = drain(w.tree, size)
		w.image, w.chunks = w.tree.BeginSnapshot(), nil
		w.image.size = size
	case w.image != nil && w.one(2):
		c, more := w.image.Next(nil)
		w.chunks = append(w.chunks, c)
		if !more {
			w.image.Close()
			w.image = nil
			if !slices.EqualFunc(w.chunks, w.whole, bytes.Equal) {
				w.t.Fatalf("after entry %d: the snapshot isn't of the instant at which it began", w.index)
			}
		}
	}
}

// drain takes a whole snapshot at once, in chunks of the given size.
func drain(t *Tree, size int) (chunks [][]byte) {
	img := t.BeginSnapshot()
	defer img.Close()
	img.size = size
	for more := true; more; {
		var c []byte
		c, more = img.Next(nil)
		chunks = append(chunks, c)
	}
	return chunks
}

func load(chunks [][]byte) (*Tree, error) {
	return Load(Options{}, func() ([]byte, error) {
		if len(chunks) == 0 {
			return nil, io.ErrUnexpectedEOF
		}
		c := chunks[0]
		chunks = chunks[1:]
		return c, nil
	})
}

func TestAgainstModel(t *testing.T) {
	t.Parallel()
	seeds, steps := uint64(10), 1000
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWalker(t, seed)
			if seed%2 == 1 {
				w.tree.rekey(colliding(1)) // all names of one byte have one hash
				w.model.keyed = true
			}
			for range steps {
				w.step()
				w.check()
				w.snapshotting()
			}
		})
	}
}

// TestLoadReplays loads snapshots taken at many points of a history: each
// has the bytes of the one it came from, and goes on to the same results and the
// same digest as the tree that applied everything.
func TestLoadReplays(t *testing.T) {
	t.Parallel()
	for seed := uint64(100); seed < 104; seed++ {
		w := newWalker(t, seed)
		type point struct {
			chunks [][]byte
			index  uint64
			seen   uint64
		}
		points := []point{{drain(w.tree, chunkSize), w.index, w.seen}}
		for range 400 {
			w.step()
			if w.one(20) {
				points = append(points, point{drain(w.tree, 1+w.rnd.IntN(5000)), w.index, w.seen})
			}
		}
		for _, p := range points {
			again, err := load(p.chunks)
			if err != nil {
				t.Fatalf("seed %d: load at entry %d: %v", seed, p.index, err)
			}
			if s := invariants(again); s != "" {
				t.Fatalf("seed %d: loaded at entry %d: %s", seed, p.index, s)
			}
			if whole := drain(again, chunkSize); !bytes.Equal(content(whole), content(p.chunks)) {
				t.Fatalf("seed %d: the snapshot of what was loaded at entry %d differs", seed, p.index)
			}
			seen := replay(t, again, w.log[p.index:], p.index, p.seen)
			if again.Digest() != w.tree.Digest() || seen != w.seen {
				t.Fatalf("seed %d: replay from entry %d ends elsewhere", seed, p.index)
			}
			if s := w.model.differ(again); s != "" {
				t.Fatalf("seed %d: replayed from entry %d: %s", seed, p.index, s)
			}
		}
	}
}

// content joins chunks of the same kind as if they had been one.
func content(chunks [][]byte) (b []byte) {
	for _, c := range chunks {
		switch c[0] {
		case chunkACLs:
			b = append(b, c[9:]...)
		case chunkSessions, chunkNodes:
			b = append(b, c[5:]...)
		default:
			b = append(b, c...)
		}
	}
	return b
}

func replay(t *testing.T, tree *Tree, log []walkerEntry, index, seen uint64) uint64 {
	for _, e := range log {
		index++
		var err error
		if e.batch == nil {
			err = tree.NewTerm(e.term, index)
		} else {
			err = tree.Apply(e.term, index, e.batch, func(r *Result) { seen = hashResult(seen, r) })
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return seen
}

// TestSameLogSameDigest feeds one log to a second tree and compares the digests
// after each entry.
func TestSameLogSameDigest(t *testing.T) {
	t.Parallel()
	w := newWalker(t, 7)
	other := New(Options{Key: [16]byte{1}})
	if err := other.NewTerm(1, 1); err != nil {
		t.Fatal(err)
	}
	for range 500 {
		w.step()
		replay(t, other, w.log[len(w.log)-1:], w.index-1, 0)
		if w.tree.Digest() != other.Digest() {
			t.Fatalf("digests differ after entry %d", w.index)
		}
	}
	if different := New(Options{Key: [16]byte{1}}); different.Digest() == other.Digest() {
		t.Fatal("the digest of an empty tree is that of a full one")
	}
}
