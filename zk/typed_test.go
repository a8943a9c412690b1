package zk_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zk/recipe"
	"github.com/zooid-project/zooid/zktest"
)

// settings are the values of the tests.
type settings struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// TestTyped: values go there and back; data of something else, and a znode without data, are an error that names the
// path; concurrent updates lose none; a cache gives the same values.
func TestTyped(t *testing.T) {
	t.Parallel()
	servers, err := zktest.Serve(zktest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer servers.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := zk.Open(ctx, servers.Connect(), zk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	typed, all := zk.NewTyped(c, zk.JSON[settings]()), zk.WorldACL(zk.PermAll)
	began := time.Now()
	if _, err := typed.Create(ctx, "/app", settings{"app", 1}, zk.ModePersistent, all); err != nil {
		t.Fatal(err)
	}
	value, stat, err := typed.Get(ctx, "/app")
	if err != nil || value != (settings{"app", 1}) || zk.Time(stat.Ctime).Sub(began).Abs() > time.Minute {
		t.Errorf("%+v, created %v, %v", value, zk.Time(stat.Ctime), err)
	}
	if _, err := typed.Set(ctx, "/app", settings{"app", 2}, stat.Version+7); !errors.Is(err, zk.ErrBadVersion) {
		t.Errorf("a set with another version: %v", err)
	}
	for path, data := range map[string][]byte{"/text": []byte("no JSON"), "/none": nil, "/list": []byte("[1]")} {
		if _, err := c.Create(ctx, path, data, zk.ModePersistent, all); err != nil {
			t.Fatal(err)
		}
		_, stat, err := typed.Get(ctx, path)
		if bad, ok := errors.AsType[*zk.DecodeError](err); !ok || bad.Path != path || stat.Czxid == 0 ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, %+v", path, err, stat)
		}
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 10 {
				if _, _, err := typed.Update(ctx, "/app", func(old settings) (settings, error) {
					old.Count++
					return old, nil
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	enough := errors.New("enough")
	fail := func(old settings) (settings, error) { return old, enough }
	if _, _, err := typed.Update(ctx, "/app", fail); err != enough {
		t.Errorf("a change that fails: %v", err)
	}
	if value, _, _, err := typed.GetW(ctx, "/app"); err != nil || value.Count != 81 {
		t.Errorf("after 80 updates: %+v, %v", value, err)
	}
	sessions := zk.NewSessions(func() (*zk.Client, error) { return zk.New(servers.Connect(), zk.Options{}) })
	defer sessions.Close()
	cache := recipe.NewTypedCache(recipe.NewTreeCache(sessions, "/"), zk.JSON[settings]())
	defer cache.Close()
	if err := cache.Wait(ctx); err != nil {
		t.Fatal(err)
	}
	if value, ok, err := cache.Value("/app"); err != nil || !ok || value.Count != 81 {
		t.Errorf("in the cache: %+v, %v, %v", value, ok, err)
	}
	if _, ok, err := cache.Value("/nothing"); ok || err != nil {
		t.Errorf("in the cache: %v, %v", ok, err)
	}
	values, err := cache.Values()
	if bad, ok := errors.AsType[*zk.DecodeError](err); len(values) != 1 || values["/app"].Count != 81 || !ok {
		t.Errorf("%+v, %v, %v", values, bad, err)
	}
}
