package recipe_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zk/recipe"
	"github.com/zooid-project/zooid/zktest"
)

// A cache of a million znodes takes a minute or two to test, most of it to make
// them: go test ./zk/recipe -run TestTreeCacheLarge -v -treecache 1000000
var treeCache = flag.Int("treecache", 20_000, "znodes in TestTreeCacheLarge")

// A large tree is in the cache soon, and after random changes, lost connections and
// an expired session the cache is exactly the server's tree.
func TestTreeCacheLarge(t *testing.T) {
	t.Parallel()
	e := zktest.Start(t, zktest.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	a := &arena{t: t, ctx: ctx, connect: e.Direct(0), cut: e.Cut}
	writer := a.client()
	begin := time.Now()
	if testing.Short() {
		*treeCache = min(*treeCache, 2000)
	}
	paths := forest(a, writer, *treeCache)
	t.Logf("%d znodes made in %v", len(paths), time.Since(begin).Round(time.Millisecond))

	reached := *a
	reached.connect = e.Connect()
	s := reached.source()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	begin = time.Now()
	k := recipe.NewTreeCache(s, "/forest")
	defer k.Close()
	a.must(k.Wait(ctx))
	took := time.Since(begin)
	runtime.GC()
	runtime.ReadMemStats(&after)
	t.Logf("in the cache after %v, with %d bytes each", took.Round(time.Millisecond),
		(after.HeapAlloc-before.HeapAlloc)/uint64(len(paths)))
	if k.Len() != len(paths) {
		t.Errorf("%d znodes in the cache, want %d", k.Len(), len(paths))
	}

	for round := range 3 {
		switch round {
		case 1:
			e.Cut()
		case 2:
			a.expire(s)
		}
		disturb(a, writer, paths, 2000)
	}
	begin = time.Now()
	want := wholeTree(a, writer, "/forest")
	t.Logf("%d znodes read for comparison in %v", len(want), time.Since(begin).Round(time.Millisecond))
	same := func(x, y zk.Node) bool {
		return bytes.Equal(x.Data, y.Data) && x.Stat.Czxid == y.Stat.Czxid && x.Stat.Mzxid == y.Stat.Mzxid &&
			x.Stat.Version == y.Stat.Version
	}
	begin = time.Now()
	a.must(k.Wait(ctx))
	t.Logf("fresh again %v after that", time.Since(begin).Round(time.Millisecond))
	a.eventually("the cache is the tree", func() bool {
		if k.Len() != len(want) {
			return false
		}
		return maps.EqualFunc(k.Snapshot(), want, same)
	})
}

// forest makes n znodes, with a hundred bytes each, in directories of a thousand.
func forest(a *arena, c *zk.Client, n int) []string {
	world, value := zk.WorldACL(zk.PermAll), bytes.Repeat([]byte("x"), 100)
	p := c.Pipeline()
	paths := []string{"/forest"}
	ops := []zk.MultiOp{zk.CreateOp(paths[0], nil, zk.ModePersistent, world)}
	var sent []zk.Future[[]zk.MultiResult]
	flush := func() {
		sent = append(sent, p.Multi(a.ctx, ops...))
		ops = nil
		if len(sent) == 64 {
			for _, f := range sent {
				_, err := f.Wait(a.ctx)
				a.must(err)
			}
			sent = nil
		}
	}
	dir := ""
	for i := 1; i < n; i++ {
		path := ""
		if i%1000 == 1 {
			dir = fmt.Sprintf("/forest/%d", i)
			path = dir
		} else {
			path = fmt.Sprintf("%s/%d", dir, i)
		}
		paths = append(paths, path)
		if ops = append(ops, zk.CreateOp(path, value, zk.ModePersistent, world)); len(ops) == 100 {
			flush()
		}
	}
	flush()
	for _, f := range sent {
		_, err := f.Wait(a.ctx)
		a.must(err)
	}
	return paths
}

// disturb makes n random changes. Some fail, as what they need is gone.
func disturb(a *arena, c *zk.Client, paths []string, n int) {
	p := c.Pipeline()
	world := zk.WorldACL(zk.PermAll)
	for range n - 1 {
		path := paths[1+rand.N(len(paths)-1)]
		switch rand.N(4) {
		case 0:
			p.Create(a.ctx, path, []byte("again"), zk.ModePersistent, world)
		case 1:
			p.Delete(a.ctx, path, zk.AnyVersion)
		case 2:
			p.Set(a.ctx, path, []byte(path), zk.AnyVersion)
		case 3:
			p.Create(a.ctx, fmt.Sprintf("%s/%d", path, rand.N(3)), nil, zk.ModePersistent, world)
		}
	}
	_, err := p.Set(a.ctx, "/forest", nil, zk.AnyVersion).Wait(a.ctx)
	a.must(err)
}

// wholeTree reads a tree, a directory at a time.
func wholeTree(a *arena, c *zk.Client, path string) map[string]zk.Node {
	all := map[string]zk.Node{}
	data, stat, err := c.Get(a.ctx, path)
	a.must(err)
	all[path] = zk.Node{Data: data, Stat: stat}
	for dirs := []string{path}; len(dirs) > 0; {
		dir := dirs[len(dirs)-1]
		dirs = dirs[:len(dirs)-1]
		names, _, err := c.Children(a.ctx, dir)
		a.must(err)
		p := c.Pipeline()
		var sent []zk.Future[zk.Node]
		for _, name := range names {
			sent = append(sent, p.Get(a.ctx, dir+"/"+name))
		}
		for i, f := range sent {
			node, err := f.Wait(a.ctx)
			a.must(err)
			path := dir + "/" + names[i]
			all[path] = node
			if node.Stat.NumChildren > 0 {
				dirs = append(dirs, path)
			}
		}
	}
	return all
}

// A client that takes small replies only still gets its cache, one znode after the
// other.
func TestCacheSmallReplies(t *testing.T) {
	each(t, func(a *arena) {
		c := a.client()
		a.must(makeDir(a.ctx, c, "/small"))
		for i := range 40 {
			_, err := c.Create(a.ctx, fmt.Sprint("/small/", i), make([]byte, 1000), zk.ModePersistent, zk.WorldACL(zk.PermAll))
			a.must(err)
		}
		s := zk.NewSessions(func() (*zk.Client, error) {
			return zk.New(a.connect, zk.Options{SessionTimeout: sessionTimeout, MaxResponseBytes: 4000, MaxRequestBytes: 4000})
		})
		defer s.Close()
		k := recipe.NewTreeCache(s, "/small")
		defer k.Close()
		a.must(k.Wait(a.ctx))
		if k.Len() != 41 {
			t.Errorf("%d znodes in the cache, want 41", k.Len())
		}
	})
}
