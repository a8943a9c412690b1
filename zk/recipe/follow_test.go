package recipe_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zk/recipe"
)

// The znode is there again after expiry and deletion, with the latest data, and
// gone after Close.
func TestEphemeral(t *testing.T) {
	each(t, func(a *arena) {
		s, c := a.source(), a.client()
		e := recipe.NewEphemeral(s, "/here/i/am", recipe.Options{Data: []byte("1")})
		defer e.Close()
		first, err := e.Wait(a.ctx)
		a.must(err)
		has := func(what string) func() bool {
			return func() bool {
				data, stat, err := c.Get(a.ctx, e.Path())
				return err == nil && string(data) == what && stat.EphemeralOwner != 0
			}
		}
		a.eventually("it has its data", has("1"))
		a.expire(s)
		a.eventually("it is back after expiry", has("1"))
		a.cut()
		e.SetData([]byte("2"))
		a.eventually("it has new data", has("2"))
		a.must(c.Delete(a.ctx, e.Path(), zk.AnyVersion))
		a.eventually("it is back after a deletion", has("2"))
		second, err := e.Wait(a.ctx)
		if err != nil || second <= first {
			t.Errorf("token 0x%x, %v, after 0x%x", second, err, first)
		}

		// Another's znode of that name is waited for.
		rival := a.source()
		other := recipe.NewEphemeral(rival, e.Path(), recipe.Options{Data: []byte("rival")})
		defer other.Close()
		e.Close()
		e.Close()
		a.eventually("the other's turn has come", has("rival"))
		if _, err := e.Wait(a.ctx); !errors.Is(err, recipe.ErrClosed) {
			t.Errorf("wait for a closed one: %v", err)
		}
	})
}

func TestGroup(t *testing.T) {
	each(t, func(a *arena) {
		s := a.source()
		one := recipe.JoinGroup(s, "/group", "one", recipe.Options{Data: []byte("1")})
		defer one.Close()
		two := recipe.JoinGroup(a.source(), "/group", "two", recipe.Options{Data: []byte("2")})
		defer two.Close()
		a.must(one.Wait(a.ctx))
		a.must(two.Wait(a.ctx))
		both := map[string]string{"one": "1", "two": "2"}
		sees := func(g *recipe.Group, want map[string]string) func() bool {
			return func() bool {
				return maps.EqualFunc(g.Members(), want, func(a []byte, b string) bool { return string(a) == b })
			}
		}
		a.eventually("one sees both", sees(one, both))
		a.eventually("two sees both", sees(two, both))
		first, err := one.Self().Wait(a.ctx)
		a.must(err)
		a.expire(s)
		for name, g := range map[string]*recipe.Group{"one": one, "two": two} { // any order: both must
			a.eventually(name+" sees both again", func() bool {
				me, ok := g.View().Get("/group/one")
				return ok && me.Stat.Czxid > first && sees(g, both)()
			})
		}
		members, err := recipe.Members(a.ctx, a.client(), "/group")
		if err != nil || len(members) != 2 {
			t.Errorf("members %q, %v", members, err)
		}
		two.Self().SetData([]byte("two"))
		a.eventually("one sees new data", sees(one, map[string]string{"one": "1", "two": "two"}))
		two.Close()
		a.eventually("one is alone", sees(one, map[string]string{"one": "1"}))
	})
}

// A cache misses no change of many that come one by one.
func TestCacheMissesNothing(t *testing.T) {
	each(t, func(a *arena) {
		const count = 3000
		k := recipe.NewChildrenCache(a.source(), "/many")
		defer k.Close()
		a.must(k.Wait(a.ctx))
		c := a.client()
		_, err := c.Create(a.ctx, "/many", nil, zk.ModePersistent, zk.OpenACL())
		a.must(err)
		for i := range count {
			_, err := c.Create(a.ctx, fmt.Sprint("/many/", i), nil, zk.ModePersistent, zk.OpenACL())
			a.must(err)
		}
		a.eventually("it has all", func() bool { return k.Len() == count+1 })
	})
}

