// Package policy implements rules that apply in addition to the ACLs of znodes: which permissions are denied below a
// path to all but some identities, and which ACL new znodes get. It parses their text and makes the decisions.
//
// Rules only take permissions away. If no deny rule applies, the ACL decides. Rules don't apply to superusers. A
// decision depends only on the text, the path, the permissions, the identities and the rules in force, so all replicas
// make the same decision.
package policy

import (
	"maps"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/jute"
)

// Path is the znode whose data is the policy in force. If it doesn't exist or has no data, there is
// no policy.
const Path = "/zookeeper/policy"

// A Rule denies permissions below a path to everybody but its exceptions.
type Rule struct {
	Line  int    // in the text, from 1 on
	Text  string // the line, without its comment
	Path  string // the rule applies to this znode and everything below it
	Perms jute.Perm
	Dry   bool // a dry-run rule denies nothing; what it would deny is reported

	except []jute.ACL // identities to which it doesn't apply, each with all permissions
	roles  []int      // roles to which it doesn't apply
}

// A Default is the ACL of new znodes below a path whose creators ask for world:anyone:cdrwa.
type Default struct {
	Line int
	Text string
	Path string
	ACL  []jute.ACL // never modified
}

// A Policy is a parsed policy. It never changes.
type Policy struct {
	// Rules decide how identities match exceptions and roles, as they do for ACLs. They must be set before the first
	// decision.
	Rules auth.Rules

	roles    [][]jute.ACL // members, each with all permissions
	rules    map[string][]*Rule
	defaults map[string]*Default
	depth    int // parts of the longest path with a rule
	counts   Counts
}

// Counts says how many roles, rules, dry-run rules and defaults a policy has.
type Counts struct{ Roles, Rules, Dry, Defaults int }

// Counts returns the counts of p.
func (p *Policy) Counts() Counts { return p.counts }

// A Verdict is the decision of a policy about permissions on a path.
type Verdict struct {
	Denied jute.Perm // the wanted permissions that are denied
	By     *Rule     // the first rule that denies one of them; nil if none does
	Dry    jute.Perm // the permissions that dry-run rules would deny in addition to Denied
	DryBy  *Rule
}

// Decide returns which of the permissions in want the rules deny to the bearer of ids on path. It doesn't allocate.
func (p *Policy) Decide(path string, want jute.Perm, ids []jute.ID) (v Verdict) {
	if isSuper(ids) {
		return v
	}
	who := bearer{ids: ids}
	for end := 0; end >= 0; end = p.next(path, end) {
		for _, r := range p.rules[path[:end]] {
			hit := r.Perms & want &^ v.Denied
			if r.Dry {
				hit &^= v.Dry
			}
			if hit == 0 || who.excepted(p, r) {
				continue
			}
			if r.Dry {
				v.Dry |= hit
				if v.DryBy == nil {
					v.DryBy = r
				}
				continue
			}
			v.Denied |= hit
			if v.By == nil {
				v.By = r
			}
		}
	}
	v.Dry &^= v.Denied
	return v
}

// DefaultOf returns the default for new znodes at path: of those that apply, the one with the longest path. It returns
// nil if there is none, or if p is nil.
func (p *Policy) DefaultOf(path string) (d *Default) {
	if p == nil || len(p.defaults) == 0 {
		return nil
	}
	for end := 0; end >= 0; end = p.next(path, end) {
		if found := p.defaults[path[:end]]; found != nil {
			d = found
		}
	}
	return d
}

// Digests returns the digest identities of a user in roles and exceptions. There may be several, with different
// passwords.
func (p *Policy) Digests(user string) (ids []jute.ID) {
	named := slices.Clone(p.roles)
	for _, path := range slices.Sorted(maps.Keys(p.rules)) {
		for _, r := range p.rules[path] {
			named = append(named, r.except)
		}
	}
	for _, e := range slices.Concat(named...) {
		if name, _, _ := strings.Cut(e.ID.ID, ":"); e.ID.Scheme == "digest" && name == user {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// next returns the end of the next longer prefix of path that may have rules, -1 if there is none.
// The prefix "" is the root.
func (p *Policy) next(path string, end int) int {
	if end >= len(path) || path == "/" || strings.Count(path[:end], "/") >= p.depth {
		return -1
	}
	rest := path[end+1 : min(len(path), pathBytesMax+1)]
	if slash := strings.IndexByte(rest, '/'); slash >= 0 {
		return end + 1 + slash
	}
	if len(path) > pathBytesMax {
		return -1
	}
	return len(path)
}

// A bearer caches which roles a set of identities has, so that each role is checked once per request, even if many
// rules refer to it.
type bearer struct {
	ids        []jute.ID
	known, has [rolesMax/64 + 1]uint64
}

// excepted reports whether the bearer is an exception of a rule.
func (b *bearer) excepted(p *Policy, r *Rule) bool {
	if len(r.except) > 0 && p.Rules.Permits(r.except, jute.PermAll, b.ids) {
		return true
	}
	for _, role := range r.roles {
		word, bit := role/64, uint64(1)<<(role%64)
		if b.known[word]&bit == 0 {
			b.known[word] |= bit
			if p.Rules.Permits(p.roles[role], jute.PermAll, b.ids) {
				b.has[word] |= bit
			}
		}
		if b.has[word]&bit != 0 {
			return true
		}
	}
	return false
}

func isSuper(ids []jute.ID) bool {
	for i := range ids {
		if ids[i].Scheme == "super" {
			return true
		}
	}
	return false
}
