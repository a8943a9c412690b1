package migrate

import (
	"slices"
	"strings"

	"github.com/zooid-project/zooid/internal/migrate/apachefiles"
	"github.com/zooid-project/zooid/internal/tree"
)

// NoForm is what a tree has that Apache has no form for, or treats otherwise.
type NoForm struct {
	Strangers int      // sessions with a password that isn't Apache's: their clients begin new ones
	TTLs      int      // TTL znodes, which need extendedTypesEnabled
	Large     int      // znodes that are larger than Apache reads by default
	Exhausted []string // the first paths whose sequence numbers Apache can't continue
	Rules     []string // the roots of what Zooid enforces and Apache keeps as plain znodes
	Schemes   []string // of ACLs, that Apache doesn't have
}

const (
	// exhaustedShown is how many paths are named.
	exhaustedShown = 10
	// apacheMaxBuffer is Apache's default of jute.maxbuffer. It doesn't start on a znode that is twice as large.
	apacheMaxBuffer = 0xfffff
)

// rules are the znodes below which Zooid keeps what it enforces.
var rules = []string{"/zookeeper/limits", "/zookeeper/policy"}

// apacheSchemes are the schemes of ACLs that Apache has by itself, or with an authProvider of its own.
var apacheSchemes = []string{"world", "auth", "digest", "ip", "sasl", "x509", "super", "ensemble", "key"}

// Survey looks for it.
func Survey(t *tree.Tree) (n NoForm) {
	t.Sessions(func(s tree.Session) bool {
		if s.Passwd != apachefiles.Passwd(s.ID) {
			n.Strangers++
		}
		return true
	})
	t.Znodes(func(z *tree.Foreign) bool {
		n.note(z)
		return true
	})
	slices.Sort(n.Schemes)
	return n
}

func (n *NoForm) note(z *tree.Foreign) {
	if z.TTL != 0 {
		n.TTLs++
	}
	if len(z.Data) > apacheMaxBuffer {
		n.Large++
	}
	if z.Created > 1<<31-1 && len(n.Exhausted) < exhaustedShown {
		n.Exhausted = append(n.Exhausted, strings.Clone(z.Path))
	}
	if slices.Contains(rules, z.Path) {
		n.Rules = append(n.Rules, strings.Clone(z.Path))
	}
	for _, acl := range z.ACL {
		if !slices.Contains(apacheSchemes, acl.ID.Scheme) && !slices.Contains(n.Schemes, acl.ID.Scheme) {
			n.Schemes = append(n.Schemes, strings.Clone(acl.ID.Scheme))
		}
	}
}
