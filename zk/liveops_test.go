package zk_test

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
)

// must returns v, or ends the test.
func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// fails ends the test unless err is target.
func fails(t testing.TB, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Fatalf("error %v, want %v", err, target)
	}
}

func TestLiveCreate(t *testing.T) {
	t.Parallel()
	c, _, ctx := live(t, zk.Options{})
	create := func(path string, mode zk.CreateMode) string {
		t.Helper()
		return must[string](t)(c.Create(ctx, path, []byte("d"), mode, world))
	}
	for mode, want := range map[zk.CreateMode]string{
		zk.ModePersistent: "/p", zk.ModeEphemeral: "/e", zk.ModeContainer: "/c",
	} {
		if got := create(want, mode); got != want {
			t.Errorf("mode %d made %s, want %s", mode, got, want)
		}
	}
	first, second := create("/s-", zk.ModePersistentSequential), create("/s-", zk.ModeEphemeralSequential)
	if len(first) != len("/s-")+10 || !strings.HasPrefix(first, "/s-") || second <= first {
		t.Errorf("sequential znodes %s, %s", first, second)
	}
	if got := create("/p/", zk.ModePersistentSequential); got != "/p/0000000000" {
		t.Errorf("a sequential znode without a name is %s", got)
	}
	for _, mode := range []zk.CreateMode{
		zk.ModePersistent, zk.ModeEphemeral, zk.ModeContainer, zk.ModeEphemeralSequential,
	} {
		path, stat, err := c.CreateStat(ctx, fmt.Sprintf("/stat%d", mode), []byte("four"), mode, world)
		if err != nil || !strings.HasPrefix(path, "/stat") || stat.DataLength != 4 || stat.Czxid == 0 ||
			(stat.EphemeralOwner == c.Session().ID) != mode.Ephemeral() {
			t.Errorf("mode %d made %s %+v, %v", mode, path, stat, err)
		}
	}
	_, err := c.Create(ctx, "/p", nil, zk.ModePersistent, world)
	fails(t, err, zk.ErrNodeExists)
	_, err = c.Create(ctx, "/none/x", nil, zk.ModePersistent, world)
	fails(t, err, zk.ErrNoNode)
	if !strings.Contains(err.Error(), "create /none/x at ") ||
		!strings.Contains(err.Error(), "the parent doesn't exist") || zk.MaybeApplied(err) || zk.Retryable(err) {
		t.Errorf("error %v", err)
	}
	_, err = c.Create(ctx, "/e/x", nil, zk.ModePersistent, world)
	fails(t, err, zk.ErrNoChildrenForEphemerals)
}

func TestLiveCreateTTL(t *testing.T) {
	t.Parallel()
	c, _, ctx := live(t, zk.Options{})
	path, stat, err := c.CreateTTL(ctx, "/ttl", nil, zk.ModePersistentWithTTL, world, time.Hour)
	if errors.Is(err, zk.ErrUnimplemented) {
		t.Skip("the server has no extended types")
	}
	if err != nil || path != "/ttl" || stat.Czxid == 0 {
		t.Fatal(path, stat, err)
	}
	path, _, err = c.CreateTTL(ctx, "/ttl-", nil, zk.ModePersistentSequentialWithTTL, world, time.Hour)
	if err != nil || len(path) != len("/ttl-")+10 {
		t.Fatal(path, err)
	}
	results := must[[]zk.MultiResult](t)(c.Multi(ctx,
		zk.CreateTTLOp("/m", nil, zk.ModePersistentWithTTL, world, time.Hour)))
	if results[0].Path != "/m" {
		t.Errorf("results %+v", results)
	}
}

