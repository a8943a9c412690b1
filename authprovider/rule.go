package authprovider

import (
	"fmt"
	"strings"
)

// A Matcher is a Provider whose ids are matched by a Rule instead of equality. It corresponds to the method matches of
// Apache's interface.
//
// Every server evaluates ACLs itself, so the rule is a part of the ensemble's state: the log names it, and a server
// that doesn't have a rule of that name stops rather than evaluate an ACL in another way. A rule comes into force once
// all members, voters and observers, are configured with it. Until then requests with an ACL of the scheme are refused
// with InvalidACL, and ACLs that exist are matched by the rule in force before, or by equality. An ACL with more than
// 16 entries of schemes with a rule, or with such an entry whose id is longer than RuleIDBytesMax, is refused with
// InvalidACL, too. A server that has more than eight such schemes doesn't start.
type Matcher interface {
	Provider

	// Rule returns the name of the rule: one that was passed to RegisterRule, or Glob. "" stands
	// for equality. It is always the same.
	Rule() string
}

// A Rule reports whether an ACL entry with the id entry admits a client with the identity id. The
// schemes of both are that of the provider.
//
// A Rule must be pure: for the same arguments it gives the same result on every server and at any
// time. It uses no clock, file, network, randomness, environment, map order or memory of earlier calls.
// It must return within a microsecond or so, since it is called for each entry and each identity while
// the server's state is locked. It must not keep its arguments. Many goroutines call it at once. A call
// that panics counts as false.
//
// Neither argument is longer than RuleIDBytesMax: longer ids never match.
type Rule func(id, entry string) bool

// The limits of rules, in bytes. They bound the work of one check of an ACL.
const (
	RuleBytesMax   = 64  // the name of a rule
	RuleIDBytesMax = 256 // an id, of an identity or an ACL entry, that a rule compares
)

// Glob is the name of a rule that comes with every server. A "*" in an ACL entry matches any text, including none, and
// every other character only itself: "team-*" admits "team-red". An entry with more than GlobStarsMax stars admits
// nobody, and the provider should refuse it. A provider with this rule must not prove identities with "*" in their ids:
// when such an id replaces an entry of the scheme "auth", it would be a pattern.
const Glob = "glob"

// GlobStarsMax is how many "*" an entry may have, which bounds the time of the rule Glob.
const GlobStarsMax = 4

// rules are the rules by name.
var rules = map[string]Rule{Glob: glob}

// RegisterRule makes a rule available under a name of 1 to RuleBytesMax letters, digits, and "." "-" "_" "/" between
// them. The name must change whenever the rule does, so it ends with a version: "com.example.foo/2". A program with a
// new version must also register the previous version, as long as a log or a snapshot may name it. RegisterRule panics
// if the name is invalid or taken, or if r is nil. Call it in an init function.
func RegisterRule(name string, r Rule) {
	mu.Lock()
	defer mu.Unlock()
	if !IsRuleName(name) || rules[name] != nil || r == nil {
		panic(fmt.Sprintf("authprovider: RegisterRule(%q): the name is invalid or taken, or there is no rule", name))
	}
	rules[name] = r
}

// FindRule returns the rule of a name, or nil if this program has none.
func FindRule(name string) Rule {
	mu.Lock()
	defer mu.Unlock()
	return rules[name]
}

// IsRuleName reports whether a rule may have that name.
func IsRuleName(name string) bool {
	const marks = "._-/"
	return name != "" && len(name) <= RuleBytesMax && strings.Trim(name, marks) == name &&
		!strings.ContainsFunc(name, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(marks, r)
		})
}

// glob is the rule Glob. Each text between two stars is taken at its first place, so no part of id is
// looked at again: the time grows with the length of id.
func glob(id, entry string) bool {
	if strings.Count(entry, "*") > GlobStarsMax {
		return false
	}
	first, rest, starred := strings.Cut(entry, "*")
	if !starred {
		return id == entry
	}
	id, ok := strings.CutPrefix(id, first)
	if !ok {
		return false
	}
	for {
		var part string
		if part, rest, starred = strings.Cut(rest, "*"); !starred {
			return strings.HasSuffix(id, part)
		}
		if _, id, ok = strings.Cut(id, part); !ok {
			return false
		}
	}
}
