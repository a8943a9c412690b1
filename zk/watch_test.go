package zk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// events reads what a watch holds now.
func events(w *Watch) string {
	synctest.Wait()
	var v []string
	for e, ok := w.Try(); ok; e, ok = w.Try() {
		v = append(v, e.String())
	}
	return strings.Join(v, ", ")
}

// The client repeats the server's rules about which kind of watch receives which event. Under a chroot, paths are
// relative to it.
func TestWatchKinds(t *testing.T) {
	t.Parallel()
	type step struct {
		typ  EventType
		path string
	}
	for _, c := range []struct {
		name  string
		set   func(context.Context, *Client) (*Watch, error)
		steps []step
		want  string
	}{
		{"data changed",
			func(ctx context.Context, c *Client) (*Watch, error) { _, _, w, err := c.GetW(ctx, "/a"); return w, err },
			[]step{
				{EventNodeChildrenChanged, "/r/a"}, {EventNodeDataChanged, "/r/b"}, {EventNodeDataChanged, "/r/a"},
				{EventNodeDeleted, "/r/a"},
			}, "NodeDataChanged /a"},
		{"data deleted",
			func(ctx context.Context, c *Client) (*Watch, error) { _, _, w, err := c.GetW(ctx, "/"); return w, err },
			[]step{{EventNodeDeleted, "/r"}}, "NodeDeleted /"},
		{"exists", func(ctx context.Context, c *Client) (*Watch, error) {
			_, _, w, err := c.ExistsW(ctx, "/a")
			return w, err
		}, []step{{EventNodeCreated, "/r/a"}, {EventNodeDeleted, "/r/a"}}, "NodeCreated /a"},
		{"children", func(ctx context.Context, c *Client) (*Watch, error) {
			_, _, w, err := c.ChildrenW(ctx, "/a")
			return w, err
		}, []step{{EventNodeDataChanged, "/r/a"}, {EventNodeChildrenChanged, "/r/a"}, {EventNodeChildrenChanged, "/r/a"}},
			"NodeChildrenChanged /a"},
		{"persistent",
			func(ctx context.Context, c *Client) (*Watch, error) { return c.AddWatch(ctx, "/a", AddWatchPersistent) },
			[]step{
				{EventNodeCreated, "/r/a"}, {EventNodeCreated, "/r/a/b"}, {EventNodeChildrenChanged, "/r/a"},
				{EventNodeDeleted, "/r/a"},
			},
			"NodeCreated /a, NodeChildrenChanged /a, NodeDeleted /a"},
		{"recursive", func(ctx context.Context, c *Client) (*Watch, error) {
			return c.AddWatch(ctx, "/a", AddWatchPersistentRecursive)
		}, []step{
			{EventNodeCreated, "/r/a/b/c"}, {EventNodeChildrenChanged, "/r/a/b"}, {EventNodeDataChanged, "/r/a"},
			{EventNodeCreated, "/r/ab"}, {EventNodeDeleted, "/r/a/b"},
		},
			"NodeCreated /a/b/c, NodeDataChanged /a, NodeDeleted /a/b"},
		{"recursive at the root", func(ctx context.Context, c *Client) (*Watch, error) {
			return c.AddWatch(ctx, "/", AddWatchPersistentRecursive)
		}, []step{{EventNodeCreated, "/r/x/y"}, {EventNodeCreated, "/other"}}, "NodeCreated /x/y"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			fire := false
			scripted(t, Options{}, func(t *testing.T, client *Client, _ *network) {
				sub, err := client.Chroot("/r")
				if err != nil {
					t.Fatal(err)
				}
				w, err := c.set(t.Context(), sub)
				if err != nil {
					t.Fatal(err)
				}
				fire = true
				if err := client.Sync(t.Context(), "/"); err != nil {
					t.Fatal(err)
				}
				if got := events(w); got != c.want {
					t.Errorf("events %q, want %q", got, c.want)
				}
				w.Close()
			}, func(p *peer) {
				p.accept()
				for {
					r := p.next()
					if fire {
						fire = false
						for i, s := range c.steps {
							p.notify(int64(10+i), s.typ, s.path)
						}
					}
					p.obey(r, 20)
				}
			})
		})
	}
}

