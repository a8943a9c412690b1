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

	// unproved ends the scheme of an identity that its provider doesn't hold for
	// authenticated. It matches like any other, and takes the place of no "auth" entry.
	unproved = "?"

	// anySASL is a scheme of Zooid's own, never shown: a SASL user of a server
	// with letAnySaslUserDoX=X carries it with the id X and so matches sasl:X.
	// Being an identity it travels with the request, and what the replicas
	// decide doesn't depend on their own settings.
	anySASL = "sasl*"
)

// Schemes is the set of schemes whose ids may stand in an ACL, besides "world"
// and "auth", which always may. It is a replicated setting: every server must
// use the same set for the same log entry. The zero value is the empty set.
type Schemes []string // sorted, no duplicates

// NewSchemes returns the set of names.
func NewSchemes(names ...string) Schemes {
	s := slices.Clone(names)
	slices.Sort(s)
	return slices.Compact(s)
}

// Has reports whether name is in the set.
func (s Schemes) Has(name string) bool { return slices.Contains(s, name) }

// validID reports whether id may stand in an ACL, by the rule of its scheme.
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
	// What a provider says of it was decided where the client is connected (see
	// Registry.Judge).
	return isProvided(id.Scheme)
}

// matches reports whether the bearer of id is meant by want, an ACL's id.
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

// Authenticated reports whether id was proved by a credential, unlike a mere
// address. Only such identities replace an "auth" entry of an ACL.
func Authenticated(id jute.ID) bool {
	return id.Scheme == digest || id.Scheme == sasl || id.Scheme == x509 || isProvided(id.Scheme)
}

// UserName returns what whoAmI and the audit log call the bearer of id: the
// user part of a digest, the whole id of an address, a SASL or an X.509
// identity, and "" for the rest.
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

// Shown returns how logs name the bearer of id: the scheme, and behind a colon the user, never with the hash of a
// password.
func Shown(id jute.ID) string {
	scheme := strings.TrimSuffix(id.Scheme, unproved)
	if user := UserName(id); user != "" {
		return scheme + ":" + user
	}
	return scheme
}

// WhoAmI returns the reply to whoAmI for the bearer of ids.
func WhoAmI(ids []jute.ID) jute.WhoAmIResponse {
	r := jute.WhoAmIResponse{Clients: make([]jute.ClientInfo, 0, len(ids))}
	for _, id := range ids {
		if id.Scheme != anySASL {
			r.Clients = append(r.Clients, jute.ClientInfo{Scheme: strings.TrimSuffix(id.Scheme, unproved), User: UserName(id)})
		}
	}
	return r
}

// validPrincipal reports whether s has the form of a Kerberos principal,
// name[/host][@realm]. Without a realm anything goes.
func validPrincipal(s string) bool {
	name, realm, found := strings.Cut(s, "@")
	return !found || strings.Count(name, "/") <= 1 && !strings.ContainsAny(realm, "/@")
}
