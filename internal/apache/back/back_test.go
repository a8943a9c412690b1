package back

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/apache"
	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/apache/follow"
	"github.com/zooid-project/zooid/internal/server"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/zk"
)

// A zooid is a server whose log is read.
type zooid struct {
	t      *testing.T
	dir    string
	server *server.Server
}

func (z *zooid) start() {
	z.t.Helper()
	s, err := server.Open(server.Options{
		DataDir: z.dir, Listen: []string{"127.0.0.1:0"}, Serving: server.Serving{SnapCount: 300},
		Settings: tree.Settings{ExtendedTypes: true, FeatureLevel: tree.FeatureLevelMax},
	})
	if err != nil {
		z.t.Fatal(err)
	}
	z.server = s
}

func (z *zooid) stop() {
	z.server.Close()
	z.server = nil
}

func (z *zooid) client(timeout time.Duration) *zk.Client {
	z.t.Helper()
	ctx, cancel := context.WithTimeout(z.t.Context(), time.Minute)
	defer cancel()
	c, err := zk.Open(ctx, z.server.Addrs()[0].String(), zk.Options{SessionTimeout: timeout})
	if err != nil {
		z.t.Fatal(err)
	}
	return c
}

// A leading is a run beside a server.
type leading struct {
	quorum, election string
	cancel           func()
	done             chan struct{}
	result           Done
	err              error
	mu               sync.Mutex
	said             []string
}

func (l *leading) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.said, "\n")
}

