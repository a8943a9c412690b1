package zk

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// password is a mechanism of two steps: it says who it is, and wants to hear ok.
type password struct{ begin error }

func (m password) Name() string { return "TEST" }

func (m password) Begin(server string) (SASLLogin, error) {
	return &passwordLogin{server: server}, m.begin
}

type passwordLogin struct {
	server string
	step   int
}

func (l *passwordLogin) Step(challenge []byte) ([]byte, bool, error) {
	switch l.step++; {
	case l.step == 1:
		return []byte("me at " + l.server), false, nil
	case string(challenge) == "more":
		return []byte{}, false, nil
	case string(challenge) == "last":
		return []byte("bye"), true, nil
	case string(challenge) != "ok":
		return nil, false, errors.New("not ok")
	}
	return nil, true, nil
}

// token returns the next request, which must be a SASL token.
func (p *peer) token(want string) request {
	r := p.want(jute.OpSASL)
	var packet jute.SASLPacket
	packet.Decode(r.decoder())
	if string(packet.Token) != want || packet.Token == nil {
		p.t.Errorf("peer: token %q, want %q", packet.Token, want)
	}
	return r
}

func (p *peer) replyToken(r request, token []byte) {
	p.reply(r.xid, 0, jute.OK, (&jute.SASLPacket{Token: token}).Append(nil))
}

// The login goes before everything else, on each connection.
func TestLoginFirst(t *testing.T) {
	t.Parallel()
	opt := Options{SASL: password{}, Auth: []Auth{{"digest", []byte("a:b")}}}
	scripted(t, opt, func(t *testing.T, c *Client, _ *network) {
		_, _, w, err := c.GetW(t.Context(), "/w")
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		get(t, c, "/a")
	}, func(p *peer) {
		p.accept()
		p.replyToken(p.token("me at "+p.server), []byte("more"))
		p.replyToken(p.token(""), []byte("ok"))
		r := p.want(jute.OpAuth)
		p.reply(r.xid, 0, jute.OK, nil)
		p.obey(p.want(jute.OpGetData), 1)
	}, func(p *peer) {
		p.accept()
		p.replyToken(p.token("me at "+p.server), []byte("last"))
		p.replyToken(p.token("bye"), nil) // an end without a token
		r := p.want(jute.OpAuth)
		p.reply(r.xid, 0, jute.OK, nil)
		r = p.want(jute.OpSetWatches)
		p.reply(r.xid, 0, jute.OK, nil)
		p.serve()
	})
}

// An invalid reply closes the connection, and the client tries another server.
func TestLoginElsewhere(t *testing.T) {
	t.Parallel()
	answer := func(act func(p *peer, r request)) func(*peer) {
		return func(p *peer) {
			p.accept()
			act(p, p.token("me at "+p.server))
			p.hang()
		}
	}
	scripted(t, Options{SASL: password{}}, func(t *testing.T, c *Client, n *network) {
		get(t, c, "/a")
		if len(n.dials) != 7 {
			t.Errorf("dials: %q", n.dials)
		}
	},
		answer(func(p *peer, r request) { p.replyToken(r, []byte("gibberish")) }),
		answer(func(p *peer, r request) { p.reply(r.xid, 0, jute.OK, []byte{0, 0}) }),
		answer(func(p *peer, r request) { p.reply(r.xid+1, 0, jute.OK, nil) }),
		answer(func(p *peer, r request) { p.reply(r.xid, 0, jute.ErrMarshallingError, nil) }),
		answer(func(p *peer, r request) { p.conn.Close() }),
		answer(func(p *peer, r request) { p.hang() }),
		func(p *peer) {
			p.accept()
			p.replyToken(p.token("me at "+p.server), []byte("ok"))
			p.serve()
		})
}

// A server that keeps asking doesn't block the client forever.
func TestLoginEndless(t *testing.T) {
	t.Parallel()
	scripted(t, Options{SASL: password{}}, func(t *testing.T, c *Client, _ *network) {
		get(t, c, "/a")
	}, func(p *peer) {
		p.accept()
		p.replyToken(p.token("me at "+p.server), []byte("more"))
		for {
			p.replyToken(p.token(""), []byte("more"))
		}
	}, func(p *peer) {
		p.accept()
		p.replyToken(p.token("me at "+p.server), []byte("ok"))
		p.serve()
	})
}

// A refused login ends the client, and the error says where and why.
func TestLoginRefused(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(p *peer, r request){
		"refuses": func(p *peer, r request) {
			p.reply(r.xid, 0, ErrAuthFailed, (&jute.SASLPacket{}).Append(nil))
		},
		"refuses: ": func(p *peer, r request) {
			p.reply(r.xid, 0, ErrSessionClosedRequireSASLAuth, nil)
		},
		"doesn't support or refuses this login": func(p *peer, r request) { p.replyToken(r, nil) },
	} {
		scripted(t, Options{SASL: password{}}, func(t *testing.T, c *Client, _ *network) {
			_, _, err := c.Get(t.Context(), "/a")
			isError(t, err, ErrAuthFailed, "getData")
			if s := c.State(); s.State != StateAuthFailed || !strings.Contains(s.Err.Error(), "log in (TEST)") {
				t.Errorf("%s: state %+v", name, s)
			}
			err = c.Wait(t.Context())
			if !errors.Is(err, ErrAuthFailed) || !SessionLost(err) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: wait: %v", name, err)
			}
		}, func(p *peer) {
			p.accept()
			answer(p, p.token("me at "+p.server))
			p.hang()
		})
	}
}

// If a mechanism can't begin, the error of Wait says so.
func TestLoginCannotBegin(t *testing.T) {
	t.Parallel()
	scripted(t, Options{SASL: password{errors.New("no ticket")}}, func(t *testing.T, c *Client, _ *network) {
		ctx, cancel := context.WithTimeout(t.Context(), peerTimeout)
		defer cancel()
		if err := c.Wait(ctx); err == nil || !strings.Contains(err.Error(), "no ticket") {
			t.Errorf("wait: %v", err)
		}
	}, func(p *peer) {
		p.accept()
		p.hang()
	})
}