// After a reconnect every kind is registered again, in chunks a server accepts,
// and persistent watches learn that they may have missed something.
func TestSetWatchesInChunks(t *testing.T) {
	t.Parallel()
	const paths = 300
	name := func(i int) string { return fmt.Sprintf("/%s-%03d", strings.Repeat("long", 250), i) }
	scripted(t, Options{}, func(t *testing.T, c *Client, _ *network) {
		ctx := t.Context()
		for i := range paths {
			if _, _, _, err := c.GetW(ctx, name(i)); err != nil {
				t.Fatal(err)
			}
		}
		if _, _, _, err := c.ChildrenW(ctx, name(0)); err != nil {
			t.Fatal(err)
		}
		_, ok, exists, err := c.ExistsW(ctx, "/none")
		if err != nil || ok {
			t.Fatal(ok, err)
		}
		persistent, err := c.AddWatch(ctx, "/p", AddWatchPersistent)
		if err != nil {
			t.Fatal(err)
		}
		recursive, err := c.AddWatch(ctx, "/r", AddWatchPersistentRecursive)
		if err != nil {
			t.Fatal(err)
		}
		c.Set(ctx, "/cut", nil, AnyVersion)
		get(t, c, "/a")
		if got := events(persistent); got != "Resync /p" {
			t.Errorf("events %q", got)
		}
		if got := events(recursive); got != "Resync /r" {
			t.Errorf("events %q", got)
		}
		if got := events(exists); got != "" {
			t.Errorf("events %q", got)
		}
	}, func(p *peer) {
		p.accept()
		for {
			switch r := p.next(); r.op {
			case jute.OpExists:
				p.reply(r.xid, 30, ErrNoNode, nil)
			case jute.OpSetData:
				return
			default:
				p.obey(r, 30)
			}
		}
	}, func(p *peer) {
		p.accept()
		var all jute.SetWatches
		for chunk := range 3 {
			r := p.next()
			if len(r.body) > rearmBytes+100 {
				p.t.Errorf("chunk %d has %d bytes", chunk, len(r.body))
			}
			if want := map[bool]jute.Op{false: jute.OpSetWatches, true: jute.OpSetWatches2}[chunk == 2]; r.op != want {
				p.t.Errorf("chunk %d is %s, want %s", chunk, r.op, want)
			}
			var w jute.SetWatches
			w.Decode(r.decoder(), r.op)
			if w.RelativeZxid != 30 {
				p.t.Errorf("relative zxid %d", w.RelativeZxid)
			}
			if w.Data == nil || w.Exist == nil || w.Child == nil ||
				chunk == 2 && (w.Persistent == nil || w.PersistentTree == nil) {
				p.t.Errorf("chunk %d has a null vector, which Apache's server can't read: %+v", chunk, w)
			}
			all.Data = append(all.Data, w.Data...)
			all.Exist = append(all.Exist, w.Exist...)
			all.Child = append(all.Child, w.Child...)
			all.Persistent = append(all.Persistent, w.Persistent...)
			all.PersistentTree = append(all.PersistentTree, w.PersistentTree...)
			p.reply(r.xid, 30, jute.OK, nil)
		}
		slices.Sort(all.Data)
		if len(all.Data) != paths || all.Data[7] != name(7) || !slices.Equal(all.Exist, []string{"/none"}) ||
			!slices.Equal(all.Child, []string{name(0)}) ||
			!slices.Equal(all.Persistent, []string{"/p"}) || !slices.Equal(all.PersistentTree, []string{"/r"}) {
			p.t.Errorf("%d data watches, exist %q, %d child, persistent %q, recursive %q", len(all.Data), all.Exist,
				len(all.Child), all.Persistent, all.PersistentTree)
		}
		p.serve()
	})
}

// When the last watch of a path is closed, and only then, the server is told.
func TestLastWatchIsRemovedAtServer(t *testing.T) {
	t.Parallel()
	var removed []string
	scripted(t, Options{}, func(t *testing.T, c *Client, _ *network) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, _, one, _ := c.GetW(ctx, "/a")
		_, _, two, _ := c.GetW(ctx, "/a")
		tree, err := c.AddWatch(ctx, "/a", AddWatchPersistentRecursive)
		if err != nil {
			t.Fatal(err)
		}
		tree.CloseOnDone(ctx)
		other, err := c.AddWatch(ctx, "/b", AddWatchPersistent)
		if err != nil {
			t.Fatal(err)
		}
		one.Close()
		one.Close()
		cancel()
		synctest.Wait()
		if _, err := tree.Next(t.Context()); !errors.Is(err, ErrWatchEnded) {
			t.Error(err)
		}
		get(t, c, "/x")
		if len(removed) > 0 {
			t.Errorf("removed %q while a watch was left", removed)
		}
		two.Close()
		get(t, c, "/x")
		if !slices.Equal(removed, []string{"/a 3"}) {
			t.Errorf("removed %q", removed)
		}
		if err := c.RemoveWatches(t.Context(), "/b", WatcherPersistent); err != nil {
			t.Error(err)
		}
		if _, err := other.Next(t.Context()); !errors.Is(err, ErrWatchEnded) {
			t.Error(err)
		}
		if len(c.s.watches.byPath) > 0 {
			t.Errorf("%d paths left", len(c.s.watches.byPath))
		}
	}, func(p *peer) {
		p.accept()
		for {
			r := p.next()
			if r.op == jute.OpRemoveWatches {
				var w jute.WatchesRequest
				w.Decode(r.decoder())
				removed = append(removed, fmt.Sprintf("%s %d", strings.Clone(w.Path), w.Type))
			}
			p.obey(r, 1)
		}
	})
}

