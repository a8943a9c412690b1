package back

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/zooid-project/zooid/internal/apache"
	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/apache/learner"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/internal/treeload"
	"github.com/zooid-project/zooid/jute"
)

// A script makes a log by hand.
type script struct {
	t *testing.T
	*source
	index uint64
	term  uint64
}

func newScript(t *testing.T) *script {
	t.Helper()
	s := &source{
		leader: newLeader(0, func(string) {}), say: func(text string) { t.Log(text) }, expected: map[uint64]uint64{},
	}
	s.tree = tree.New(treeload.Options(1, nil, tree.FeatureLevelMax))
	if err := s.renew(); err != nil {
		t.Fatal(err)
	}
	return &script{t: t, source: s, term: 1}
}

// does applies an entry with requests, and compares the digests.
func (s *script) does(requests ...tree.Request) {
	s.t.Helper()
	s.index++
	data := tree.AppendBatchHeader(make([]byte, digestHead), int64(1000*s.index))
	for i := range requests {
		data = tree.AppendRecord(data, &requests[i])
	}
	if err := s.entry(&storage.LoggedEntry{Index: s.index, Term: s.term, Data: data}); err != nil {
		s.t.Fatal(err)
	}
	if want, have := apache.ApacheDigest(s.tree), s.leader.state.Digest(); want != have ||
		s.tree.NodeCount() != s.leader.state.Len() || s.leader.zxid != s.tree.LastZxid() {
		s.t.Errorf("entry %d: Apache's digest of Zooid's tree is %#x, that of the state %#x, at zxid %#x and %#x", s.index,
			want, have, uint64(s.tree.LastZxid()), uint64(s.leader.zxid))
	}
}

const (
	globalSession = 0x0100000000000001
	localSession  = 0x0100000000000002
)

func create(path string, mode jute.CreateMode) []byte {
	return (&jute.CreateRequest{Path: path, Data: []byte("x"), ACL: jute.WorldACL(jute.PermAll), Flags: mode}).Append(nil)
}

func begin(id int64) tree.Request {
	return tree.Request{
		Op: jute.OpCreateSession, Session: id, Cnx: 1, Body: jute.AppendBuffer(jute.AppendInt(nil, 5000),
			make([]byte, jute.PasswdSize)),
	}
}

// TestForms: what has a form at Apache becomes a transaction, and what has none a new state, of which the observers get
// a snapshot.
func TestForms(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	life := s.leader.life
	s.does(begin(globalSession), begin(globalSession+16))
	s.does(tree.Request{Op: jute.OpCreate, Session: globalSession, Cnx: 1, Seq: 1, Body: create("/c", 0)},
		tree.Request{
			Op: jute.OpCreateContainer, Session: globalSession, Cnx: 1, Seq: 2, Body: create("/c/box", jute.ModeContainer),
		},
		tree.Request{Op: jute.OpCreate, Session: globalSession, Cnx: 1, Seq: 3, Body: create("/c/box/e", jute.ModeEphemeral)},
		tree.Request{
			Op: jute.OpDelete, Session: globalSession, Cnx: 1, Seq: 4,
			Body: (&jute.PathVersionRequest{Path: "/none", Version: -1}).Append(nil),
		})
	s.does(tree.Request{Op: tree.OpExpire, Session: globalSession, Body: jute.AppendLong(nil, 1)})
	s.does(tree.Request{Op: jute.OpDeleteContainer, Body: tree.AppendDeleteContainer(nil, "/c/box", 0)})
	s.does(tree.Request{Op: tree.OpMembers, Seq: tree.MembersInForce, Body: []byte("server.1=a:1:2")},
		tree.Request{Op: tree.OpMembers, Body: []byte("server.1=a:1:2")})
	if s.leader.life != life || len(s.leader.state.Sessions) != 1 || s.leader.state.Find("/c/box") != nil {
		t.Fatalf("life %d, sessions %v", s.leader.life, s.leader.state.Sessions)
	}
	if first, err := files.TxnZxid(s.leader.history[0]); err != nil ||
		int64(len(s.leader.history)) != s.leader.zxid-first+1 {
		t.Errorf("%d transactions from %#x to %#x", len(s.leader.history), uint64(first), uint64(s.leader.zxid))
	}

	s.does(tree.Request{
		Op: tree.OpEnter, Session: localSession, Cnx: 3, Seq: 1, Body: tree.AppendEnter(nil, 0x01<<56|9, tree.LocalUpgrading,
			make([]byte, jute.PasswdSize), 5000),
	},
		tree.Request{Op: jute.OpCreate, Session: localSession, Cnx: 3, Seq: 1, Body: create("/plain", 0)})
	if s.leader.life != life {
		t.Error("a local session's persistent znode makes the state anew")
	}
	s.does(tree.Request{Op: jute.OpCreate, Session: localSession, Cnx: 3, Seq: 2, Body: create("/e", jute.ModeEphemeral)})
	if z := s.leader.state.Find("/e"); s.leader.life != life+1 || z == nil || z.Stat.Owner != localSession ||
		s.leader.state.Sessions[localSession] == 0 {
		t.Errorf("life %d, /e is %+v", s.leader.life, z)
	}
	s.does(tree.Request{Op: jute.OpCreate, Session: localSession, Cnx: 3, Seq: 3, Body: create("/e2", jute.ModeEphemeral)},
		tree.Request{Op: jute.OpCloseSession, Session: localSession, Cnx: 3, Seq: 4})
	if s.leader.life != life+1 || s.leader.state.Find("/e") != nil {
		t.Errorf("life %d after the session's end", s.leader.life)
	}
}

