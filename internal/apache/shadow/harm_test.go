//go:build unix

package shadow

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/jute"
	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zktest"
)

// hanging returns the address of a server that accepts connections and never answers.
func hanging(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
		}
	}()
	return l.Addr().String()
}

// ended returns how many connections aren't shadowed for a reason that begins so.
func (c *Counts) ended(why string) (n int) {
	for reason, times := range c.Ended {
		if strings.HasPrefix(reason, why) {
			n += times
		}
	}
	return n
}

// TestShadowFails: whatever the shadow does, the primary's clients go on, and it is told that they aren't shadowed.
func TestShadowFails(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		shadow func(t *testing.T) string
		adjust func(*Options)
		why    string
	}{
		{"dead", func(t *testing.T) string { return freeport.Address(t) }, func(*Options) {}, "no session at the shadow"},
		{"hangs", hanging, func(*Options) {}, "no session at the shadow"},
		{"hangs later", nil, func(o *Options) {
			o.DialShadow = filtered(func(frame []byte) []byte {
				if len(frame) >= jute.ReplyHeaderSize && len(frame) != 37 { // a ConnectResponse has 37 bytes
					return nil
				}
				return frame
			})
		}, "the shadow hasn't answered"},
		{"talks nonsense", nil, func(o *Options) {
			o.DialShadow = filtered(func(frame []byte) []byte {
				if len(frame) != 37 {
					return []byte("nonsense")
				}
				return frame
			})
		}, "the shadow's connection has ended"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var shadow string
			if c.shadow != nil {
				shadow = c.shadow(t)
			} else {
				shadow = zktest.Start(t, zktest.Options{}).Connect()
			}
			r := start(t, zktest.Start(t, zktest.Options{}).Connect(), shadow, c.adjust)
			defer r.report(t)
			user := client(t, r.addr)
			for i := range 200 {
				_, err := user.Create(t.Context(), fmt.Sprintf("/n%d", i), nil, zk.ModePersistent, open)
				must(t, err)
			}
			patient(t, "told that the connection isn't shadowed", func() bool { n := r.Counts(); return n.ended(c.why) == 1 })
			_, err := user.Create(t.Context(), "/end", nil, zk.ModePersistent, open)
			must(t, err)
			n := r.played(t)
			if n.Unplayed < 200 || n.Whole() || n.Sum().Different > 0 {
				t.Errorf("%d writes are said not to have been played; whole %v", n.Unplayed, n.Whole())
			}
		})
	}
}

// TestShadowStops: a shadow that stops ends the shadowing of those that were connected; when it is back, new sessions
// are shadowed, and what the others have written meanwhile is unsure and not a difference.
func TestShadowStops(t *testing.T) {
	t.Parallel()
	shadow := zktest.Start(t, zktest.Options{})
	r := start(t, zktest.Start(t, zktest.Options{}).Connect(), shadow.Connect())
	defer r.report(t)
	ctx := t.Context()
	user := client(t, r.addr)
	_, err := user.Create(ctx, "/a", nil, zk.ModePersistent, open)
	must(t, err)
	r.played(t)
	shadow.Stop(0)
	_, err = user.Set(ctx, "/a", []byte("1"), -1)
	must(t, err)
	patient(t, "given up", func() bool { return len(r.Counts().Ended) == 1 })
	_, err = user.Set(ctx, "/a", []byte("2"), -1)
	must(t, err)
	shadow.Start(0)
	client(t, shadow.Connect()) // it is there
	second := client(t, r.addr)
	_, err = second.Create(ctx, "/b", nil, zk.ModePersistent, open)
	must(t, err)
	_, _, err = second.Get(ctx, "/a")
	must(t, err)
	c := r.played(t)
	if sum := c.Sum(); sum.Different != 0 || sum.Unsure != 1 || c.Unplayed != 2 {
		t.Errorf("%d differ, %d are unsure, %d writes weren't played; want 0, 1, 2", sum.Different, sum.Unsure, c.Unplayed)
	}
}

