package follow

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/apache/learner"
	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/jute"
	"github.com/zooid-project/zooid/zk"
)

// A leader is a scripted one. Its state is one of package files', so that it can tell digests.
type leader struct {
	t       *testing.T
	l       net.Listener
	mu      sync.Mutex
	state   *files.State
	history [][]byte // all transactions, with digests
	epoch   int64
	conns   map[net.Conn]bool
	snaps   int
	diffs   int
	lie     bool // about the next digest
	trunc   bool // the next learner is told to truncate
}

func startLeader(t *testing.T) *leader {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &leader{t: t, l: listener, state: files.NewLive(), epoch: 1, conns: map[net.Conn]bool{}}
	t.Cleanup(func() {
		listener.Close()
		l.cut()
	})
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go l.lead(conn)
		}
	}()
	return l
}

// cut ends all connections.
func (l *leader) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.conns {
		conn.Close()
	}
	clear(l.conns)
}

func (l *leader) lead(conn net.Conn) {
	defer conn.Close()
	in := &learner.Reader{R: conn}
	if _, err := in.Next(); err != nil {
		return
	}
	l.mu.Lock()
	hello := learner.Packet{Type: learner.LeaderHello, Zxid: l.epoch << 32, Data: jute.AppendInt(nil, 0x10000)}
	l.mu.Unlock()
	conn.Write(hello.Append(nil))
	ack, err := in.Next()
	if err != nil {
		return
	}
	l.mu.Lock()
	b := l.catchUp(ack.Zxid)
	b = (&learner.Packet{
		Type: learner.NewLeader, Zxid: l.epoch << 32, Data: []byte("server.1=" + l.l.Addr().String() +
			":1:participant\nversion=1"),
	}).Append(b)
	b = (&learner.Packet{Type: learner.UpToDate, Zxid: -1}).Append(b)
	conn.Write(b)
	l.conns[conn] = true
	l.mu.Unlock()
	for {
		if _, err := in.Next(); err != nil {
			return
		}
	}
}

// catchUp returns what a learner at a zxid misses.
func (l *leader) catchUp(zxid int64) (b []byte) {
	if l.trunc {
		l.trunc = false
		return (&learner.Packet{Type: learner.Trunc, Zxid: 1}).Append(nil)
	}
	if zxid == 0 && l.state.Zxid != 0 {
		l.snaps++
		b = (&learner.Packet{Type: learner.Snap, Zxid: l.state.Zxid}).Append(b)
		return append(b, sent(l.state)...)
	}
	l.diffs++
	b = (&learner.Packet{Type: learner.Diff, Zxid: l.state.Zxid}).Append(b)
	for _, record := range l.history {
		if z, _ := files.TxnZxid(record); z > zxid {
			b = (&learner.Packet{Type: learner.Proposal, Zxid: z, Data: record}).Append(b)
			b = (&learner.Packet{Type: learner.Commit, Zxid: z}).Append(b)
		}
	}
	return b
}

// sent is a state as a leader sends it.
func sent(s *files.State) []byte {
	var b strings.Builder
	walk := s.Walk()
	for more := true; more; {
		more = walk.Step()
		walk.Flush(&b)
	}
	walk.Abandon()
	return jute.AppendString(jute.AppendString([]byte(b.String()[16:]), "/"), "BenWasHere")
}

// commit commits a transaction, and pings.
func (l *leader) commit(session int64, op jute.Op, body []byte) int64 {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	zxid := l.state.Zxid + 1
	if zxid>>32 != l.epoch {
		zxid = l.epoch<<32 | 1
	}
	record := jute.AppendInt(jute.AppendLong(nil, session), 1)
	record = jute.AppendInt(jute.AppendLong(jute.AppendLong(record, zxid), 5), int32(op))
	record = append(record, body...)
	if _, err := l.state.Apply(record); err != nil {
		l.t.Fatal(err)
	}
	digest := l.state.Digest()
	if l.lie {
		digest, l.lie = digest+1, false
	}
	record = binary.BigEndian.AppendUint64(jute.AppendInt(record, files.DigestVersion), digest)
	l.history = append(l.history, record)
	b := (&learner.Packet{Type: learner.Inform, Zxid: zxid, Data: record}).Append(nil)
	b = (&learner.Packet{Type: learner.Ping, Zxid: zxid}).Append(b)
	for conn := range l.conns {
		conn.Write(b)
	}
	return zxid
}

