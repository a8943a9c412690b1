package auth

import "github.com/zooid-project/zooid/jute"

// addressesShare is the part of all IPv4 addresses, and of all IPv6 addresses, that the "ip" entries
// of one ACL may hold together without being for everybody. The largest networks that anybody has to
// name, 10.0.0.0/8 and fc00::/7, are far smaller. Entries are summed up, since two halves are
// everybody as well.
const addressesShare = 16

// addressesAll is the number of addresses of each family, in units of the 2^96th part of IPv6 and of
// one address of IPv4.
const addressesAll = uint64(1) << 32

// An audience sums up whom the entries of one ACL admit. The zero value is for an ACL without
// entries.
type audience struct{ four, six uint64 } // how many addresses of IPv4 and of IPv6, in units of addressesAll

// add adds an entry, and reports whether the ACL admits everybody by now, or as good as everybody.
func (a *audience) add(scheme, id string) bool {
	switch scheme {
	case world:
		return true
	case ip:
		b, ok := parseBlock(id)
		if !ok {
			return false // all replicas refuse it
		}
		all := &a.four
		if b.size == 16 {
			all = &a.six
		}
		*all += addressesAll >> min(b.bits, 63)
		return *all > addressesAll/addressesShare
	}
	return false
}

// PermitsNamed is Permits without the entries that admit everybody (see Registry.Judge), and false
// for an empty list. It says whether somebody who set the ACL, or made the bearer a superuser, named
// the bearer.
func PermitsNamed(acl []jute.ACL, want jute.Perm, ids []jute.ID, rules Rules) bool {
	var admitted audience
	open := false // to so many addresses that an address says nothing
	for i := range acl {
		if id := &acl[i].ID; id.Scheme == ip && acl[i].Perms&want != 0 {
			open = admitted.add(id.Scheme, id.ID) || open
		}
	}
	named := make([]jute.ACL, 1, len(acl)+1) // an entry that permits nothing, since an empty list permits all
	for _, a := range acl {
		if !isAnyone(&a.ID) && (a.ID.Scheme != ip || !open) {
			named = append(named, a)
		}
	}
	return rules.Permits(named, want, ids)
}