// TestDifference: a znode that isn't the same on both sides is noticed with the next request that changes it.
func TestDifference(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	s.does(begin(globalSession),
		tree.Request{Op: jute.OpCreate, Session: globalSession, Cnx: 1, Seq: 1, Body: create("/a", 0)})
	txn := files.Txn{Zxid: s.leader.zxid}
	wrong := files.SetACL("/a", jute.WorldACL(jute.PermAll), 7)
	if _, err := s.leader.state.Apply(txn.Record(&wrong)); err != nil {
		t.Fatal(err)
	}
	life := s.leader.life
	s.does(tree.Request{
		Op: jute.OpSetData, Session: globalSession, Cnx: 1, Seq: 2,
		Body: (&jute.SetDataRequest{Path: "/a", Data: []byte("y"), Version: -1}).Append(nil),
	})
	if s.leader.life != life+1 {
		t.Error("a znode with another aversion is taken for the same")
	}
}

// TestCommitted: an entry counts once the log says so, or the server has applied a later zxid than there is here; one
// that isn't committed may be replaced.
func TestCommitted(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	s.does(begin(globalSession))
	creates := func(term, index uint64, seq int64, path string) storage.LoggedEntry {
		q := tree.Request{Op: jute.OpCreate, Session: globalSession, Cnx: 1, Seq: seq, Body: create(path, 0)}
		return storage.LoggedEntry{
			Index: index, Term: term, Data: tree.AppendRecord(tree.AppendBatchHeader(make([]byte, digestHead), 5000), &q),
		}
	}
	step := func(committed uint64, applied int64, entries ...storage.LoggedEntry) {
		t.Helper()
		if err := s.step(storage.LogStep{Entries: entries, Committed: committed}); err != nil {
			t.Fatal(err)
		}
		if err := s.take(applied); err != nil {
			t.Fatal(err)
		}
	}
	there := func(want ...string) {
		t.Helper()
		for _, path := range []string{"/a", "/b", "/c", "/d"} {
			wanted := false
			for _, w := range want {
				wanted = wanted || w == path
			}
			if z := s.leader.state.Find(path); (z != nil) != wanted {
				t.Errorf("%s is there: %t", path, z != nil)
			}
		}
	}
	zxid := s.leader.zxid
	step(1, zxid, creates(1, 2, 1, "/a"), creates(1, 3, 2, "/d"))
	there()
	step(1, zxid, creates(2, 2, 1, "/b"))
	there()
	step(2, zxid)
	there("/b")
	step(2, s.leader.zxid, creates(2, 3, 2, "/c"), creates(2, 4, 3, "/d"))
	there("/b")
	step(2, s.leader.zxid+1)
	there("/b", "/c")
}

