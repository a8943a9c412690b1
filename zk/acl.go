package zk

import (
	"crypto/sha1"
	"encoding/base64"

	"github.com/zooid-project/zooid/jute"
)

// OpenACL returns the list that grants everything to everybody. It is Apache's OPEN_ACL_UNSAFE, the usual list of
// programs without special needs.
func OpenACL() []ACL { return WorldACL(PermAll) }

// WorldACL returns the list that grants perms to everybody.
func WorldACL(perms Perm) []ACL { return jute.WorldACL(perms) }

// CreatorACL returns the list that grants everything to the identities that the client has proved, and nothing to
// others. It is AuthACL(PermAll), Apache's CREATOR_ALL_ACL.
func CreatorACL() []ACL { return AuthACL(PermAll) }

// AuthACL returns the list that grants perms to the identities that the client has proved by AddAuth, Options.Auth,
// Options.SASL or a TLS certificate. The server replaces it with a list of these identities. A create or SetACL with it
// fails with ErrInvalidACL if there are none.
func AuthACL(perms Perm) []ACL { return []ACL{{Perms: perms, ID: ID{Scheme: "auth"}}} }

// DigestACL returns the list that grants perms to every client that has authenticated as user with password, by AddAuth
// or Options.Auth with the scheme "digest".
func DigestACL(perms Perm, user, password string) []ACL {
	return []ACL{{Perms: perms, ID: DigestID(user, password)}}
}

// DigestID returns the identity of a user in the scheme "digest" as access control lists have it: the user's name,
// which must not contain a colon, and a SHA-1 hash of name and password in base64. Servers configured for another hash
// (DigestAuthenticationProvider's digestAlg) don't match it.
func DigestID(user, password string) ID {
	hash := sha1.Sum([]byte(user + ":" + password))
	return ID{Scheme: "digest", ID: user + ":" + base64.StdEncoding.EncodeToString(hash[:])}
}

// DigestAuth returns the credentials that authenticate a client as user (Options.Auth). user must not contain a colon.
func DigestAuth(user, password string) Auth {
	return Auth{Scheme: "digest", Auth: []byte(user + ":" + password)}
}
