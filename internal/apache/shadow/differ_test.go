//go:build unix

package shadow

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/jute"
	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zktest"
)

// must fails the test if a call of the primary's client has failed.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var open = zk.WorldACL(zk.PermAll)

// TestPlantedDifferences changes the shadow behind its back, and finds each change in the replies, and nothing else.
func TestPlantedDifferences(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		plant func(ctx context.Context, shadow *zk.Client) error
		use   func(ctx context.Context, c *zk.Client) error
		want  string // operation, path and fields
	}{
		{"data", func(ctx context.Context, s *zk.Client) error { _, err := s.Set(ctx, "/a", []byte("x"), -1); return err },
			func(ctx context.Context, c *zk.Client) error { _, _, err := c.Get(ctx, "/a"); return err },
			"getData /a data version"},
		{"version", func(ctx context.Context, s *zk.Client) error { _, err := s.Set(ctx, "/a", []byte("1"), -1); return err },
			func(ctx context.Context, c *zk.Client) error { _, err := c.Set(ctx, "/a", []byte("2"), 0); return err },
			"setData /a error"},
		{"acl", func(ctx context.Context, s *zk.Client) error {
			_, err := s.SetACL(ctx, "/a", zk.WorldACL(zk.PermAll&^zk.PermDelete), -1)
			return err
		},
			func(ctx context.Context, c *zk.Client) error { _, _, err := c.GetACL(ctx, "/a"); return err },
			"getACL /a acl aversion"},
		{"missing", func(ctx context.Context, s *zk.Client) error { return s.Delete(ctx, "/a", -1) },
			func(ctx context.Context, c *zk.Client) error { _, _, err := c.Exists(ctx, "/a"); return err },
			"exists /a error"},
		{"child", func(ctx context.Context, s *zk.Client) error {
			_, err := s.Create(ctx, "/a/x", nil, zk.ModePersistent, open)
			return err
		},
			func(ctx context.Context, c *zk.Client) error { _, _, err := c.Children(ctx, "/a"); return err },
			"getChildren2 /a children cversion numChildren"},
		{"sequence", func(ctx context.Context, s *zk.Client) error {
			_, err := s.Create(ctx, "/a/x", nil, zk.ModePersistent, open)
			return err
		},
			func(ctx context.Context, c *zk.Client) error {
				_, err := c.Create(ctx, "/a/q-", nil, zk.ModePersistentSequential, open)
				return err
			},
			"create /a/q- path"},
		{"owner", func(ctx context.Context, s *zk.Client) error {
			if err := s.Delete(ctx, "/e", -1); err != nil {
				return err
			}
			_, err := s.Create(ctx, "/e", []byte("1"), zk.ModeEphemeral, open)
			return err
		},
			func(ctx context.Context, c *zk.Client) error { _, _, err := c.Get(ctx, "/e"); return err },
			"getData /e ephemeralOwner"},
		{"multi", func(ctx context.Context, s *zk.Client) error { return s.Delete(ctx, "/a", -1) },
			func(ctx context.Context, c *zk.Client) error {
				_, err := c.Multi(ctx, zk.CheckOp("/a", -1), zk.SetOp("/b", []byte("2"), -1))
				return err
			},
			"multi /a result of operation 1 result of operation 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			primary, shadow := zktest.Start(t, zktest.Options{}), zktest.Start(t, zktest.Options{})
			r := start(t, primary.Connect(), shadow.Connect())
			defer r.report(t)
			ctx := t.Context()
			user := client(t, r.addr)
			for _, path := range []string{"/a", "/b"} {
				_, err := user.Create(ctx, path, []byte("1"), zk.ModePersistent, open)
				must(t, err)
			}
			_, err := user.Create(ctx, "/e", []byte("1"), zk.ModeEphemeral, open)
			must(t, err)
			if n := r.played(t); n.Sum().Different > 0 {
				t.Fatal("there are differences before one was planted")
			}
			must(t, c.plant(ctx, client(t, shadow.Connect())))
			must(t, c.use(ctx, user))
			_, _, err = user.Get(ctx, "/b") // whatever the shadow answered, this one goes on
			must(t, err)
			r.played(t)
			found, _ := r.differences()
			if c.name == "multi" && len(found) > 1 {
				found = found[:1] // /b differs since
			}
			if len(found) != 1 {
				t.Fatalf("%d differences, want one", len(found))
			}
			got := found[0].Op + " " + found[0].Path
			for _, f := range found[0].Fields {
				got += " " + f.Name
			}
			if got != c.want {
				t.Errorf("found %q, want %q: %v", got, c.want, found[0])
			}
		})
	}
}

