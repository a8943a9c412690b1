package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/internal/server"
	"github.com/zooid-project/zooid/internal/subtree"
	"github.com/zooid-project/zooid/internal/tool/cli/screen"
	"github.com/zooid-project/zooid/jute"
	"github.com/zooid-project/zooid/zk"
)

// startLocalSessions runs an ensemble of three servers with localSessionsEnabled and
// returns their addresses.
func startLocalSessions(t *testing.T, upgrading bool) (addresses []string) {
	t.Helper()
	var members []server.Member
	for id := range uint64(3) {
		members = append(members, server.Member{ID: id + 1, Addrs: []string{freeport.Address(t)}})
		addresses = append(addresses, freeport.Address(t))
	}
	var start sync.WaitGroup
	for i, m := range members {
		start.Go(func() {
			s, err := server.Open(server.Options{
				ID: m.ID, DataDir: t.TempDir(), Listen: addresses[i : i+1], Members: members, PeerListen: m.Addrs[0],
				Serving: server.Serving{
					LocalSessions: true, LocalSessionsUpgrading: upgrading, SessionTimeoutMin: time.Second,
					SessionTimeoutMax: time.Minute,
				},
			})
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { s.Close() })
		})
	}
	start.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return addresses
}

// TestMirrorRefusesWithLocalSessions names one ensemble by two of its servers, which
// don't know each other's local sessions.
func TestMirrorRefusesWithLocalSessions(t *testing.T) {
	t.Parallel()
	for _, upgrading := range []bool{true, false} {
		t.Run(fmt.Sprintf("upgrading %t", upgrading), func(t *testing.T) {
			t.Parallel()
			servers := startLocalSessions(t, upgrading)
			c := open(t, strings.Join(servers, ","))
			plant(t, c, "/r", "/r/a=1", "/r/b")
			for i, from := range servers {
				v := newSession(t, from)
				v.refuses(t, c, "/r", "mirror -delete -yes /r/b "+servers[(i+1)%3]+"/r", "one lies within the other")
				v.refuses(t, c, "/r", "mv -resume /r/a "+servers[(i+1)%3]+"/r/a", "the target lies within the source")
			}
		})
	}
}

// TestMirrorBetweenLocalSessions goes from one ensemble with local sessions to another
// one.
func TestMirrorBetweenLocalSessions(t *testing.T) {
	t.Parallel()
	for _, upgrading := range []bool{true, false} {
		t.Run(fmt.Sprintf("upgrading %t", upgrading), func(t *testing.T) {
			t.Parallel()
			there := startZooid(t)
			here := startServer(t, func(o *server.Options) { o.LocalSessions, o.LocalSessionsUpgrading = true, upgrading })[0]
			v := newSession(t, here)
			v.must(t, "create", "/app", "x")
			v.must(t, "mirror", "/app", there+"/app")
		})
	}
}

// TestMirrorOfAGoneSource has somebody else delete the source at every request: what
// both sides had stays in the target.
func TestMirrorOfAGoneSource(t *testing.T) {
	t.Parallel()
	address := startZooid(t)
	c := superClient(t, address)
	f := faulty{"mirror", "mirror -delete -yes FROM TO", "", true}
	n := everyStep(t, address, nil, actOnly, func(g *gate, k int) {
		r := prepare(t, c, fmt.Sprintf("/%d", k), f)
		g.act = func() {
			var ops []zk.MultiOp
			for _, path := range []string{"/a/b", "/a", "/c", ""} {
				ops = append(ops, zk.DeleteOp(r.from+path, zk.AnyVersion))
			}
			if _, err := c.Multi(t.Context(), ops...); err != nil {
				t.Error(err)
			}
		}
		r.run(t.Context(), g.Addr().String(), f.line)
		if to := r.tree(r.to); to[""] == "" || to["/c"] == "" {
			t.Errorf("deleted at request %d: exit code %d, printed %s\nthe target is %q", k, r.exit, r.out, to)
		}
	})
	if n < 10 {
		t.Errorf("it sends %d requests only", n)
	}
}

// TestMirrorMeetsAnEphemeral has somebody else create an ephemeral znode in the target
// at every request: exit code 0 says that the target is like the source.
func TestMirrorMeetsAnEphemeral(t *testing.T) {
	t.Parallel()
	address := startZooid(t)
	c := superClient(t, address)
	f := faulty{"mirror", "mirror FROM TO", "", true}
	everyStep(t, address, nil, actOnly, func(g *gate, k int) {
		r := prepare(t, c, fmt.Sprintf("/%d", k), f)
		if err := c.Delete(t.Context(), r.to+"/c", zk.AnyVersion); err != nil {
			t.Fatal(err)
		}
		g.act = func() {
			// An error says that the copy is there already.
			_, _ = c.Create(t.Context(), r.to+"/c", []byte("theirs"), zk.ModeEphemeral, zk.WorldACL(zk.PermAll))
		}
		r.run(t.Context(), g.Addr().String(), f.line)
		st, _, err := c.Exists(t.Context(), r.to+"/c")
		if err != nil {
			t.Fatal(err)
		}
		if r.exit == 0 && screen.KindOf(st) == screen.Ephemeral {
			t.Errorf("created at request %d: exit code 0, printed %s", k, r.out)
		}
	})
}