// TestAnotherServerOfTheShadow: a server of the shadow that can't be reached is left for the next one; who was
// connected to it isn't shadowed any more.
func TestAnotherServerOfTheShadow(t *testing.T) {
	t.Parallel()
	shadow := zktest.Start(t, zktest.Options{})
	refuse := make(chan struct{})
	r := start(t, zktest.Start(t, zktest.Options{}).Connect(), "first,second", func(o *Options) {
		o.DialShadow = func(ctx context.Context, address string) (net.Conn, error) {
			select {
			case <-refuse:
				if address == "first" {
					return nil, io.EOF
				}
			default:
			}
			return new(net.Dialer).DialContext(ctx, "tcp", shadow.Connect())
		}
	})
	defer r.report(t)
	first := client(t, r.addr)
	_, err := first.Create(t.Context(), "/a", nil, zk.ModePersistent, open)
	must(t, err)
	r.played(t)
	close(refuse)
	second := client(t, r.addr)
	_, err = second.Create(t.Context(), "/b", nil, zk.ModePersistent, open)
	must(t, err)
	if c := r.played(t); c.ended("the shadow's server can't be reached any more") != 1 || c.Ops["create"].Played != 2 ||
		c.Sum().Different > 0 {
		t.Errorf("ended: %v; %d creates were played", c.Ended, c.Ops["create"].Played)
	}
}

// pipelined sends requests on a connection of its own, and reads all replies.
func pipelined(t *testing.T, address string, requests int, record []byte) {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	must(t, err)
	defer nc.Close()
	q := jute.ConnectRequest{Timeout: 10_000, Passwd: make([]byte, jute.PasswdSize), HasReadOnly: true}
	_, err = nc.Write(jute.AppendFrame(nil, q.Append))
	must(t, err)
	_, err = jute.ReadFrame(nc, nil, replyMax)
	must(t, err)
	go func() {
		for i := range requests {
			nc.Write(jute.AppendRequest(nil, int32(i+1), jute.OpSetData, jute.Encoded(record)))
		}
	}()
	for range requests {
		_, err := jute.ReadFrame(nc, nil, replyMax)
		must(t, err)
	}
}

// TestQueueIsBounded: a shadow that is slower than the primary ends the shadowing of the connections that are too far
// behind, by requests or bytes, and delays nobody.
func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	primary := zktest.Start(t, zktest.Options{})
	c := client(t, primary.Connect())
	_, err := c.Create(t.Context(), "/a", nil, zk.ModePersistent, open)
	must(t, err)
	set := func(bytes int) []byte {
		r := jute.SetDataRequest{Path: "/a", Data: make([]byte, bytes), Version: 1 << 30} // which it never has
		return r.Append(nil)
	}
	for _, c := range []struct {
		name     string
		requests int
		record   []byte
		want     string
	}{
		{"requests", queuedMax + 1, set(1), fmt.Sprintf("the shadow is %d requests behind", queuedMax)},
		{"bytes", queuedBytesMax/500_000 + 1, set(500_000), fmt.Sprintf("the shadow is %d bytes behind", queuedBytesMax)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := start(t, primary.Connect(), hanging(t))
			defer r.report(t)
			pipelined(t, r.addr, c.requests, c.record)
			n := r.Counts()
			if n.ended(c.want) != 1 {
				t.Errorf("ended: %v, want %q", n.Ended, c.want)
			}
			r.played(t) // the one that was being played
			r.Proxy.mu.Lock()
			defer r.Proxy.mu.Unlock()
			if r.bytes != 0 || len(r.queue) != 0 {
				t.Errorf("%d bytes of %d exchanges are kept", r.bytes, len(r.queue))
			}
		})
	}
}

