package zktest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zktest"
)

// patience bounds tests that would otherwise wait forever. No result depends on it.
const patience = 3 * time.Minute

// open opens a session with a timeout so long that it doesn't expire on a busy machine.
func open(t *testing.T, connect string) *zk.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := zk.Open(ctx, connect, zk.Options{SessionTimeout: zktest.MaxSessionTimeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// A session, its ephemeral znode and its watch survive cut connections and a
// restart of the only server.
func TestRestart(t *testing.T) {
	t.Parallel()
	e := zktest.Start(t, zktest.Options{})
	ctx, c := within(t), open(t, e.Connect())
	if _, err := c.Create(ctx, "/a", []byte("1"), zk.ModeEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	_, _, w, err := c.GetW(ctx, "/a")
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range []func(){
		e.Cut,
		func() { e.Stop(0); e.Start(0) },
		func() { e.Refuse(0, true); e.Refuse(0, false) },
	} {
		session := c.Session().ID
		fault()
		if _, ok, err := c.Exists(ctx, "/a"); err != nil || !ok || c.Session().ID != session {
			t.Fatalf("after a fault: exists %v, %v; session 0x%x was 0x%x", ok, err, c.Session().ID, session)
		}
	}
	if _, err := c.Set(ctx, "/a", []byte("2"), zk.AnyVersion); err != nil {
		t.Fatal(err)
	}
	if ev, err := w.Next(ctx); err != nil || ev.Type != zk.EventNodeDataChanged {
		t.Errorf("watch: %v, %v", ev, err)
	}
}

// An ensemble serves without any one of its servers.
func TestEnsembleSurvivesEachServer(t *testing.T) {
	t.Parallel()
	e := zktest.Start(t, zktest.Options{Servers: 3})
	ctx, c := within(t), open(t, e.Connect())
	for i := range 3 {
		e.Stop(i)
		path := "/n" + string(rune('0'+i))
		for {
			_, err := c.Create(ctx, path, nil, zk.ModePersistent, zk.WorldACL(zk.PermAll))
			if err == nil || errors.Is(err, zk.ErrNodeExists) {
				break
			}
			if !zk.Retryable(err) && !zk.MaybeApplied(err) {
				t.Fatal(err)
			}
		}
		e.Start(i)
		one := open(t, e.ConnectTo(i))
		if err := one.Sync(ctx, "/"); err != nil {
			t.Fatalf("the server started again: %v", err)
		}
		if _, ok, err := one.Exists(ctx, path); err != nil || !ok {
			t.Fatalf("%s on the server that was down: %v, %v", path, ok, err)
		}
	}
}

func TestExpire(t *testing.T) {
	t.Parallel()
	e := zktest.Start(t, zktest.Options{})
	ctx, c, other := within(t), open(t, e.Connect()), open(t, e.Connect())
	if _, err := c.Create(ctx, "/a", nil, zk.ModeEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	zktest.Expire(t, c, e.Connect())
	if _, _, err := c.Exists(ctx, "/a"); !errors.Is(err, zk.ErrSessionExpired) {
		t.Errorf("the expired client: %v", err)
	}
	if _, ok, err := other.Exists(ctx, "/a"); err != nil || ok {
		t.Errorf("its ephemeral znode: exists %v, %v", ok, err)
	}
	zktest.Expire(t, c, e.Connect()) // once more does nothing
}

// There is one leader. When it stops, there is another one. A stopped server doesn't lead.
func TestLeader(t *testing.T) {
	t.Parallel()
	e := zktest.Start(t, zktest.Options{Servers: 3})
	ctx := within(t)
	leader := func(not int) int {
		for ctx.Err() == nil {
			if i := e.Leader(); i >= 0 && i != not {
				return i
			}
			time.Sleep(10 * time.Millisecond)
		}
		t.Fatal("no leader")
		return -1
	}
	first := leader(-1)
	e.Stop(first)
	second := leader(first)
	e.Stop(second)
	if i := e.Leader(); i == first || i == second {
		t.Errorf("server %d leads, though it is stopped", i)
	}
	if alone := zktest.Start(t, zktest.Options{}); alone.Leader() != 0 {
		t.Errorf("of one server, %d leads", alone.Leader())
	}
}

// Invalid options are refused at once, with the field and the reason.
func TestInvalidOptions(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]zktest.Options{
		"Options.Servers is -1; it must not be negative":  {Servers: -1},
		"Options.Tick is -1ns; it must be from 1ms":       {Tick: -1},
		"Options.Tick is 1h0m0s; it must be from 1ms":     {Tick: time.Hour},
		"Options.Tick is 1ns; it must be from 1ms to 30s": {Servers: 3, Tick: 1},
	} {
		e, err := zktest.Serve(o)
		if err == nil {
			e.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", o, err, want)
		}
	}
}
