package sasl

import (
	"crypto/rand"
	"testing"
)

// TestFollowing: logins are judged by the users of now, and one that has succeeded holds while its user has the same
// password.
func TestFollowing(t *testing.T) {
	t.Parallel()
	of := func(users map[string]string) (Mechanism, map[string]string, bool) {
		return NewDigestMD5(users, "", rand.Reader), users, false
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

// TestFollowingTickets: users that the login file doesn't have hold while there are logins by tickets.
func TestFollowingTickets(t *testing.T) {
	t.Parallel()
	m := NewDigestMD5(map[string]string{"ann": "a"}, "", rand.Reader)
	f := Follow(m, nil, true) // so ann is a user of tickets
	login := f.Begin().(Lasting)
	client := NewClient("ann", "a", rand.Reader)
	first, _, _ := client.Step(nil)
	challenge, _, _, _ := login.Step(first)
	answer, _, _ := client.Step(challenge)
	if _, done, _, err := login.Step(answer); !done || err != nil {
		t.Fatal(err)
	}
	for _, tickets := range []bool{true, false} {
		if f.Replace(m, map[string]string{"ann": "other"}, tickets); login.Holds() != tickets {
			t.Errorf("with logins by tickets %v: it holds: %v", tickets, login.Holds())
		}
	}
}