// TestQueuesAreBoundedTogether: many connections that are each within their bounds are bounded in all.
func TestQueuesAreBoundedTogether(t *testing.T) {
	t.Parallel()
	p := newScripted(t)
	r := jute.SetDataRequest{Path: "/a", Data: make([]byte, 1<<20)}
	frame := jute.AppendRequest(nil, 1, jute.OpSetData, r.Append)
	for i := range queuedBytesAll/(15<<20) + 2 {
		c := p.connected(int64(i + 1))
		for range 15 {
			c.requested(frame)
		}
	}
	if p.counts.Ended["the shadow is 268435456 bytes behind on all connections"] == 0 || p.bytes > queuedBytesAll {
		t.Errorf("%d bytes are kept; ended: %v", p.bytes, p.counts.Ended)
	}
}

// TestConnectionsAreBounded, sessions and notifications too.
func TestConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	primary := zktest.Start(t, zktest.Options{})
	r := start(t, primary.Connect(), primary.Connect())
	r.Proxy.mu.Lock()
	r.accepted = connectionsMax
	r.Proxy.mu.Unlock()
	nc, err := net.Dial("tcp", r.addr)
	must(t, err)
	defer nc.Close()
	if n, err := nc.Read(make([]byte, 1)); err == nil || r.Counts().Refused != 1 {
		t.Errorf("one connection more is served: %d bytes, %v", n, err)
	}
	r.Proxy.mu.Lock()
	r.accepted = 0
	r.Proxy.mu.Unlock()

	p := newScripted(t)
	c := p.connected(1)
	e := jute.WatcherEvent{Type: jute.EventNodeDataChanged, Path: "/a"}
	for range eventsMax + 1 {
		c.replied(jute.AppendReply(nil, jute.ReplyHeader{Xid: jute.XidNotification}, e.Append))
	}
	if len(c.events) > 0 || p.counts.ended("10000 notifications") != 1 {
		t.Errorf("%d notifications are kept", len(c.events))
	}
	for i := range sessionsMax {
		p.sessions[int64(i+10)] = &session{}
	}
	c = &conn{p: p.Proxy, hello: &jute.ConnectRequest{}}
	p.mu.Lock()
	c.greet(&jute.ConnectResponse{Timeout: 1000, SessionID: 5})
	p.mu.Unlock()
	if len(p.sessions) > sessionsMax || c.off == "" {
		t.Errorf("%d sessions are shadowed", len(p.sessions))
	}
	for i := range ephemeralsMax {
		p.ephemerals[fmt.Sprint(i)] = nil
	}
	last := p.connected(3)
	create, path := jute.CreateRequest{Path: "/e", Flags: jute.ModeEphemeral}, jute.PathResponse{Path: "/e"}
	p.mu.Lock()
	p.noted(&exchange{c: last, s: last.s, op: jute.OpCreate, request: create.Append(nil), reply: path.Append(nil)})
	p.mu.Unlock()
	if len(p.ephemerals) > ephemeralsMax || last.off == "" {
		t.Errorf("%d ephemeral znodes are known", len(p.ephemerals))
	}
}

// TestFramesBeyondTheLimit: the primary has its say about a frame that is too long; it isn't kept here.
func TestFramesBeyondTheLimit(t *testing.T) {
	t.Parallel()
	for _, size := range [][]byte{{0, 0x20, 0, 1}, {0xff, 0xff, 0xff, 0xff}} {
		p := newScripted(t)
		c := p.connected(1)
		c.requested(size)
		c.requested(make([]byte, 1<<20))
		if c.off == "" || p.counts.Unreadable != 1 || cap(c.fromClient.frame) > firstStep {
			t.Errorf("size %x: still followed (%q)", size, c.off)
		}
		c = p.connected(2)
		c.replied(append([]byte{size[0] | 0x10}, size[1:]...))
		c.replied(make([]byte, 1<<20))
		if c.off == "" {
			t.Errorf("size %x: the replies are still followed", size)
		}
	}
}

