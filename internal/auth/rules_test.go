package auth

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/authprovider"
	"github.com/zooid-project/zooid/jute"
)

// pattern is a team that matches by a rule.
type pattern struct {
	team
	rule string
}

func (p pattern) Rule() string { return p.rule }

// globbed are rules by which the scheme team matches as authprovider.Glob says.
func globbed(t *testing.T) Rules {
	t.Helper()
	r := Rules(nil).With("team", authprovider.Glob)
	if missing := r.Resolve(FindRule); missing != nil {
		t.Fatal(missing)
	}
	return r
}

func TestRulesPermit(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", authprovider.RuleIDBytesMax)
	for _, c := range []struct {
		acl, ids   string
		equal, now bool
	}{
		{"team:red-*:31", "team:red-ann", false, true},
		{"team:red-*:31", "team?:red-ann", false, true}, // not authenticated, as with equality
		{"team:red-*:31", "team:blue-ann", false, false},
		{"team:red-*:31", "seat:red-ann", false, false},
		{"team:red-*:31", "digest:red-ann", false, false},
		{"team:red-*:1", "team:red-ann", false, false}, // want is 2
		{"seat:red-*:31", "seat:red-ann", false, false},
		{"seat:ann:31", "seat:ann", true, true},
		{"team:" + long + ":31", "team:" + long, true, true},
		{"team:" + long + "x:31", "team:" + long + "x", true, false}, // longer than a rule is asked about
		{"team:*:31", "team:" + long + "x", false, false},
		{"team:*:31", "super:", true, true},
	} {
		acl, have := acls(t, c.acl), ids(c.ids)
		if got := Permits(acl, 2, have); got != c.equal {
			t.Errorf("%.40s for %.40s by equality: %v", c.acl, c.ids, got)
		}
		if got := globbed(t).Permits(acl, 2, have); got != c.now {
			t.Errorf("%.40s for %.40s by the rule: %v", c.acl, c.ids, got)
		}
	}
}

// TestRulePanics: a rule that panics admits nobody, and a rule that wasn't found neither.
func TestRulePanics(t *testing.T) {
	t.Parallel()
	asked := 0
	rules := Rules{{Scheme: "team", Name: "test", rule: func(id, _ string) bool {
		asked++
		return []bool{true}[len(id)]
	}}}
	acl := acls(t, "team:ann:31")
	if rules.Permits(acl, 2, ids("team:bob")) || asked != 1 {
		t.Errorf("a rule that panics admits, asked %d times", asked)
	}
	if Rules(nil).With("team", authprovider.Glob).Permits(acl, 2, ids("team:ann")) {
		t.Error("a rule that was not looked up admits")
	}
	if missing := rules.Resolve(func(string) Rule { return nil }); missing == nil || missing.Name != "test" ||
		rules.Permits(acl, 2, ids("team:")) {
		t.Errorf("missing %v", missing)
	}
}

// TestRuledBudget reaches the limits of entries whose scheme has a rule.
func TestRuledBudget(t *testing.T) {
	t.Parallel()
	schemes := NewSchemes("team", "seat")
	list := func(scheme string, n, size int) (acl []jute.ACL) {
		for i := range n {
			acl = append(acl, jute.ACL{Perms: 31, ID: jute.ID{Scheme: scheme, ID: fmt.Sprintf("%0*d", size, i)}})
		}
		return acl
	}
	proved := func(n int) (ids []jute.ID) {
		for _, a := range list("team", n, 4) {
			ids = append(ids, a.ID)
		}
		return ids
	}
	auths := []jute.ACL{{Perms: 31, ID: jute.ID{Scheme: authScheme}}}
	for what, c := range map[string]struct {
		acl  []jute.ACL
		ids  []jute.ID
		want bool
	}{
		"the most entries":                {list("team", ruledEntriesMax, 4), nil, true},
		"one more":                        {list("team", ruledEntriesMax+1, 4), nil, false},
		"many without a rule beside them": {append(list("team", ruledEntriesMax, 4), list("seat", 100, 4)...), nil, true},
		"the longest id":                  {list("team", 1, authprovider.RuleIDBytesMax), nil, true},
		"a longer one":                    {list("team", 1, authprovider.RuleIDBytesMax+1), nil, false},
		"a longer one without a rule":     {list("seat", 1, authprovider.RuleIDBytesMax+1), nil, true},
		"the most for auth":               {auths, proved(ruledEntriesMax), true},
		"one more for auth":               {auths, proved(ruledEntriesMax + 1), false},
	} {
		b := &Budget{Entries: 256, Expanded: 1 << 20, Provided: true, Rules: globbed(t)}
		if _, ok := Fix(c.acl, c.ids, schemes, b); ok != c.want || b.Exceeded == ok {
			t.Errorf("%s: %v, a limit was exceeded: %v", what, ok, b.Exceeded)
		}
		*b = Budget{Entries: 256, Expanded: 1 << 20, Provided: true}
		if _, ok := Fix(c.acl, c.ids, schemes, b); !ok {
			t.Errorf("%s is refused without a rule", what)
		}
	}
}