// lead begins to lead the observers of a server. Each start of the server has another address.
func lead(t *testing.T, z *zooid) *leading {
	t.Helper()
	l := &leading{done: make(chan struct{})}
	listen := func() net.Listener {
		n, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	address := z.server.Addrs()[0].String()
	var answered atomic.Bool
	ask := func(ctx context.Context) (Answer, error) {
		a, err := Asker(address)(ctx)
		if err == nil {
			answered.Store(true)
		}
		return a, err
	}
	o := Options{
		Dirs: []string{z.dir}, Ask: ask, Quorum: listen(), Election: listen(), From: []netip.Addr{
			netip.MustParseAddr("127.0.0.1"),
		},
	}
	o.Say = func(text string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.said = append(l.said, text)
	}
	l.quorum, l.election = o.Quorum.Addr().String(), o.Election.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	go func() {
		defer close(l.done)
		l.result, l.err = Run(ctx, o)
	}()
	t.Cleanup(func() {
		cancel()
		<-l.done
	})
	await(t, "the server's first answer", answered.Load) // a server that stops before it never said that it leads
	return l
}

// observe follows a leading as an observer.
func observe(t *testing.T, l *leading, dir string, id int64) (*follow.Follower, func()) {
	t.Helper()
	_, election, _ := net.SplitHostPort(l.election)
	f, err := follow.Open(follow.Options{
		Dir: dir, ID: id, Say: func(string) {},
		Config: func(context.Context) (string, error) { return "server.0=" + l.quorum + ":" + election, nil },
		Dial: func(ctx context.Context, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- f.Run(ctx) }()
	return f, sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// write makes requests of all kinds, many of which fail.
func write(ctx context.Context, c *zk.Client, r *rand.Rand, n int) error {
	path := func() string { return fmt.Sprintf("/n%d", r.IntN(12)) }
	below := func() string { return path() + fmt.Sprintf("/m%d", r.IntN(4)) }
	data := []byte(strings.Repeat("x", r.IntN(50)))
	acl := []zk.ACL{{Perms: zk.Perm(1 + 2*r.IntN(8) | 31), ID: zk.ID{Scheme: "world", ID: "anyone"}}}
	for range n {
		var err error
		switch r.IntN(12) {
		case 0, 1:
			_, err = c.Create(ctx, path(), data, zk.ModePersistent, acl)
		case 2, 3:
			_, err = c.Create(ctx, below(), data, zk.ModePersistentSequential, acl)
		case 4:
			_, err = c.Create(ctx, below(), nil, zk.ModeEphemeral, acl)
		case 5:
			_, err = c.Create(ctx, path()+"c", data, zk.ModeContainer, acl)
		case 6:
			_, _, err = c.CreateTTL(ctx, path()+"t", data, zk.ModePersistentWithTTL, acl, time.Hour)
		case 7:
			_, err = c.Set(ctx, path(), data, int32(r.IntN(4)-1))
		case 8:
			_, err = c.SetACL(ctx, path(), acl, -1)
		case 9:
			err = c.Delete(ctx, below(), -1)
		default:
			p := path()
			_, err = c.Multi(ctx, zk.CreateOp(p+"x", data, zk.ModePersistent, acl),
				zk.CreateOp(p+"x/s-", nil, zk.ModePersistentSequential, acl),
				zk.CreateOp(p+"x/e", nil, zk.ModeEphemeral, acl), zk.SetOp(p+"x", nil, 0), zk.CheckOp(p+"x", 1),
				zk.DeleteOp(p+"x/e", -1),
				zk.SetOp(path(), data, -1))
		}
		if err != nil && errors.Is(err, zk.ErrConnectionLoss) {
			return err
		}
	}
	return nil
}

// TestBack: observers follow a server through requests of all kinds, its restart, a restart of what leads them and
// their own. At the end they have what an export has, to the last zxid.
func TestBack(t *testing.T) {
	t.Parallel()
	z := &zooid{t: t, dir: t.TempDir()}
	z.start()
	ctx := t.Context()
	r := rand.New(rand.NewPCG(1, 2))
	load := func(n int) {
		t.Helper()
		c := z.client(10 * time.Second)
		if err := write(ctx, c, r, n); err != nil {
			t.Fatal(err)
		}
		c.Close()
	}
	load(400)
	l := lead(t, z)
	dirs := []string{t.TempDir(), t.TempDir()}
	one, end := observe(t, l, dirs[0], 1)
	defer end()
	await(t, "the first observer", func() bool { return one.Status().Live })
	load(700)
	two, end2 := observe(t, l, dirs[1], 2)
	load(300)
	caughtUp := func(f *follow.Follower) func() bool {
		return func() bool {
			a, err := Asker(z.server.Addrs()[0].String())(ctx)
			return err == nil && f.Status().Zxid == a.Zxid
		}
	}
	await(t, "both observers", func() bool { return caughtUp(one)() && caughtUp(two)() })
	end2()
	load(100)
	snapshots := strings.Count(l.text(), "received a snapshot")
	two, end2 = observe(t, l, dirs[1], 2)
	defer end2()
	await(t, "the second observer again",
		func() bool { return caughtUp(two)() && strings.Count(l.text(), "observer 2 received") == 2 })
	if now := strings.Count(l.text(), "received a snapshot"); now != snapshots ||
		!strings.Contains(l.text(), "observer 2 received what it missed") {
		t.Errorf("an observer that misses little:\n%s", l.text())
	}
	held := z.client(time.Minute) // its session is there at the end
	defer held.Detach()
	if _, err := held.Create(ctx, "/held", nil, zk.ModeEphemeral, zk.OpenACL()); err != nil {
		t.Fatal(err)
	}
	load(100)
	z.stop()
	snapshots = strings.Count(l.text(), "received a snapshot")
	l.cancel()
	<-l.done
	if l.err != nil {
		t.Fatalf("%v\n%s", l.err, l.text())
	}
	if now := strings.Count(l.text(), "received a snapshot"); now != snapshots+2 {
		t.Errorf("at the end %d observers of 2 have got a snapshot:\n%s", now-snapshots, l.text())
	}
	exported, err := apache.Export(apache.ExportOptions{Dirs: []string{z.dir}, To: t.TempDir() + "/apache"})
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range []*follow.Follower{one, two} {
		s := f.Status()
		if s.Mismatch != nil || s.Compared < 100 || s.Zxid != l.result.Zxid || s.Digest != exported.Digest ||
			s.Znodes != exported.Znodes || s.Sessions != exported.Sessions || exported.Sessions != 1 {
			t.Errorf("observer %d: %+v; exported %+v", i+1, s, exported)
		}
	}
	if !slices.Equal(l.result.Observers, []int64{1, 2}) || l.result.Digest != exported.Digest || l.result.Strangers != 1 {
		t.Errorf("%+v", l.result)
	}
	if strings.Contains(l.text(), "isn't the same") || strings.Contains(l.text(), "can't be represented") {
		t.Error(l.text())
	}
	end()
	end2()
	for _, dir := range dirs {
		state, report, err := files.Load(files.Options{Dir: dir})
		if err != nil || state.Digest() != exported.Digest || report.Mismatch != nil {
			t.Errorf("%s: %+v, %v", dir, report, err)
		}
	}
}

// TestEnded: the end waits for the observers that have followed, and for all that are connected. One that doesn't come
// back is given up after a time; one that is connected never is.
func TestEnded(t *testing.T) {
	t.Parallel()
	type ids = []int64
	for _, c := range []struct {
		want, connected, have ids
		soon, late            bool
	}{
		{ids{1, 2}, ids{2, 1}, ids{1, 2}, true, true},
		{ids{1, 2}, ids{1}, ids{1}, false, true},
		{ids{1, 2}, ids{1, 2}, ids{1}, false, false},
		{ids{1, 2}, nil, nil, false, false},
		{nil, nil, nil, false, false},
		{ids{1}, ids{1, 2}, ids{1}, false, false}, // 2 has come meanwhile
		{nil, ids{2}, ids{2}, true, true},
	} {
		soon, late := ended(c.want, c.connected, c.have, false), ended(c.want, c.connected, c.have, true)
		if soon != c.soon || late != c.late {
			t.Errorf("%+v: %v, and late %v", c, soon, late)
		}
	}
}

// TestServerStillRuns: what the observers have is said only of a server that has stopped.
func TestServerStillRuns(t *testing.T) {
	t.Parallel()
	z := &zooid{t: t, dir: t.TempDir()}
	z.start()
	defer z.stop()
	l := lead(t, z)
	f, end := observe(t, l, t.TempDir(), 3)
	defer end()
	await(t, "the observer", func() bool { return f.Status().Live })
	l.cancel()
	<-l.done
	if l.err == nil || !strings.Contains(l.err.Error(), "still answers") {
		t.Errorf("%+v, %v", l.result, l.err)
	}
}

// TestNewTerm: a restart of the server begins an epoch, in which the observers go on.
func TestNewTerm(t *testing.T) {
	t.Parallel()
	z := &zooid{t: t, dir: t.TempDir()}
	z.start()
	l := lead(t, z)
	f, end := observe(t, l, t.TempDir(), 3)
	defer end()
	await(t, "the observer", func() bool { return f.Status().Live })
	z.stop()
	z.start()
	c := z.client(10 * time.Second)
	if err := write(t.Context(), c, rand.New(rand.NewPCG(3, 4)), 100); err != nil {
		t.Fatal(err)
	}
	c.Close()
	z.stop()
	z.start() // its log says now what was committed
	await(t, "the second epoch", func() bool { s := f.Status(); return s.Live && s.Epoch >= 3 && s.Znodes > 10 })
	if s := f.Status(); s.Mismatch != nil {
		t.Errorf("%+v", s)
	}
	z.stop()
	l.cancel()
	if <-l.done; l.err != nil || !slices.Equal(l.result.Observers, []int64{3}) {
		t.Errorf("%+v, %v", l.result, l.err)
	}
}

// TestNoLog: a directory without a log is refused.
func TestNoLog(t *testing.T) {
	t.Parallel()
	s := &source{dirs: []string{t.TempDir()}, leader: newLeader(0, func(string) {})}
	if err := s.open(); err == nil || !strings.Contains(err.Error(), "there is no log") {
		t.Error(err)
	}
	s.dirs = []string{t.TempDir() + "/none"}
	if err := s.open(); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestServerHangs: a server that doesn't answer, and has its directory still, may go on.
func TestServerHangs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	lock, err := storage.OS{}.Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	silent := func(context.Context) (Answer, error) { return Answer{}, errors.New("no answer") }
	if done, err := finish(&source{}, &Options{Ask: silent, Dirs: []string{dir}}, "leader"); err == nil ||
		!strings.Contains(err.Error(), "hasn't stopped") {
		t.Errorf("%+v, %v", done, err)
	}
}