// TestIgnoredFields: what -ignore names isn't a difference.
func TestIgnoredFields(t *testing.T) {
	t.Parallel()
	primary, shadow := zktest.Start(t, zktest.Options{}), zktest.Start(t, zktest.Options{})
	r := start(t, primary.Connect(), shadow.Connect(),
		func(o *Options) { o.Ignored = map[string]bool{"data": true, "version": true} })
	defer r.report(t)
	user := client(t, r.addr)
	_, err := user.Create(t.Context(), "/a", nil, zk.ModePersistent, open)
	must(t, err)
	r.played(t)
	_, err = client(t, shadow.Connect()).Set(t.Context(), "/a", []byte{}, -1)
	must(t, err)
	_, _, err = user.Get(t.Context(), "/a")
	must(t, err)
	if c := r.played(t); c.Sum().Different > 0 {
		t.Error("what is ignored differs")
	}
}

// filtered returns a Dial whose connections pass the server's frames through change, which may return nil.
func filtered(change func(frame []byte) []byte) Dial {
	return func(ctx context.Context, address string) (net.Conn, error) {
		nc, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		here, there := net.Pipe()
		go func() {
			defer nc.Close()
			io.Copy(nc, there)
		}()
		go func() {
			defer there.Close()
			for {
				frame, err := jute.ReadFrame(nc, nil, replyMax)
				if err != nil {
					return
				}
				if frame = change(frame); frame != nil {
					there.Write(jute.AppendFrame(nil, jute.Encoded(frame)))
				}
			}
		}()
		return here, nil
	}
}

// TestMissedEvent: a watch that stays silent at the shadow, or says something else, is found.
func TestMissedEvent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		change func(*jute.WatcherEvent) bool // false leaves the event out
		want   string
	}{
		{"none", func(*jute.WatcherEvent) bool { return false }, "events (changed, none)"},
		{"another", func(e *jute.WatcherEvent) bool { e.Type = jute.EventNodeDeleted; return true },
			"events (changed, deleted)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			primary, shadow := zktest.Start(t, zktest.Options{}), zktest.Start(t, zktest.Options{})
			r := start(t, primary.Connect(), shadow.Connect(), func(o *Options) {
				o.DialShadow = filtered(func(frame []byte) []byte {
					var h jute.ReplyHeader
					d := jute.NewDecoder(frame)
					if h.Decode(d); h.Xid != jute.XidNotification || d.Err() != nil {
						return frame
					}
					var e jute.WatcherEvent
					if e.Decode(d); !c.change(&e) {
						return nil
					}
					return e.Append(h.Append(nil))
				})
			})
			defer r.report(t)
			ctx := t.Context()
			user := client(t, r.addr)
			_, err := user.Create(ctx, "/a", nil, zk.ModePersistent, open)
			must(t, err)
			_, _, w, err := user.GetW(ctx, "/a")
			must(t, err)
			_, err = client(t, r.addr).Set(ctx, "/a", []byte("1"), -1)
			must(t, err)
			if e, err := w.Next(ctx); err != nil || e.Type != zk.EventNodeDataChanged {
				t.Fatalf("the client hears %v (%v)", e, err)
			}
			for range 3 {
				_, _, err := user.Exists(ctx, "/a")
				must(t, err)
			}
			r.played(t)
			found, _ := r.differences()
			if len(found) != 1 || found[0].Op != "watch" || found[0].Path != "/a" ||
				!strings.Contains(found[0].String(), c.want) {
				t.Errorf("found %v, want %s at /a", found, c.want)
			}
		})
	}
}

// rawSession begins a session on a connection that is never resumed, and creates an ephemeral znode.
func rawSession(t *testing.T, address, path string) zk.Session {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	must(t, err)
	t.Cleanup(func() { nc.Close() })
	q := jute.ConnectRequest{Timeout: 10_000, Passwd: make([]byte, jute.PasswdSize), HasReadOnly: true}
	_, err = nc.Write(jute.AppendFrame(nil, q.Append))
	must(t, err)
	frame, err := jute.ReadFrame(nc, nil, replyMax)
	must(t, err)
	var a jute.ConnectResponse
	a.Decode(jute.NewDecoder(frame))
	create := jute.CreateRequest{Path: path, ACL: open, Flags: jute.ModeEphemeral}
	_, err = nc.Write(jute.AppendRequest(nil, 1, jute.OpCreate, create.Append))
	must(t, err)
	_, err = jute.ReadFrame(nc, nil, replyMax)
	must(t, err)
	return zk.Session{ID: a.SessionID, Passwd: a.Passwd}
}

