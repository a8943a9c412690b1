package scram

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/zk"
	client "github.com/zooid-project/zooid/zk/scram"
)

// exchange lets a client log in at a server and returns who it is then.
func exchange(m *Mechanism, c zk.SASLMechanism) (user string, err error) {
	theirs, err := c.Begin("localhost:2181")
	if err != nil {
		return "", err
	}
	ours := m.Begin()
	var token []byte
	for over := false; ; {
		reply, done, err := theirs.Step(token)
		switch {
		case err != nil || done:
			return user, err
		case over:
			return "", nil
		}
		if token, over, user, err = ours.Step(reply); err != nil {
			if _, done, _, again := ours.Step(reply); again == nil || done {
				return "a second try", nil
			}
			return "", err
		}
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	verifier, err := Verifier("ann", "pencil", []byte("0123456789abcdef"))
	if err != nil || !IsVerifier(verifier) || strings.Contains(verifier, "pencil") {
		t.Fatalf("verifier %q, %v", verifier, err)
	}
	m, err := New(map[string]string{"bob": "secret", "ann": verifier, "jérôme,=": "pä€ss"}, []byte("random"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ user, password, err string }{
		{"bob", "secret", ""},
		{"ann", "pencil", ""},
		{"jérôme,=", "pä€ss", ""},
		{"bob", "guess", "invalid"},
		{"ann", verifier, "invalid"}, // the file's content is no password
		{"eve", "secret", "invalid"},
		{"bob\x00", "secret", "SASLprep"},
	} {
		user, err := exchange(m, client.SHA256(c.user, c.password))
		if c.err == "" && (user != c.user || err != nil) ||
			c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), c.password)) {
			t.Errorf("%q with %q: %q, %v; want %q", c.user, c.password, user, err, c.err)
		}
	}
}

// TestRFC7677 has the exchange shown in section 3 of the RFC.
func TestRFC7677(t *testing.T) {
	t.Parallel()
	verifier, err := Verifier("user",
		"pencil", []byte{0x5b, 0x6d, 0x99, 0x68, 0x9d, 0x12, 0x35, 0x8e, 0xec, 0xa0, 0x4b, 0x14, 0x12, 0x36, 0xfa, 0x81})
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(map[string]string{"user": verifier}, nil)
	if err != nil {
		t.Fatal(err)
	}
	m.server.WithNonceGenerator(func() string { return "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0" })
	login := m.Begin()
	first, _, _, err := login.Step([]byte("n,,n=user,r=rOprNGfwEbeRWgbNEkqO"))
	if want := "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"; string(
		first) != want || err != nil {
		t.Fatalf("%q, %v", first, err)
	}
	last, done, user, err := login.Step([]byte("c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="))
	if string(last) != "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=" || !done || user != "user" || err != nil {
		t.Errorf("%q, %v, %q, %v", last, done, user, err)
	}
}

// TestStrangersLookLikeUsers: a user that doesn't exist has a salt of its own that stays.
func TestStrangersLookLikeUsers(t *testing.T) {
	t.Parallel()
	m, err := New(map[string]string{"bob": "secret"}, []byte("random"))
	if err != nil {
		t.Fatal(err)
	}
	saltOf := func(user string) string {
		first, _, _, err := m.Begin().Step([]byte("n,,n=" + user + ",r=abc"))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(first), ",")
		return rest
	}
	if again := saltOf("eve"); saltOf("eve") != again || again == saltOf("ann") ||
		len(saltOf("eve")) != len(saltOf("bob")) {
		t.Errorf("eve %s, ann %s, bob %s", saltOf("eve"), saltOf("ann"), saltOf("bob"))
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for _, verifier := range []string{
		"SCRAM-SHA-256$",
		"SCRAM-SHA-256$4095:YQ==$x:y", "SCRAM-SHA-256$1000001:YQ==$x:y", "SCRAM-SHA-256$4096:YQ==$YQ==:YQ==",
		"SCRAM-SHA-256$4096$a:b",
	} {
		if _, err := New(map[string]string{"bob": verifier}, nil); err == nil || !strings.Contains(err.Error(), "bob") {
			t.Errorf("%s: %v", verifier, err)
		}
	}
	m, err := New(map[string]string{"bob": "secret"}, []byte("random"))
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{
		"", "n", "n,,", "p=tls-unique,,n=bob,r=x", "n,a=eve,n=bob,r=x", "n,,n=bob,r=" + strings.Repeat("x", tokenBytesMax),
		"\x60\x82",
	} {
		if reply, done, user, err := m.Begin().Step([]byte(token)); err == nil || done || user != "" || reply != nil {
			t.Errorf("%.40q: %q, %v, %q, %v", token, reply, done, user, err)
		}
	}
	if m.Begins(nil) || m.Begins([]byte{0x60, 0x82}) || !m.Begins([]byte("n,,n=bob,r=x")) || m.Name() != Name {
		t.Error("it isn't told from other mechanisms")
	}
}

// FuzzLogin: no token but the right one logs anybody in.
func FuzzLogin(f *testing.F) {
	f.Add("n,,n=bob,r=abc", "c=biws,r=abc,p=YQ==")
	f.Add("n,a==3D,n==2C,r=", "c=,r=,p=")
	secret := make([]byte, 32)
	rand.Read(secret)
	m, err := New(map[string]string{"bob": "secret"}, secret)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, first, last string) {
		login := m.Begin()
		for _, token := range []string{first, last, last} {
			if _, done, user, err := login.Step([]byte(token)); done || user != "" {
				t.Fatalf("%q, %q log in as %q: %v", first, last, user, err)
			}
		}
	})
}
