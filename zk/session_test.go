package zk

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zooid-project/zooid/jute"
)

func TestHandshakeOfNewSession(t *testing.T) {
	t.Parallel()
	scripted(t, Options{SessionTimeout: 7 * time.Second}, func(t *testing.T, c *Client, _ *network) {
		get(t, c, "/a")
		s := c.Session()
		if s.ID != peerSession || !bytes.Equal(s.Passwd, peerPasswd) || s.Timeout != peerTimeout {
			t.Errorf("session %+v", s)
		}
	}, func(p *peer) {
		p.accept()
		r := p.connect
		if r.ProtocolVersion != 0 || r.LastZxidSeen != 0 || r.Timeout != 7000 || r.SessionID != 0 || r.ReadOnly ||
			!bytes.Equal(r.Passwd, make([]byte, 16)) {
			t.Errorf("handshake %+v", r)
		}
		p.serve()
	})
}

// A session is resumed with its id, its password and the highest zxid of any
// frame; watches are registered again relative to the highest zxid of a reply, so
// that an event lost between two notifications of one change comes after all.
func TestResumeAfterLoss(t *testing.T) {
	t.Parallel()
	scripted(t, Options{}, func(t *testing.T, c *Client, _ *network) {
		_, _, w, err := c.GetW(t.Context(), "/a")
		if err != nil {
			t.Fatal(err)
		}
		_, _, children, err := c.ChildrenW(t.Context(), "/a")
		if err != nil {
			t.Fatal(err)
		}
		if e, err := w.Next(t.Context()); err != nil || e != (Event{EventNodeDataChanged, "/a", 50}) {
			t.Fatal(e, err)
		}
		if e, err := children.Next(t.Context()); err != nil || e != (Event{EventNodeDeleted, "/a", -1}) {
			t.Fatal(e, err)
		}
		if _, err := children.Next(t.Context()); !errors.Is(err, ErrWatchEnded) {
			t.Fatal(err)
		}
	}, func(p *peer) {
		p.accept()
		p.obey(p.want(jute.OpGetData), 40)
		p.obey(p.want(jute.OpGetChildren2), 41)
		p.notify(50, EventNodeDataChanged, "/a")
	}, func(p *peer) {
		p.accept()
		if r := p.connect; r.SessionID != peerSession || !bytes.Equal(r.Passwd, peerPasswd) || r.LastZxidSeen != 50 {
			t.Errorf("handshake %+v", r)
		}
		r := p.want(jute.OpSetWatches)
		var w jute.SetWatches
		w.Decode(r.decoder(), r.op)
		if w.RelativeZxid != 41 || len(w.Data) != 0 || len(w.Child) != 1 || w.Child[0] != "/a" {
			t.Errorf("setWatches %+v", w)
		}
		p.notify(-1, EventNodeDeleted, "/a")
		p.reply(r.xid, 50, jute.OK, nil)
		p.serve()
	})
}

func TestResumeByIDAndPassword(t *testing.T) {
	t.Parallel()
	session := Session{ID: peerSession, Passwd: peerPasswd}
	scripted(t, Options{Resume: session}, func(t *testing.T, c *Client, _ *network) {
		get(t, c, "/a")
		if s := c.Detach(); s.ID != session.ID || !bytes.Equal(s.Passwd, session.Passwd) {
			t.Errorf("detached %+v", s)
		}
	}, func(p *peer) {
		p.accept()
		if p.connect.SessionID != peerSession || !bytes.Equal(p.connect.Passwd, peerPasswd) {
			t.Errorf("handshake %+v", p.connect)
		}
		p.obey(p.want(jute.OpGetData), 1)
		if _, err := io.ReadFull(p.conn, make([]byte, 1)); err != io.EOF {
			t.Errorf("after Detach: %v, want the connection closed without closeSession", err)
		}
	})
}

func TestExpiredByServer(t *testing.T) {
	t.Parallel()
	scripted(t, Options{}, func(t *testing.T, c *Client, _ *network) {
		ctx := t.Context()
		w, err := c.AddWatch(ctx, "/w", AddWatchPersistent)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Set(ctx, "/a", nil, AnyVersion)
		if e := isError(t, err, ErrConnectionLoss, "setData"); !MaybeApplied(err) || Retryable(err) || e.Server == "" {
			t.Errorf("error %#v", e)
		}
		if _, err := w.Next(ctx); !errors.Is(err, ErrSessionExpired) || !SessionLost(err) {
			t.Errorf("watch ended with %v", err)
		}
		_, _, err = c.Get(ctx, "/a")
		isError(t, err, ErrSessionExpired, "getData")
		if c.State().State != StateExpired || c.Wait(ctx) != ErrSessionExpired {
			t.Errorf("state %+v", c.State())
		}
	}, func(p *peer) {
		p.accept()
		p.obey(p.want(jute.OpAddWatch), 1)
		p.want(jute.OpSetData)
	}, func(p *peer) {
		p.hello()
		p.answer(jute.ConnectResponse{Passwd: make([]byte, 16)})
	})
}

