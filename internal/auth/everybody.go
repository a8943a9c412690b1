package auth

import "github.com/zooid-project/zooid/jute"

// addressesShare is the largest share of all IPv4 addresses, or of all IPv6 addresses, that the "ip" entries of one ACL
// may admit: one sixteenth. A larger share counts as everybody. The largest networks that an ACL needs, 10.0.0.0/8 and
// fc00::/7, are far smaller. The entries of an ACL are added up, since two entries of half the addresses each also
// admit everybody.
const addressesShare = 16

// addressesAll is the number of addresses of each family. The unit is one address of IPv4, and 2^96 addresses of IPv6.
const addressesAll = uint64(1) << 32

// An audience is the number of addresses that the entries of one ACL admit. The zero value is for an ACL without
// entries.
type audience struct{ four, six uint64 } // addresses of IPv4 and of IPv6, in the units of addressesAll

// add adds an entry. It reports whether the ACL now admits everybody or more than the share of all addresses that
// counts as everybody.
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

// PermitsNamed is Permits without the entries that admit everybody (see Registry.Judge). It returns false for an empty
// list. So it reports whether one of ids is named explicitly, in the ACL or as a superuser.
func PermitsNamed(acl []jute.ACL, want jute.Perm, ids []jute.ID, rules Rules) bool {
	var admitted audience
	open := false // whether the entries so far admit so many addresses that an address proves nothing
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