// After Wait, a member sees itself.
func TestGroupWait(t *testing.T) {
	each(t, func(a *arena) {
		s := a.source()
		for i := range 50 {
			path := fmt.Sprint("/group-", i)
			g := recipe.JoinGroup(s, path, "me", recipe.Options{})
			a.must(g.Wait(a.ctx))
			if _, ok := g.Members()["me"]; !ok {
				t.Errorf("%s: %v isn't me", path, g.Members())
			}
			g.Close()
		}
		g := recipe.JoinGroup(s, "/closed", "me", recipe.Options{})
		defer g.Close()
		a.must(g.Wait(a.ctx))
		g.View().Close()
		if err := g.Wait(a.ctx); !errors.Is(err, recipe.ErrClosed) {
			t.Errorf("wait for a closed view: %v", err)
		}
	})
}

// Of two members that join at once, at least one sees the other after Wait.
func TestGroupTwins(t *testing.T) {
	each(t, func(a *arena) {
		both := []*zk.Sessions{a.source(), a.source()}
		a.must(a.client().Sync(a.ctx, "/"))
		for i := range 50 {
			var seen atomic.Int32
			var all sync.WaitGroup
			var groups [2]*recipe.Group
			for j := range groups {
				all.Go(func() {
					g := recipe.JoinGroup(both[j], fmt.Sprint("/twins-", i), fmt.Sprint(j), recipe.Options{})
					groups[j] = g
					if err := g.Wait(a.ctx); err != nil {
						t.Error(err)
					}
					seen.Add(int32(len(g.Members())))
				})
			}
			all.Wait()
			if seen.Load() < 3 {
				t.Errorf("round %d: two members see %d in all", i, seen.Load())
			}
			for _, g := range groups {
				g.Close()
			}
		}
	})
}

// Of two Ephemerals of one zk.Sessions with one path, the second waits until the first is closed, and its Close leaves
// the first one's znode alone.
func TestEphemeralTwice(t *testing.T) {
	each(t, func(a *arena) {
		s, c := a.source(), a.client()
		open := func(data string) *recipe.Ephemeral {
			e := recipe.NewEphemeral(s, "/e", recipe.Options{Data: []byte(data)})
			t.Cleanup(e.Close)
			return e
		}
		first := open("first")
		_, err := first.Wait(a.ctx)
		a.must(err)
		second := open("second")
		soon, cancel := context.WithTimeout(a.ctx, 200*time.Millisecond)
		defer cancel()
		if token, err := second.Wait(soon); err == nil {
			t.Errorf("both have the znode, %x", token)
		}
		second.Close()
		if _, err := second.Wait(a.ctx); !errors.Is(err, recipe.ErrClosed) {
			t.Errorf("closed while it waited: %v", err)
		}
		data, stat, err := c.Get(a.ctx, "/e")
		if err != nil || string(data) != "first" || stat.Version != 0 {
			t.Errorf("the first one's znode: %q, version %d, %v", data, stat.Version, err)
		}
		third := open("third")
		first.Close()
		_, err = third.Wait(a.ctx)
		a.must(err)
		if data, _, err := c.Get(a.ctx, "/e"); err != nil || string(data) != "third" {
			t.Errorf("after the first: %q, %v", data, err)
		}
	})
}

