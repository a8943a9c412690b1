package kerberos

import (
	"strings"
	"testing"
)

// TestRules has the examples of Hadoop's manual, and what must not be let in.
func TestRules(t *testing.T) {
	t.Parallel()
	const site = `RULE:[2:$1@$0](jhs@.*CORP)s/.*/mapred/
		RULE:[1:$1@$0](.*@CORP)s/@.*//
		RULE:[2:$1;$2](^.*;admin$)s/;admin$//
		RULE:[1:$1](a.*)s/a/o/g
		DEFAULT`
	for _, c := range []struct{ rules, principal, want string }{
		{"", "ann@HOME", "ann"},
		{"DEFAULT", "ann/host@HOME", "ann"},
		{"DEFAULT", "ann@AWAY", ""},
		{site, "jhs/host@CORP", "mapred"},
		{site, "bob@CORP", "bob"},
		{site, "eve/admin@AWAY", "eve"},
		{site, "anna@HOME", "onno"},
		{site, "zoe@HOME", "zoe"},
		{site, "zoe@AWAY", ""},
		{"RULE:[1:$1@$0]", "ann@HOME", ""}, // no simple name
		{"RULE:[1:$1]s/ann//", "ann@HOME", ""},
		{"RULE:[1:$1](nn)", "ann@HOME", ""}, // the whole must match
	} {
		r, err := ParseRules(c.rules, "HOME")
		if err != nil {
			t.Fatal(err)
		}
		p, err := ParsePrincipal(c.principal)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.Short(p); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s by %q: %q, %v; want %q", c.principal, c.rules, got, err, c.want)
		}
	}
	for _, bad := range []string{"RULE",
		"RULE:[x:$1]", "RULE:[1:$2]", "RULE:[1:$]", "RULE:[1:$1](()", "RULE:[1:$1]s/(/x/", "DEFAULT nonsense",
		"RULE:[99999999999999999999:$1]", strings.Repeat("DEFAULT ", rulesMax+1), strings.Repeat(" ", rulesBytesMax+1)} {
		if _, err := ParseRules(bad, "HOME"); err == nil || !strings.Contains(err.Error(), "auth_to_local") {
			t.Errorf("%.40q: %v", bad, err)
		}
	}
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	rules, err := ParseRules("", "HOME")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		principal   string
		host, realm bool
		want        string
	}{
		{"ann/box@HOME", false, false, "ann/box@HOME"},
		{"ann/box@HOME", true, false, "ann@HOME"},
		{"ann/box@HOME", false, true, "ann/box"},
		{"ann/box@HOME", true, true, "ann"},
		{"ann@HOME", false, false, "ann@HOME"},
	} {
		a := &Acceptor{rules: rules, opt: Options{RemoveHost: c.host, RemoveRealm: c.realm}}
		p, err := ParsePrincipal(c.principal)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := a.identity(p); got != c.want || err != nil {
			t.Errorf("%s: %q, %v; want %q", c.principal, got, err, c.want)
		}
	}
	for _, bad := range []string{"", "@HOME", "a/b/c@HOME", "a//b", "a@B@C", "/a"} {
		if p, err := ParsePrincipal(bad); err == nil {
			t.Errorf("%q is %v", bad, p)
		}
	}
}

// FuzzRules: what can be read never panics, and names nobody by anything but a simple name.
func FuzzRules(f *testing.F) {
	f.Add("RULE:[2:$1@$0](jhs@.*CORP)s/.*/mapred/g DEFAULT", "ann/box@HOME")
	f.Add("RULE:[1:$1$$0]", "a")
	f.Fuzz(func(t *testing.T, text, principal string) {
		r, err := ParseRules(text, "HOME")
		if err != nil {
			return
		}
		p, err := ParsePrincipal(principal)
		if err != nil {
			return
		}
		if name, err := r.Short(p); err == nil && (name == "" || strings.ContainsAny(name, "/@")) {
			t.Fatalf("%q makes %q of %q", text, name, principal)
		}
	})
}
