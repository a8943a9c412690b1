package auth

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/authprovider"
	"github.com/zooid-project/zooid/jute"
)

// A Rule reports whether an ACL entry admits an identity of the same scheme, given the ids of both (see
// authprovider.Rule).
type Rule = authprovider.Rule

// FindRule returns the rule with a name, or nil if this program has none.
func FindRule(name string) Rule { return authprovider.FindRule(name) }

// The limits of rules. A comparison for equality takes nanoseconds and can use an Index. A rule is called for each
// identity and each entry of its scheme, so both are bounded: a check makes at most ruledIDsMax*ruledEntriesMax calls,
// each with ids of at most authprovider.RuleIDBytesMax.
const (
	RulesMax        = 8  // schemes with a rule; all of them fit into one note to a peer
	ruledEntriesMax = 16 // entries of schemes with a rule in one ACL
	ruledIDsMax     = 8  // identities of one such scheme that a connection may have
)

// A SchemeRule is the rule by which the ids of a provider's scheme match.
type SchemeRule struct {
	Scheme, Name string

	rule Rule // nil if this program doesn't have the rule, or before Resolve
}

// Rules are the rules of the schemes whose ids don't match by equality. Like Schemes they are a replicated setting,
// since they decide an identity's rights. The zero value is the empty set.
type Rules []SchemeRule // sorted by scheme, each scheme once, at most RulesMax

// Append appends the rules' encoding: their number, and the scheme and name of each.
func (r Rules) Append(b []byte) []byte {
	b = jute.AppendInt(b, int32(len(r)))
	for i := range r {
		b = jute.AppendString(jute.AppendString(b, r[i].Scheme), r[i].Name)
	}
	return b
}

// DecodeRules decodes what Append wrote. The result shares no memory with the input.
func DecodeRules(d *jute.Decoder) (r Rules, err error) {
	for range max(d.Count(8), 0) {
		next := SchemeRule{Scheme: strings.Clone(d.String()), Name: strings.Clone(d.String())}
		switch {
		case d.Err() != nil:
			return nil, fmt.Errorf("decode the rules of schemes: %w", d.Err())
		case len(r) == RulesMax:
			return nil, fmt.Errorf("decode the rules of schemes: more than %d", RulesMax)
		case !isProvided(next.Scheme) || !authprovider.IsRuleName(next.Name):
			return nil, fmt.Errorf("decode the rules of schemes: %.40q has the rule %.80q", next.Scheme, next.Name)
		case len(r) > 0 && r[len(r)-1].Scheme >= next.Scheme:
			return nil, errors.New("decode the rules of schemes: they aren't sorted")
		}
		r = append(r, next)
	}
	if d.Err() != nil {
		return nil, fmt.Errorf("decode the rules of schemes: %w", d.Err())
	}
	return r, nil
}

// Equal reports whether two sets have the same schemes and names of rules.
func (r Rules) Equal(other Rules) bool {
	return slices.EqualFunc(r, other, func(a, b SchemeRule) bool { return a.Scheme == b.Scheme && a.Name == b.Name })
}

// Of returns the name of a scheme's rule, "" for equality.
func (r Rules) Of(scheme string) string {
	if s := r.of(scheme); s != nil {
		return s.Name
	}
	return ""
}

func (r Rules) of(scheme string) *SchemeRule {
	for i := range r {
		if r[i].Scheme == scheme {
			return &r[i]
		}
	}
	return nil
}

// With returns a copy of r with another rule for a scheme; "" means equality.
func (r Rules) With(scheme, name string) Rules {
	changed := slices.DeleteFunc(slices.Clone(r), func(s SchemeRule) bool { return s.Scheme == scheme })
	if name != "" {
		changed = append(changed, SchemeRule{Scheme: scheme, Name: name})
	}
	slices.SortFunc(changed, func(a, b SchemeRule) int { return cmp.Compare(a.Scheme, b.Scheme) })
	return changed
}

// Resolve looks up the rules by their names. It returns the first one that find doesn't know, or nil. Rules that aren't
// resolved match nothing.
func (r Rules) Resolve(find func(name string) Rule) (missing *SchemeRule) {
	for i := range r {
		if r[i].rule = find(r[i].Name); r[i].rule == nil {
			return &r[i]
		}
	}
	return nil
}

// admits reports whether an ACL entry admits an identity, given the ids of both. A rule that panics does so on every
// replica. It must not end the servers, so it admits nobody.
func (s *SchemeRule) admits(id, entry string) (yes bool) {
	if s.rule == nil || len(id) > authprovider.RuleIDBytesMax || len(entry) > authprovider.RuleIDBytesMax {
		return false
	}
	defer func() {
		if recover() != nil {
			yes = false
		}
	}()
	return s.rule(id, entry)
}

// matches reports whether id matches want, the id of an ACL entry.
func (r Rules) matches(id, want *jute.ID) bool {
	if len(r) > 0 {
		if s := r.of(want.Scheme); s != nil {
			return strings.TrimSuffix(id.Scheme, unproved) == s.Scheme && s.admits(id.ID, want.ID)
		}
	}
	return matches(id, want)
}

// Bearers returns how many of ids are of a scheme with a rule.
func (r Rules) Bearers(ids []jute.ID) (n int) {
	for i := range ids {
		if r.of(strings.TrimSuffix(ids[i].Scheme, unproved)) != nil {
			n++
		}
	}
	return n
}

// Calls returns the maximum number of rule calls for checking an ACL for ids.
func (r Rules) Calls(acl []jute.ACL, ids []jute.ID) (calls int) {
	for i := range r {
		entries := 0
		for j := range acl {
			if acl[j].ID.Scheme == r[i].Scheme {
				entries++
			}
		}
		if entries > 0 {
			calls += entries * r[i:i+1].Bearers(ids)
		}
	}
	return calls
}

// addRule adds a provider's rule, if it has one, to those of the registry.
func (r *Registry) addRule(p authprovider.Provider) error {
	m, ok := p.(authprovider.Matcher)
	if !ok || m.Rule() == "" {
		return nil
	}
	scheme, name := p.Scheme(), m.Rule()
	switch {
	case FindRule(name) == nil:
		return fmt.Errorf("set up authentication: the provider of the scheme %s names the rule %.80q, which isn't registered (authprovider.RegisterRule)",
			scheme, name)
	case len(r.rules) == RulesMax:
		return fmt.Errorf("set up authentication: more than %d schemes have a rule of their own; remove one", RulesMax)
	}
	r.rules = r.rules.With(scheme, name)
	return nil
}

// Rules returns the rules configured with the server's providers. The caller must not modify the result.
func (r *Registry) Rules() Rules { return r.rules }

// checkRuled returns an error if a connection has too many identities of a scheme with a rule, or one that is too long.
func (r *Registry) checkRuled(scheme string, ids []jute.ID) error {
	if r.rules.of(scheme) == nil {
		return nil
	}
	n := 0
	for i := range ids {
		if strings.TrimSuffix(ids[i].Scheme, unproved) != scheme {
			continue
		}
		if n++; n > ruledIDsMax || len(ids[i].ID) > authprovider.RuleIDBytesMax {
			return fmt.Errorf("authenticate by scheme %s, which matches by a rule of its own: a connection may have %d identities of it, of at most %d bytes: %w",
				scheme, ruledIDsMax, authprovider.RuleIDBytesMax, ErrFailed)
		}
	}
	return nil
}