func TestDiscovery(t *testing.T) {
	each(t, func(a *arena) {
		s := a.source()
		d := recipe.NewDiscovery(s, "/services", recipe.Options{})
		if _, err := d.Register(&recipe.Instance{Name: "a/b"}); err == nil {
			t.Error("a name with a slash is registered")
		}
		port := 80
		p := d.Provider("web")
		defer p.Close()
		if _, ok := p.Next(); ok {
			t.Error("an instance of nothing")
		}
		for _, i := range []recipe.Instance{
			{Name: "web", ID: "1", Address: "10.0.0.1", Port: &port},
			{Name: "web", ID: "2", Address: "10.0.0.2"},
			{Name: "web", ID: "3", Address: "10.0.0.3", Disabled: true},
			{Name: "db", Payload: json.RawMessage(`{"role":"primary"}`)},
		} {
			r, err := d.Register(&i)
			a.must(err)
			defer r.Close()
			if i.ID == "" || r.Path() != "/services/"+i.Name+"/"+i.ID || i.RegisteredMs == 0 || i.Type != "DYNAMIC" {
				t.Errorf("%s is the path of %+v", r.Path(), i)
			}
			_, err = r.Wait(a.ctx)
			a.must(err)
		}
		a.must(makeBroken(a.ctx, a.client()))
		names, err := d.Names(a.ctx)
		if err != nil || !slices.Equal(names, []string{"db", "web"}) {
			t.Errorf("names %q, %v", names, err)
		}
		list, err := d.Instances(a.ctx, "web")
		if err != nil || len(list) != 3 || *list[0].Port != 80 || list[0].Type != "DYNAMIC" || list[0].RegisteredMs == 0 ||
			!list[2].Disabled || list[1].Disabled {
			t.Errorf("instances %+v, %v", list, err)
		}
		db, err := d.Instances(a.ctx, "db")
		if err != nil || len(db) != 1 || db[0].ID == "" || string(db[0].Payload) != `{"role":"primary"}` {
			t.Errorf("instances %+v, %v", db, err)
		}
		a.eventually("the provider knows both", func() bool { return len(p.All()) == 2 })
		was := p.Cache().Snapshot()
		a.expire(s)
		a.eventually("the provider knows both after expiry", func() bool {
			now := p.Cache().Snapshot()
			for _, path := range []string{"/services/web/1", "/services/web/2", "/services/web/3"} {
				if now[path].Stat.Czxid <= was[path].Stat.Czxid {
					return false
				}
			}
			return true
		})
		turns := map[string]int{}
		for range 4 {
			i, _ := p.Next()
			turns[i.ID]++
		}
		if turns["1"] != 2 || turns["2"] != 2 {
			t.Errorf("turns %v", turns)
		}
	})
}

func makeBroken(ctx context.Context, c *zk.Client) error {
	_, err := c.Create(ctx, "/services/web/broken", []byte("{"), zk.ModeEphemeral, zk.WorldACL(zk.PermAll))
	return err
}

