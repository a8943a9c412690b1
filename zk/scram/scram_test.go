package scram

import (
	"testing"
)

// FuzzChallenge: whatever a server says that doesn't know the password, the login ends without a panic and without
// believing it.
func FuzzChallenge(f *testing.F) {
	f.Add("r=abc,s=YQ==,i=4096", "v=YQ==")
	f.Add("r=,s=,i=", "e=other-error")
	f.Add("r=abc,s=YQ==,i=1000001", "")
	f.Add("0", "v=") // which the library takes
	m := SHA256("bob", "secret")
	f.Fuzz(func(t *testing.T, first, last string) {
		login, err := m.Begin("server:2181")
		if err != nil {
			t.Fatal(err)
		}
		hello, done, err := login.Step(nil)
		if err != nil || done || len(hello) == 0 {
			t.Fatalf("the first step: %q, %v, %v", hello, done, err)
		}
		for _, challenge := range []string{first, last, last} {
			if _, done, err := login.Step([]byte(challenge)); done {
				t.Fatalf("%q, %q: the server is believed: %v", first, last, err)
			}
		}
	})
}
