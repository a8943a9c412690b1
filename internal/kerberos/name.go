package kerberos

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Limits of auth_to_local rules, far above any real use.
const (
	rulesBytesMax = 64 << 10
	rulesMax      = 1000
)

// Rules map principals to user names, as security.auth_to_local says: RULE and DEFAULT, in the syntax of Kerberos and
// Hadoop.
type Rules struct {
	rules []rule
	realm string // the realm of DEFAULT
}

// A rule is one of
//
//	DEFAULT
//	RULE:[components:format](match)s/from/to/g
type rule struct {
	text       string
	isDefault  bool
	components int
	format     string
	match      *regexp.Regexp // must match the whole result of format; nil matches everything
	from       *regexp.Regexp // nil changes nothing
	to         string
	all        bool // replace every occurrence of from
}

var ruleForm = regexp.MustCompile(`^(?:DEFAULT|RULE:\[(\d+):([^\]]*)\](?:\(([^)]*)\))?(?:s/([^/]*)/([^/]*)/(g)?)?)`)

// ParseRules parses rules. realm is the one whose users DEFAULT maps to their first component.
func ParseRules(text, realm string) (*Rules, error) {
	if len(text) > rulesBytesMax {
		return nil, fmt.Errorf("read the rules of security.auth_to_local: they have %d bytes, at most %d are accepted",
			len(text), rulesBytesMax)
	}
	r := &Rules{realm: realm}
	for rest := strings.TrimSpace(text); rest != ""; rest = strings.TrimSpace(rest) {
		m := ruleForm.FindStringSubmatch(rest)
		if m == nil || len(r.rules) == rulesMax {
			return nil, fmt.Errorf("read the rules of security.auth_to_local: expected DEFAULT or RULE:[n:format](regex)s/from/to/g at %.60q (at most %d rules)",
				rest, rulesMax)
		}
		next, err := newRule(m)
		if err != nil {
			return nil, fmt.Errorf("read the rules of security.auth_to_local: %.200q: %w", m[0], err)
		}
		r.rules, rest = append(r.rules, next), rest[len(m[0]):]
	}
	if len(r.rules) == 0 {
		r.rules = []rule{{text: "DEFAULT", isDefault: true}}
	}
	return r, nil
}

func newRule(m []string) (r rule, err error) {
	if r.text = m[0]; m[0] == "DEFAULT" {
		r.isDefault = true
		return r, nil
	}
	if r.components, err = strconv.Atoi(m[1]); err != nil {
		return r, errors.New("the number of components is too large")
	}
	r.format, r.to, r.all = m[2], m[5], m[6] != ""
	for i, to := range map[int]**regexp.Regexp{3: &r.match, 4: &r.from} {
		expr := m[i]
		if expr == "" {
			continue
		}
		if i == 3 {
			expr = "^(?:" + expr + ")$"
		}
		if *to, err = regexp.Compile(expr); err != nil {
			return r, err
		}
	}
	_, err = r.apply("realm", []string{"a", "b"}[:min(r.components, 2)])
	return r, err
}

// A Principal is a Kerberos principal.
type Principal struct {
	Names []string // service or user, and host or instance if there is one
	Realm string
}

// ParsePrincipal reads name[/host][@realm].
func ParsePrincipal(text string) (Principal, error) {
	name, realm, _ := strings.Cut(text, "@")
	p := Principal{Names: strings.Split(name, "/"), Realm: realm}
	if slices.Contains(p.Names, "") || len(p.Names) > 2 || strings.ContainsAny(realm, "@/") {
		return p, fmt.Errorf("%.200q isn't a principal of the form name/host@REALM", text)
	}
	return p, nil
}

// String returns name/host@REALM.
func (p Principal) String() string { return strings.Join(p.Names, "/") + "@" + p.Realm }

// Short returns the user name that the first applicable rule gives p. It is an error if no rule applies or the name
// isn't a simple one: a client without a name isn't let in.
func (r *Rules) Short(p Principal) (string, error) {
	for _, rule := range r.rules {
		name, ok := "", false
		switch {
		case rule.isDefault:
			name, ok = p.Names[0], p.Realm == r.realm
		case rule.components == len(p.Names):
			base, err := rule.apply(p.Realm, p.Names)
			if err != nil {
				return "", err
			}
			name, ok = rule.substitute(base), rule.match == nil || rule.match.MatchString(base)
		}
		if !ok {
			continue
		}
		if name == "" || strings.ContainsAny(name, "/@") {
			return "", fmt.Errorf("the rule %.100q of security.auth_to_local makes %.100q of %.200q, which isn't a simple name",
				rule.text, name, p)
		}
		return name, nil
	}
	return "", fmt.Errorf("no rule of security.auth_to_local concerns %.200q", p)
}

// apply replaces the realm ($0) and the components ($1 …) in the format.
func (r *rule) apply(realm string, names []string) (string, error) {
	var b strings.Builder
	for i := 0; i < len(r.format); i++ {
		if r.format[i] != '$' {
			b.WriteByte(r.format[i])
			continue
		}
		n := 0
		for n < len(r.format)-i-1 && r.format[i+1+n] >= '0' && r.format[i+1+n] <= '9' {
			n++
		}
		which, err := strconv.Atoi(r.format[i+1 : i+1+n])
		if err != nil || which > len(names) {
			return "", fmt.Errorf("its format has a $ without the number of a component, 0 to %d", len(names))
		}
		if i += n; which == 0 {
			b.WriteString(realm)
		} else {
			b.WriteString(names[which-1])
		}
	}
	return b.String(), nil
}

// substitute replaces the first match of from, or all of them.
func (r *rule) substitute(base string) string {
	switch {
	case r.from == nil:
		return base
	case r.all:
		return r.from.ReplaceAllLiteralString(base, r.to)
	}
	if at := r.from.FindStringIndex(base); at != nil {
		return base[:at[0]] + r.to + base[at[1]:]
	}
	return base
}