func (l *leader) create(path, data string, acl []jute.ACL) int64 {
	l.t.Helper()
	b := jute.AppendACLs(jute.AppendBuffer(jute.AppendString(nil, path), []byte(data)), acl)
	return l.commit(1, jute.OpCreate2, jute.AppendInt(jute.AppendBool(b, false), 1000))
}

func (l *leader) set(path, data string) int64 {
	return l.commit(1, jute.OpSetData, jute.AppendInt(jute.AppendBuffer(jute.AppendString(nil, path), []byte(data)), 1))
}

// options follow a leader.
func (l *leader) options(dir string) Options {
	return Options{
		Dir: dir, ID: 200, Say: func(text string) { l.t.Log(text) },
		Config: func(context.Context) (string, error) { return "server.1=" + l.l.Addr().String() + ":1", nil },
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		},
	}
}

// run runs a follower until the returned function is called.
func run(t *testing.T, f *Follower) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// patience bounds a wait for what must come. Nothing is judged by it.
const patience = 2 * time.Minute

// until waits for a status.
func until(t *testing.T, f *Follower, what string, ok func(Status) bool) Status {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if s := f.Status(); ok(s) {
			return s
		}
	}
	t.Fatalf("%s doesn't come; the follower is at %v, %v", what, f.Status(), f.Status().LastFailed)
	return Status{}
}

func reached(zxid int64) func(Status) bool {
	return func(s Status) bool { return s.Live && s.Zxid >= zxid && s.Behind == 0 }
}

// TestFollower: a snapshot, what follows it, a lost connection, a restart and a new epoch.
func TestFollower(t *testing.T) {
	t.Parallel()
	l := startLeader(t)
	dir := t.TempDir()
	for n := range 50 {
		l.create(fmt.Sprintf("/before%d", n), "x", zk.OpenACL())
	}
	f, err := Open(l.options(dir))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(l.options(dir)); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a second follower: %v", err)
	}
	stop := run(t, f)
	until(t, f, "the snapshot", func(s Status) bool { return s.Live })
	s := until(t, f, "a write", reached(l.create("/live", "y", zk.OpenACL())))
	if s.Snapshots != 1 || s.Compared != 1 || s.Mismatch != nil || s.Digest != l.state.Digest() ||
		s.Znodes != l.state.Len() {
		t.Errorf("%+v", s)
	}
	l.cut()
	missed := l.create("/missed", "z", zk.OpenACL())
	s = until(t, f, "what was missed", reached(missed))
	if s.Snapshots != 1 || s.Elections != 2 {
		t.Errorf("%+v", s)
	}
	stop()
	l.mu.Lock()
	l.epoch = 3
	l.mu.Unlock()
	later := l.create("/later", "z", zk.OpenACL())
	if f, err = Open(l.options(dir)); err != nil || f.state.Zxid != missed {
		t.Fatalf("%v", err)
	}
	stop = run(t, f)
	s = until(t, f, "the new epoch", reached(later))
	stop()
	if s.Snapshots != 0 || s.Digest != l.state.Digest() || s.Epoch != 3 {
		t.Errorf("%+v", s)
	}
	kept, report, err := files.Load(files.Options{Dir: dir})
	if err != nil || report.Mismatch != nil || kept.Digest() != l.state.Digest() || report.Epoch != 3 {
		t.Errorf("what is kept: %v, %+v", err, report)
	}
}

// TestNoLeader: why nobody is followed is one line, whoever was asked.
func TestNoLeader(t *testing.T) {
	t.Parallel()
	f := &Follower{o: Options{Dial: func(_ context.Context, address string) (net.Conn, error) {
		return nil, errors.New(address + " refuses")
	}},
		members: []learner.Member{
			{ID: 1, Quorum: []string{"a"}}, {ID: 2, Quorum: []string{"b"}}, {ID: 3, Quorum: []string{"o"}, Observer: true},
		}}
	_, _, err := f.dial(t.Context())
	if want := "no server leads now; a refuses; b refuses"; err == nil || err.Error() != want {
		t.Errorf("%v; want %v", err, want)
	}
}