func TestLiveData(t *testing.T) {
	t.Parallel()
	c, _, ctx := live(t, zk.Options{})
	must[string](t)(c.Create(ctx, "/a", nil, zk.ModePersistent, world))
	data, stat, err := c.Get(ctx, "/a")
	if err != nil || len(data) != 0 || stat.Version != 0 {
		t.Fatal(data, stat, err)
	}
	stat = must[zk.Stat](t)(c.Set(ctx, "/a", []byte("one"), 0))
	if stat.Version != 1 || stat.DataLength != 3 {
		t.Errorf("stat %+v", stat)
	}
	_, err = c.Set(ctx, "/a", []byte("two"), 0)
	fails(t, err, zk.ErrBadVersion)
	large := bytes.Repeat([]byte("x"), 1000_000)
	must[zk.Stat](t)(c.Set(ctx, "/a", large, zk.AnyVersion))
	if data, stat, err = c.Get(ctx, "/a"); err != nil || !bytes.Equal(data, large) || stat.Version != 2 {
		t.Fatal(len(data), stat, err)
	}
	if stat, ok, err := c.Exists(ctx, "/a"); err != nil || !ok || stat.DataLength != 1000_000 {
		t.Error(stat, ok, err)
	}
	if _, ok, err := c.Exists(ctx, "/none"); err != nil || ok {
		t.Error(ok, err)
	}
	_, _, err = c.Get(ctx, "/none")
	fails(t, err, zk.ErrNoNode)
	fails(t, c.Sync(ctx, "/a"), nil)
	must[string](t)(c.Create(ctx, "/a/b", nil, zk.ModePersistent, world))
	must[string](t)(c.Create(ctx, "/a/ü n", nil, zk.ModePersistent, world))
	names, stat, err := c.Children(ctx, "/a")
	slices.Sort(names)
	if err != nil || !slices.Equal(names, []string{"b", "ü n"}) || stat.NumChildren != 2 {
		t.Error(names, stat, err)
	}
	if n, err := c.AllChildrenNumber(ctx, "/"); err != nil || n != 3 {
		t.Error(n, err)
	}
	fails(t, c.Delete(ctx, "/a", zk.AnyVersion), zk.ErrNotEmpty)
	fails(t, c.Delete(ctx, "/a/b", 7), zk.ErrBadVersion)
	fails(t, c.Delete(ctx, "/a/b", 0), nil)
	fails(t, c.Delete(ctx, "/a/b", 0), zk.ErrNoNode)
}

func TestLiveACLs(t *testing.T) {
	t.Parallel()
	c, here, ctx := live(t, zk.Options{})
	other, err := zk.Open(ctx, here, zk.Options{Auth: []zk.Auth{{Scheme: "digest", Auth: []byte("eve:secret")}}})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	_, err = c.Create(ctx, "/mine", nil, zk.ModePersistent, zk.CreatorACL())
	fails(t, err, zk.ErrInvalidACL)
	fails(t, c.AddAuth(ctx, "digest", []byte("joe:secret")), nil)
	must[string](t)(c.Create(ctx, "/mine", []byte("x"), zk.ModePersistent, zk.CreatorACL()))
	hash := sha1.Sum([]byte("joe:secret"))
	want := []zk.ACL{
		{Perms: zk.PermAll, ID: zk.ID{Scheme: "digest", ID: "joe:" + base64.StdEncoding.EncodeToString(hash[:])}},
	}
	acl, stat, err := c.GetACL(ctx, "/mine")
	if err != nil || !slices.Equal(acl, want) || stat.Aversion != 0 {
		t.Error(acl, stat, err)
	}
	ids, err := c.WhoAmI(ctx)
	if err != nil || !slices.Contains(ids, zk.Identity{Scheme: "digest", User: "joe"}) {
		t.Error(ids, err)
	}
	_, _, err = other.Get(ctx, "/mine")
	fails(t, err, zk.ErrNoAuth)
	if stat := must[zk.Stat](t)(c.SetACL(ctx, "/mine", append(want, zk.WorldACL(zk.PermRead)...), 0)); stat.Aversion != 1 {
		t.Errorf("stat %+v", stat)
	}
	_, err = c.SetACL(ctx, "/mine", want, 0)
	fails(t, err, zk.ErrBadVersion)
	fails(t, c.AddAuth(ctx, "no-such-scheme", nil), zk.ErrAuthFailed)
	data, _, err := c.Get(ctx, "/mine") // on a new connection, authenticated again
	if err != nil || string(data) != "x" {
		t.Error(data, err)
	}
}