// The JSON is what Curator writes and reads.
func TestInstanceJSON(t *testing.T) {
	t.Parallel()
	port := 8080
	i := recipe.Instance{
		Name: "web", ID: "x", Address: "10.0.0.1", Port: &port, RegisteredMs: 1325129459728, Type: "DYNAMIC",
	}
	want := `{"name":"web","id":"x","address":"10.0.0.1","port":8080,"sslPort":null,"payload":null,"registrationTimeUTC":1325129459728,"serviceType":"DYNAMIC","uriSpec":null,"enabled":true}`
	got, err := json.Marshal(i)
	if err != nil || string(got) != want {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
	var back recipe.Instance
	if err := json.Unmarshal([]byte(`{"name":"web","id":"x","enabled":false,"unknown":1}`), &back); err != nil ||
		!back.Disabled || back.Port != nil {
		t.Errorf("%+v, %v", back, err)
	}
	back.Disabled = true
	if err := json.Unmarshal([]byte(`{"name":"web","id":"x"}`), &back); err != nil || back.Disabled {
		t.Errorf("without enabled: %+v, %v", back, err)
	}
}

// treeSize is the number of znodes a tree cache begins with.
const treeSize = 3000

// After a storm of random changes, cuts and expiry, a tree cache is exactly the
// tree, and so is what its events add up to.
func TestTreeCacheExact(t *testing.T) {
	each(t, func(a *arena) {
		writer, s := a.client(), a.source()
		world := zk.WorldACL(zk.PermAll)
		a.must(makeDir(a.ctx, writer, "/tree"))
		paths := plant(a, writer, "/tree", treeSize)
		k := recipe.NewTreeCache(s, "/tree")
		defer k.Close()
		a.must(k.Wait(a.ctx))
		if k.Len() != len(paths)+1 {
			t.Errorf("%d znodes, want %d", k.Len(), len(paths)+1)
		}
		ctx, stop := context.WithCancel(a.ctx)
		defer stop()
		var mu sync.Mutex
		model := map[string]zk.Node{}
		var wg sync.WaitGroup
		wg.Go(func() {
			for e, err := range k.Events(ctx) {
				if err != nil {
					return
				}
				mu.Lock()
				applyEvent(t, model, e)
				mu.Unlock()
			}
		})

		over := a.storm(a.cut, a.cut, func() { a.expire(s) })
		for n := 0; n < 500 || !finished(over); n++ {
			path := paths[rand.N(len(paths))]
			var err error
			switch rand.N(4) {
			case 0:
				_, err = writer.Create(a.ctx, path, fmt.Append(nil, n), zk.ModePersistent, world)
			case 1:
				err = writer.Delete(a.ctx, path, zk.AnyVersion)
			case 2:
				_, err = writer.Set(a.ctx, path, fmt.Append(nil, n), zk.AnyVersion)
			case 3:
				child := path + "/" + fmt.Sprint(rand.N(3))
				if _, err = writer.Create(a.ctx, child, nil, zk.ModePersistent, world); err == nil {
					paths = append(paths, child)
				}
			}
			if zk.SessionLost(err) || a.ctx.Err() != nil {
				t.Fatal(err)
			}
		}
		a.must(writer.Sync(a.ctx, "/tree")) // a write whose reply was lost may still be under way
		want := readTree(a, writer, "/tree")
		same := func(x, y zk.Node) bool {
			return bytes.Equal(x.Data, y.Data) && x.Stat.Czxid == y.Stat.Czxid && x.Stat.Mzxid == y.Stat.Mzxid &&
				x.Stat.Version == y.Stat.Version
		}
		a.eventually("the cache is the tree",
			func() bool { return k.Wait(a.ctx) == nil && maps.EqualFunc(k.Snapshot(), want, same) })
		a.eventually("the events add up to the tree", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return maps.EqualFunc(model, want, same)
		})
		stop()
		wg.Wait()
	})
}

// plant makes n znodes below root, several levels deep.
func plant(a *arena, c *zk.Client, root string, n int) []string {
	paths := []string{}
	p := c.Pipeline()
	var last zk.Future[zk.Created]
	for i := range n {
		parent := root
		if i >= 30 {
			parent = paths[(i-30)/10]
		}
		paths = append(paths, fmt.Sprintf("%s/%d", parent, i))
		last = p.Create(a.ctx, paths[i], fmt.Append(nil, i), zk.ModePersistent, zk.WorldACL(zk.PermAll))
	}
	_, err := last.Wait(a.ctx)
	a.must(err)
	return paths
}

// readTree reads a tree the slow way.
func readTree(a *arena, c *zk.Client, path string) map[string]zk.Node {
	all := map[string]zk.Node{}
	var visit func(path string)
	visit = func(path string) {
		data, stat, err := c.Get(a.ctx, path)
		a.must(err)
		all[path] = zk.Node{Data: data, Stat: stat}
		if stat.NumChildren == 0 {
			return
		}
		names, _, err := c.Children(a.ctx, path)
		a.must(err)
		for _, name := range names {
			visit(path + "/" + name)
		}
	}
	visit(path)
	return all
}

// applyEvent keeps model up to date, and checks that the event makes sense there.
func applyEvent(t *testing.T, model map[string]zk.Node, e recipe.CacheEvent) {
	_, had := model[e.Path]
	switch e.Type {
	case recipe.CacheAdded:
		if had {
			t.Errorf("%v: added twice", e.Path)
		}
		model[e.Path] = e.Node
	case recipe.CacheChanged, recipe.CacheRemoved:
		if !had {
			t.Errorf("%v %v: not in the cache", e.Type, e.Path)
		}
		if model[e.Path] = e.Node; e.Type == recipe.CacheRemoved {
			delete(model, e.Path)
		}
	case recipe.CacheReset:
		clear(model)
	}
}