// TestPassedOn: four-letter words, and what else isn't the client protocol, reach the primary as they are.
func TestPassedOn(t *testing.T) {
	t.Parallel()
	r := start(t, zktest.Start(t, zktest.Options{}).Connect(), zktest.Start(t, zktest.Options{}).Connect())
	nc, err := net.Dial("tcp", r.addr)
	must(t, err)
	defer nc.Close()
	_, err = nc.Write([]byte("ruok"))
	must(t, err)
	if answer, err := io.ReadAll(nc); string(answer) != "imok" || r.Counts().PassedOn != 1 {
		t.Errorf("ruok is answered %q (%v)", answer, err)
	}
}

// TestSilentClient: a connection that says nothing costs the primary none.
func TestSilentClient(t *testing.T) {
	t.Parallel()
	dialed := make(chan struct{}, 10)
	r := start(t, "127.0.0.1:1", "127.0.0.1:1", func(o *Options) {
		o.DialPrimary = func(context.Context, string) (net.Conn, error) {
			dialed <- struct{}{}
			return nil, io.EOF
		}
	})
	nc, err := net.Dial("tcp", r.addr)
	must(t, err)
	defer nc.Close()
	_, err = nc.Write([]byte("abc"))
	must(t, err)
	nc.SetReadDeadline(time.Now().Add(3 * firstFrameMax))
	if _, err := nc.Read(make([]byte, 1)); err != io.EOF || len(dialed) > 0 {
		t.Errorf("it isn't closed (%v), or the primary was asked", err)
	}
}