// TestHungLeader: former leaders that hang still listen. They don't keep the follower from the one that leads now.
func TestHungLeader(t *testing.T) {
	t.Parallel()
	l := startLeader(t)
	config := ""
	for id := range 2 {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		config += fmt.Sprintf("server.%d=%v:1\n", id+2, listener.Addr())
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				defer conn.Close()
			}
		}()
	}
	zxid := l.create("/a", "1", jute.WorldACL(jute.PermAll))
	o := l.options(t.TempDir())
	o.Silence = 200 * time.Millisecond
	o.Config = func(context.Context) (string, error) {
		return config + "server.4=" + l.l.Addr().String() + ":1", nil
	}
	f, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer run(t, f)()
	until(t, f, "the leader is found", reached(zxid))
}

// TestEncryptedLeader: a leader whose port requires TLS sends an alert, and closes the connection. The error says what
// to do.
func TestEncryptedLeader(t *testing.T) {
	t.Parallel()
	l := startLeader(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			conn.Write([]byte("\x15\x03\x03\x00\x02\x02\x46"))
			conn.Close()
		}
	}()
	o := l.options(t.TempDir())
	o.Config = func(context.Context) (string, error) { return "server.1=" + listener.Addr().String() + ":1", nil }
	f, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer run(t, f)()
	until(t, f, "the error", func(s Status) bool {
		return s.LastFailed != nil && strings.Contains(s.LastFailed.Error(), "requires TLS (-peer-tls-…)")
	})
}

// TestUnencryptedLeader: a leader whose port uses no TLS closes the connection of a follower that does. The error says
// so.
func TestUnencryptedLeader(t *testing.T) {
	t.Parallel()
	o := startLeader(t).options(t.TempDir())
	o.Dial = func(context.Context, string) (net.Conn, error) { return nil, io.EOF }
	f, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer run(t, f)()
	until(t, f, "the error", func(s Status) bool {
		return s.LastFailed != nil && strings.Contains(s.LastFailed.Error(), "its quorum port uses no TLS")
	})
}

// TestMismatch: a digest that differs is told at once, and remembered.
func TestMismatch(t *testing.T) {
	t.Parallel()
	l := startLeader(t)
	o := l.options(t.TempDir())
	said := make(chan string, 100)
	o.Say = func(text string) { said <- text }
	f, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	run(t, f)
	until(t, f, "the leader", func(s Status) bool { return s.Live })
	l.create("/a", "1", zk.OpenACL())
	l.mu.Lock()
	l.lie = true
	l.mu.Unlock()
	bad := l.create("/b", "2", zk.OpenACL())
	s := until(t, f, "more", reached(l.create("/c", "3", zk.OpenACL())))
	if s.Mismatch == nil || s.Mismatch.Zxid != bad || s.Mismatch.Leader != s.Mismatch.Here+1 ||
		!strings.Contains(s.String(), "DIGESTS DIFFER") {
		t.Errorf("%+v", s)
	}
	for text := range said {
		if strings.Contains(text, "the digests differ at zxid 0x100000002") {
			break
		}
	}
}

// TestStartOver: a learner that is told to truncate takes everything again, and so does one whose files are damaged.
func TestStartOver(t *testing.T) {
	t.Parallel()
	l := startLeader(t)
	dir := t.TempDir()
	zxid := l.create("/a", "1", zk.OpenACL())
	f, err := Open(l.options(dir))
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, f)
	until(t, f, "the snapshot", reached(zxid))
	l.mu.Lock()
	l.trunc = true
	l.mu.Unlock()
	l.cut()
	s := until(t, f, "the second snapshot", func(s Status) bool { return s.Live && s.Snapshots == 2 })
	stop()
	if s.Digest != l.state.Digest() {
		t.Errorf("%+v", s)
	}
	found, err := filepath.Glob(filepath.Join(dir, files.Version2, "snapshot.*"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	b, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(found[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err = Open(l.options(dir)); err != nil {
		t.Fatal(err)
	}
	run(t, f)
	if s := until(t, f, "the third snapshot", reached(zxid)); s.Snapshots != 1 || s.Digest != l.state.Digest() {
		t.Errorf("%+v", s)
	}
}

// TestSnapshotsAreWritten: logs don't grow for ever, and the copy is whole after each.
func TestSnapshotsAreWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	earlier := filepath.Join(dir, files.Version2)
	l := startLeader(t)
	f, err := Open(l.options(dir))
	if err == nil {
		err = errors.Join(f.keep.close(), os.Chmod(earlier, 0o755)) // as earlier versions made it
	}
	if err == nil {
		f, err = Open(l.options(dir))
	}
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, f)
	until(t, f, "the leader", func(s Status) bool { return s.Live })
	data := strings.Repeat("x", 1<<20)
	l.create("/a", "", zk.OpenACL())
	var zxid int64
	for range 200 {
		zxid = l.set("/a", data)
	}
	until(t, f, "the end", reached(zxid))
	stop()
	logs, _, err := files.LogFiles(dir)
	if err != nil || logs > 2 {
		t.Errorf("%d logs are left, %v", logs, err)
	}
	kept, report, err := files.Load(files.Options{Dir: dir})
	if err != nil || report.SnapshotZxid == 0 || report.Mismatch != nil || kept.Digest() != l.state.Digest() {
		t.Errorf("%v, %+v", err, report)
	}
	// Nobody else reads what ACLs protect, and hashes of passwords.
	if st, err := os.Stat(earlier); err != nil || st.Mode().Perm() != 0o750 {
		t.Errorf("the folder's mode: %v, %v", st.Mode(), err)
	}
	found, err := os.ReadDir(earlier)
	if err != nil || len(found) < 2 {
		t.Fatalf("%v, %v", found, err)
	}
	for _, f := range found {
		if st, err := f.Info(); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", f.Name(), st, err)
		}
	}
}