// Without contact, the client gives up the session after 4/3 of its timeout, counted from the last received byte.
func TestExpiredByClient(t *testing.T) {
	t.Parallel()
	scripted(t, Options{}, func(t *testing.T, c *Client, n *network) {
		get(t, c, "/a")
		start := time.Now()
		_, _, err := c.Get(context.Background(), "/b")
		isError(t, err, ErrSessionExpired, "getData")
		if passed := time.Since(start); passed != peerTimeout/3*4 {
			t.Errorf("expired after %v", passed)
		}
	}, func(p *peer) {
		p.accept()
		p.obey(p.want(jute.OpGetData), 1)
	}, nil)
}

// An idle client pings at half of the silence that a connection survives. The client leaves a silent server after 2/3
// of the timeout.
func TestPingsAndSilence(t *testing.T) {
	t.Parallel()
	scripted(t, Options{}, func(t *testing.T, c *Client, n *network) {
		if err := c.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		states := c.States()
		defer states.Close()
		states.Next(t.Context())
		change, err := states.Next(t.Context())
		if err != nil || change.State != StateConnecting {
			t.Fatal(change, err)
		}
		if passed := time.Since(start); passed != 3*1500*time.Millisecond+4*time.Second {
			t.Errorf("left after %v", passed)
		}
		if !strings.Contains(change.Err.Error(), "nothing heard for 4s") {
			t.Errorf("reason %v", change.Err)
		}
		get(t, c, "/a")
	}, func(p *peer) {
		p.accept()
		for range 3 {
			before := time.Now()
			r := p.raw()
			if r.op != jute.OpPing || r.xid != jute.XidPing || time.Since(before) != 1500*time.Millisecond {
				t.Errorf("%s after %v", r.op, time.Since(before))
			}
			p.reply(r.xid, 0, jute.OK, nil)
		}
		for {
			p.raw()
		}
	}, accepting)
}

// When a server sends something invalid, the client leaves it and says why, and a read succeeds at another server.
func TestNonsense(t *testing.T) {
	t.Parallel()
	getReply := func(xid int32) []byte {
		res := jute.GetDataResponse{Data: []byte("evil")}
		return jute.AppendReply(nil, jute.ReplyHeader{Xid: xid, Zxid: 1}, res.Append)
	}
	frame := func(xid int32, body ...byte) []byte {
		return jute.AppendReply(nil, jute.ReplyHeader{Xid: xid}, jute.Encoded(body))
	}
	for _, c := range []struct {
		name   string
		bytes  func(xid int32) []byte
		reason string
	}{
		{"cut in a length", func(int32) []byte { return []byte{0, 0} }, "closed the connection"},
		{"cut in a frame", func(xid int32) []byte { return getReply(xid)[:30] }, "closed the connection"},
		{"xid ahead", func(xid int32) []byte { return getReply(xid + 1) }, "xid out of order"},
		{"xid unknown", func(int32) []byte { return getReply(-77) }, "xid out of order"},
		{"negative frame", func(int32) []byte { return []byte{255, 255, 255, 0} }, "frame of -256 bytes"},
		{"empty frame", func(int32) []byte { return []byte{0, 0, 0, 0} }, "too short for a header"},
		{"short header", func(int32) []byte { return []byte{0, 0, 0, 3, 1, 2, 3} }, "too short for a header"},
		{"body too short", func(xid int32) []byte { return frame(xid, 0, 0, 0, 9, 1) }, "makes no sense"},
		{"auth answer unasked", func(int32) []byte { return frame(jute.XidAuth) }, "auth request, none is open"},
		{"setWatches answer unasked", func(int32) []byte { return frame(jute.XidSetWatches) },
			"setWatches request, none is open"},
		{"notification cut short", func(int32) []byte { return frame(jute.XidNotification, 0, 0) },
			"notification makes no sense"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			scripted(t, Options{}, func(t *testing.T, client *Client, n *network) {
				states := client.States()
				defer states.Close()
				get(t, client, "/a")
				var reasons []string
				for change, ok := states.Try(); ok; change, ok = states.Try() {
					if change.Err != nil {
						reasons = append(reasons, change.Err.Error())
					}
				}
				if len(reasons) != 1 || !strings.Contains(reasons[0], c.reason) {
					t.Errorf("reasons %q, want one with %q", reasons, c.reason)
				}
				if len(n.dials) != 2 || n.dials[0] == n.dials[1] {
					t.Errorf("dialled %v, want two servers", n.dials)
				}
			}, func(p *peer) {
				p.accept()
				p.write(c.bytes(p.want(jute.OpGetData).xid))
			}, accepting)
		})
	}
}

