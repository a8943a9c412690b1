package sasl

import (
	"crypto/rand"
	"strings"
	"testing"
)

// Both halves agree, whatever is in name and password.
func TestClientAndServer(t *testing.T) {
	t.Parallel()
	for _, l := range logins {
		users := map[string]string{l.user: l.password}
		agree(t, l, NewDigestMD5(users, "", rand.Reader), NewClient(l.user, l.password, rand.Reader))
		agree(t, l, NewPeerDigestMD5(users, rand.Reader), NewPeerClient(l.user, l.password, rand.Reader))
		// A proof for one kind of port is none for the other.
		server, client := NewPeerDigestMD5(users, rand.Reader).Begin(), NewClient(l.user, l.password, rand.Reader)
		client.Step(nil)
		challenge, _, _, _ := server.Step(nil)
		answer, _, err := client.Step(challenge)
		if err != nil {
			t.Fatal(err)
		}
		if _, done, _, err := server.Step(answer); done || err == nil || !strings.Contains(err.Error(), "digest-uri") {
			t.Errorf("%s: a client's proof at a quorum port: %v, %v", l.name, done, err)
		}
	}
}

// agree carries out a login, in which each half must take the other.
func agree(t *testing.T, l recorded, m *DigestMD5, client *Client) {
	t.Helper()
	server := m.Begin()
	var token []byte
	for step, done := 1, false; ; step++ {
		reply, over, err := client.Step(token)
		if err != nil || over != (step == 3) || (reply == nil) != over {
			t.Fatalf("%s: the client's step %d: %q, %v, %v", l.name, step, reply, over, err)
		}
		if over {
			if !done {
				t.Errorf("%s: the client is done before the server", l.name)
			}
			break
		}
		var user string
		if token, done, user, err = server.Step(reply); err != nil || done && user != l.user {
			t.Fatalf("%s: the server's step %d: %q, %v", l.name, step, user, err)
		}
	}
	if _, _, err := client.Step(nil); err == nil {
		t.Errorf("%s: a step after the end", l.name)
	}
}

// What a server may not say, and that the password isn't in the complaint.
func TestClientRefuses(t *testing.T) {
	t.Parallel()
	const good = `realm="zk-sasl-md5",nonce="abc",charset=utf-8,algorithm=md5-sess`
	for _, c := range []struct{ challenge, proof, reason string }{
		{`realm="r",algorithm=md5-sess`, "", "no nonce"},
		{`nonce="abc"`, "", "algorithm"},
		{`nonce="abc",algorithm=md5`, "", "algorithm"},
		{good + `,qop="auth-int,auth-conf"`, "", "qualities"},
		{good + `,charset=latin-1`, "", "twice"},
		{`nonce="abc",algorithm=md5-sess,charset=latin-1`, "", "charset"},
		{"\xff", "", "UTF-8"},
		{"", "", "no nonce"},
		{good, "", "does not prove"},
		{good, "rspauth=00000000000000000000000000000000", "does not prove"},
		{good + `,qop="auth-int, auth"`, "nonsense", "name=value"},
	} {
		client := NewClient("bob", "geheim", rand.Reader)
		client.Step(nil)
		_, _, err := client.Step([]byte(c.challenge))
		if c.proof != "" || err == nil {
			_, _, err = client.Step([]byte(c.proof))
		}
		if err == nil || !strings.Contains(err.Error(), c.reason) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%q, %q: %v, want %s", c.challenge, c.proof, err, c.reason)
		}
		if _, _, again := client.Step([]byte(good)); again == nil {
			t.Errorf("%q: goes on after an error", c.challenge)
		}
	}
}
