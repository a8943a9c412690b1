package zk

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// A write that was sent before the connection was lost fails as maybe applied. One that wasn't sent is sent again, and
// so is a read.
func TestLossOfCalls(t *testing.T) {
	t.Parallel()
	for _, op := range []struct {
		name string
		do   func(context.Context, *Client) error
		lost bool // when on the wire
	}{
		{"getData", func(ctx context.Context, c *Client) error { _, _, err := c.Get(ctx, "/a"); return err }, false},
		{"sync", func(ctx context.Context, c *Client) error { return c.Sync(ctx, "/a") }, false},
		{"setData", func(ctx context.Context, c *Client) error { _, err := c.Set(ctx, "/a", nil, 3); return err }, true},
		{"delete", func(ctx context.Context, c *Client) error { return c.Delete(ctx, "/a", 3) }, true},
		{"create", func(ctx context.Context, c *Client) error {
			_, err := c.Create(ctx, "/a", nil, ModeEphemeral, WorldACL(PermAll))
			return err
		}, true},
		{"multi", func(ctx context.Context, c *Client) error { _, err := c.Multi(ctx, DeleteOp("/a", 3)); return err }, true},
	} {
		t.Run(op.name, func(t *testing.T) {
			t.Parallel()
			scripted(t, Options{}, func(t *testing.T, c *Client, _ *network) {
				err := op.do(t.Context(), c)
				if !op.lost {
					if err != nil {
						t.Errorf("after a loss: %v", err)
					}
					return
				}
				isError(t, err, ErrConnectionLoss, op.name)
				if !MaybeApplied(err) || Retryable(err) || !strings.Contains(err.Error(), "may have been applied") {
					t.Errorf("error %v: maybe %v, retryable %v", err, MaybeApplied(err), Retryable(err))
				}
			}, func(p *peer) {
				p.accept()
				p.next()
			}, accepting)
		})
	}
}

func TestRetryNever(t *testing.T) {
	t.Parallel()
	scripted(t, Options{Retry: RetryNever}, func(t *testing.T, c *Client, _ *network) {
		_, _, err := c.Get(t.Context(), "/a")
		isError(t, err, ErrConnectionLoss, "getData")
		if MaybeApplied(err) || !Retryable(err) {
			t.Errorf("error %v", err)
		}
	}, func(p *peer) {
		p.accept()
		p.next()
	}, accepting)
}

// A write that was refused to shed load isn't applied, so it is sent again after a pause.
func TestRetryThrottled(t *testing.T) {
	t.Parallel()
	scripted(t, Options{}, func(t *testing.T, c *Client, _ *network) {
		start := time.Now()
		if _, err := c.Set(t.Context(), "/a", nil, AnyVersion); err != nil {
			t.Error(err)
		}
		if passed := time.Since(start); passed < 150*time.Millisecond || passed > 300*time.Millisecond {
			t.Errorf("pauses of %v in all", passed)
		}
		_, err := c.Set(t.Context(), "/a", nil, AnyVersion)
		isError(t, err, ErrThrottledOp, "setData")
	}, func(p *peer) {
		p.accept()
		for i := range 6 {
			r := p.want(jute.OpSetData)
			if i == 2 {
				p.obey(r, 1)
			} else {
				p.reply(r.xid, 0, ErrThrottledOp, nil)
			}
		}
		p.serve()
	})
}

// A context that ends during the pause ends the call with its own error, and the write isn't sent again.
func TestRetryCanceled(t *testing.T) {
	t.Parallel()
	scripted(t, Options{}, func(t *testing.T, c *Client, _ *network) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := c.Set(ctx, "/a", nil, AnyVersion)
		isError(t, err, context.DeadlineExceeded, "setData")
		if MaybeApplied(err) || Retryable(err) || !strings.Contains(err.Error(), "throttled") {
			t.Errorf("error %v", err)
		}
		get(t, c, "/a")
	}, func(p *peer) {
		p.accept()
		p.reply(p.want(jute.OpSetData).xid, 0, ErrThrottledOp, nil)
		p.serve()
	})
}

