package apache

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/tree"
)

// NoForm lists the parts of a tree that Apache can't represent, or treats differently.
type NoForm struct {
	Strangers int      // sessions whose password isn't Apache's: their clients get new sessions
	TTLs      int      // TTL znodes, which need extendedTypesEnabled
	Large     int      // znodes beyond the size that Apache reads by default
	Exhausted []string // the first paths whose sequence numbers Apache can't continue
	Rules     []string // roots of subtrees whose rules Zooid enforces and Apache keeps as plain znodes
	Schemes   []string // ACL schemes that Apache doesn't have
}

const (
	// exhaustedShown is how many paths are named.
	exhaustedShown = 10
	// apacheMaxBuffer is Apache's default jute.maxbuffer. Apache doesn't start if a znode is twice as large.
	apacheMaxBuffer = 0xfffff
)

// rules are the roots of the subtrees that hold rules enforced by Zooid.
var rules = []string{"/zookeeper/limits", "/zookeeper/policy"}

// apacheSchemes are the ACL schemes that Apache has built in or with one of its own authProviders.
var apacheSchemes = []string{"world", "auth", "digest", "ip", "sasl", "x509", "super", "ensemble", "key"}

// Survey returns the parts of a tree that Apache can't represent.
func Survey(t *tree.Tree) (n NoForm) {
	t.Sessions().All(func(s tree.Session) bool {
		if s.Passwd != files.Passwd(s.ID) {
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

// Lines describes the parts, a line each.
func (n *NoForm) Lines() (lines []string) {
	say := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	if n.Strangers > 0 {
		say("%d sessions have passwords issued by Zooid, which Apache refuses: their clients see them expire, and their ephemeral znodes stay until the session timeout",
			n.Strangers)
	}
	if n.TTLs > 0 {
		say("%d znodes have a TTL: start Apache with -Dzookeeper.extendedTypesEnabled=true, or it deletes them", n.TTLs)
	}
	if n.Large > 0 {
		say("%d znodes have more than 1048575 bytes of data: set Apache's jute.maxbuffer large enough for them, or it may not start",
			n.Large)
	}
	if len(n.Exhausted) > 0 {
		say("sequence numbers below these znodes are beyond 2147483647, which Apache can't continue: %s",
			strings.Join(n.Exhausted, " "))
	}
	if len(n.Rules) > 0 {
		say("limits and policies have no effect in Apache, which stores them as plain znodes: %s", strings.Join(n.Rules, " "))
	}
	if len(n.Schemes) > 0 {
		say("ACLs of these schemes admit nobody in Apache, unless it has a provider for them: %s", strings.Join(n.Schemes, " "))
	}
	return lines
}
