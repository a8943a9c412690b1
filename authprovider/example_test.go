package authprovider_test

import (
	"errors"
	"fmt"
	"strings"

	"github.com/zooid-project/zooid/authprovider"
)

// Foo is the scheme of the example in ZooKeeper's programmer's guide: a client proves its
// identity by name:secret.
type Foo struct{ secret string }

// Scheme returns "foo".
func (Foo) Scheme() string { return "foo" }

// HandleAuthentication accepts name:secret. The client named admin is a superuser; every client
// is in the group "all", too.
func (f Foo) HandleAuthentication(r authprovider.Request) (authprovider.Identities, error) {
	name, secret, _ := strings.Cut(string(r.Auth), ":")
	if name == "" || secret != f.secret {
		return authprovider.Identities{}, errors.New("wrong secret")
	}
	return authprovider.Identities{IDs: []string{name, "group-all"}, Super: name == "admin"}, nil
}

// IsValid accepts every id except the empty one.
func (Foo) IsValid(id string) bool { return id != "" }

// IsAuthenticated returns true.
func (Foo) IsAuthenticated() bool { return true }

func Example() {
	// A program does this in an init function next to cmd/zooid's main.
	authprovider.Register("com.example.FooAuthenticationProvider",
		func() authprovider.Provider { return Foo{"swordfish"} })
	p, err := authprovider.Open("com.example.FooAuthenticationProvider")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, credential := range []string{"ann:swordfish", "ann:guess"} {
		ids, err := p.HandleAuthentication(authprovider.Request{Scheme: "foo", Auth: []byte(credential)})
		fmt.Println(ids.IDs, err)
	}
	// Output:
	// [ann group-all] <nil>
	// [] wrong secret
}