// A caller may leave. Its late reply is dropped, and the next call gets the correct reply.
func TestCallerLeaves(t *testing.T) {
	t.Parallel()
	scripted(t, Options{}, func(t *testing.T, c *Client, _ *network) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Set(ctx, "/slow", nil, AnyVersion)
		e := isError(t, err, context.DeadlineExceeded, "setData")
		if !MaybeApplied(err) || e.Server == "" || e.Path != "/slow" {
			t.Errorf("error %v", err)
		}
		get(t, c, "/a")
	}, func(p *peer) {
		p.accept()
		r := p.want(jute.OpSetData)
		time.Sleep(2 * time.Second)
		p.obey(r, 1)
		p.serve()
	})
}

// A call cancelled before it was sent is never sent.
func TestWithdrawnCall(t *testing.T) {
	t.Parallel()
	scripted(t, Options{}, func(t *testing.T, c *Client, _ *network) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Set(ctx, "/never", nil, AnyVersion)
		isError(t, err, context.DeadlineExceeded, "setData")
		if MaybeApplied(err) || !strings.Contains(err.Error(), "connection refused") {
			t.Errorf("error %v", err)
		}
		get(t, c, "/a")
	}, append(make([]func(*peer), 30), func(p *peer) {
		p.accept()
		p.obey(p.want(jute.OpGetData), 1)
		p.serve()
	})...)
}

// A settled context lets all other goroutines of a bubble finish their work before a caller waits for its end.
type settled struct{ context.Context }

func (s settled) Done() <-chan struct{} {
	time.Sleep(time.Millisecond)
	return s.Context.Done()
}

// A call whose context has already ended is never sent.
func TestEndedContext(t *testing.T) {
	t.Parallel()
	scripted(t, Options{}, func(t *testing.T, c *Client, _ *network) {
		get(t, c, "/before")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		ctx := settled{ended}
		check := func(name string, err error) {
			if !errors.Is(err, context.Canceled) || MaybeApplied(err) || Retryable(err) {
				t.Errorf("%s: %v, may be applied: %v", name, err, MaybeApplied(err))
			}
		}
		_, err := c.Set(ctx, "/a", nil, AnyVersion)
		check("Set", err)
		_, _, err = c.Get(ctx, "/a")
		check("Get", err)
		_, _, err = c.CreateProtected(ctx, "/n-", nil, ModeEphemeralSequential, WorldACL(PermAll))
		check("CreateProtected", err)
		_, err = c.Pipeline().Set(ctx, "/a", nil, AnyVersion).Wait(t.Context())
		check("Pipeline.Set", err)
		get(t, c, "/after")
	}, func(p *peer) {
		p.accept()
		for r := p.next(); r.op != jute.OpCloseSession; r = p.next() {
			if r.op != jute.OpGetData || r.path() == "/a" {
				p.t.Errorf("the client has sent %s %s", r.op, r.path())
			}
			p.obey(r, 1)
		}
	})
}