func TestLiveMulti(t *testing.T) {
	t.Parallel()
	c, _, ctx := live(t, zk.Options{})
	results, err := c.Multi(ctx,
		zk.CreateOp("/a", []byte("1"), zk.ModePersistent, world),
		zk.CreateOp("/a/s-", nil, zk.ModeEphemeralSequential, world),
		zk.CreateOp("/c", nil, zk.ModeContainer, world),
		zk.SetOp("/a", []byte("22"), 0),
		zk.CheckOp("/a", 1),
		zk.CreateOp("/gone", nil, zk.ModePersistent, world),
		zk.DeleteOp("/gone", 0))
	if err != nil || len(results) != 7 {
		t.Fatal(results, err)
	}
	if results[0].Path != "/a" || results[1].Path != "/a/s-0000000000" || results[2].Path != "/c" ||
		results[3].Stat.Version != 1 {
		t.Errorf("results %+v", results)
	}
	_, err = c.Multi(ctx, zk.SetOp("/a", nil, zk.AnyVersion), zk.DeleteOp("/none", 0), zk.DeleteOp("/c", 0))
	fails(t, err, zk.ErrNoNode)
	failed, ok := errors.AsType[*zk.MultiError](err)
	if !ok || failed.Index != 1 || failed.Path != "/none" || failed.Op != "delete" {
		t.Errorf("error %v", err)
	}
	if results, err := c.Multi(ctx); err != nil || len(results) != 0 {
		t.Errorf("an empty multi: %v, %v", results, err)
	}
	results, err = c.MultiRead(ctx, zk.GetOp("/a"), zk.GetOp("/none"), zk.ChildrenOp("/a"), zk.ChildrenOp("/none"))
	if err != nil || len(results) != 4 || string(results[0].Data) != "22" || results[0].Stat.Version != 1 ||
		results[1].Err != zk.ErrNoNode ||
		!slices.Equal(results[2].Children, []string{"s-0000000000"}) || results[3].Err != zk.ErrNoNode {
		t.Errorf("results %+v, %v", results, err)
	}
}

func TestLiveConfig(t *testing.T) {
	t.Parallel()
	c, _, ctx := live(t, zk.Options{})
	if _, _, err := c.GetConfig(ctx); err != nil {
		t.Error(err)
	}
	_, stat, w, err := c.GetConfigW(ctx)
	if err != nil || w.Path() != zk.ConfigPath {
		t.Fatal(stat, err)
	}
	w.Close()
	// No server accepts this change; which rule it names first depends on how it
	// was set up.
	_, _, err = c.Reconfig(ctx, zk.Reconfig{Leaving: []string{"1"}, FromConfig: new(int64(1) << 60)})
	e, ok := errors.AsType[*zk.Error](err)
	if !ok || !slices.Contains([]error{
		zk.ErrUnimplemented, zk.ErrReconfigDisabled, zk.ErrBadVersion, zk.ErrNoAuth, zk.ErrReconfigInProgress,
	}, e.Err) {
		t.Errorf("reconfig: %v", err)
	}
}

func TestLiveWatches(t *testing.T) {
	t.Parallel()
	c, _, ctx := live(t, zk.Options{})
	next := func(w *zk.Watch, want string) {
		t.Helper()
		if e, err := w.Next(ctx); err != nil || e.String() != want {
			t.Errorf("event %v, %v, want %s", e, err, want)
		}
	}
	tree := must[*zk.Watch](t)(c.AddWatch(ctx, "/", zk.AddWatchPersistentRecursive))
	one := must[*zk.Watch](t)(c.AddWatch(ctx, "/p", zk.AddWatchPersistent))
	_, ok, exists, err := c.ExistsW(ctx, "/a")
	if err != nil || ok {
		t.Fatal(ok, err)
	}
	_, _, children, err := c.ChildrenW(ctx, "/")
	if err != nil {
		t.Fatal(err)
	}
	must[string](t)(c.Create(ctx, "/a", nil, zk.ModePersistent, world))
	if e, ok := exists.Try(); !ok || e.String() != "NodeCreated /a" {
		t.Errorf("the event had not come with the write's own reply: %v, %v", e, ok)
	}
	next(children, "NodeChildrenChanged /")
	_, _, data, err := c.GetW(ctx, "/a")
	if err != nil {
		t.Fatal(err)
	}
	_, ok, exists, err = c.ExistsW(ctx, "/a")
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	must[zk.Stat](t)(c.Set(ctx, "/a", []byte("x"), zk.AnyVersion))
	next(data, "NodeDataChanged /a")
	next(exists, "NodeDataChanged /a")
	_, err = data.Next(ctx)
	fails(t, err, zk.ErrWatchEnded)
	must[string](t)(c.Create(ctx, "/p", nil, zk.ModePersistent, world))
	must[string](t)(c.Create(ctx, "/p/q", nil, zk.ModePersistent, world))
	fails(t, c.Delete(ctx, "/p/q", 0), nil)
	fails(t, c.Delete(ctx, "/p", 0), nil)
	for _, want := range []string{"NodeCreated /p", "NodeChildrenChanged /p", "NodeChildrenChanged /p", "NodeDeleted /p"} {
		next(one, want)
	}
	for _, want := range []string{
		"NodeCreated /a", "NodeDataChanged /a", "NodeCreated /p", "NodeCreated /p/q", "NodeDeleted /p/q", "NodeDeleted /p",
	} {
		next(tree, want)
	}
	fails(t, c.CheckWatches(ctx, "/p", zk.WatcherAny), nil)
	one.Close()
	fails(t, c.CheckWatches(ctx, "/p", zk.WatcherAny), zk.ErrNoWatcher)
	fails(t, c.RemoveWatches(ctx, "/", zk.WatcherAny), nil)
	_, err = tree.Next(ctx)
	fails(t, err, zk.ErrWatchEnded)
	fails(t, c.RemoveWatches(ctx, "/", zk.WatcherAny), zk.ErrNoWatcher)
}