func TestRulesRecord(t *testing.T) {
	t.Parallel()
	var full Rules
	for i := range RulesMax {
		full = full.With(fmt.Sprintf("%0*d", authprovider.SchemeBytesMax, RulesMax-i), strings.Repeat("r",
			authprovider.RuleBytesMax))
	}
	if size := len(full.Append(nil)); size > 1<<10 {
		t.Errorf("the longest record has %d bytes; a note to peers has 1024", size)
	}
	for _, r := range []Rules{nil, globbed(t), full} {
		d := jute.NewDecoder(r.Append(nil))
		if got, err := DecodeRules(d); err != nil || !got.Equal(r) || d.Offset() != len(r.Append(nil)) {
			t.Errorf("%v: %v, %v", r, got, err)
		}
	}
	for what, r := range map[string]Rules{
		"too many":          append(slices.Clone(full), SchemeRule{Scheme: "z", Name: "x"}),
		"unsorted":          {{Scheme: "b", Name: "x"}, {Scheme: "a", Name: "x"}},
		"a scheme twice":    {{Scheme: "a", Name: "x"}, {Scheme: "a", Name: "y"}},
		"a built-in scheme": {{Scheme: "digest", Name: "x"}},
		"a scheme's ?":      {{Scheme: "a?", Name: "x"}},
		"a name to show":    {{Scheme: "a", Name: "x\x1b[2J"}},
		"no name":           {{Scheme: "a"}},
		"a long name":       {{Scheme: "a", Name: strings.Repeat("r", authprovider.RuleBytesMax+1)}},
		"no scheme":         {{Scheme: "", Name: "x"}},
	} {
		if got, err := DecodeRules(jute.NewDecoder(r.Append(nil))); err == nil {
			t.Errorf("%s: %v", what, got)
		}
	}
	for n := range len(full.Append(nil)) {
		if got, err := DecodeRules(jute.NewDecoder(full.Append(nil)[:n])); err == nil {
			t.Errorf("cut short at %d: %v", n, got)
		}
	}
	if got := globbed(t).With("team", ""); len(got) > 0 {
		t.Errorf("without the rule: %v", got)
	}
}

func TestRegistryRules(t *testing.T) {
	t.Parallel()
	glob, equal := pattern{team{"team"}, authprovider.Glob}, pattern{team{"seat"}, ""}
	r := registry(t, Options{Providers: []authprovider.Provider{glob, equal, team{"other"}}})
	if !r.Rules().Equal(Rules(nil).With("team", authprovider.Glob)) {
		t.Errorf("rules %v", r.Rules())
	}
	if _, err := New(Options{Providers: []authprovider.Provider{pattern{team{"team"}, "test.none/1"}}}); err == nil ||
		!strings.Contains(err.Error(), "test.none/1") {
		t.Errorf("a rule that isn't registered: %v", err)
	}
	var many []authprovider.Provider
	for i := range RulesMax + 1 {
		many = append(many, pattern{team{fmt.Sprint("s", i)}, authprovider.Glob})
	}
	registry(t, Options{Providers: many[:RulesMax]})
	if _, err := New(Options{Providers: many}); err == nil {
		t.Error("too many schemes have a rule")
	}
	address := AddressID([]byte{10, 0, 0, 1}, "")
	names := make([]string, ruledIDsMax+1)
	for i := range names {
		names[i] = fmt.Sprint("n", i)
	}
	long := strings.Repeat("x", authprovider.RuleIDBytesMax)
	for _, c := range []struct {
		have         []jute.ID
		scheme, auth string
		failed       bool
	}{
		{nil, "team", strings.Join(names[1:], " "), false},
		{nil, "team", strings.Join(names, " "), true},
		{ids("team:a"), "team", strings.Join(names[1:], " "), true}, // one login after the other
		{nil, "seat", strings.Join(names, " "), false},
		{nil, "team", long, false},
		{nil, "team", long + "x", true},
		{nil, "other", long + "x", false},
	} {
		proof, err := r.Authenticate(c.have, address, &jute.AuthPacket{Scheme: c.scheme, Auth: []byte(c.auth)}, nil)
		if errors.Is(err, ErrFailed) != c.failed || c.failed && len(proof.IDs) > 0 {
			t.Errorf("%v and %s %.40q: %v", c.have, c.scheme, c.auth, err)
		}
	}
}

// TestRulesAllocateNothing: a check by a rule is on the path of every write and every read.
func TestRulesAllocateNothing(t *testing.T) {
	rules, acl, have := globbed(t), acls(t, "team:a-*:1 team:b-*:1 team:c-*:1 team:d-*:31"), ids("ip:1.2.3.4 team:d-x")
	x := NewIndex(acl)
	if n := testing.AllocsPerRun(100, func() {
		if !rules.Permits(acl, 2, have) || !x.Permits(2, have, rules) {
			t.Error("not admitted")
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if n, bearers := rules.Calls(acl, have), rules.Bearers(have); n != 4 || bearers != 1 {
		t.Errorf("%d calls at most, %d bearers", n, bearers)
	}
}