// With MaxOutstanding unanswered calls, the next one waits, until room is free or its context ends.
func TestOutstandingMax(t *testing.T) {
	t.Parallel()
	release := func(p *peer) {
		p.accept()
		var held []request
		for range 4 {
			held = append(held, p.next())
		}
		time.Sleep(3 * time.Second)
		for _, r := range held {
			p.obey(r, 1)
		}
		p.serve()
	}
	scripted(t, Options{MaxOutstanding: 4}, func(t *testing.T, c *Client, _ *network) {
		p := c.Pipeline()
		for range 4 {
			p.Get(t.Context(), "/a")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err := c.Get(ctx, "/b")
		isError(t, err, context.DeadlineExceeded, "getData")
		if !strings.Contains(err.Error(), "waiting for room behind 4") {
			t.Errorf("error %v", err)
		}
		var callers sync.WaitGroup
		for range 20 {
			callers.Go(func() {
				if _, _, err := c.Get(t.Context(), "/c"); err != nil {
					t.Error(err)
				}
			})
		}
		callers.Wait()
	}, release)
}

// After a loss a pipeline sends nothing more, so nothing overtakes a lost write.
func TestPipelineOrder(t *testing.T) {
	t.Parallel()
	scripted(t, Options{}, func(t *testing.T, c *Client, _ *network) {
		ctx := t.Context()
		p := c.Pipeline()
		first := p.Set(ctx, "/data", nil, AnyVersion)
		second := p.Set(ctx, "/ready", nil, AnyVersion)
		if _, err := first.Wait(ctx); err != nil {
			t.Error(err)
		}
		_, err := second.Wait(ctx)
		isError(t, err, ErrConnectionLoss, "setData")
		if _, again := second.Wait(ctx); !errors.Is(again, err) {
			t.Errorf("a second Wait: %v", again)
		}
		_, err = p.Delete(ctx, "/later", AnyVersion).Wait(ctx)
		isError(t, err, ErrConnectionLoss, "delete")
		if MaybeApplied(err) || !strings.Contains(err.Error(), "pipeline") {
			t.Errorf("error %v", err)
		}
		q := c.Pipeline()
		made, listed, node := q.Create(ctx, "/n", nil, ModePersistent, WorldACL(PermAll)), q.Children(ctx, "/n"), q.Get(ctx,
			"/n")
		if v, err := made.Wait(ctx); err != nil || v.Path != "/n" || v.Stat.Czxid != 7 {
			t.Error(v, err)
		}
		if v, err := listed.Wait(ctx); err != nil || len(v.Children) != 2 {
			t.Error(v, err)
		}
		<-node.Done()
		if v, err := node.Wait(ctx); err != nil || string(v.Data) != "data" {
			t.Error(v, err)
		}
		if _, err := q.Get(ctx, "bad").Wait(ctx); err == nil {
			t.Error("a bad path was accepted")
		}
	}, func(p *peer) {
		p.accept()
		p.obey(p.want(jute.OpSetData), 1)
		p.want(jute.OpSetData)
	}, func(p *peer) {
		p.accept()
		for {
			r := p.next()
			if r.op == jute.OpDelete || r.op == jute.OpSetData {
				p.t.Errorf("%s %s was sent after an earlier call was lost", r.op, r.path())
			}
			p.obey(r, 2)
		}
	})
}

// If no call was sent, nothing was lost: the queue waits for the next connection, including calls of pipelines.
func TestQueueSurvivesIdleLoss(t *testing.T) {
	t.Parallel()
	scripted(t, Options{}, func(t *testing.T, c *Client, _ *network) {
		get(t, c, "/a")
		synctest.Wait()
		p := c.Pipeline()
		for range 3 {
			if _, err := p.Set(t.Context(), "/a", nil, AnyVersion).Wait(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}, func(p *peer) {
		p.accept()
		p.obey(p.want(jute.OpGetData), 1)
	}, nil, accepting)
}

// A voluntary move waits for the replies to sent requests and fails no call.
func TestUpdateServersMovesQuietly(t *testing.T) {
	t.Parallel()
	scripted(t, Options{}, func(t *testing.T, c *Client, n *network) {
		if err := c.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		p := c.Pipeline()
		first := p.Set(t.Context(), "/a", nil, AnyVersion)
		synctest.Wait()
		if err := c.UpdateServers("x:9"); err != nil {
			t.Fatal(err)
		}
		second := p.Set(t.Context(), "/b", nil, AnyVersion)
		for _, f := range []Future[Stat]{first, second} {
			if _, err := f.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		}
		if s := c.State(); s.Server != "x:9" || s.SessionID != peerSession {
			t.Errorf("state %+v", s)
		}
		if err := c.UpdateServers("y:9/app"); err == nil {
			t.Error("a change of chroot was accepted")
		}
	}, func(p *peer) {
		p.accept()
		r := p.want(jute.OpSetData)
		time.Sleep(time.Second)
		p.obey(r, 1)
		if _, err := io.ReadFull(p.conn, make([]byte, 1)); err == nil {
			p.t.Error("sent more to a server it leaves")
		}
	}, accepting)
}

func TestAuthReplay(t *testing.T) {
	t.Parallel()
	auths := func(p *peer, want ...string) {
		for _, w := range want {
			r := p.want(jute.OpAuth)
			var a jute.AuthPacket
			a.Decode(r.decoder())
			if got := a.Scheme + " " + string(a.Auth); got != w || r.xid != jute.XidAuth {
				p.t.Errorf("auth %q xid %d, want %q", got, r.xid, w)
			}
			p.reply(r.xid, 0, jute.OK, nil)
		}
	}
	scripted(t, Options{Auth: []Auth{{"digest", []byte("a:b")}}}, func(t *testing.T, c *Client, _ *network) {
		_, _, w, err := c.GetW(t.Context(), "/w")
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		if err := c.AddAuth(t.Context(), "digest", []byte("c:d")); err != nil {
			t.Fatal(err)
		}
		refused := c.AddAuth(t.Context(), "digest", []byte("bad"))
		if isError(t, refused, ErrAuthFailed, "auth"); SessionLost(refused) {
			t.Error("refused credentials end no session")
		}
		get(t, c, "/a") // on the third connection, with the credentials that were accepted
	}, func(p *peer) {
		p.accept()
		auths(p, "digest a:b")
		p.obey(p.want(jute.OpGetData), 1)
		auths(p, "digest c:d")
		r := p.want(jute.OpAuth)
		p.reply(r.xid, 0, ErrAuthFailed, nil)
	}, func(p *peer) {
		p.accept()
		auths(p, "digest a:b", "digest c:d")
		r := p.want(jute.OpSetWatches)
		p.reply(r.xid, 0, jute.OK, nil)
		p.serve()
	})
}

func TestCredentialsRefused(t *testing.T) {
	t.Parallel()
	scripted(t, Options{Auth: []Auth{{"digest", []byte("bad")}}}, func(t *testing.T, c *Client, _ *network) {
		_, _, err := c.Get(t.Context(), "/a")
		isError(t, err, ErrAuthFailed, "getData")
		if s := c.State(); s.State != StateAuthFailed {
			t.Errorf("state %+v", s)
		}
	}, func(p *peer) {
		p.accept()
		r := p.want(jute.OpAuth)
		p.reply(r.xid, 0, ErrAuthFailed, nil)
		p.serve()
	})
}

func TestCreateProtectedFindsItsZnode(t *testing.T) {
	t.Parallel()
	var created string // passed from one script to the next
	scripted(t, Options{}, func(t *testing.T, c *Client, _ *network) {
		path, stat, err := c.CreateProtected(t.Context(), "/locks/lock-", []byte("data"), ModeEphemeralSequential,
			WorldACL(PermAll))
		if err != nil || !strings.HasPrefix(path, "/locks/_c_") || !strings.HasSuffix(path, "-lock-0000000007") ||
			stat.Czxid != 7 {
			t.Errorf("created %s %+v, %v", path, stat, err)
		}
	}, func(p *peer) {
		p.accept()
		created = p.want(jute.OpCreate2).path()
	}, func(p *peer) {
		p.accept()
		p.obey(p.want(jute.OpSync), 9)
		r := p.want(jute.OpGetChildren2)
		if r.path() != "/locks" {
			p.t.Errorf("listed %s", r.path())
		}
		res := jute.Children2Response{
			Children: []string{"lock-0000000001", strings.TrimPrefix(created, "/locks/") + "0000000007"},
		}
		p.reply(r.xid, 9, jute.OK, res.Append(nil))
		p.serve()
	})
}

// If the session ends before it is known whether a write with a lost reply was applied, it may have been.
func TestUnknownAtTheEndOfTheSession(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(context.Context, *Client) error{ // any order: each is a case of its own
		"create2": func(ctx context.Context, c *Client) error {
			_, _, err := c.CreateProtected(ctx, "/locks/lock-", nil, ModePersistentSequential, WorldACL(PermAll))
			return err
		},
		"multi": func(ctx context.Context, c *Client) error { return c.DeleteAll(ctx, "/a") },
	} {
		scripted(t, Options{}, func(t *testing.T, c *Client, _ *network) {
			err := do(t.Context(), c)
			if isError(t, err, ErrSessionExpired, name); !MaybeApplied(err) || !SessionLost(err) || Retryable(err) {
				t.Errorf("%s: %v", name, err)
			}
		}, func(p *peer) {
			p.accept()
			for r := p.next(); r.op != jute.OpCreate2 && r.op != jute.OpMulti; r = p.next() {
				if r.op == jute.OpGetChildren2 {
					res := jute.Children2Response{Stat: Stat{Czxid: 7}}
					p.reply(r.xid, 7, jute.OK, res.Append(nil))
				} else {
					p.obey(r, 7)
				}
			}
		}, func(p *peer) {
			p.hello()
			p.answer(jute.ConnectResponse{Passwd: make([]byte, 16)})
		})
	}
}

func TestCreateProtectedPlain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		mode CreateMode
		stat Stat
		data string
		mine bool
	}{
		{"ephemeral of this session", ModeEphemeral, Stat{Czxid: 60, EphemeralOwner: peerSession}, "", true},
		{"ephemeral of another session", ModeEphemeral, Stat{Czxid: 60, EphemeralOwner: 5}, "", false},
		{"ephemeral from before", ModeEphemeral, Stat{Czxid: 50, EphemeralOwner: peerSession}, "", false},
		{"persistent, same data", ModePersistent, Stat{Czxid: 60}, "mine", true},
		{"persistent, other data", ModePersistent, Stat{Czxid: 60}, "theirs", false},
		{"persistent from before", ModePersistent, Stat{Czxid: 50}, "mine", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			scripted(t, Options{}, func(t *testing.T, client *Client, _ *network) {
				get(t, client, "/a")
				path, stat, err := client.CreateProtected(t.Context(), "/n", []byte("mine"), c.mode, WorldACL(PermAll))
				if c.mine && (err != nil || path != "/n" || stat != c.stat) {
					t.Errorf("created %s %+v, %v", path, stat, err)
				}
				if !c.mine && !errors.Is(err, ErrNodeExists) {
					t.Errorf("created %s, %v", path, err)
				}
			}, func(p *peer) {
				p.accept()
				p.obey(p.want(jute.OpGetData), 50)
				p.want(jute.OpCreate2)
			}, func(p *peer) {
				p.accept()
				p.reply(p.want(jute.OpCreate2).xid, 61, ErrNodeExists, nil)
				p.obey(p.want(jute.OpSync), 61)
				p.reply(p.want(jute.OpExists).xid, 61, jute.OK, c.stat.Append(nil))
				for r := p.next(); ; r = p.next() {
					if r.op != jute.OpGetData {
						p.obey(r, 61)
						return
					}
					res := jute.GetDataResponse{Data: []byte(c.data), Stat: c.stat}
					p.reply(r.xid, 61, jute.OK, res.Append(nil))
				}
			})
		})
	}
}

