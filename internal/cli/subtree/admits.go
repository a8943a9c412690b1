package subtree

import (
	"net/netip"
	"strings"

	"github.com/zooid-project/zooid/zk"
)

// Admits reports whether an entry grants its permissions to one of ids. sure is false
// if the client can't know, as servers don't reveal digests.
func Admits(e zk.ACL, ids []zk.Identity) (yes, sure bool) {
	if e.ID.Scheme == "world" {
		return e.ID.ID == "anyone", true
	}
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
			if id.User == e.ID.ID {
				return true, true
			}
		}
	}
	return false, true
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