// A registration that is unanswered isn't removed together with another watch.
func TestWatchOnItsWayIsKept(t *testing.T) {
	t.Parallel()
	scripted(t, Options{}, func(t *testing.T, c *Client, _ *network) {
		_, _, first, err := c.GetW(t.Context(), "/a")
		if err != nil {
			t.Fatal(err)
		}
		second := make(chan *Watch)
		go func() {
			_, _, w, err := c.GetW(t.Context(), "/a")
			if err != nil {
				t.Error(err)
			}
			second <- w
		}()
		synctest.Wait()
		first.Close()
		if e, err := (<-second).Next(t.Context()); err != nil || e.String() != "NodeDataChanged /a" {
			t.Error(e, err)
		}
	}, func(p *peer) {
		p.accept()
		p.obey(p.want(jute.OpGetData), 1)
		r := p.want(jute.OpGetData)
		time.Sleep(time.Second)
		p.obey(r, 1)
		go func() {
			time.Sleep(time.Second)
			p.notify(2, EventNodeDataChanged, "/a")
		}()
		for {
			if r := p.next(); r.op == jute.OpRemoveWatches {
				p.t.Error("the watch was removed at the server while a registration was on its way")
			} else {
				p.obey(r, 2)
			}
		}
	})
}

// Each reader of a mailbox is woken: a reader that takes an item passes the token on while there is more, including the
// end.
func TestMailboxToken(t *testing.T) {
	t.Parallel()
	m := newMailbox(10, func([]int) int { return -1 })
	m.put(1)
	m.put(2)
	m.close(ErrClosed)
	m.put(3)
	for _, want := range []int{1, 2} {
		select {
		case <-m.ready:
		default:
			t.Fatalf("no token for item %d", want)
		}
		if got, ok, end := m.try(); got != want || !ok || end != nil {
			t.Errorf("got %d, %v, %v", got, ok, end)
		}
	}
	for range 2 {
		select {
		case <-m.ready:
		default:
			t.Fatal("no token for the end")
		}
		if _, ok, end := m.try(); ok || end != ErrClosed {
			t.Errorf("got %v, %v after the end", ok, end)
		}
	}
}

// A caller that leaves before the reply leaves no watch, neither in the client nor at the server.
func TestAbandonedWatch(t *testing.T) {
	t.Parallel()
	var ops []string
	scripted(t, Options{}, func(t *testing.T, c *Client, _ *network) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, w, err := c.GetW(ctx, "/slow"); w != nil || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("watch %v, error %v", w, err)
		}
		time.Sleep(2 * time.Second)
		get(t, c, "/x")
		if want := []string{"getData /slow", "removeWatches /slow", "getData /x"}; !slices.Equal(ops, want) {
			t.Errorf("requests %q, want %q", ops, want)
		}
		if len(c.s.watches.byPath) > 0 {
			t.Errorf("%d paths left", len(c.s.watches.byPath))
		}
	}, func(p *peer) {
		p.accept()
		for {
			r := p.next()
			ops = append(ops, r.op.String()+" "+strings.Clone(r.path()))
			if r.path() == "/slow" && r.op == jute.OpGetData {
				time.Sleep(2 * time.Second)
			}
			p.obey(r, 1)
		}
	})
}

// A user who doesn't read loses events, but is always told, and never blocks the connection.
func TestWatchOverflow(t *testing.T) {
	t.Parallel()
	scripted(t, Options{MaxUnreadEvents: 10}, func(t *testing.T, c *Client, _ *network) {
		w, err := c.AddWatch(t.Context(), "/a", AddWatchPersistent)
		if err != nil {
			t.Fatal(err)
		}
		get(t, c, "/x")                                                 // answered after 25 events
		want := "Resync /a" + strings.Repeat(", NodeDataChanged /a", 4) // of 1-10, 11-20 and 21 it kept none
		if got := events(w); got != want {
			t.Errorf("events %q, want %q", got, want)
		}
		w.Close()
		for e, err := range w.Events(t.Context()) {
			t.Errorf("after Close: %v, %v", e, err)
		}
	}, func(p *peer) {
		p.accept()
		p.obey(p.want(jute.OpAddWatch), 1)
		r := p.want(jute.OpGetData)
		for i := range 25 {
			p.notify(int64(i+2), EventNodeDataChanged, "/a")
		}
		p.obey(r, 30)
		p.serve()
	})
}

