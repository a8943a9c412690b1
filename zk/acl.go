package zk

import (
	"crypto/sha1"
	"encoding/base64"

	"github.com/zooid-project/zooid/jute"
)

// OpenACL returns the list that grants everything to everybody: Apache's
// OPEN_ACL_UNSAFE, and what ZooKeeper's clients use where they ask for no list.
func OpenACL() []ACL { return WorldACL(PermAll) }

// WorldACL returns the list that grants perms to everybody.
func WorldACL(perms Perm) []ACL { return jute.WorldACL(perms) }

// CreatorACL returns the list that grants everything to the identities the client
// has proved, and nothing to others: AuthACL(PermAll), Apache's CREATOR_ALL_ACL.
func CreatorACL() []ACL { return AuthACL(PermAll) }

// AuthACL returns the list that grants perms to the identities the client has
// proved by AddAuth, Options.Auth, Options.SASL or a TLS certificate.
func AuthACL(perms Perm) []ACL { return []ACL{{Perms: perms, ID: ID{Scheme: "auth"}}} }

// DigestACL returns the list that grants perms to whoever proves to be user by
// AddAuth or Options.Auth with the scheme "digest".
func DigestACL(perms Perm, user, password string) []ACL {
	return []ACL{{Perms: perms, ID: DigestID(user, password)}}
}

// DigestID returns the identity of the scheme "digest" for a user, as lists have it:
// the user's name and, in place of the password, a hash of both. It is what servers
// compute unless they are configured for another hash than SHA-1.
func DigestID(user, password string) ID {
	hash := sha1.Sum([]byte(user + ":" + password))
	return ID{Scheme: "digest", ID: user + ":" + base64.StdEncoding.EncodeToString(hash[:])}
}

// DigestAuth returns the credentials by which a client proves to be user
// (Options.Auth).
func DigestAuth(user, password string) Auth {
	return Auth{Scheme: "digest", Auth: []byte(user + ":" + password)}
}
