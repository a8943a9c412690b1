package server

import (
	"bytes"
	"crypto/md5"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/sasl"
	"github.com/zooid-project/zooid/jute"
)

// saslToken sends one token and returns what comes back.
func saslToken(c *rawClient, token []byte) (jute.Code, []byte) {
	c.t.Helper()
	h, body := c.call(jute.OpSASL, (&jute.SASLPacket{Token: token}).Append)
	if h.Xid != c.xid || h.Zxid != 0 {
		c.t.Fatalf("the reply's header is %+v, want xid %d and zxid 0", h, c.xid)
	}
	var res jute.SASLPacket
	d := jute.NewDecoder(body)
	if res.Decode(d); d.Err() != nil {
		c.t.Fatalf("the reply has no token: %v", d.Err())
	}
	return h.Err, res.Token
}

var nonceOf = regexp.MustCompile(`nonce="([^"]*)"`)

// login does both steps as a client and returns what the second gives.
func login(c *rawClient, user, password string) (jute.Code, []byte) {
	c.t.Helper()
	return answerChallenge(c, challenge(c), user, password)
}

// challenge begins a login and returns the server's challenge.
func challenge(c *rawClient) []byte {
	c.t.Helper()
	code, token := saslToken(c, []byte{})
	if code != jute.OK {
		c.t.Fatalf("the challenge is %v, %q", code, token)
	}
	return token
}

func answerChallenge(c *rawClient, challenge []byte, user, password string) (jute.Code, []byte) {
	c.t.Helper()
	nonce := nonceOf.FindSubmatch(challenge)
	if nonce == nil {
		c.t.Fatalf("the challenge is %q", challenge)
	}
	hash := func(s string) string { sum := md5.Sum([]byte(s)); return hex.EncodeToString(sum[:]) }
	const uri, cnonce = "zookeeper/zk-sasl-md5", "mine"
	secret := md5.Sum([]byte(user + ":zk-sasl-md5:" + password))
	a1 := hash(string(secret[:]) + ":" + string(nonce[1]) + ":" + cnonce)
	response := hash(fmt.Sprintf("%s:%s:00000001:%s:auth:%s", a1, nonce[1], cnonce, hash("AUTHENTICATE:"+uri)))
	return saslToken(c,
		fmt.Appendf(nil, `qop=auth,realm="zk-sasl-md5",username="%s",nonce="%s",cnonce="%s",nc=00000001,digest-uri="%s",response=%s`,
			user, nonce[1], cnonce, uri, response))
}

func TestSASLLogin(t *testing.T) {
	t.Parallel()
	const address = "ip:127.0.0.1"
	for name, c := range map[string]struct {
		user, password string
		enforced       bool
		allowFailed    bool
		code           jute.Code
		ids            []string // nil: the connection ends
	}{
		"good":               {user: "bob", password: "secret", ids: []string{address, "sasl:bob"}},
		"superuser":          {user: "root", password: "toor", ids: []string{address, "sasl:root", "super:"}},
		"enforced":           {user: "bob", password: "secret", enforced: true, ids: []string{address, "sasl:bob"}},
		"wrong password":     {user: "bob", password: "guess", code: jute.ErrAuthFailed},
		"unknown":            {user: "eve", password: "secret", code: jute.ErrAuthFailed},
		"wrong and enforced": {user: "bob", password: "guess", enforced: true, code: jute.ErrSessionClosedRequireSASLAuth},
		"wrong and allowed":  {user: "bob", password: "guess", allowFailed: true, ids: []string{address}},
		"wrong, allowed but enforced": {user: "bob", password: "guess", allowFailed: true, enforced: true,
			code: jute.ErrSessionClosedRequireSASLAuth},
	} {
		opt := Options{
			Auth: auth.Options{SASL: true, SASLSuperUsers: []string{"root"}},
			SASL: replica.SASLOptions{
				Mechanism:   sasl.NewDigestMD5(map[string]string{"bob": "secret", "root": "toor"}, "", rand.Reader),
				AllowFailed: c.allowFailed,
			},
		}
		if c.enforced {
			opt.Auth.EnforceSchemes = []string{"sasl"}
		}
		client := connect(t, open(t, opt).Addrs()[0].String(), 0, nil)
		code, token := login(client, c.user, c.password)
		if succeeded := bytes.HasPrefix(token, []byte("rspauth=")); code != c.code || succeeded != (len(c.ids) > 1) {
			t.Errorf("%s: %v, %q; want %v", name, code, token, c.code)
		}
		if c.ids == nil {
			if !client.ends() {
				t.Errorf("%s: the connection goes on", name)
			}
			continue
		}
		if got := whoAmI(client); !slices.Equal(got, c.ids) {
			t.Errorf("%s: it is %q, want %q", name, got, c.ids)
		}
	}
}