func TestWatchEvents(t *testing.T) {
	t.Parallel()
	scripted(t, Options{}, func(t *testing.T, c *Client, _ *network) {
		w, err := c.AddWatch(t.Context(), "/a", AddWatchPersistent)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var got []int64
		var last error
		for e, err := range w.Events(ctx) {
			if err != nil {
				last = err
				break
			}
			if got = append(got, e.Zxid); len(got) == 3 {
				cancel()
			}
		}
		if !slices.Equal(got, []int64{2, 3, 4}) || !errors.Is(last, context.Canceled) {
			t.Errorf("events %v, then %v", got, last)
		}
	}, func(p *peer) {
		p.accept()
		p.obey(p.want(jute.OpAddWatch), 1)
		for i := range 3 {
			p.notify(int64(i+2), EventNodeDataChanged, "/a")
		}
		p.serve()
	})
}

// A reader of states sees each change in order, or, when far behind, the latest
// with the number missed.
func TestStates(t *testing.T) {
	t.Parallel()
	subscribed := make(chan struct{}) // so that both see the client connect
	scripted(t, Options{}, func(t *testing.T, c *Client, _ *network) {
		states := c.States()
		slow := c.States()
		defer slow.Close()
		close(subscribed)
		get(t, c, "/a")
		var seen []State
		for change, ok := states.Try(); ok; change, ok = states.Try() {
			seen = append(seen, change.State)
		}
		if !slices.Equal(seen, []State{StateConnecting, StateConnected, StateConnecting, StateConnected}) {
			t.Errorf("states %v", seen)
		}
		states.Close()
		if _, err := states.Next(t.Context()); err != ErrStatesClosed {
			t.Error(err)
		}
		c.s.mu.Lock()
		for i := range 2 * statesMax {
			c.s.become(StateChange{State: State(i % 2)})
		}
		c.s.mu.Unlock()
		total, last := 0, StateChange{}
		for change, ok := slow.Try(); ok; change, ok = slow.Try() {
			total += 1 + change.Missed
			last = change
		}
		if total != 4+2*statesMax || last.State != StateConnected {
			t.Errorf("%d changes accounted for, the last %+v", total, last)
		}
		c.Close()
		if change, err := slow.Next(t.Context()); err != nil || change.State != StateClosed || !change.State.Final() ||
			change.State.String() != "closed" {
			t.Error(change, err)
		}
		if _, err := slow.Next(t.Context()); err != ErrClosed {
			t.Error(err)
		}
		if change, err := c.States().Next(t.Context()); err != nil || change.State != StateClosed {
			t.Error(change, err)
		}
	}, func(p *peer) {
		<-subscribed
		p.accept()
		p.next()
	}, accepting)
}

// A cannedConn yields bytes, then the end.
type cannedConn struct {
	net.Conn
	io.Reader
}

func (c cannedConn) Read(p []byte) (int, error)      { return c.Reader.Read(p) }
func (c cannedConn) SetReadDeadline(time.Time) error { return nil }

// Whatever bytes arrive, the client returns an error and doesn't panic.
func FuzzServerBytes(f *testing.F) {
	f.Add([]byte{0, 0, 0, 16, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0})
	e := jute.WatcherEvent{Type: EventNodeDeleted, State: 3, Path: "/a/b"}
	f.Add(jute.AppendReply(nil, jute.ReplyHeader{Xid: jute.XidNotification, Zxid: 5}, e.Append))
	for op := byte(1); op < 110; op++ {
		f.Add([]byte{0, 0, 0, 20, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, op})
	}
	ops := []jute.Op{jute.OpGetData, jute.OpExists, jute.OpCreate, jute.OpCreate2, jute.OpGetACL, jute.OpGetChildren2,
		jute.OpGetEphemerals,
		jute.OpGetAllChildrenNumber, jute.OpWhoAmI, jute.OpMulti, jute.OpMultiRead, jute.OpAddWatch}
	f.Fuzz(func(t *testing.T, input []byte) {
		opt, err := Options{MaxResponseBytes: 1 << 16}.complete()
		if err != nil {
			t.Fatal(err)
		}
		conn := cannedConn{Reader: bytes.NewReader(input)}
		s := &session{opt: opt, log: opt.Logger, watches: newWatchTable(), rearms: 1}
		c := &Client{s: s}
		l := newLink(conn, "fuzz:1", timingOf(time.Second, 1))
		s.link = l
		for i, op := range ops {
			k := &call{op: op, path: "/a", abs: "/a", xid: int32(i + 1)}
			if op == jute.OpAddWatch {
				k.watch = c.newWatch("/", watchRecursive)
				s.watches.expect("/a")
			}
			s.calls.push(k)
			s.sent++
		}
		s.auths.push(&call{op: jute.OpAuth, cred: new(Auth)})
		if err := s.receive(l); err == nil {
			t.Error("receive ended without a reason")
		}
	})
}