func TestLiveSessions(t *testing.T) {
	t.Parallel()
	c, here, ctx := live(t, zk.Options{})
	for _, path := range []string{"/e1", "/e2"} {
		must[string](t)(c.Create(ctx, path, nil, zk.ModeEphemeral, world))
	}
	must[string](t)(c.Create(ctx, "/p", nil, zk.ModePersistent, world))
	paths, err := c.GetEphemerals(ctx, "/")
	slices.Sort(paths)
	if err != nil || !slices.Equal(paths, []string{"/e1", "/e2"}) {
		t.Error(paths, err)
	}
	if paths, err = c.GetEphemerals(ctx, "/e1"); err != nil || !slices.Equal(paths, []string{"/e1"}) {
		t.Error(paths, err)
	}
	session := c.Detach()
	resumed, err := zk.Open(ctx, here, zk.Options{Resume: session})
	if err != nil {
		t.Fatal(err)
	}
	if resumed.Session().ID != session.ID {
		t.Errorf("resumed 0x%x as 0x%x", session.ID, resumed.Session().ID)
	}
	if paths, err := resumed.GetEphemerals(ctx, "/"); err != nil || len(paths) != 2 {
		t.Error(paths, err)
	}
	witness := must[*zk.Client](t)(zk.Open(ctx, here, zk.Options{}))
	defer witness.Close()
	_, ok, gone, err := witness.ExistsW(ctx, "/e1")
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	resumed.Close()
	if e, err := gone.Next(ctx); err != nil || e.Type != zk.EventNodeDeleted {
		t.Errorf("after the session's close: %v, %v", e, err)
	}
	_, err = zk.Open(ctx, here, zk.Options{Resume: session})
	fails(t, err, zk.ErrSessionExpired)
}

// Cut connections cost a client nothing but time: the session, its ephemerals and
// its watches live on, and reads are repeated.
func TestLiveCutConnections(t *testing.T) {
	t.Parallel()
	cutter := new(cutter)
	c, _, ctx := live(t, zk.Options{Dial: cutter.dial})
	before := c.Session().ID
	must[string](t)(c.Create(ctx, "/e", nil, zk.ModeEphemeral, world))
	_, _, data, err := c.GetW(ctx, "/e")
	if err != nil {
		t.Fatal(err)
	}
	tree := must[*zk.Watch](t)(c.AddWatch(ctx, "/", zk.AddWatchPersistentRecursive))
	for range 5 {
		cutter.cut()
		if _, ok, err := c.Exists(ctx, "/e"); err != nil || !ok {
			t.Fatal(ok, err)
		}
		if path, _, err := c.CreateProtected(ctx, "/s-", nil, zk.ModeEphemeralSequential, world); err != nil ||
			!strings.Contains(path, "_c_") {
			t.Fatal(path, err)
		}
	}
	if now := c.Session().ID; now != before {
		t.Errorf("session 0x%x became 0x%x", before, now)
	}
	must[zk.Stat](t)(c.Set(ctx, "/e", nil, zk.AnyVersion))
	if e, err := data.Next(ctx); err != nil || e.String() != "NodeDataChanged /e" {
		t.Error(e, err)
	}
	resyncs := 0
	for e, ok := tree.Try(); ok; e, ok = tree.Try() {
		if e.Type == zk.EventResync {
			resyncs++
		}
	}
	if resyncs == 0 {
		t.Error("the persistent watch was not told to catch up")
	}
}

