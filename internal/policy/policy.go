// Package policy holds rules that stand beside the ACLs of znodes: what nobody but some may
// do below a path, and which ACL new znodes get. It reads their text and decides by it.
//
// Rules only take away: what a deny rule doesn't forbid is up to the ACL. Superusers pass. A
// decision depends on the text, the path, the permissions and the identities alone, so all
// replicas decide alike.
package policy

import (
	"maps"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/jute"
)

// Path is the znode whose data is the policy in force. Without it, or with no data, there is none.
const Path = "/zookeeper/policy"

// A Rule forbids permissions below a path, to all but its exceptions.
type Rule struct {
	Line  int    // of the text, from 1 on
	Text  string // the line, without its comment
	Path  string // the rule counts for this znode and all below it
	Perms jute.Perm
	Dry   bool // decides nothing; that it would deny is reported

	except []jute.ACL // identities that it doesn't concern, each with all permissions
	roles  []int      // and roles
}

// A Default is the ACL of new znodes below a path whose creator asks for world:anyone:cdrwa.
type Default struct {
	Line int
	Text string
	Path string
	ACL  []jute.ACL // never modified
}

// A Policy is a text that was read. It never changes.
type Policy struct {
	roles    [][]jute.ACL // members, each with all permissions
	rules    map[string][]*Rule
	defaults map[string]*Default
	depth    int // parts of the longest path with a rule
	counts   Counts
}

// Counts say what a policy consists of.
type Counts struct{ Roles, Rules, Dry, Defaults int }

// Counts returns what p consists of.
func (p *Policy) Counts() Counts { return p.counts }

// A Verdict is what a policy says about permissions on a path.
type Verdict struct {
	Denied jute.Perm // of those asked for
	By     *Rule     // the first rule that denies one of them; nil if none does
	Dry    jute.Perm // beside Denied: what rules of a dry run would deny
	DryBy  *Rule
}

// Decide returns which of the permissions in want the rules deny on path to the bearer of
// ids. It doesn't allocate.
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

// DefaultOf returns what new znodes at path get: the default of the longest path; nil if there
// is none. A nil policy has none.
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

// Digests returns the digest identities of a user that roles and exceptions name, which may have several passwords.
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

// next returns the end of the next longer prefix of path that may have rules, -1 if there is
// none. The root is the prefix "".
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

// A bearer remembers which roles identities have, so that each is looked at once for a
// request, however many rules name it.
type bearer struct {
	ids        []jute.ID
	known, has [rolesMax/64 + 1]uint64
}

// excepted reports whether a rule doesn't concern the bearer.
func (b *bearer) excepted(p *Policy, r *Rule) bool {
	if len(r.except) > 0 && auth.Permits(r.except, jute.PermAll, b.ids) {
		return true
	}
	for _, role := range r.roles {
		word, bit := role/64, uint64(1)<<(role%64)
		if b.known[word]&bit == 0 {
			b.known[word] |= bit
			if auth.Permits(p.roles[role], jute.PermAll, b.ids) {
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
