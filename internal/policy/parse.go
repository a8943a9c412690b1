package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/jute"
)

// The limits of a policy. Each request below a path with rules is checked against these rules.
const (
	TextBytesMax = 64 << 10
	rulesMax     = 1000 // deny rules, dry-run rules and defaults together
	rolesMax     = 256
	membersMax   = 64 // of a role, of a rule's exceptions, or of an ACL
	pathBytesMax = 1 << 10
)

type permWord struct {
	word string
	perm jute.Perm
}

var permWords = []permWord{
	{"read", jute.PermRead}, {"write", jute.PermWrite}, {"create", jute.PermCreate},
	{"delete", jute.PermDelete}, {"admin", jute.PermAdmin}, {"all", jute.PermAll},
}

// ParsePerms parses the permissions of a rule: words separated by commas.
func ParsePerms(text string) (perms jute.Perm, err error) {
	for _, name := range strings.Split(text, ",") {
		at := slices.IndexFunc(permWords, func(w permWord) bool { return w.word == name })
		if at < 0 {
			return 0, fmt.Errorf("%.40q isn't a permission: want read, write, create, delete, admin or all, with commas between",
				name)
		}
		perms |= permWords[at].perm
	}
	return perms, nil
}

// Parse parses the text of a policy. It returns a nil Policy for a text without roles or rules. It doesn't retain text.
// The grammar has one statement per line; # begins a comment, and a word that contains blanks is in double quotes:
//
//	role NAME = scheme:id…
//	[dryrun] deny read|write|create|delete|admin|all,… below PATH [except NAME|scheme:id…]
//	new below PATH acl scheme:id:cdrwa…
func Parse(text []byte) (*Policy, error) {
	if len(text) > TextBytesMax {
		return nil, fmt.Errorf("it has %d bytes; at most %d are read", len(text), TextBytesMax)
	}
	p := &parser{policy: &Policy{rules: map[string][]*Rule{}, defaults: map[string]*Default{}}, roles: map[string]int{}}
	var lines [][]string
	for i, line := range strings.Split(string(text), "\n") {
		l, err := split(line)
		if err == nil && len(l) > 0 && l[0] == "role" {
			err = p.role(l)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		lines = append(lines, l)
	}
	for i, l := range lines { // rules may use roles that are defined later
		if len(l) == 0 || l[0] == "role" {
			continue
		}
		if err := p.rule(i+1, l); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	if p.policy.counts == (Counts{}) {
		return nil, nil
	}
	return p.policy, nil
}

type parser struct {
	policy *Policy
	roles  map[string]int
}

// split returns the words of a line.
func split(line string) (l []string, err error) {
	for {
		line = strings.TrimLeft(line, " \t\r")
		if line == "" || line[0] == '#' {
			return l, nil
		}
		if line[0] == '"' {
			end := strings.IndexByte(line[1:], '"')
			if end < 0 {
				return nil, errors.New(`a word begins with " and has no other`)
			}
			l, line = append(l, line[1:1+end]), line[end+2:]
			if line != "" && !strings.ContainsRune(" \t\r", rune(line[0])) {
				return nil, errors.New(`behind the " that ends a word comes a blank`)
			}
			continue
		}
		end := strings.IndexAny(line, " \t\r")
		if end < 0 {
			end = len(line)
		}
		l, line = append(l, line[:end]), line[end:]
	}
}

// role parses role NAME = scheme:id…
func (p *parser) role(l []string) error {
	if len(l) < 4 || l[2] != "=" || l[1] == "" || strings.ContainsRune(l[1], ':') {
		return errors.New("want role NAME = scheme:id…")
	}
	if _, twice := p.roles[l[1]]; twice {
		return fmt.Errorf("the role %.40q is there twice", l[1])
	}
	if len(p.roles) == rolesMax {
		return fmt.Errorf("there are more than %d roles", rolesMax)
	}
	if len(l)-3 > membersMax {
		return fmt.Errorf("the role has %d members; at most %d", len(l)-3, membersMax)
	}
	var members []jute.ACL
	for _, m := range l[3:] {
		id, err := identity(m)
		if err != nil {
			return err
		}
		members = append(members, id)
	}
	p.roles[l[1]] = len(p.policy.roles)
	p.policy.roles = append(p.policy.roles, members)
	p.policy.counts.Roles++
	return nil
}

func (p *parser) rule(number int, l []string) error {
	if c := p.policy.counts; c.Rules+c.Dry+c.Defaults == rulesMax {
		return fmt.Errorf("there are more than %d rules", rulesMax)
	}
	text := strings.Join(l, " ")
	dry := l[0] == "dryrun"
	if dry {
		l = l[1:]
	}
	switch {
	case len(l) > 0 && l[0] == "deny":
		return p.deny(Rule{Line: number, Text: text, Dry: dry}, l[1:])
	case len(l) > 0 && l[0] == "new" && !dry:
		return p.defaultACL(Default{Line: number, Text: text}, l[1:])
	}
	return errors.New("want a line that begins with role, deny, dryrun deny, or new")
}

// deny parses PERMS below PATH [except WHO…].
func (p *parser) deny(r Rule, l []string) (err error) {
	if len(l) < 3 || l[1] != "below" || len(l) > 3 && l[3] != "except" || len(l) == 4 {
		return errors.New("want deny PERMISSION,… below PATH [except ROLE|scheme:id…]")
	}
	if r.Perms, err = ParsePerms(l[0]); err != nil {
		return err
	}
	if err = p.place(l[2]); err != nil {
		return err
	}
	r.Path = l[2]
	if len(l)-4 > membersMax {
		return fmt.Errorf("it has %d exceptions; at most %d: make a role of them", len(l)-4, membersMax)
	}
	for _, who := range l[min(4, len(l)):] {
		if !strings.ContainsRune(who, ':') {
			role, ok := p.roles[who]
			if !ok {
				return fmt.Errorf("there is no role %.40q", who)
			}
			r.roles = append(r.roles, role)
			continue
		}
		id, err := identity(who)
		if err != nil {
			return err
		}
		r.except = append(r.except, id)
	}
	key := strings.TrimSuffix(r.Path, "/")
	p.policy.rules[key] = append(p.policy.rules[key], &r)
	if r.Dry {
		p.policy.counts.Dry++
	} else {
		p.policy.counts.Rules++
	}
	return nil
}

// defaultACL parses below PATH acl scheme:id:perms…
func (p *parser) defaultACL(d Default, l []string) error {
	if len(l) < 4 || l[0] != "below" || l[2] != "acl" {
		return errors.New("want new below PATH acl scheme:id:cdrwa…")
	}
	if err := p.place(l[1]); err != nil {
		return err
	}
	if d.Path = l[1]; len(l)-3 > membersMax {
		return fmt.Errorf("the ACL has %d entries; at most %d", len(l)-3, membersMax)
	}
	for _, text := range l[3:] {
		e, err := entry(text)
		if err != nil {
			return err
		}
		d.ACL = append(d.ACL, e)
	}
	key := strings.TrimSuffix(d.Path, "/")
	if p.policy.defaults[key] != nil {
		return fmt.Errorf("there are two ACLs of new znodes below %.80q", d.Path)
	}
	p.policy.defaults[key] = &d
	p.policy.counts.Defaults++
	return nil
}

// place checks the path of a rule and records its depth.
func (p *parser) place(path string) error {
	if err := jute.CheckPath(path); err != nil || len(path) > pathBytesMax {
		return fmt.Errorf("%.80q isn't a path of a znode, or has more than %d bytes", path, pathBytesMax)
	}
	if path != "/" {
		p.policy.depth = max(p.policy.depth, strings.Count(path, "/"))
	}
	return nil
}

// identity parses scheme:id.
func identity(text string) (jute.ACL, error) {
	scheme, id, ok := strings.Cut(text, ":")
	if !ok || scheme == "world" || scheme == "auth" || scheme == "super" {
		return jute.ACL{}, fmt.Errorf("%.80q isn't an identity such as sasl:ann@REALM or ip:10.0.0.0/8", text)
	}
	e := jute.ACL{Perms: jute.PermAll, ID: jute.ID{Scheme: scheme, ID: id}}
	return e, valid(e, text)
}

// entry parses scheme:id:perms.
func entry(text string) (e jute.ACL, err error) {
	first, last := strings.IndexByte(text, ':'), strings.LastIndexByte(text, ':')
	if first < 1 || first == last || last == len(text)-1 {
		return e, fmt.Errorf("%.80q does not have the form scheme:id:perms", text)
	}
	e.ID = jute.ID{Scheme: text[:first], ID: text[first+1 : last]}
	for _, c := range text[last+1:] {
		bit := strings.IndexRune("rwcda", c)
		if bit < 0 {
			return e, fmt.Errorf("%.80q: the permissions are of the letters cdrwa", text)
		}
		e.Perms |= 1 << bit
	}
	if e.ID.Scheme == "auth" { // it stands for the identities of the creator of the znode
		return e, nil
	}
	return e, valid(e, text)
}

// valid checks an entry by the rules of its scheme, whether or not a server has enabled that scheme.
func valid(e jute.ACL, text string) error {
	b := auth.Budget{Entries: 1, Provided: true}
	if _, ok := auth.Fix([]jute.ACL{e}, nil, auth.NewSchemes(e.ID.Scheme), &b); !ok {
		return fmt.Errorf("%.80q: no ACL may have that", text)
	}
	return nil
}
