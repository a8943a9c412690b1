package auth

import (
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// A Budget bounds what the lists of one request may become. Fix takes away what it
// uses.
type Budget struct {
	Entries  int // of each list
	Expanded int // bytes of all entries that stand for "auth", as they are encoded

	// Provided says that the schemes of providers (package authprovider) may stand in an
	// ACL.
	Provided bool

	Exceeded bool // a list was refused for it
}

// takes reports whether a scheme may be that of an entry.
func (b *Budget) takes(scheme string) bool { return b.Provided || !isProvided(scheme) }

// Permits reports whether acl grants at least one of the permissions in want to
// the bearer of ids. A nil or empty list grants everything, and so does any
// identity of the scheme "super". It doesn't allocate.
func Permits(acl []jute.ACL, want jute.Perm, ids []jute.ID) bool {
	if len(acl) == 0 {
		return true
	}
	// The usual list is world:anyone, the usual bearer one address: look there first.
	for i := range acl {
		if acl[i].Perms&want != 0 && isAnyone(&acl[i].ID) {
			return true
		}
	}
	for i := range ids {
		if ids[i].Scheme == super {
			return true
		}
	}
	for i := range acl {
		if acl[i].Perms&want == 0 {
			continue
		}
		for j := range ids {
			if matches(&ids[j], &acl[i].ID) {
				return true
			}
		}
	}
	return false
}

// Fix turns the list of a create or setACL into the one to store: duplicates
// removed, each entry of the scheme "auth" replaced by one per authenticated
// identity of ids, everything else checked. It returns false, which is
// jute.ErrInvalidACL, for a list that is nil or empty, has an entry of a scheme
// not in schemes or with an id that the scheme refuses, has an "auth" entry with
// no identity to put in its place, or exceeds the budget. Permission bits are not
// checked, as in Apache.
//
// The result may be acl itself, and shares its strings and those of ids.
func Fix(acl []jute.ACL, ids []jute.ID, schemes Schemes, b *Budget) ([]jute.ACL, bool) {
	if len(acl) == 1 && isAnyone(&acl[0].ID) {
		return acl, true
	}
	var fixed []jute.ACL
	for _, a := range unique(acl) {
		switch {
		case isAnyone(&a.ID):
			fixed = append(fixed, a)
		case a.ID.Scheme == authScheme:
			n := len(fixed)
			for i := range ids {
				if Authenticated(ids[i]) && b.takes(ids[i].Scheme) {
					fixed = append(fixed, jute.ACL{Perms: a.Perms, ID: ids[i]})
					b.Expanded -= aclFixedSize + len(ids[i].Scheme) + len(ids[i].ID)
				}
			}
			if b.Exceeded = b.Expanded < 0; len(fixed) == n || b.Exceeded {
				return nil, false
			}
		case schemes.Has(a.ID.Scheme) && b.takes(a.ID.Scheme) && validID(a.ID):
			fixed = append(fixed, a)
		default:
			return nil, false
		}
		if len(fixed) > b.Entries {
			b.Exceeded = true
			return nil, false
		}
	}
	return fixed, len(fixed) > 0
}

// aclFixedSize is the size of an encoded entry beside its strings.
const aclFixedSize = 4 + 4 + 4

// uniqueScanMax is the longest list in which unique looks for duplicates by
// comparing each entry with all before it; longer ones pay for a map.
const uniqueScanMax = 16

// unique returns acl without repeated entries, in the order of first appearance.
func unique(acl []jute.ACL) []jute.ACL {
	var seen map[jute.ACL]bool
	if len(acl) > uniqueScanMax {
		seen = make(map[jute.ACL]bool, len(acl))
	}
	kept := make([]jute.ACL, 0, len(acl))
next:
	for _, a := range acl {
		if seen != nil {
			if seen[a] {
				continue
			}
			seen[a] = true
		} else {
			for i := range kept {
				if kept[i] == a {
					continue next
				}
			}
		}
		kept = append(kept, a)
	}
	return kept
}

// Mask returns acl as shown to a caller of getACL who lacks jute.PermAdmin on
// the znode: the hash in every digest id becomes "x". It returns acl itself if
// there is nothing to hide.
func Mask(acl []jute.ACL) []jute.ACL {
	var masked []jute.ACL
	for i := range acl {
		if acl[i].ID.Scheme != digest {
			continue
		}
		user, _, found := strings.Cut(acl[i].ID.ID, ":")
		if !found {
			continue
		}
		if masked == nil {
			masked = append(masked, acl...)
		}
		masked[i].ID.ID = user + ":x"
	}
	if masked == nil {
		return acl
	}
	return masked
}

func isAnyone(id *jute.ID) bool { return id.Scheme == world && id.ID == "anyone" }