// A closed subscription doesn't look like the end of the session, unless that has ended too.
func TestClosedStates(t *testing.T) {
	t.Parallel()
	scripted(t, Options{}, func(t *testing.T, client *Client, _ *network) {
		ended := func(states *States) error {
			for {
				if _, err := states.Next(t.Context()); err != nil {
					return err
				}
			}
		}
		states := client.States()
		states.Close()
		states.Close()
		if err := ended(states); !errors.Is(err, ErrStatesClosed) || errors.Is(err, ErrClosed) || SessionLost(err) {
			t.Errorf("after States.Close: %v, session lost %t", err, SessionLost(err))
		}
		get(t, client, "/a")
		states = client.States()
		client.Close()
		states.Close()
		if err := ended(states); !errors.Is(err, ErrClosed) || !SessionLost(err) {
			t.Errorf("after Client.Close: %v, session lost %t", err, SessionLost(err))
		}
	}, accepting)
}

// After an invalid handshake, the client tries another server.
func TestNonsenseHandshake(t *testing.T) {
	t.Parallel()
	grant := func(id int64, passwd string, readOnly bool) func(*peer) {
		return func(p *peer) {
			p.hello()
			p.answer(jute.ConnectResponse{Timeout: 4000, SessionID: id, Passwd: []byte(passwd), ReadOnly: readOnly})
		}
	}
	for name, script := range map[string]func(*peer){
		"refused":             nil,
		"closed at once":      func(*peer) {},
		"closed after hello":  func(p *peer) { p.hello() },
		"no session":          grant(0, "sixteen bytes it", false),
		"no password":         grant(5, "", false),
		"read-only, unwanted": grant(5, "sixteen bytes it", true),
		"huge":                func(p *peer) { p.hello(); p.write([]byte{127, 0, 0, 0}) },
		"too short":           func(p *peer) { p.hello(); p.write([]byte{0, 0, 0, 2, 9, 9}) },
		"silent": func(p *peer) {
			p.hello()
			io.Copy(io.Discard, p.conn)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scripted(t, Options{}, func(t *testing.T, c *Client, _ *network) {
				get(t, c, "/a")
			}, script, accepting)
		})
	}
}

// Open gives up when its context ends, and the error has each server's failure.
func TestOpenNamesTroubles(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := &network{t: t, scripts: []func(*peer){nil}}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, err := Open(ctx, "a:1,b:2/app", Options{Dial: n.dial})
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "a:1: connection refused") ||
			!strings.Contains(err.Error(), "b:2: connection refused") {
			t.Errorf("error %v", err)
		}
		// 20 s of doubling pauses up to 1.6 s, not a busy loop.
		if len(n.dials) < 20 || len(n.dials) > 100 {
			t.Errorf("%d attempts", len(n.dials))
		}
	})
}

func TestReplyTooLarge(t *testing.T) {
	t.Parallel()
	scripted(t, Options{MaxResponseBytes: 1000}, func(t *testing.T, c *Client, n *network) {
		_, _, err := c.Get(t.Context(), "/a")
		isError(t, err, ErrReplyTooLarge, "getData")
		if Retryable(err) || !strings.Contains(err.Error(), "1001 bytes, and Options.MaxResponseBytes is 1000") {
			t.Errorf("error %v", err)
		}
		get(t, c, "/b")
	}, func(p *peer) {
		p.accept()
		p.want(jute.OpGetData)
		p.write([]byte{0, 0, 1001 >> 8, 1001 & 255})
	}, accepting)
}

func TestClose(t *testing.T) {
	t.Parallel()
	told := false
	scripted(t, Options{}, func(t *testing.T, c *Client, _ *network) {
		if err := c.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		f := c.Pipeline().Get(t.Context(), "/a")
		for range 2 {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
		if !told {
			t.Error("no closeSession was sent")
		}
		if _, err := f.Wait(t.Context()); err != nil {
			t.Errorf("a call queued before Close: %v", err)
		}
		_, _, err := c.Get(t.Context(), "/a")
		isError(t, err, ErrClosed, "getData")
		if s := c.State(); s.State != StateClosed || !SessionLost(s.Err) {
			t.Errorf("state %+v", s)
		}
	}, func(p *peer) {
		p.accept()
		p.obey(p.want(jute.OpGetData), 1)
		r := p.want(jute.OpCloseSession)
		told = true
		p.reply(r.xid, 2, jute.OK, nil)
	})
}

// Close doesn't hang if a server doesn't answer, or if there is none.
func TestCloseOfStuckClient(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]func(*peer){
		"silent": func(p *peer) {
			p.accept()
			io.Copy(io.Discard, p.conn)
		},
		"not even reading": func(p *peer) {
			p.accept()
			p.hang()
		},
		"no handshake": (*peer).hang,
		"refused":      nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			scripted(t, Options{}, func(t *testing.T, c *Client, _ *network) {
				synctest.Wait()
				f := c.Pipeline().Set(t.Context(), "/a", nil, AnyVersion)
				start := time.Now()
				c.Close()
				if time.Since(start) > closeWait {
					t.Errorf("Close took %v", time.Since(start))
				}
				_, err := f.Wait(t.Context())
				isError(t, err, ErrClosed, "setData")
			}, script)
		})
	}
}

