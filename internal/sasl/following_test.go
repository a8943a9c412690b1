package sasl

import (
	"crypto/rand"
	"testing"
)

// TestFollowing: logins are judged by the users of now, and one that has succeeded holds while its user has the same
// password.
func TestFollowing(t *testing.T) {
	t.Parallel()
	of := func(users map[string]string) (Mechanism, map[string]string) {
		return NewDigestMD5(users, "", rand.Reader), users
	}
	f := Follow(of(map[string]string{"ann": "a", "bob": "b", "carl": "c"}))
	begun := func(user, password string) (login Lasting, finish func() error) {
		login = f.Begin().(Lasting)
		client := NewClient(user, password, rand.Reader)
		first, _, _ := client.Step(nil)
		challenge, _, _, err := login.Step(first)
		if err != nil {
			t.Fatal(err)
		}
		answer, _, err := client.Step(challenge)
		if err != nil {
			t.Fatal(err)
		}
		return login, func() error { _, _, _, err := login.Step(answer); return err }
	}
	in := func(user, password string) Lasting {
		t.Helper()
		login, finish := begun(user, password)
		if err := finish(); err != nil {
			t.Fatal(err)
		}
		return login
	}
	ann, bob, carl := in("ann", "a"), in("bob", "b"), in("carl", "c")
	slow, finish := begun("bob", "b")
	f.Replace(of(map[string]string{"ann": "a", "bob": "changed", "dora": "d"}))
	if err := finish(); err != nil {
		t.Errorf("a login under way fails: %v", err)
	}
	for _, c := range []struct {
		name  string
		login Lasting
		holds bool
	}{
		{"unchanged", ann, true}, {"changed", bob, false}, {"removed", carl, false}, {"begun before the change", slow, false},
		{"new", in("dora", "d"), true},
	} {
		if got := c.login.Holds(); got != c.holds {
			t.Errorf("%s: it holds: %v", c.name, got)
		}
	}
	if _, finish := begun("bob", "b"); finish() == nil {
		t.Error("the former password lets in")
	}
	f.Replace(of(map[string]string{"bob": "b"}))
	if ann.Holds() || !bob.Holds() {
		t.Error("what counts isn't what is in force")
	}
}

// TestFollowingTickets: a login by a ticket holds while the mechanism in force gives its principal the same name,
// whatever passwords are in the login file.
func TestFollowingTickets(t *testing.T) {
	t.Parallel()
	digest := NewDigestMD5(map[string]string{"ann": "a"}, "", rand.Reader)
	f := Follow(Several{stamps("ann"), digest}, map[string]string{"ann": "a"})
	login := f.Begin().(Lasting)
	if _, done, user, err := login.Step([]byte("stamp")); !done || user != "ann" || err != nil {
		t.Fatal(done, user, err)
	}
	for _, c := range []struct {
		name    string
		now     Mechanism
		secrets map[string]string
		holds   bool
	}{
		{"same name", stamps("ann"), nil, true},
		{"a user of the same name has another password", Several{digest, stamps("ann")}, map[string]string{"ann": "b"}, true},
		{"renamed", stamps("bob"), nil, false},
		{"no name", stamps(""), nil, false},
		{"no tickets", digest, map[string]string{"ann": "a"}, false},
	} {
		if f.Replace(c.now, c.secrets); login.Holds() != c.holds {
			t.Errorf("%s: it holds: %v", c.name, login.Holds())
		}
	}
}

// stamps is a mechanism that gives whoever has a ticket this name.
type stamps string

func (s stamps) Name() string             { return "STAMP" }
func (s stamps) Begins(token []byte) bool { return len(token) > 0 }
func (s stamps) Begin() Login             { return s }

func (s stamps) Step([]byte) ([]byte, bool, string, error) { return nil, true, string(s), nil }

func (s stamps) UserBy(m Mechanism) string {
	several, _ := m.(Several)
	for _, one := range append(several, m) {
		if by, ok := one.(stamps); ok {
			return string(by)
		}
	}
	return ""
}