// TestExpiry: a session that ends at the primary without a request ends at the shadow in the place where its end shows:
// others find its ephemeral znode gone, hear of it, and may make one of their own.
func TestExpiry(t *testing.T) {
	t.Parallel()
	primary, shadow := zktest.Start(t, zktest.Options{}), zktest.Start(t, zktest.Options{})
	r := start(t, primary.Connect(), shadow.Connect())
	defer r.report(t)
	ctx := t.Context()
	other := client(t, r.addr)
	_, err := other.Create(ctx, "/locks", nil, zk.ModePersistent, open)
	must(t, err)
	for i, see := range []func(path string) error{
		func(path string) error { _, _, err := other.Exists(ctx, path); return err },
		func(string) error { _, _, err := other.Children(ctx, "/locks"); return err },
		func(string) error { _, err := other.AllChildrenNumber(ctx, "/locks"); return err },
		func(string) error { return nil }, // the next create sees it
	} {
		path := fmt.Sprintf("/locks/%d", i)
		victim := rawSession(t, r.addr, path)
		_, _, w, err := other.ExistsW(ctx, path)
		must(t, err)
		taken, err := zk.Open(ctx, primary.Connect(), zk.Options{Resume: victim})
		must(t, err)
		must(t, taken.Close())
		_, err = w.Next(ctx)
		must(t, err)
		patient(t, "seen as gone", func() bool {
			r.Proxy.mu.Lock()
			defer r.Proxy.mu.Unlock()
			return len(r.conns) == 1
		})
		must(t, see(path))
		_, err = other.Create(ctx, path, []byte("other"), zk.ModeEphemeral, open)
		must(t, err)
		_, _, err = other.Get(ctx, path)
		must(t, err)
		if c := r.played(t); c.Expired != i+1 {
			t.Fatalf("%d sessions have ended at the shadow, want %d", c.Expired, i+1)
		}
	}
	c := r.played(t)
	if sum := c.Sum(); sum.Different+sum.Unsure > 0 {
		t.Errorf("%d differ, %d are unsure", sum.Different, sum.Unsure)
	}
}

// TestVanishedClient: a client that is gone for good is at the shadow what it is at the primary: its session lives for
// its timeout and ends then.
func TestVanishedClient(t *testing.T) {
	t.Parallel()
	primary, shadow := zktest.Start(t, zktest.Options{}), zktest.Start(t, zktest.Options{})
	r := start(t, primary.Connect(), shadow.Connect())
	defer r.report(t)
	victim, err := zk.Open(t.Context(), r.addr, zk.Options{SessionTimeout: 400 * time.Millisecond})
	must(t, err)
	_, err = victim.Create(t.Context(), "/e", nil, zk.ModeEphemeral, open)
	must(t, err)
	r.played(t) // it is at the shadow
	victim.Detach()
	there := client(t, shadow.Connect())
	patient(t, "closed at the shadow", func() bool {
		_, found, err := there.Exists(t.Context(), "/e")
		must(t, err)
		return !found
	})
	patient(t, "counted", func() bool { return r.Counts().Expired == 1 }) // which is after the shadow's reply
	if c := r.played(t); c.Sum().Different > 0 {
		t.Errorf("%d differences", c.Sum().Different)
	}
}

// TestAnotherServerOfThePrimary: when the primary's server goes, clients go on at the next one with their sessions, and
// so does their shadowing.
func TestAnotherServerOfThePrimary(t *testing.T) {
	t.Parallel()
	primary, shadow := zktest.Start(t, zktest.Options{Servers: 3}), zktest.Start(t, zktest.Options{})
	r := start(t, primary.Connect(), shadow.Connect())
	defer r.report(t)
	ctx := t.Context()
	user := client(t, r.addr)
	_, err := user.Create(ctx, "/e", nil, zk.ModeEphemeral, open)
	must(t, err)
	_, _, w, err := user.GetW(ctx, "/e")
	must(t, err)
	r.played(t)
	primary.Stop(0)
	patient(t, "served by another server", func() bool { _, _, err := user.Get(ctx, "/e"); return err == nil })
	_, err = user.Set(ctx, "/e", []byte("2"), 0)
	must(t, err)
	_, err = w.Next(ctx)
	must(t, err)
	must(t, user.Delete(ctx, "/e", 1))
	_, _, err = user.Exists(ctx, "/e")
	must(t, err)
	c := r.played(t)
	if sum := c.Sum(); sum.Different+sum.Unsure > 0 || c.Resumed == 0 || len(c.Ended) > 0 {
		t.Errorf("%d differ, %d are unsure, %d sessions went on, ended: %v", sum.Different, sum.Unsure, c.Resumed, c.Ended)
	}
}