// A znode that existed before a client's first call isn't taken for its own.
func TestCreateProtectedByANewClient(t *testing.T) {
	t.Parallel()
	scripted(t, Options{}, func(t *testing.T, c *Client, _ *network) {
		if path, _, err := c.CreateProtected(t.Context(), "/n", []byte("same"), ModePersistent,
			WorldACL(PermAll)); !errors.Is(err, ErrNodeExists) {
			t.Errorf("created %s, %v", path, err)
		}
	}, func(p *peer) {
		p.accept()
		for r := p.next(); r.op != jute.OpCreate2; r = p.next() {
			p.obey(r, 50)
		}
	}, func(p *peer) {
		p.accept()
		p.reply(p.want(jute.OpCreate2).xid, 61, ErrNodeExists, nil)
		stat := Stat{Czxid: 40}
		for r := p.next(); ; r = p.next() {
			switch r.op {
			case jute.OpExists:
				p.reply(r.xid, 61, jute.OK, stat.Append(nil))
			case jute.OpGetData:
				res := jute.GetDataResponse{Data: []byte("same"), Stat: stat}
				p.reply(r.xid, 61, jute.OK, res.Append(nil))
			default:
				p.obey(r, 61)
			}
		}
	})
}

// Arguments that no server would accept are refused locally, with the reason and place, and without a connection.
func TestRefusedLocally(t *testing.T) {
	t.Parallel()
	everybody := WorldACL(PermAll)
	scripted(t, Options{MaxRequestBytes: 200}, func(t *testing.T, c *Client, n *network) {
		ctx := t.Context()
		create := func(path string, mode CreateMode, acl []ACL) func() error {
			return func() error { _, err := c.Create(ctx, path, nil, mode, acl); return err }
		}
		for _, bad := range []struct {
			want string
			do   func() error
		}{
			{`getData a: invalid path "a" at byte 0`, func() error { _, _, err := c.Get(ctx, "a"); return err }},
			{`at byte 3: empty component`, func() error { _, _, err := c.Children(ctx, "/a//b"); return err }},
			{`at byte 2: it must not end with a slash`, func() error { return c.Sync(ctx, "/a/") }},
			{`relative component ..`, create("/a/../b", ModePersistent, everybody)},
			{"the root can't be deleted", func() error { return c.Delete(ctx, "/", AnyVersion) }},
			{"InvalidACL: the list is empty", create("/a", ModePersistent, nil)},
			{"entry 1: scheme world has the id anyone",
				create("/a", ModePersistent, append(WorldACL(PermRead), ACL{Perms: PermRead, ID: ID{Scheme: "world", ID: "all"}}))},
			{"entry 0: no scheme", func() error { _, err := c.SetACL(ctx, "/a", []ACL{{}}, 0); return err }},
			{"entry 0: permissions 0x40 have unknown bits", create("/a", ModePersistent, WorldACL(0x40))},
			{"entry 0: scheme digest",
				create("/a", ModePersistent, []ACL{{Perms: PermAll, ID: ID{Scheme: "digest", ID: "joe"}}})},
			{"unknown mode 9", create("/a", 9, everybody)},
			{"a TTL and a mode with TTL go together", create("/a", ModePersistentWithTTL, everybody)},
			{"TTL 0s is not from 1 ms", func() error {
				_, _, err := c.CreateTTL(ctx, "/a", nil, ModePersistentWithTTL, everybody, 0)
				return err
			}},
			{"multi /a/: operation 1 (delete): invalid path", func() error {
				_, err := c.Multi(ctx, CheckOp("/a", 1), DeleteOp("/a/", 1))
				return err
			}},
			{"reads belong in MultiRead", func() error { _, err := c.Multi(ctx, GetOp("/a")); return err }},
			{"reads belong in MultiRead", func() error { _, err := c.MultiRead(ctx, DeleteOp("/a", 1)); return err }},
			{"servers take at most 200", func() error { _, err := c.Set(ctx, "/a", make([]byte, 200), 0); return err }},
			{"unknown watcher type", func() error { return c.RemoveWatches(ctx, "/a", 9) }},
			{"addWatch /a: BadArguments: unknown mode", func() error { _, err := c.AddWatch(ctx, "/a", 7); return err }},
			{"auth: BadArguments: no scheme", func() error { return c.AddAuth(ctx, "", nil) }},
			{"it changes nothing", func() error { _, _, err := c.Reconfig(ctx, Reconfig{}); return err }},
			{"can't go with Joining", func() error {
				_, _, err := c.Reconfig(ctx, Reconfig{Joining: []string{"x"}, Members: []string{"y"}})
				return err
			}},
			{"invalid path", func() error { _, err := c.Chroot("x"); return err }},
		} {
			if err := bad.do(); err == nil || !strings.Contains(err.Error(), bad.want) {
				t.Errorf("error %v, want %q", err, bad.want)
			}
		}
	}, nil)
}