// TestHostileLeader: a leader that sends too much, nothing, or what can't be applied; the copy stays as it was.
func TestHostileLeader(t *testing.T) {
	t.Parallel()
	l := startLeader(t)
	l.create("/a", strings.Repeat("x", 100_000), zk.OpenACL())
	o := l.options(t.TempDir())
	o.ReceivedMax, o.Silence = 50_000, 100*time.Millisecond
	f, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	run(t, f)
	until(t, f, "the limit", func(s Status) bool {
		return s.LastFailed != nil && strings.Contains(s.LastFailed.Error(), "exceeds the size limit")
	})
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	o = l.options(t.TempDir())
	o.Silence = 200 * time.Millisecond
	o.Config = func(context.Context) (string, error) { return "server.1=" + silent.Addr().String() + ":1", nil }
	if f, err = Open(o); err != nil {
		t.Fatal(err)
	}
	run(t, f)
	until(t, f, "the silence",
		func(s Status) bool { return s.LastFailed != nil && errors.Is(s.LastFailed, os.ErrDeadlineExceeded) })
	for _, config := range []string{"", "server.1=a:1:2:observer", "server.1=x"} {
		o.Config = func(context.Context) (string, error) { return config, nil }
		o.Dir = t.TempDir()
		if f, err = Open(o); err != nil {
			t.Fatal(err)
		}
		run(t, f)
		until(t, f, "the refusal", func(s Status) bool {
			return s.LastFailed != nil && strings.Contains(s.LastFailed.Error(), "configuration")
		})
	}
}

// TestBehind: epochs count from 1.
func TestBehind(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]int64{
		{5, 9, 4}, {9, 5, 0}, {0x100000005, 0x200000000, 0}, {0x100000005, 0x200000003, 3}, {0x200000003, 0x100000009, 0},
	} {
		if have := behind(c[0], c[1]); have != c[2] {
			t.Errorf("behind(%#x, %#x) is %d", c[0], c[1], have)
		}
	}
}

