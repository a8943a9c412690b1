// Package key is the scheme "key", Apache ZooKeeper's sample of a provider: whoever knows a
// multiple of the number in the znode /key is let in. It shows how a provider is made; use
// another to protect anything.
package key

import (
	"errors"
	"strconv"

	"github.com/zooid-project/zooid/authprovider"
)

// Class is the name by which zoo.cfg asks for the provider, as Apache's has it.
const Class = "org.apache.zookeeper.server.auth.KeyAuthenticationProvider"

// New returns the provider, for authprovider.Register.
func New() authprovider.Provider { return provider{} }

type provider struct{}

// Scheme returns "key".
func (provider) Scheme() string { return "key" }

// HandleAuthentication takes every credential while there is no /key, so that it can be
// written at first. All that have been let in have one identity, the empty one.
func (provider) HandleAuthentication(r authprovider.Request) (authprovider.Identities, error) {
	in := authprovider.Identities{IDs: []string{""}}
	key, exists := r.Data("/key")
	if !exists {
		return in, nil
	}
	number, err := strconv.ParseInt(string(key), 10, 32)
	if err != nil {
		return authprovider.Identities{}, errors.New("/key holds no number")
	}
	guess, err := strconv.ParseInt(string(r.Auth), 10, 32)
	if err != nil || number != 0 && guess%number != 0 {
		return authprovider.Identities{}, errors.New("the credential is no multiple of the number in /key")
	}
	return in, nil
}

// IsValid takes every id, as in Apache; only the empty one is ever met.
func (provider) IsValid(string) bool { return true }

// IsAuthenticated returns true.
func (provider) IsAuthenticated() bool { return true }