func TestOptionsRefused(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{
		{SessionTimeout: -1}, {SessionTimeout: 1}, {SessionTimeout: timeoutMax + 1}, {MaxOutstanding: -1},
		{MaxRequestBytes: -1}, {MaxResponseBytes: -1}, {MaxUnreadEvents: -1},
		{Resume: Session{ID: 1, Passwd: []byte("short")}}, {Auth: []Auth{{}}},
	} {
		if c, err := New("a", o); err == nil {
			c.Close()
			t.Errorf("%+v was accepted", o)
		}
	}
}

// A caller that leaves before the outcome of its create is known leaves no znode: a created one is found and deleted
// before Close returns.
func TestCreateProtectedAbandoned(t *testing.T) {
	t.Parallel()
	var created, deleted atomic.Value // of string
	var left atomic.Bool
	until := func(ok func() bool) { // time must go on meanwhile
		for !ok() {
			time.Sleep(time.Millisecond)
		}
	}
	scripted(t, Options{}, func(t *testing.T, c *Client, _ *network) {
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error)
		go func() {
			_, _, err := c.CreateProtected(ctx, "/locks/lock-", nil, ModeEphemeralSequential, WorldACL(PermAll))
			result <- err
		}()
		until(func() bool { return created.Load() != nil })
		cancel()
		if err := <-result; !errors.Is(err, context.Canceled) {
			t.Errorf("abandoned: %v", err)
		}
		left.Store(true)
		until(func() bool { return deleted.Load() != nil })
		if deleted.Load() != created.Load().(string)+"0000000007" {
			t.Errorf("deleted %s, created %s", deleted.Load(), created.Load())
		}
	}, func(p *peer) {
		p.accept()
		created.Store(p.want(jute.OpCreate2).path())
		until(left.Load)
	}, func(p *peer) {
		p.accept()
		p.obey(p.want(jute.OpSync), 9)
		res := jute.Children2Response{
			Children: []string{strings.TrimPrefix(created.Load().(string), "/locks/") + "0000000007"},
		}
		p.reply(p.want(jute.OpGetChildren2).xid, 9, jute.OK, res.Append(nil))
		p.obey(p.want(jute.OpExists), 9)
		r := p.want(jute.OpDelete)
		p.reply(r.xid, 10, jute.OK, nil)
		deleted.Store(r.path())
		p.serve()
	})
}