// TestServer: clients read what the leader has, and are told of changes; writes are refused.
func TestServer(t *testing.T) {
	t.Parallel()
	l := startLeader(t)
	l.create("/a", "1", zk.OpenACL())
	l.create("/a/b", "2", zk.OpenACL())
	l.create("/secret", "3", zk.DigestACL(zk.PermAll, "u", "p"))
	f, err := Open(l.options(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	super, _ := auth.Digest("", "super:pass")
	s, err := NewServer(f, auth.Options{SuperDigest: super})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, listener) }()
	defer func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	run(t, f)
	until(t, f, "the leader", func(s Status) bool { return s.Live })
	open := func(o zk.Options) *zk.Client {
		t.Helper()
		o.SessionTimeout = 30 * time.Second
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		c, err := zk.Open(ctx, listener.Addr().String(), o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Detach() })
		return c
	}
	c := open(zk.Options{ReadOnly: true})
	data, stat, err := c.Get(ctx, "/a")
	if err != nil || string(data) != "1" || stat.Mzxid != 0x100000001 || stat.NumChildren != 1 ||
		stat.Cversion != 2*1000-1 {
		t.Errorf("get: %q, %+v, %v", data, stat, err)
	}
	if names, _, err := c.Children(ctx, "/"); err != nil || !slices.Equal(names, []string{"a", "secret", "zookeeper"}) {
		t.Errorf("children: %q, %v", names, err)
	}
	if n, err := c.AllChildrenNumber(ctx, "/a"); err != nil || n != 1 {
		t.Errorf("all children: %d, %v", n, err)
	}
	if _, ok, err := c.Exists(ctx, "/none"); err != nil || ok {
		t.Errorf("exists: %v", err)
	}
	if _, _, err := c.Get(ctx, "/secret"); !errors.Is(err, zk.ErrNoAuth) {
		t.Errorf("without a login: %v", err)
	}
	if _, _, err := open(zk.Options{ReadOnly: true, Auth: []zk.Auth{zk.DigestAuth("u", "p")}}).Get(ctx,
		"/secret"); err != nil {
		t.Errorf("with a login: %v", err)
	}
	if acl, _, err := open(zk.Options{ReadOnly: true, Auth: []zk.Auth{zk.DigestAuth("super", "pass")}}).GetACL(ctx,
		"/secret"); err != nil || strings.HasSuffix(acl[0].ID.ID, ":x") {
		t.Errorf("as super: %v, %v", acl, err)
	}
	watchAll(t, ctx, l, c)
	if res, err := c.MultiRead(ctx, zk.GetOp("/a"), zk.ChildrenOp("/a"), zk.GetOp("/none")); err != nil || len(res) != 3 ||
		string(res[0].Data) != "changed" || !errors.Is(res[2].Err, zk.ErrNoNode) {
		t.Errorf("multiRead: %+v, %v", res, err)
	}
	if _, err := c.Create(ctx, "/x", nil, zk.ModePersistent, zk.OpenACL()); !errors.Is(err, zk.ErrNotReadOnly) {
		t.Errorf("create: %v", err)
	}
	if err := c.Sync(ctx, "/"); !errors.Is(err, zk.ErrNotReadOnly) {
		t.Errorf("sync: %v", err)
	}
	refused, stop := context.WithTimeout(ctx, 300*time.Millisecond)
	defer stop()
	if c, err := zk.Open(refused, listener.Addr().String(), zk.Options{SessionTimeout: 10 * time.Second}); err == nil {
		c.Close()
		t.Error("a client that doesn't accept a read-only server is let in")
	}
	for word, want := range map[string]string{
		"ruok": "imok", "isro": "ro", "mntr": "zk_lag_zxids\t0\n", "srvr": "Mode: read-only\n", "none": "",
	} {
		if have := ask(t, listener.Addr().String(), word); !strings.Contains(have, want) || want == "" && have != "" {
			t.Errorf("%s: %q", word, have)
		}
	}
}

// watchAll: each kind of watch tells.
func watchAll(t *testing.T, ctx context.Context, l *leader, c *zk.Client) {
	t.Helper()
	_, _, data, err1 := c.GetW(ctx, "/a")
	_, _, children, err2 := c.ChildrenW(ctx, "/a")
	_, _, later, err3 := c.ExistsW(ctx, "/later")
	tree, err4 := c.AddWatch(ctx, "/", zk.AddWatchPersistentRecursive)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	l.set("/a", "changed")
	l.commit(1, jute.OpDelete, jute.AppendString(nil, "/a/b"))
	l.create("/later", "", zk.OpenACL())
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for _, w := range []struct {
		watch *zk.Watch
		want  zk.EventType
	}{
		{data, zk.EventNodeDataChanged}, {children, zk.EventNodeChildrenChanged}, {later, zk.EventNodeCreated},
		{tree, zk.EventNodeDataChanged}, {tree, zk.EventNodeDeleted}, {tree, zk.EventNodeCreated},
	} {
		if e, err := w.watch.Next(ctx); err != nil || e.Type != w.want {
			t.Errorf("%v, %v; want %v", e, err, w.want)
		}
	}
}

func ask(t *testing.T, address, word string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.Write([]byte(word))
	var b strings.Builder
	conn.SetReadDeadline(time.Now().Add(patience))
	buf := make([]byte, 4096)
	for {
		n, err := conn.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			return b.String()
		}
	}
}
