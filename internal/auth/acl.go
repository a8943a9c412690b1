package auth

import (
	"strings"

	"github.com/zooid-project/zooid/authprovider"
	"github.com/zooid-project/zooid/jute"
)

// A Budget bounds the size of the lists of one request after Fix. Fix subtracts what it uses.
type Budget struct {
	Entries  int // of each list
	Expanded int // encoded bytes of all entries that replace "auth" entries

	Rules Rules // the rules in force

	// Provided says that an ACL may have the schemes of providers (package authprovider).
	Provided bool

	Exceeded bool // a list was refused because it exceeded the budget
}

// ruled counts an entry whose scheme has a rule, and reports whether the list may have it: the number of such entries
// and the length of their ids are bounded. It returns true for all other entries.
func (b *Budget) ruled(id *jute.ID, ruled *int) bool {
	if len(b.Rules) == 0 || b.Rules.of(id.Scheme) == nil {
		return true
	}
	*ruled++
	b.Exceeded = b.Exceeded || *ruled > ruledEntriesMax || len(id.ID) > authprovider.RuleIDBytesMax
	return !b.Exceeded
}

// takes reports whether an entry may have a scheme.
func (b *Budget) takes(scheme string) bool { return b.Provided || !isProvided(scheme) }

// Permits reports whether acl grants at least one of the permissions in want to ids, if no scheme has a rule. A nil or
// empty list grants everything, and so does any identity of the scheme "super". Permits doesn't allocate.
func Permits(acl []jute.ACL, want jute.Perm, ids []jute.ID) bool {
	return Rules(nil).Permits(acl, want, ids)
}

// Permits is like the function Permits, with these rules in force.
func (r Rules) Permits(acl []jute.ACL, want jute.Perm, ids []jute.ID) bool {
	if len(acl) == 0 {
		return true
	}
	// Most lists are world:anyone, and most connections have only an address: check that first.
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
			if r.matches(&ids[j], &acl[i].ID) {
				return true
			}
		}
	}
	return false
}

// Fix returns the list to store for the list of a create or setACL: without duplicates, and with each entry of the
// scheme "auth" replaced by one for each authenticated identity of ids. It validates all other entries. It returns
// false, which means jute.ErrInvalidACL, for a list that is nil or empty, has an entry with a scheme that isn't in
// schemes or an id that is invalid for its scheme, has an "auth" entry that no identity can replace, or exceeds the
// budget. Permission bits aren't checked, as in Apache.
//
// The result may be acl itself, and shares the strings of acl and ids.
func Fix(acl []jute.ACL, ids []jute.ID, schemes Schemes, b *Budget) ([]jute.ACL, bool) {
	if len(acl) == 1 && isAnyone(&acl[0].ID) {
		return acl, true
	}
	var fixed []jute.ACL
	ruled := 0
	for _, a := range unique(acl) {
		switch {
		case isAnyone(&a.ID):
			fixed = append(fixed, a)
		case a.ID.Scheme == authScheme:
			n := len(fixed)
			for i := range ids {
				if Authenticated(ids[i]) && b.takes(ids[i].Scheme) {
					if !b.ruled(&ids[i], &ruled) {
						return nil, false
					}
					fixed = append(fixed, jute.ACL{Perms: a.Perms, ID: ids[i]})
					b.Expanded -= aclFixedSize + len(ids[i].Scheme) + len(ids[i].ID)
				}
			}
			if b.Exceeded = b.Expanded < 0; len(fixed) == n || b.Exceeded {
				return nil, false
			}
		case schemes.Has(a.ID.Scheme) && b.takes(a.ID.Scheme) && validID(a.ID) && b.ruled(&a.ID, &ruled):
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

// aclFixedSize is the size of an encoded entry without its strings.
const aclFixedSize = 4 + 4 + 4

// uniqueScanMax is the length of the longest list in which unique compares each entry with all
// before it; for longer lists it uses a map.
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

// Mask returns acl as getACL shows it to a caller without jute.PermAdmin on the znode: the hash in every digest id
// becomes "x". It returns acl itself if there is nothing to hide.
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