// A reader that doesn't read misses events, learns it, and gets the whole content
// again; it never holds up the cache.
func TestCacheSlowReader(t *testing.T) {
	each(t, func(a *arena) {
		c := a.client()
		a.must(makeDir(a.ctx, c, "/n"))
		k := recipe.NewTreeCache(a.source(), "/n")
		defer k.Close()
		a.must(k.Wait(a.ctx))
		const changes = 6000
		reset, finals := false, 0
		for e, err := range k.Events(a.ctx) {
			a.must(err)
			if e.Type == recipe.CacheFresh && finals == 0 {
				plant(a, c, "/n", changes) // and meanwhile read nothing
				a.eventually("the cache went on", func() bool { return k.Len() == changes+1 })
			}
			reset = reset || e.Type == recipe.CacheReset
			if e.Type == recipe.CacheFresh {
				if finals++; finals == 2 {
					break
				}
			}
		}
		if !reset {
			t.Error("no reset")
		}
	})
}

// What each kind of cache covers, and the order of its events.
func TestCacheDepth(t *testing.T) {
	each(t, func(a *arena) {
		c, s := a.client(), a.source()
		world := zk.WorldACL(zk.PermAll)
		for _, tt := range []struct {
			open func(*zk.Sessions, string) *recipe.Cache
			root string
			want string
		}{
			{recipe.NewNodeCache, "/d/a", "fresh added /d/a changed /d/a removed /d/a"},
			{recipe.NewChildrenCache, "/d/a", "fresh added /d/a changed /d/a added /d/a/b changed /d/a/b removed /d/a/b removed /d/a"},
			{recipe.NewTreeCache, "/d/a", "fresh added /d/a changed /d/a added /d/a/b changed /d/a/b added /d/a/b/c removed /d/a/b/c removed /d/a/b removed /d/a"},
			{recipe.NewTreeCache, "/d/ab", "fresh"},
		} {
			k := tt.open(s, tt.root)
			defer k.Close()
			a.must(k.Wait(a.ctx))
			var got []string
			ctx, stop := context.WithCancel(a.ctx)
			begun, over := make(chan struct{}), make(chan struct{})
			var mu sync.Mutex
			go func() {
				defer close(over)
				for e, err := range k.Events(ctx) {
					if err != nil {
						return
					}
					mu.Lock()
					got = append(got, strings.TrimSpace(e.Type.String()+" "+e.Path))
					mu.Unlock()
					if e.Type == recipe.CacheFresh {
						close(begun)
					}
				}
			}()
			<-begun
			seen := func() string {
				mu.Lock()
				defer mu.Unlock()
				return strings.Join(got, " ")
			}
			step := func(path string, err error) {
				a.must(err)
				// The next step waits for this one's event, so that none are merged.
				if !slices.Contains(strings.Fields(tt.want), path) {
					return // it isn't covered
				}
				stat, exists, err := c.Exists(a.ctx, path)
				a.must(err)
				a.eventually("the event of "+path, func() bool {
					node, has := k.Get(path)
					return has == exists && node.Stat.Mzxid == stat.Mzxid
				})
			}
			create := func(path string) error {
				_, err := c.Create(a.ctx, path, nil, zk.ModePersistent, world)
				return err
			}
			if _, ok, _ := c.Exists(a.ctx, "/d"); !ok {
				step("/d", create("/d"))
			}
			step("/d/a", create("/d/a"))
			_, err := c.Set(a.ctx, "/d/a", []byte("x"), zk.AnyVersion)
			step("/d/a", err)
			step("/d/a/b", create("/d/a/b"))
			_, err = c.Set(a.ctx, "/d/a/b", []byte("x"), zk.AnyVersion)
			step("/d/a/b", err)
			step("/d/a/b/c", create("/d/a/b/c"))
			for _, path := range []string{"/d/a/b/c", "/d/a/b", "/d/a"} {
				step(path, c.Delete(a.ctx, path, zk.AnyVersion))
			}
			a.eventually("all events", func() bool { return len(seen()) >= len(tt.want) })
			if seen() != tt.want {
				t.Errorf("events %q, want %q", seen(), tt.want)
			}
			stop()
			<-over
		}
	})
}
