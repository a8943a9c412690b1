package recipe

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/zooid-project/zooid/zk"
)

// While the view hasn't this member's present znode, Wait waits for it, for an end of either, and for the context.
func TestGroupLags(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, c := range map[string]struct { // any order: each is alone
		then func(g *Group, cancel context.CancelFunc)
		want error
	}{
		"context": {func(_ *Group, cancel context.CancelFunc) { cancel() }, context.Canceled},
		"self":    {func(g *Group, _ context.CancelFunc) { g.self.publish(0, broken) }, broken},
		"view":    {func(g *Group, _ context.CancelFunc) { g.view.end(broken) }, broken},
		"znode": {func(g *Group, _ context.CancelFunc) {
			path := g.self.path
			g.view.apply([]string{path}, map[string]zk.Node{path: {Stat: zk.Stat{Czxid: 8}}})
		}, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := &Group{
				&Ephemeral{path: "/g/me", token: 8, changed: make(chan struct{})},
				&Cache{
					root: "/g", fresh: true, changed: make(chan struct{}), feeds: map[*feed]struct{}{},
					nodes: map[string]zk.Node{"/g/me": {Stat: zk.Stat{Czxid: 7}}},
				},
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			result := make(chan error, 1)
			go func() { result <- g.Wait(ctx) }()
			synctest.Wait()
			select {
			case err := <-result:
				t.Fatalf("%s: it returned too early: %v", name, err)
			default:
			}
			c.then(g, cancel)
			if err := <-result; !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
			if len(g.view.feeds) > 0 {
				t.Errorf("%s: a feed is left", name)
			}
		})
	}
}