// TestNotPlayed: what can't be played to another server is passed on and said: SASL, sessions from before, reconfig. No
// password is in what is said.
func TestNotPlayed(t *testing.T) {
	t.Parallel()
	primary := zktest.Start(t,
		zktest.Options{Users: map[string]string{"ann": "secret-word"}, SuperDigest: "super:D/InIHSb7yEEbrWz8b9l71RjZJU="})
	shadow := zktest.Start(t, zktest.Options{})
	r := start(t, primary.Connect(), shadow.Connect())
	defer r.report(t)
	ctx := t.Context()
	old := client(t, primary.Connect())
	c, err := zk.Open(ctx, r.addr, zk.Options{SessionTimeout: 10 * time.Second, SASL: zk.DigestMD5("ann", "secret-word")})
	must(t, err)
	defer c.Close()
	_, err = c.Create(ctx, "/sasl", nil, zk.ModePersistent, open)
	must(t, err)
	resumed, err := zk.Open(ctx, r.addr, zk.Options{SessionTimeout: 10 * time.Second, Resume: old.Detach()})
	must(t, err)
	defer resumed.Close()
	_, err = resumed.Create(ctx, "/old", nil, zk.ModePersistent, open)
	must(t, err)
	n := r.played(t)
	if n.ended("it logs in by SASL") != 1 || n.ended("it resumes a session that isn't shadowed") != 1 ||
		n.Unplayed != 2 {
		t.Errorf("ended %v, %d writes not replayed", n.Ended, n.Unplayed)
	}
	super, err := zk.Open(ctx, r.addr,
		zk.Options{SessionTimeout: 10 * time.Second, Auth: []zk.Auth{zk.DigestAuth("super", "test")}})
	must(t, err)
	defer super.Close()
	_, _, err = super.Reconfig(ctx, zk.Reconfig{Joining: []string{"nonsense"}})
	if err == nil {
		t.Error("a nonsensical reconfig went through")
	}
	_, _, err = super.GetConfig(ctx) // each ensemble's own
	must(t, err)
	_, err = super.Create(ctx, "/super", nil, zk.ModePersistent, zk.WorldACL(zk.PermRead))
	must(t, err)
	if _, _, err = super.GetACL(ctx, "/super"); err != nil {
		t.Error(err)
	}
	_, err = super.Set(ctx, "/super", nil, -1) // the shadow knows no super
	must(t, err)
	n = r.played(t)
	if n.Reconfigs != 1 || n.Ops["setData"].Different != 1 {
		t.Errorf("%d reconfigs were left out, want 1\n%s", n.Reconfigs, n.String())
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	text := strings.Join(r.said, "\n")
	for _, d := range r.found {
		text += d.String()
	}
	if strings.Contains(text, "secret-word") || strings.Contains(text, "super:test") || strings.Contains(text, "D/InIHS") {
		t.Errorf("a password is in what is said:\n%s", text)
	}
}

// TestACLsWithoutHashes: an ACL that differs is told without the hashes in it.
func TestACLsWithoutHashes(t *testing.T) {
	t.Parallel()
	if text := aclText([]jute.ACL{{Perms: 1, ID: jute.ID{Scheme: "digest", ID: "ann:HASH"}}}); strings.Contains(text,
		"HASH") || !strings.Contains(text, "ann") {
		t.Errorf("it is told as %s", text)
	}
}

// TestNoticesDontWait: lines for the operator hold nobody up if nobody reads them.
func TestNoticesDontWait(t *testing.T) {
	t.Parallel()
	p := newScripted(t)
	for range noticesMax + 1 {
		p.say("a line")
	}
	if len(p.notices) != noticesMax {
		t.Errorf("%d lines wait", len(p.notices))
	}
}

// FuzzFrames: nothing that a client, the primary or the shadow sends makes the proxy fail.
func FuzzFrames(f *testing.F) {
	create := jute.CreateRequest{Path: "/a", Flags: 3}
	path := jute.PathResponse{Path: "/a1"}
	multi := jute.AppendMulti(nil, []jute.MultiOp{{Op: jute.OpCreate, Path: "/b"}, {Op: jute.OpDelete, Path: "/c"}})
	ok := jute.ReplyHeader{Xid: 1, Zxid: 7}
	f.Add(jute.AppendRequest(nil, 1, jute.OpCreate, create.Append), jute.AppendReply(nil, ok, path.Append),
		path.Append(nil))
	f.Add(jute.AppendRequest(nil, 1, jute.OpMulti, jute.Encoded(multi)), jute.AppendReply(nil, ok, jute.AppendMultiEnd),
		jute.AppendMultiEnd(nil))
	f.Add(jute.AppendRequest(nil, -8, jute.OpSetWatches2, nil), []byte{0, 0, 0, 16}, []byte{})
	f.Fuzz(func(t *testing.T, request, reply, shadow []byte) {
		p := newScripted(t)
		c, hello := p.connected(1), &conn{
			p: p.Proxy, fromClient: assembler{limit: requestMax}, fromPrimary: assembler{limit: replyMax},
		}
		close(c.s.ready)
		hello.requested(request)
		c.requested(request)
		c.replied(reply)
		for batch := p.next(); len(batch) > 0; batch = p.next() {
			for _, x := range batch {
				x.paths()
				p.record(x)
				j := judge{owner: p.shadowOf}
				j.compare(x, x.code, shadow)
				j.compare(x, x.code, x.reply)
				p.mu.Lock()
				p.noted(x)
				p.skipped(x.op, x.request)
				p.mu.Unlock()
			}
		}
		a := assembler{limit: 1 << 10}
		a.feed(shadow, func(frame []byte) error {
			(&link{}).received(frame)
			return nil
		})
		c.over(true)
		if p.bytes < 0 || bytes.Contains([]byte(p.counts.String()), []byte{0}) {
			t.Errorf("%d bytes are counted", p.bytes)
		}
	})
}

// TestRandomBytes sends nonsense to a running proxy, from all sides.
func TestRandomBytes(t *testing.T) {
	t.Parallel()
	primary := zktest.Start(t, zktest.Options{})
	r := start(t, primary.Connect(), zktest.Start(t, zktest.Options{}).Connect())
	for range 20 {
		nc, err := net.Dial("tcp", r.addr)
		must(t, err)
		b := make([]byte, 300)
		rand.Read(b)
		copy(b, []byte{0, 0, 0, 45})
		nc.Write(b)
		nc.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, nc)
		nc.Close()
	}
	_, err := client(t, r.addr).Create(t.Context(), "/a", nil, zk.ModePersistent, open)
	must(t, err)
}