// TestSetACLBelowOfAnother has somebody else put another znode in the place of a
// listed one, with an ACL of the same version.
func TestSetACLBelowOfAnother(t *testing.T) {
	t.Parallel()
	address := startZooid(t)
	c := superClient(t, address)
	r := prepare(t, c, "/r", faulties[0])
	g := newGate(t, address)
	defer g.Close()
	theirs := zk.WorldACL(zk.PermRead)
	g.at, g.ops, g.fault = 1, []jute.Op{jute.OpExists}, actOnly
	g.act = func() {
		err := c.Delete(t.Context(), r.from+"/c", zk.AnyVersion)
		if err == nil {
			_, err = c.Create(t.Context(), r.from+"/c", nil, zk.ModePersistent, theirs)
		}
		if err != nil {
			t.Error(err)
		}
	}
	r.run(t.Context(), g.Addr().String(), "setAcl -R FROM world:anyone:cdrwa")
	g.mu.Lock()
	fired := g.fired
	g.mu.Unlock()
	acl, _, err := c.GetACL(t.Context(), r.from+"/c")
	if err != nil || !fired || r.exit != exitFailed || !strings.Contains(r.out, "changed meanwhile") ||
		!sameACL(acl, theirs) {
		t.Errorf("fired %t, exit code %d, printed %s; the ACL is %v, %v", fired, r.exit, r.out, acl, err)
	}
}

// TestTemporaryACLAdmitsNobodyElse fails rather than admit everybody, if the server
// doesn't say who this session is.
func TestTemporaryACLAdmitsNobodyElse(t *testing.T) {
	t.Parallel()
	c := open(t, startZooid(t))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if q, err := subtree.NewSecurer(ctx, c); err == nil {
		t.Errorf("a temporary ACL of %s", subtree.ACLText(q.Temporary))
	}
}

// TestDeleteLongPaths deletes more bytes of paths than a request may have.
func TestDeleteLongPaths(t *testing.T) {
	t.Parallel()
	address := startZooid(t)
	c, v := open(t, address), newSession(t, address)
	plant(t, c, "/long")
	p := c.Pipeline()
	var last zk.Future[zk.Created]
	for i := range deleteBatch {
		last = p.Create(t.Context(), fmt.Sprintf("/long/%s%d", strings.Repeat("x", 1200), i), nil, zk.ModePersistent,
			zk.WorldACL(zk.PermAll))
	}
	if _, err := last.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	v.must(t, "deleteall", "/long")
}

// TestReconfigFile takes the lines of a dynamic configuration file, and nothing else.
func TestReconfigFile(t *testing.T) {
	t.Parallel()
	const server = "server.1=zk1:2888:3888;2181"
	for text, want := range map[string]string{
		"# ours\n\nversion=100000000\n" + server + "\n": "",
		server:                               "",
		server + "\nsever.2=zk2:1:2":         "line 2: unrecognised parameter: sever.2",
		server + "\ngroup.1=1:2":             "line 2: unrecognised parameter: group.1",
		"":                                   "no line names a server",
		server + strings.Repeat("\n", 1<<20): "has more than 1048576 bytes",
	} {
		members, err := readMembers(textFile(t, text))
		if want == "" && (err != nil || len(members) != 1 || members[0] != server) ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.80q: %q, %v; want %q", text, members, err, want)
		}
	}
	if _, err := readMembers("/dev/zero"); err == nil {
		t.Error("a file without an end was read")
	}
}

// TestImportLeavesEphemeralsAlone imports where another session has ephemeral znodes,
// and has the dry run fail where the real one does.
func TestImportLeavesEphemeralsAlone(t *testing.T) {
	onServers(t, func(t *testing.T, address string) {
		c, v := open(t, address), newSession(t, address)
		plant(t, c, "/app", "/app/a=1", "/app/b=2")
		file := filepath.Join(t.TempDir(), "app.json")
		v.must(t, "export", "/app", file)
		v.must(t, "delete", "/app/b")
		plant(t, c, "/app/b!=2")
		v.refuses(t, c, "/app", "import "+file, "left alone, with other content: 1 znode, the first is /app/b")
		v.refuses(t, c, "/app", "import -overwrite "+file, "left alone, as ephemeral: 1 znode, the first is /app/b")
		v.refuses(t, c, "/app", "import -dry-run "+file, "would leave alone, with other content: 1 znode, the first is /app/b")
	})
}

// TestWatchInterrupted interrupts a watch that waits for a number of events.
func TestWatchInterrupted(t *testing.T) {
	t.Parallel()
	v := newSession(t, startZooid(t))
	for line, want := range map[string]int{"watch -n 1 /": exitInterrupted, "watch /": 0} {
		v.out.Reset()
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			v.s.line(ctx, line)
			close(ended)
		}()
		for !strings.Contains(v.out.String(), "Ctrl-C ends it") {
			time.Sleep(time.Millisecond)
		}
		cancel()
		<-ended
		if v.s.exit != want {
			t.Errorf("%s: exit code %d, want %d", line, v.s.exit, want)
		}
	}
}

// TestImportOfNonsenseWithoutEnd reads from a device that has no end: nothing is kept of
// it.
func TestImportOfNonsenseWithoutEnd(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/zero"); errors.Is(err, os.ErrNotExist) {
		t.Skip("there is no /dev/zero")
	}
	v := newSession(t, startZooid(t))
	for _, form := range []string{"json", "yaml", "tar"} {
		if out := v.run(t, "import -format "+form+" /dev/zero /x"); v.s.exit != exitFailed {
			t.Errorf("%s: exit code %d: %s", form, v.s.exit, out)
		}
	}
}
