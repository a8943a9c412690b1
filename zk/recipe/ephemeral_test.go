package recipe_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zk/recipe"
)

// ended waits until e has ended with the error want.
func ended(a *arena, e *recipe.Ephemeral, want error) {
	a.t.Helper()
	a.eventually("the Ephemeral has ended", func() bool {
		_, err := e.Wait(a.ctx)
		if err != nil && !errors.Is(err, want) {
			a.t.Fatalf("ended with %v, want %v", err, want)
		}
		return err != nil
	})
}

// tooLarge exceeds what a client sends.
var tooLarge = make([]byte, 2<<20)

// An Ephemeral that an error ends deletes its znode, and its Close leaves the znode of the next one alone.
func TestEphemeralEndedByError(t *testing.T) {
	each(t, func(a *arena) {
		s, c := a.source(), a.client()
		first := recipe.NewEphemeral(s, "/e", recipe.Options{Data: []byte("first")})
		defer first.Close()
		token, err := first.Wait(a.ctx)
		a.must(err)
		first.SetData(tooLarge)
		ended(a, first, zk.ErrRequestTooLarge)
		if data, _, err := c.Get(a.ctx, "/e"); !errors.Is(err, zk.ErrNoNode) {
			t.Errorf("the znode after the end: %q, %v", data, err)
		}
		next := recipe.NewEphemeral(s, "/e", recipe.Options{Data: []byte("next")})
		defer next.Close()
		after, err := next.Wait(a.ctx)
		a.must(err)
		if after <= token {
			t.Errorf("the next one's znode is 0x%x, after 0x%x", after, token)
		}
		first.Close()
		ended(a, first, zk.ErrRequestTooLarge)
		if data, stat, err := c.Get(a.ctx, "/e"); err != nil || string(data) != "next" || stat.Czxid != after {
			t.Errorf("the next one's znode: %q, 0x%x, %v", data, stat.Czxid, err)
		}
	})
}

// The next Ephemeral takes over a znode whose deletion the ensemble refuses.
func TestEphemeralDeletionRefused(t *testing.T) {
	each(t, func(a *arena) {
		s, c := a.source(), a.client()
		_, err := c.Create(a.ctx, "/dir", nil, zk.ModePersistent, zk.WorldACL(zk.PermAll&^zk.PermDelete))
		a.must(err)
		first := recipe.NewEphemeral(s, "/dir/e", recipe.Options{Data: []byte("first")})
		defer first.Close()
		token, err := first.Wait(a.ctx)
		a.must(err)
		first.SetData(tooLarge)
		ended(a, first, zk.ErrRequestTooLarge)
		next := recipe.NewEphemeral(s, "/dir/e", recipe.Options{Data: []byte("next")})
		defer next.Close()
		after, err := next.Wait(a.ctx)
		a.must(err)
		data, stat, err := c.Get(a.ctx, "/dir/e")
		if err != nil || string(data) != "next" || stat.Czxid != token || after != token {
			t.Errorf("%q, 0x%x, %v; the tokens are 0x%x and 0x%x", data, stat.Czxid, err, token, after)
		}
	})
}

// A path has one Ephemeral at a time in a session, even if two zk.Sessions with different chroots share the session.
func TestEphemeralSharedSession(t *testing.T) {
	each(t, func(a *arena) {
		c := a.client()
		view, err := c.Chroot("/app")
		a.must(err)
		sessions := func(c *zk.Client) *zk.Sessions {
			return zk.NewSessions(func() (*zk.Client, error) { return c, nil })
		}
		first := recipe.NewEphemeral(sessions(c), "/app/e", recipe.Options{})
		defer first.Close()
		token, err := first.Wait(a.ctx)
		a.must(err)
		second := recipe.NewEphemeral(sessions(view), "/e", recipe.Options{})
		defer second.Close()
		soon, cancel := context.WithTimeout(a.ctx, 200*time.Millisecond)
		defer cancel()
		if _, err := second.Wait(soon); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the second beside the first: %v", err)
		}
		first.Close()
		if after, err := second.Wait(a.ctx); err != nil || after <= token {
			t.Errorf("the second one's znode is 0x%x, %v, after 0x%x", after, err, token)
		}
	})
}

// The next Ephemeral waits until the znode of one that was closed without a connection is deleted.
func TestEphemeralClosedLate(t *testing.T) {
	each(t, func(a *arena) {
		s := a.source()
		first := recipe.NewEphemeral(s, "/e", recipe.Options{})
		token, err := first.Wait(a.ctx)
		a.must(err)
		a.refuse(true)
		first.Close() // gives up the wait after five seconds
		next := recipe.NewEphemeral(s, "/e", recipe.Options{})
		defer next.Close()
		a.refuse(false)
		after, err := next.Wait(a.ctx)
		a.must(err)
		if after <= token {
			t.Errorf("the next one's znode is 0x%x, after 0x%x", after, token)
		}
	})
}
