// Package authprovider adds authentication schemes to a Zooid server, as Apache ZooKeeper's AuthenticationProvider
// does. A provider is compiled in: [Register] it in an init function, import its package in a file of your own in
// cmd/zooid, and name it in zoo.cfg:
//
//	authProvider.1=com.example.FooAuthenticationProvider
//
// Apache's interface corresponds to this one as follows.
//
//	getScheme             Provider.Scheme
//	handleAuthentication  Provider.HandleAuthentication
//	isValid               Provider.IsValid
//	matches               the ids that HandleAuthentication returns, or a Rule, see below
//	isAuthenticated       Provider.IsAuthenticated
//
// # Where decisions are made
//
// All servers of an ensemble must decide alike whether a client may write, at whatever time they apply the write, and
// even if a provider's data has changed meanwhile. So only the server that the client is connected to asks a provider,
// and the answer travels with the client's requests. All servers then compare: an entry of an ACL matches a client if
// its scheme and id are equal to those of one of the client's identities. A provider whose ACL entries can match
// several clients returns every id that matches the client, such as those of its groups. A provider that can't name
// them all, because its ACL entries are patterns for instance, is a Matcher: it has a pure function by which every
// server compares.
//
// All servers must have the same providers configured. A server without a provider refuses its credentials (AuthFailed,
// which ends the client), and doesn't check the ids of its scheme in ACLs; if it leads, ACLs with the scheme get
// InvalidACL at all servers. So restart all servers with a new provider before clients use it.
package authprovider

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Provider serves one scheme. Its methods are called by many connections at once. A call that panics counts as
// one that refuses: the credential, or the id.
type Provider interface {
	// Scheme returns the scheme's name: 1 to SchemeBytesMax lower-case letters, digits, and "-" between them. It is always
	// the same. The server doesn't start if two providers have one scheme.
	Scheme() string

	// HandleAuthentication judges a credential that a client has sent (addauth, or a request to the admin server), and
	// returns what it proves. An error refuses it: the client gets AuthFailed, and its connection ends. With an error that
	// wraps ErrUndecided the connection ends without an answer. The error is logged and must not contain the credential.
	// Requests that this client sends later wait until HandleAuthentication returns; other clients don't. The server sets
	// no time limit and doesn't cancel a call, but pings wait, too: a client that hears nothing for 2/3 of its session
	// timeout leaves, and sends the credential again to the next server. So a provider bounds its own waits.
	HandleAuthentication(r Request) (Identities, error)

	// IsValid reports whether id may stand in an ACL. The server that the client is connected to asks when a request
	// creates or replaces an ACL, and it must answer at once. If IsValid returns false, the request is refused with
	// InvalidACL.
	IsValid(id string) bool

	// IsAuthenticated reports whether the identities are proved by a credential. It doesn't depend on the client. Such
	// identities take the place of an entry of the scheme "auth" in an ACL.
	IsAuthenticated() bool
}

// A Request is a credential to be judged.
type Request struct {
	Scheme  string
	Auth    []byte // as the client sent it; it may be kept but not changed
	Address string // the client's IP address, without a port, as in an ACL of the scheme "ip"

	// Data returns the data of a znode as this server has it, which may be behind other servers; false if there is no such
	// znode. The path is absolute. It checks no permissions. The result is a copy, which may be kept and changed. Data may
	// be called from any goroutine, also after HandleAuthentication has returned.
	Data func(path string) ([]byte, bool)
}

// Identities is what a credential proves.
type Identities struct {
	// IDs are the ids of the provider's scheme that match the client in an ACL. Without any, and without Super, the
	// credential is refused. A connection has at most 64 identities of 4 KiB altogether, and at most 8 of a scheme with a
	// Rule; a credential that proves more is refused. The server doesn't keep the slice.
	IDs []string
	// Super makes the client a superuser, which ACLs don't restrict.
	Super bool
	// Expires is when the identities expire by this server's clock; the zero value means never. At that time the
	// connection is closed, unless the client has proved the same identities by a credential that lasts longer. Before
	// Expires the server doesn't ask the provider again.
	Expires time.Time
}

// ErrUndecided is wrapped by the errors of a provider that could not judge a credential, for example because a service
// that it asks is down. The connection then ends without an answer, so the client tries again, also at another server;
// one that gets AuthFailed gives up.
var ErrUndecided = errors.New("the credential could not be judged")

// SchemeBytesMax bounds the name of a scheme, in bytes.
const SchemeBytesMax = 32

var (
	mu         sync.Mutex
	registered = map[string]func() Provider{}
)

// Register makes a provider available under the name that authProvider.N gives in zoo.cfg, such as that of the Java
// class it replaces. It panics if the name is empty or taken, or if open is nil. The server calls open when it starts,
// once for each authProvider.N with the name. It passes no settings, so the provider reads its own, for example from a
// file or the environment. open can't return an error: a provider without usable settings can refuse every credential,
// or panic, so that the server doesn't start.
func Register(name string, open func() Provider) {
	mu.Lock()
	defer mu.Unlock()
	if _, taken := registered[name]; taken || name == "" || open == nil {
		panic(fmt.Sprintf("authprovider: Register(%q): the name is taken or empty, or there is no provider", name))
	}
	registered[name] = open
}

// Names returns the names of the registered providers, sorted.
func Names() []string {
	mu.Lock()
	defer mu.Unlock()
	return slices.Sorted(maps.Keys(registered))
}

// Open makes the provider registered under a name, and fails if there is none. Servers call it once for each
// authProvider.N.
func Open(name string) (Provider, error) {
	mu.Lock()
	open := registered[name]
	mu.Unlock()
	if open == nil {
		return nil, fmt.Errorf("open the authentication provider %.200q: no such provider is compiled into this program", name)
	}
	return open(), nil
}

// builtIn are the schemes that servers have without a provider, and those with a meaning
// of their own.
var builtIn = [...]string{"world", "auth", "ip", "digest", "sasl", "x509", "ensemble", "super"}

// IsScheme reports whether a provider may serve a scheme of that name. It may not replace a built-in one, such as
// digest.
func IsScheme(name string) bool {
	return name != "" && len(name) <= SchemeBytesMax && name[0] != '-' && name[len(name)-1] != '-' &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" && !slices.Contains(builtIn[:], name)
}

// CheckScheme returns an error that says why no provider may serve a scheme of that name,
// or nil.
func CheckScheme(name string) error {
	switch {
	case IsScheme(name):
		return nil
	case slices.Contains(builtIn[:], name):
		return fmt.Errorf("the scheme %s is built in; a provider needs a name of its own", name)
	}
	return fmt.Errorf("%.40q isn't a name for a scheme; use 1 to %d lower-case letters, digits, and - between them", name,
		SchemeBytesMax)
}
