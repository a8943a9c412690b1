package auth

import (
	"slices"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// The names of the schemes.
const (
	world      = "world"
	authScheme = "auth"
	ip         = "ip"
	digest     = "digest"
	sasl       = "sasl"
	x509       = "x509"
	ensemble   = "ensemble"
	super      = "super"

	// unproved is the suffix of the scheme of an identity that its provider doesn't regard as authenticated. Such an
	// identity matches ACL entries like any other, but doesn't replace an "auth" entry.
	unproved = "?"

	// anySASL is an internal scheme of Zooid. A SASL user of a server with letAnySaslUserDoX=X has an identity with
	// this scheme and the id X, which matches sasl:X. As an identity, it is part of the request, so that the decisions
	// of replicas don't depend on their own settings.
	anySASL = "sasl*"
)

// Schemes is the set of schemes whose ids are allowed in an ACL. "world" and "auth" are always allowed. It is a
// replicated setting: every server must use the same set for the same log entry. The zero value is the empty set.
type Schemes []string // sorted, no duplicates

// NewSchemes returns the set of the given names.
func NewSchemes(names ...string) Schemes {
	s := slices.Clone(names)
	slices.Sort(s)
	return slices.Compact(s)
}

// Has reports whether name is in the set.
func (s Schemes) Has(name string) bool { return slices.Contains(s, name) }

// validID reports whether id is allowed in an ACL by the rule of its scheme.
func validID(id jute.ID) bool {
	switch id.Scheme {
	case ip:
		_, ok := parseBlock(id.ID)
		return ok
	case digest:
		// Java's split drops empty parts at the end, so "a:b::" passes too.
		return strings.Count(strings.TrimRight(id.ID, ":"), ":") == 1
	case sasl:
		return validPrincipal(id.ID)
	case x509:
		return validDN(id.ID)
	}
	// A provider has checked it on the server to which the client is connected (see Registry.Judge).
	return isProvided(id.Scheme)
}

// matches reports whether id matches want, the id of an ACL entry.
func matches(id, want *jute.ID) bool {
	switch want.Scheme {
	case ip:
		return id.Scheme == ip && blockHolds(want.ID, id.ID)
	case digest, x509:
		return id.Scheme == want.Scheme && id.ID == want.ID
	case sasl:
		return id.Scheme == sasl && (id.ID == want.ID || id.ID == super) ||
			id.Scheme == anySASL && id.ID == want.ID
	}
	return id.ID == want.ID && isProvided(want.Scheme) && (id.Scheme == want.Scheme || id.Scheme == want.Scheme+unproved)
}

// Authenticated reports whether id was proved by a credential, unlike an address. Only such identities replace an
// "auth" entry of an ACL.
func Authenticated(id jute.ID) bool {
	return id.Scheme == digest || id.Scheme == sasl || id.Scheme == x509 || isProvided(id.Scheme)
}

// UserName returns the name that whoAmI and the audit log use for id: the user part of a digest, the whole id of an
// address or of a SASL, X.509 or provider's identity, and "" for the rest.
func UserName(id jute.ID) string {
	switch id.Scheme {
	case digest:
		user, _, _ := strings.Cut(id.ID, ":")
		return user
	case ip, sasl, x509:
		return id.ID
	}
	if isProvided(strings.TrimSuffix(id.Scheme, unproved)) {
		return id.ID
	}
	return ""
}

// Shown returns the name that logs use for id: the scheme, followed by a colon and the user if
// there is one. It never contains the hash of a password.
func Shown(id jute.ID) string {
	scheme := strings.TrimSuffix(id.Scheme, unproved)
	if user := UserName(id); user != "" {
		return scheme + ":" + user
	}
	return scheme
}

// WhoAmI returns the reply to whoAmI for a client with the identities ids.
func WhoAmI(ids []jute.ID) jute.WhoAmIResponse {
	r := jute.WhoAmIResponse{Clients: make([]jute.ClientInfo, 0, len(ids))}
	for _, id := range ids {
		if id.Scheme != anySASL {
			r.Clients = append(r.Clients, jute.ClientInfo{Scheme: strings.TrimSuffix(id.Scheme, unproved), User: UserName(id)})
		}
	}
	return r
}

// validPrincipal reports whether s has the form of a Kerberos principal, name[/host][@realm].
// Without a realm, anything is valid.
func validPrincipal(s string) bool {
	name, realm, found := strings.Cut(s, "@")
	return !found || strings.Count(name, "/") <= 1 && !strings.ContainsAny(realm, "/@")
}