// TestReplacedMeanwhile: an entry that was read and is replaced before the server tells how far it is doesn't count.
func TestReplacedMeanwhile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, err := storage.Open(storage.Options{Dir: dir, ClusterID: 7})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	logs := func(term, index, commit uint64, q tree.Request) {
		t.Helper()
		data := tree.AppendRecord(tree.AppendBatchHeader(make([]byte, digestHead), 5000), &q)
		if err := d.Log().Append(&raftpb.HardState{Term: &term, Commit: &commit},
			[]*raftpb.Entry{{Term: &term, Index: &index, Data: data}}, true); err != nil {
			t.Fatal(err)
		}
	}
	s := &source{dirs: []string{dir}, leader: newLeader(0, func(string) {}), say: func(string) {}}
	logs(1, 1, 0, begin(globalSession))
	logs(1, 2, 1, tree.Request{Op: jute.OpCreate, Session: globalSession, Cnx: 1, Seq: 1, Body: create("/a", 0)})
	if err := s.open(); err != nil {
		t.Fatal(err)
	}
	defer s.close()
	silent := func(context.Context) (Answer, error) { return Answer{}, errors.New("no answer") }
	if _, err := s.poll(t.Context(), silent); err != nil || len(s.held) != 1 {
		t.Fatal(s.held, err)
	}
	_, err = s.poll(t.Context(), func(context.Context) (Answer, error) {
		logs(2, 2, 1, tree.Request{Op: jute.OpCreate, Session: globalSession, Cnx: 1, Seq: 1, Body: create("/b", 0)})
		return Answer{Zxid: 1 << 40, Mode: "leader"}, nil
	})
	if state := s.leader.state; err != nil || state.Find("/a") != nil || state.Find("/b") == nil {
		t.Errorf("/a is there: %t, /b: %t, %v", state.Find("/a") != nil, state.Find("/b") != nil, err)
	}
}

// TestStopped: beside a server that has stopped, an observer goes on that has what the log has and doesn't say is
// committed. Without that knowledge it has to wait, for the server could replace it.
func TestStopped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, err := storage.Open(storage.Options{Dir: dir, ClusterID: 7})
	if err != nil {
		t.Fatal(err)
	}
	for i, q := range []tree.Request{
		begin(globalSession),
		{Op: jute.OpCreate, Session: globalSession, Cnx: 1, Seq: 1, Body: create("/a", 0)},
	} {
		term, index, commit := uint64(1), uint64(i+1), uint64(i)
		data := tree.AppendRecord(tree.AppendBatchHeader(make([]byte, digestHead), 5000), &q)
		if err := d.Log().Append(&raftpb.HardState{Term: &term, Commit: &commit},
			[]*raftpb.Entry{{Term: &term, Index: &index, Data: data}}, true); err != nil {
			t.Fatal(err)
		}
	}
	d.Close()
	all := &source{dirs: []string{dir}, leader: newLeader(0, func(string) {}), say: func(string) {}}
	if err := all.open(); err != nil {
		t.Fatal(err)
	}
	defer all.close()
	if _, err := all.poll(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	last, epoch := all.leader.at()
	for _, stopped := range []bool{false, true} {
		var ports [2]net.Listener
		for i := range ports {
			if ports[i], err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			Run(ctx, Options{
				Dirs: []string{dir}, Stopped: stopped, Quorum: ports[0], Election: ports[1],
				Ask:  func(context.Context) (Answer, error) { return Answer{}, errors.New("nobody answers") },
				From: []netip.Addr{netip.MustParseAddr("127.0.0.1")}, Say: func(string) {},
			})
		}()
		c, err := net.Dial("tcp", ports[0].Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		c.Write(append(hello(1, epoch), packet(learner.AckEpoch, last, jute.AppendInt(nil, int32(epoch)))...))
		in := &learner.Reader{R: c, Max: packetBytesMax}
		p, err := in.Next()
		greeted := err == nil && p.Type == learner.LeaderHello
		if greeted { // without the answer of a server, it may come before the log's first entry was read, too
			p, err = in.Next()
		}
		if stopped && !greeted || (err == nil && p.Type == learner.Snap) != stopped {
			t.Errorf("stopped %t: the observer is greeted: %t; it gets %v, %v", stopped, greeted, p.Type, err)
		}
		c.Close()
		cancel()
		<-done
	}
}

// TestNotTheLeader: what a follower's log has isn't handed over as everything.
func TestNotTheLeader(t *testing.T) {
	t.Parallel()
	s := newScript(t)
	gone := func(context.Context) (Answer, error) { return Answer{}, errors.New("nobody answers") }
	for _, mode := range []string{"", "follower", "observer", "read-only"} {
		if done, err := finish(s.source, &Options{Ask: gone}, mode); err == nil ||
			!strings.Contains(err.Error(), "only the leader's log") {
			t.Errorf("%q: %+v, %v", mode, done, err)
		}
	}
}

// TestParseAnswer: what srvr says, and what it doesn't.
func TestParseAnswer(t *testing.T) {
	t.Parallel()
	if a, err := ParseAnswer("Zookeeper version: 1\nZxid: 0x30000000a\nMode: leader\n"); err != nil ||
		a != (Answer{3<<32 | 10, "leader"}) {
		t.Errorf("%+v, %v", a, err)
	}
	if a, err := ParseAnswer("This ZooKeeper instance is not currently serving requests\n"); err == nil {
		t.Errorf("%+v", a)
	}
}
