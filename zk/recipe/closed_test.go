package recipe_test

import (
	"errors"
	"testing"

	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zk/recipe"
)

// What the program itself has closed fails with an error of its own: the session lives.
func TestClosed(t *testing.T) {
	each(t, func(a *arena) {
		s := a.source()
		e, l := recipe.NewEphemeral(s, "/e", recipe.Options{}), recipe.NewLatch(s, "/l", recipe.Options{})
		k, g := recipe.NewTreeCache(s, "/"), recipe.JoinGroup(s, "/g", "me", recipe.Options{})
		p := recipe.NewDiscovery(s, "/d", recipe.Options{}).Provider("web")
		for name, of := range map[string]struct {
			wait  func() error
			close func()
		}{
			"ephemeral": {func() error { _, err := e.Wait(a.ctx); return err }, e.Close},
			"latch":     {func() error { _, err := l.Wait(a.ctx); return err }, l.Close},
			"cache":     {func() error { return k.Wait(a.ctx) }, k.Close},
			"group":     {func() error { return g.Wait(a.ctx) }, g.Close},
			"provider":  {func() error { return p.Wait(a.ctx) }, p.Close},
		} {
			a.must(of.wait())
			of.close()
			if err := of.wait(); !errors.Is(err, recipe.ErrClosed) || zk.SessionLost(err) {
				t.Errorf("a closed %s: %v", name, err)
			}
		}
		var last error
		for _, err := range k.Events(a.ctx) {
			last = err
		}
		if !errors.Is(last, recipe.ErrClosed) || zk.SessionLost(last) {
			t.Errorf("events of a closed cache end with %v", last)
		}
		c, err := s.Client(a.ctx)
		a.must(err)
		_, _, err = c.Exists(a.ctx, "/")
		a.must(err)
	})
}
