// Package acls is the ACL part of the checker's naive model: whom an ACL admits, and what a server stores for an ACL
// that a client sends. It shares no code with the server's ACLs.
package acls

import (
	"bytes"
	"net/netip"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// everyone is the ACL that nearly every znode has, and everyoneRecord its encoding. All ACLs with that content share
// one value.
var (
	everyone       = jute.WorldACL(jute.PermAll)
	everyoneRecord = jute.AppendACLs(nil, everyone)
)

// Decode decodes an ACL. The result may be shared and must not be changed.
func Decode(d *jute.Decoder) []jute.ACL {
	rest := d.Rest()
	if bytes.HasPrefix(rest, everyoneRecord) {
		d.Reset(rest[len(everyoneRecord):])
		return everyone
	}
	return jute.DecodeACLs(d)
}

// Permits reports whether acl grants one of ids any permission in perms.
func Permits(acl []jute.ACL, perms jute.Perm, ids []jute.ID) bool {
	if len(acl) == 0 {
		return true
	}
	for i := range acl {
		if a := &acl[i]; a.Perms&perms != 0 && a.ID.Scheme == "world" && a.ID.ID == "anyone" {
			return true
		}
	}
	for _, id := range ids {
		if id.Scheme == "super" {
			return true
		}
		for i := range acl {
			a := &acl[i]
			if a.Perms&perms != 0 && a.ID.Scheme == id.Scheme && idMatches(a.ID, id) {
				return true
			}
		}
	}
	return false
}

// Open returns the permissions that an ACL grants to everybody.
func Open(acl []jute.ACL) (perms jute.Perm) {
	if len(acl) == 0 {
		return jute.PermAll
	}
	for i := range acl {
		if a := &acl[i]; a.ID.Scheme == "world" && a.ID.ID == "anyone" {
			perms |= a.Perms
		}
	}
	return perms
}

func idMatches(want, have jute.ID) bool {
	if want.Scheme != "ip" {
		return want.ID == have.ID
	}
	prefix, err := netip.ParsePrefix(want.ID)
	if err != nil {
		return want.ID == have.ID
	}
	addr, err := netip.ParseAddr(have.ID)
	return err == nil && prefix.Contains(addr)
}

// authenticated reports whether an identity of this scheme replaces the scheme "auth" in an ACL.
func authenticated(scheme string) bool {
	return scheme == "digest" || scheme == "sasl" || scheme == "x509"
}

// Fix does what the server does to the ACL of a create or setACL: it drops duplicates, expands "auth", and refuses
// identities that no provider knows.
func Fix(acl []jute.ACL, ids []jute.ID) ([]jute.ACL, jute.Code) {
	if len(acl) == 1 && acl[0].ID.Scheme == "world" && acl[0].ID.ID == "anyone" {
		return acl, jute.OK // nearly every ACL
	}
	var fixed []jute.ACL
	add := func(a jute.ACL) {
		if !slices.Contains(fixed, a) {
			fixed = append(fixed, a)
		}
	}
	for _, a := range acl {
		switch a.ID.Scheme {
		case "auth":
			found := false
			for _, id := range ids {
				if authenticated(id.Scheme) {
					found = true
					add(jute.ACL{Perms: a.Perms, ID: id})
				}
			}
			if !found {
				return nil, jute.ErrInvalidACL
			}
		case "world", "ip", "digest", "sasl", "x509":
			if !validID(a.ID) {
				return nil, jute.ErrInvalidACL
			}
			add(a)
		default:
			return nil, jute.ErrInvalidACL
		}
	}
	if len(fixed) == 0 {
		return nil, jute.ErrInvalidACL
	}
	return fixed, jute.OK
}

func validID(id jute.ID) bool {
	switch id.Scheme {
	case "world":
		return id.ID == "anyone"
	case "digest":
		user, rest, ok := strings.Cut(id.ID, ":")
		return ok && user != "" && rest != "" && !strings.Contains(rest, ":")
	case "ip":
		_, err := netip.ParsePrefix(id.ID)
		_, err2 := netip.ParseAddr(id.ID)
		return err == nil || err2 == nil
	}
	return true
}

// Mask hides the digests from a reader without ADMIN.
func Mask(acl []jute.ACL, ids []jute.ID) []jute.ACL {
	if Permits(acl, jute.PermAdmin, ids) {
		return acl
	}
	masked := make([]jute.ACL, len(acl))
	for i, a := range acl {
		if user, _, ok := strings.Cut(a.ID.ID, ":"); ok && a.ID.Scheme == "digest" {
			a.ID.ID = user + ":x"
		}
		masked[i] = a
	}
	return masked
}