// TestSASLAcrossReload: a login that began before the users were replaced succeeds only if its user still exists and
// has the same password.
func TestSASLAcrossReload(t *testing.T) {
	t.Parallel()
	users := map[string]string{"ann": "pencil", "bob": "secret", "eve": "guess"}
	logins := sasl.Follow(sasl.NewDigestMD5(users, "", rand.Reader), users)
	s := open(t, Options{Auth: auth.Options{SASL: true}, SASL: replica.SASLOptions{Mechanism: logins}})
	clients, challenges := map[string]*rawClient{}, map[string][]byte{}
	for user := range users {
		clients[user] = connect(t, s.Addrs()[0].String(), 0, nil)
		challenges[user] = challenge(clients[user])
	}
	now := map[string]string{"ann": "pencil", "bob": "changed"}
	logins.Replace(sasl.NewDigestMD5(now, "", rand.Reader), now)
	for user, want := range map[string]jute.Code{"ann": jute.OK, "bob": jute.ErrAuthFailed, "eve": jute.ErrAuthFailed} {
		c := clients[user]
		if code, token := answerChallenge(c, challenges[user], user, users[user]); code != want ||
			(token != nil) != (want == jute.OK) {
			t.Errorf("%s: %v, %q; want %v", user, code, token, want)
		}
		if want != jute.OK && !c.ends() {
			t.Errorf("the connection of %s goes on", user)
		}
	}
}

// TestSASLEnforced: nothing goes before the login.
func TestSASLEnforced(t *testing.T) {
	t.Parallel()
	s := open(t, Options{
		Auth: auth.Options{SASL: true, EnforceSchemes: []string{"sasl"}},
		SASL: replica.SASLOptions{Mechanism: sasl.NewDigestMD5(nil, "", rand.Reader)},
	})
	c := connect(t, s.Addrs()[0].String(), 0, nil)
	if h, _ := c.call(jute.OpPing, nil); h.Err != jute.ErrSessionClosedRequireSASLAuth || !c.ends() {
		t.Errorf("a ping before the login: %v", h.Err)
	}
}

// TestSASLWithoutMechanism: the client learns nothing and stays what it is.
func TestSASLWithoutMechanism(t *testing.T) {
	t.Parallel()
	c := connect(t, open(t, Options{}).Addrs()[0].String(), 0, nil)
	for range 2 {
		if code, token := saslToken(c, []byte("whatever")); code != jute.OK || token != nil {
			t.Errorf("%v, %q; want no error and no token", code, token)
		}
	}
	if got := whoAmI(c); !slices.Equal(got, []string{"ip:127.0.0.1"}) {
		t.Errorf("it is %q", got)
	}
}

// TestSASLTwice: a connection logs in once, and keeps what it has proved if it
// may stay after a second try.
func TestSASLTwice(t *testing.T) {
	t.Parallel()
	s := open(t, Options{
		Auth: auth.Options{SASL: true},
		SASL: replica.SASLOptions{
			Mechanism: sasl.NewDigestMD5(map[string]string{"bob": "secret"}, "", rand.Reader), AllowFailed: true,
		},
	})
	c := connect(t, s.Addrs()[0].String(), 0, nil)
	login(c, "bob", "secret")
	if code, token := saslToken(c, []byte{}); code != jute.OK || token != nil {
		t.Errorf("a second login: %v, %q; want no error and no token", code, token)
	}
	if got := whoAmI(c); !slices.Contains(got, "sasl:bob") {
		t.Errorf("it is %q", got)
	}
}
