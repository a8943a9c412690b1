// Package key implements the scheme "key", Apache ZooKeeper's sample provider: it admits
// clients that know a multiple of the number in the znode /key. It shows how to write a
// provider; use another to protect anything.
package key

import (
	"errors"
	"strconv"

	"github.com/zooid-project/zooid/authprovider"
)

// Class is the provider's name in zoo.cfg, that of Apache's class.
const Class = "org.apache.zookeeper.server.auth.KeyAuthenticationProvider"

// New returns the provider, for authprovider.Register. Credentials and the data of /key are decimal numbers of 32 bits.
// While there is no /key, every credential is accepted. All clients that it admits have the empty id, so only ACL
// entries with that id admit them.
func New() authprovider.Provider { return provider{} }

type provider struct{}

// Scheme returns "key".
func (provider) Scheme() string { return "key" }

// HandleAuthentication accepts every credential while /key doesn't exist, so that it
// can be created. All admitted clients have the same identity, the empty one.
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
		return authprovider.Identities{}, errors.New("the credential isn't a multiple of the number in /key")
	}
	return in, nil
}

// IsValid accepts every id, as in Apache; only the empty one is ever used.
func (provider) IsValid(string) bool { return true }

// IsAuthenticated returns true.
func (provider) IsAuthenticated() bool { return true }