// If it stays unknown whether a znode was made, the error says so, even if the last attempt was never sent.
func TestCreateProtectedInDoubt(t *testing.T) {
	t.Parallel()
	scripted(t, Options{}, func(t *testing.T, c *Client, _ *network) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		_, _, err := c.CreateProtected(ctx, "/n", nil, ModePersistent, WorldACL(PermAll))
		if !errors.Is(err, context.DeadlineExceeded) || !MaybeApplied(err) {
			t.Errorf("%v, may be applied: %v", err, MaybeApplied(err))
		}
	}, func(p *peer) {
		p.accept()
		p.obey(p.want(jute.OpSync), 50)
		p.want(jute.OpCreate2)
	}, nil)
}

// The last attempt's reply doesn't tell what became of an earlier one.
func TestCreateProtectedRefusedInDoubt(t *testing.T) {
	t.Parallel()
	scripted(t, Options{}, func(t *testing.T, c *Client, _ *network) {
		_, _, err := c.CreateProtected(t.Context(), "/n", nil, ModePersistent, WorldACL(PermAll))
		if !errors.Is(err, ErrNoAuth) || !MaybeApplied(err) {
			t.Errorf("%v, may be applied: %v", err, MaybeApplied(err))
		}
	}, func(p *peer) {
		p.accept()
		p.obey(p.want(jute.OpSync), 50)
		p.want(jute.OpCreate2)
	}, func(p *peer) {
		p.accept()
		p.reply(p.want(jute.OpCreate2).xid, 51, jute.ErrNoAuth, nil)
		p.serve()
	})
}

