package back

import (
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/apache/learner"
	"github.com/zooid-project/zooid/internal/sasl"
)

// TestLogins: on both ports an observer is told nothing before it has logged in, and served after that.
func TestLogins(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("se cret\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := PeerSASL{User: "peer", PasswordFile: file}
	logins, err := p.Logins()
	if err != nil {
		t.Fatal(err)
	}
	looking := election(3, electionV1, "a:1", make([]byte, 44))
	first := election(3, electionV1, "a:1") // what comes before the login
	for name, c := range map[string]struct {
		user, password string // user "" for no login
		logins         *Logins
		quorum         string // what the quorum port's error says
		election       string // what the election port's does; "" for none
	}{
		"right":        {"peer", "se cret", logins, "EOF", ""},
		"wrong":        {"peer", "secret", logins, "wrong password", "wrong password"},
		"another user": {"super", "se cret", logins, "no user", "no user"},
		"none":         {"", "", logins, "the message isn't part of a login", "quorum.auth.learnerRequireSasl=true"},
		"unasked":      {"peer", "se cret", nil, "-peer-sasl-", "-peer-sasl-"},
		"none, none":   {"", "", nil, "EOF", ""},
	} {
		for _, port := range []struct {
			serve         func(*Leader, net.Conn) error
			before, after []byte
			says          string
		}{
			{(*Leader).serve, nil, append(hello(3, 5), packet(learner.Ack, 0, nil)...), c.quorum},
			{(*Leader).elect, first, looking[len(first):], c.election},
		} {
			l := leading5()
			l.hasRead()
			l.logins = c.logins
			here, there := net.Pipe()
			served := make(chan error, 1)
			go func() { served <- port.serve(l, there) }()
			here.Write(port.before)
			var failed error
			if c.user != "" {
				failed = learner.Login(here, sasl.NewPeerClient(c.user, c.password, rand.Reader).Step)
			}
			told := 0
			if failed == nil {
				go func() {
					here.Write(port.after)
				}()
				n, _ := here.Read(make([]byte, 1))
				told = n
			}
			here.Close()
			err := <-served
			if port.says == "" && err != nil || port.says != "" && !(err != nil && strings.Contains(err.Error(), port.says)) &&
				!(port.says == "EOF" && (err == nil || errors.Is(err, io.ErrClosedPipe))) {
				t.Errorf("%s: %v; want %q", name, err, port.says)
			}
			if want := port.says == "" || port.says == "EOF"; (told > 0) != want {
				t.Errorf("%s: %d bytes of an answer; the login: %v", name, told, failed)
			}
			if err != nil && strings.Contains(err.Error(), "cret") {
				t.Errorf("%s: the password is told: %v", name, err)
			}
		}
	}
}

// TestLoginFlags: half of what a login takes is refused.
func TestLoginFlags(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	full := write("full", strings.Repeat("x", passwordBytesMax))
	tooLong := write("too long", strings.Repeat("x", passwordBytesMax+1))
	password, empty, noKeys := write("password", "x"), write("empty", "\n"), write("keytab", "x")
	for _, c := range []struct {
		p    PeerSASL
		says string // "" for what is right
		none bool   // there are no logins
	}{
		{PeerSASL{}, "", true},
		{PeerSASL{User: "a", PasswordFile: password}, "", false},
		{PeerSASL{User: "a"}, " together", true},
		{PeerSASL{PasswordFile: password}, " together", true},
		{PeerSASL{User: "a", PasswordFile: dir + "/none"}, "no such file", true},
		{PeerSASL{User: "a", PasswordFile: empty}, "is empty", true},
		{PeerSASL{User: "a", PasswordFile: full}, "", false},
		{PeerSASL{User: "a", PasswordFile: tooLong}, "more than 4096 bytes", true},
		{PeerSASL{User: "a", PasswordFile: password, Keytab: noKeys}, "or -peer-sasl-keytab, not both", true},
		{PeerSASL{Keytab: noKeys, Principal: "zkquorum/h@R"}, " together", true},
		{PeerSASL{Keytab: noKeys, Principal: "zkquorum", Observers: "o@R"}, "service/host@REALM", true},
		{PeerSASL{Keytab: noKeys, Principal: "zkquorum/h@R", Observers: "o@R"}, "keytab", true},
	} {
		l, err := c.p.Logins()
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) || (l == nil) != c.none {
			t.Errorf("%+v: %v, %v; want %q", c.p, l, err, c.says)
		}
	}
}