// Close ends the session even if its connection was lost before, or is lost together with the request to end it.
func TestCloseAfterLoss(t *testing.T) {
	t.Parallel()
	leaves := func(p *peer, _ *int) { p.accept() }
	loses := func(p *peer, _ *int) {
		p.accept()
		p.want(jute.OpCloseSession)
	}
	ends := func(p *peer, ended *int) {
		p.accept()
		r := p.want(jute.OpCloseSession)
		*ended++
		p.reply(r.xid, 2, jute.OK, nil)
	}
	for name, servers := range map[string][]func(*peer, *int){
		"lost before":           {leaves, ends},
		"lost with the request": {loses, ends},
		"lost twice":            {leaves, loses, ends},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended := 0
			scripts := make([]func(*peer), len(servers))
			for i, server := range servers {
				scripts[i] = func(p *peer) { server(p, &ended) }
			}
			scripted(t, Options{}, func(t *testing.T, c *Client, _ *network) {
				synctest.Wait() // the first server has hung up, or waits for the request
				start := time.Now()
				c.Close()
				if took := time.Since(start); took >= lostWait {
					t.Errorf("Close took %v", took)
				}
				if s := c.State(); s.State != StateClosed || ended != 1 {
					t.Errorf("state %+v; %d servers have ended the session", s, ended)
				}
			}, scripts...)
		})
	}
}

func TestReadOnlyServer(t *testing.T) {
	t.Parallel()
	readOnly := func(p *peer) {
		p.hello()
		if !p.connect.ReadOnly || p.connect.SessionID != 0 {
			t.Errorf("handshake %+v", p.connect)
		}
		p.answer(jute.ConnectResponse{Timeout: 6000, SessionID: 99, Passwd: peerPasswd, ReadOnly: true})
		p.obey(p.want(jute.OpGetData), 1)
		r := p.want(jute.OpSetData)
		p.reply(r.xid, 1, ErrNotReadOnly, nil)
		p.obey(p.want(jute.OpExists), 1) // answered before the client moves
		p.next()
	}
	isro := func(answer string) func(*peer) {
		return func(p *peer) {
			b := make([]byte, 4)
			if _, err := io.ReadFull(p.conn, b); err != nil || string(b) != "isro" {
				t.Errorf("probe %q, %v", b, err)
			}
			p.write([]byte(answer))
		}
	}
	full := func(p *peer) {
		p.accept()
		if p.connect.SessionID != 0 {
			t.Errorf("asked a full server for a read-only server's session 0x%x", p.connect.SessionID)
		}
		p.serve()
	}
	scripted(t, Options{ReadOnly: true}, func(t *testing.T, c *Client, n *network) {
		ctx := t.Context()
		get(t, c, "/a")
		if s := c.State(); s.State != StateConnectedReadOnly || s.SessionID != 99 {
			t.Errorf("state %+v", s)
		}
		_, err := c.Set(ctx, "/a", nil, AnyVersion)
		isError(t, err, ErrNotReadOnly, "setData")
		if _, _, err := c.Exists(ctx, "/a"); err != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Second) // probes at 0.1, 0.3, 0.7, 1.5, 3.1 s, some of them this server's turn
		if s := c.State(); s.State != StateConnected || s.SessionID != peerSession {
			t.Errorf("state %+v after %v", s, n.dials)
		}
		if last := n.dials[len(n.dials)-2:]; last[0] != last[1] {
			t.Errorf("moved to %s, but %s is full", last[1], last[0])
		}
	}, readOnly, isro("ro"), nil, isro("rw"), full)
}

// The client doesn't busy-loop on a server that accepts every session and drops it at once.
func TestFlappingServer(t *testing.T) {
	t.Parallel()
	scripted(t, Options{}, func(t *testing.T, c *Client, n *network) {
		time.Sleep(10 * time.Second)
		n.mu.Lock()
		defer n.mu.Unlock()
		if len(n.dials) < 5 || len(n.dials) > 25 {
			t.Errorf("%d connections in 10 s", len(n.dials))
		}
	}, func(p *peer) { p.accept() })
}