// The work that goes on in the background has its own data and ACL.
func TestCreateProtectedKeepsItsData(t *testing.T) {
	t.Parallel()
	var again atomic.Bool // the create was sent again
	scripted(t, Options{}, func(t *testing.T, c *Client, _ *network) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		data, acl := []byte("mine"), WorldACL(PermAll)
		_, _, err := c.CreateProtected(ctx, "/n-", data, ModeEphemeralSequential, acl)
		copy(data, "else")
		acl[0].Perms = PermRead
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		for !again.Load() {
			time.Sleep(time.Millisecond)
		}
	}, func(p *peer) {
		p.accept()
		p.want(jute.OpCreate2)
		time.Sleep(2 * time.Second) // the call has returned
	}, func(p *peer) {
		p.accept()
		p.obey(p.want(jute.OpSync), 9)
		p.obey(p.want(jute.OpGetChildren2), 9) // it isn't there: the next attempt encodes the data again
		r := p.want(jute.OpCreate2)
		var q jute.CreateRequest
		q.Decode(r.decoder())
		if string(q.Data) != "mine" || len(q.ACL) != 1 || q.ACL[0].Perms != PermAll {
			p.t.Errorf("created with %q and %v", q.Data, q.ACL)
		}
		again.Store(true)
		p.obey(r, 9)
		p.serve()
	})
}

// A call may be answered when its caller has given up, and has changed the operations. It has its own, with the
// caller's paths.
func TestMultiKeepsItsOperations(t *testing.T) {
	t.Parallel()
	scripted(t, Options{}, func(t *testing.T, c *Client, _ *network) {
		ops := []MultiOp{CheckOp("/a", 3), DeleteOp("/b", AnyVersion)}
		c.root = "/app"
		k, err := c.multiCall(jute.OpMulti, ops)
		if err != nil {
			t.Fatal(err)
		}
		defer k.release()
		clear(ops)
		if len(k.ops) != 2 || k.ops[0].Path != "/a" || k.ops[1].Op != jute.OpDelete || k.ops[1].Path != "/b" {
			t.Errorf("the call has %v", k.ops)
		}
	}, accepting)
}
