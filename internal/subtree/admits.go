package subtree

import (
	"net/netip"
	"strings"

	"github.com/zooid-project/zooid/authprovider"
	"github.com/zooid-project/zooid/zk"
)

// Admits reports whether an entry grants its permissions to one of ids. sure is false if the client can't know: servers
// don't reveal digests, and a provider may have a rule of its own (authprovider.Matcher) for what its entries admit.
func Admits(e zk.ACL, ids []zk.Identity) (yes, sure bool) {
	if e.ID.Scheme == "world" {
		return e.ID.ID == "anyone", true
	}
	unsure := false
	for _, id := range ids {
		if id.Scheme == "super" {
			return true, true
		}
		if id.Scheme != e.ID.Scheme {
			continue
		}
		switch e.ID.Scheme {
		case "digest":
			if user, _, _ := strings.Cut(e.ID.ID, ":"); user == id.User {
				return true, false
			}
		case "ip":
			if inNetwork(id.User, e.ID.ID) {
				return true, true
			}
		default:
			same, ruled := id.User == e.ID.ID, authprovider.IsScheme(e.ID.Scheme)
			if same {
				return true, !ruled
			}
			unsure = unsure || ruled
		}
	}
	return false, !unsure
}

func inNetwork(address, network string) bool {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return false
	}
	if p, err := netip.ParsePrefix(network); err == nil {
		return p.Masked().Contains(a)
	}
	n, err := netip.ParseAddr(network)
	return err == nil && n == a
}