// Many goroutines share a client; every conditional write succeeds once.
func TestLiveConcurrentCounter(t *testing.T) {
	t.Parallel()
	c, _, ctx := live(t, zk.Options{MaxOutstanding: 8})
	must[string](t)(c.Create(ctx, "/n", []byte("0"), zk.ModePersistent, world))
	const callers, each = 16, 10
	var wait sync.WaitGroup
	for range callers {
		wait.Go(func() {
			for done := 0; done < each; {
				data, stat, err := c.Get(ctx, "/n")
				if err != nil {
					t.Error(err)
					return
				}
				var n int
				fmt.Sscan(string(data), &n)
				_, err = c.Set(ctx, "/n", fmt.Append(nil, n+1), stat.Version)
				switch {
				case err == nil:
					done++
				case !errors.Is(err, zk.ErrBadVersion):
					t.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	if data, _, err := c.Get(ctx, "/n"); err != nil || string(data) != fmt.Sprint(callers*each) {
		t.Errorf("counted %s, %v", data, err)
	}
}

func TestLivePipeline(t *testing.T) {
	t.Parallel()
	c, _, ctx := live(t, zk.Options{})
	p := c.Pipeline()
	var made []zk.Future[zk.Created]
	for range 200 {
		made = append(made, p.Create(ctx, "/s-", nil, zk.ModePersistentSequential, world))
	}
	listed := p.Children(ctx, "/")
	for i, f := range made {
		if v, err := f.Wait(ctx); err != nil || v.Path != fmt.Sprintf("/s-%010d", i) {
			t.Fatal(v, err)
		}
	}
	if v, err := listed.Wait(ctx); err != nil || len(v.Children) != 200 {
		t.Error(len(v.Children), err)
	}
	results, err := p.Multi(ctx, zk.SetOp("/s-0000000000", []byte("x"), 0)).Wait(ctx)
	if err != nil || results[0].Stat.Version != 1 {
		t.Error(results, err)
	}
	_, err = p.Exists(ctx, "/none").Wait(ctx)
	fails(t, err, zk.ErrNoNode)
	results, err = p.MultiRead(ctx, zk.GetOp("/s-0000000000")).Wait(ctx)
	if err != nil || string(results[0].Data) != "x" {
		t.Error(results, err)
	}
	_, err = p.Sync(ctx, "/").Wait(ctx)
	fails(t, err, nil)
	_, err = p.Delete(ctx, "/s-0000000001", 0).Wait(ctx)
	fails(t, err, nil)
}

// A cancelled context ends every call at once, whatever the server does.
func TestLiveCancelledContext(t *testing.T) {
	t.Parallel()
	c, _, _ := live(t, zk.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, _, err := c.Get(ctx, "/")
	if err != nil {
		fails(t, err, context.Canceled)
	}
}

func TestLiveTrees(t *testing.T) {
	t.Parallel()
	c, _, ctx := live(t, zk.Options{})
	for i := range 3 {
		for j := range 250 {
			if _, err := c.CreateAll(ctx, fmt.Sprintf("/tree/%d/%d/leaf", i, j), []byte("d"), zk.ModePersistent,
				zk.OpenACL()); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, err := c.CreateAll(ctx, "/tree/0/0/leaf", nil, zk.ModePersistent, zk.OpenACL())
	fails(t, err, zk.ErrNodeExists)
	for range 2 {
		if err := c.DeleteAll(ctx, "/tree"); err != nil {
			t.Fatal(err)
		}
	}
	if _, there, err := c.Exists(ctx, "/tree"); err != nil || there {
		t.Errorf("/tree exists: %v, %v", there, err)
	}
}
