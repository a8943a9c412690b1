package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

const example = `# payments
role pay = sasl:pay@CORP digest:ann:HASH "x509:CN=pay one,O=corp"
deny write,create,delete,admin below /payments except pay
deny all below "/secret ones" except pay ip:10.0.0.0/8   # and the office
deny read below /payments/cards/all except late
new below /payments acl sasl:pay@CORP:cdrwa world:anyone:r
new below /payments/open acl auth::cdrwa
dryrun deny read below / except late
role late = sasl:late
`

func parse(t *testing.T, text string) *Policy {
	t.Helper()
	p, err := Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestDecide: who may do what where, by the line that says so.
func TestDecide(t *testing.T) {
	p := parse(t, example)
	if want := (Counts{Roles: 2, Rules: 3, Dry: 1, Defaults: 2}); p.Counts() != want {
		t.Errorf("it consists of %v, want %v", p.Counts(), want)
	}
	ann, pay, late, super := jute.ID{Scheme: "digest", ID: "ann:HASH"}, jute.ID{Scheme: "sasl", ID: "pay@CORP"}, jute.ID{
		Scheme: "sasl", ID: "late",
	}, jute.ID{Scheme: "super"}
	cert, office := jute.ID{Scheme: "x509", ID: "CN=pay one,O=corp"}, jute.ID{Scheme: "ip", ID: "10.1.2.3"}
	long := "/payments/cards/all/" + strings.Repeat("x", 2*pathBytesMax) + "/y"
	for _, c := range []struct {
		path    string
		want    jute.Perm
		ids     []jute.ID
		denied  jute.Perm
		by, dry int // lines
	}{
		{"/", jute.PermRead, nil, 0, 0, 8},
		{"", jute.PermRead, nil, 0, 0, 8},
		{"/", jute.PermWrite, nil, 0, 0, 0},
		{"/payments", jute.PermWrite, nil, jute.PermWrite, 3, 0},
		{"/payments", jute.PermWrite, []jute.ID{late}, jute.PermWrite, 3, 0},
		{"/payments", jute.PermWrite, []jute.ID{late, ann}, 0, 0, 0},
		{"/payments/a/b/c/d", jute.PermAdmin | jute.PermRead, []jute.ID{late}, jute.PermAdmin, 3, 0},
		{"/payments/a/b/c/d", jute.PermAdmin | jute.PermRead, []jute.ID{cert}, 0, 0, 8},
		{"/paymentsx", jute.PermWrite, nil, 0, 0, 0},
		{"/payment", jute.PermWrite, nil, 0, 0, 0},
		{"/x/payments", jute.PermWrite, nil, 0, 0, 0},
		{"/secret ones/a", jute.PermRead, []jute.ID{late}, jute.PermRead, 4, 0},
		{"/secret ones/a", jute.PermRead, []jute.ID{late, office}, 0, 0, 0},
		{"/secret ones/a", jute.PermRead, []jute.ID{super}, 0, 0, 0},
		{"/payments/cards/all", jute.PermRead, []jute.ID{pay}, jute.PermRead, 5, 0},
		{"/payments/cards/al", jute.PermRead, []jute.ID{late}, 0, 0, 0},
		{long, jute.PermRead | jute.PermWrite, nil, jute.PermRead | jute.PermWrite, 3, 0},
		{"/payments/cards/all/" + strings.Repeat("/", 5000), jute.PermRead, nil, jute.PermRead, 5, 0},
	} {
		v := p.Decide(c.path, c.want, c.ids)
		by, dry := 0, 0
		if v.By != nil {
			by = v.By.Line
		}
		if v.Dry != 0 {
			dry = v.DryBy.Line
		}
		if v.Denied != c.denied || by != c.by || dry != c.dry {
			t.Errorf("%.30s, %d, %v: denied %d by line %d, dry %d; want %d by %d, dry %d", c.path, c.want, c.ids, v.Denied, by,
				dry, c.denied, c.by, c.dry)
		}
	}
	ids := []jute.ID{office, late}
	if n := testing.AllocsPerRun(100, func() { p.Decide("/payments/cards/all/1", jute.PermAll, ids) }); n != 0 {
		t.Errorf("a decision allocates %v times", n)
	}
}

// TestDefaults: the longest path wins.
func TestDefaults(t *testing.T) {
	p := parse(t, example)
	for path, line := range map[string]int{
		"/": 0, "/a": 0, "/payments": 6, "/payments/a/b": 6, "/payments/open": 7, "/payments/open/a": 7, "/payments/opens": 6,
		"/paymentss": 0,
	} {
		d := p.DefaultOf(path)
		if got := 0; d != nil {
			got = d.Line
			if got != line {
				t.Errorf("%s: line %d, want %d", path, got, line)
			}
		} else if line != 0 {
			t.Errorf("%s: no default, want that of line %d", path, line)
		}
	}
	if d := p.DefaultOf("/payments"); len(d.ACL) != 2 || d.ACL[0].Perms != jute.PermAll ||
		d.ACL[1].Perms != jute.PermRead {
		t.Errorf("the ACL is %v", d.ACL)
	}
}

// TestNone: a text without rules is no policy.
func TestNone(t *testing.T) {
	for _, text := range []string{"", "\n", " # nothing\r\n\t"} {
		if p := parse(t, text); p != nil {
			t.Errorf("%q is a policy", text)
		}
	}
}

// TestRefused: each text that can't be read is refused, with its line.
func TestRefused(t *testing.T) {
	many := func(n int, line string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, line+"\n", i)
		}
		return b.String()
	}
	deepest := "/" + strings.Repeat("x", pathBytesMax-1)
	for text, want := range map[string]string{
		strings.Repeat("#", TextBytesMax+1):      "at most 65536",
		"allow read below /":                     "line 1: want a line",
		"dryrun":                                 "want a line",
		"dryrun new below /a acl auth::r":        "want a line",
		`""`:                                     "want a line",
		"\n\ndeny":                               "line 3: want deny",
		"deny read below":                        "want deny",
		"deny read beneath /a":                   "want deny",
		"deny read below /a except":              "want deny",
		"deny read below /a but b:c":             "want deny",
		"deny read, below /a":                    "isn't a permission",
		"deny reads below /a":                    "isn't a permission",
		"deny read below a":                      "isn't a path",
		"deny read below /a/":                    "isn't a path",
		"deny read below " + deepest + "x":       "isn't a path",
		"deny read below /a except nobody":       "no role",
		"deny read below /a except world:anyone": "isn't an identity",
		"deny read below /a except auth:":        "isn't an identity",
		"deny read below /a except ip:300.0.0.1": "no ACL may have that",
		"deny read below /a except digest:ann":   "no ACL may have that",
		`deny read below "/a`:                    `has no other`,
		`deny read below "/a"b`:                  `comes a blank`,
		"role a":                                 "want role",
		"role a =":                               "want role",
		"role a: = sasl:b":                       "want role",
		"role a = b":                             "isn't an identity",
		"role a = sasl:b\nrole a = sasl:c":       "line 2: the role \"a\" is there twice",
		"role a =" + strings.Repeat(" sasl:b", membersMax+1):                  "at most 64",
		"deny read below /a except" + strings.Repeat(" sasl:b", membersMax+1): "at most 64",
		"new below /a acl" + strings.Repeat(" sasl:b:r", membersMax+1):        "at most 64",
		many(rolesMax+1, "role r%d = sasl:b"):                                 "more than 256 roles",
		many(rulesMax+1, "deny all below /r%d"):                               "more than 1000 rules",
		"new below /a":                                                        "want new",
		"new below /a acl":                                                    "want new",
		"new below /a acl sasl:r":                                             "the form scheme:id:perms",
		"new below /a acl sasl:b:x":                                           "letters cdrwa",
		"new below /a acl sasl:b:":                                            "the form scheme:id:perms",
		"new below /a acl sasl:b:r\nnew below /a acl sasl:c:r":                "line 2: there are two",
		"new below a acl sasl:b:r":                                            "isn't a path",
		"new below /a acl super:x:r":                                          "no ACL may have that",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %s", text, err, want)
		}
	}
	parse(t, many(rolesMax, "role r%d = sasl:b")+many(rulesMax, "deny all below /r%d"))
	parse(t, "deny read below "+deepest+" except"+strings.Repeat(" sasl:b", membersMax))
	parse(t, "role a ="+strings.Repeat(" sasl:b", membersMax)+"\nnew below /a acl"+strings.Repeat(" sasl:b:r", membersMax))
	parse(t, "new below / acl auth::r\n"+strings.Repeat("#", TextBytesMax-len("new below / acl auth::r\n")))
}

// TestLongestPath: a rule of the longest path holds there and below, and for no other path as long.
func TestLongestPath(t *testing.T) {
	deepest := "/" + strings.Repeat("x", pathBytesMax-1)
	p := parse(t, "deny read below "+deepest+"\ndeny read below /a/b")
	for path, denied := range map[string]bool{
		deepest: true, deepest + "/a": true, deepest + "/" + strings.Repeat("a", pathBytesMax): true, deepest + "x": false,
		deepest[:pathBytesMax-1]: false, deepest[:pathBytesMax-1] + "y": false,
	} {
		if v := p.Decide(path, jute.PermRead, nil); (v.Denied != 0) != denied {
			t.Errorf("%.20s… of %d bytes: denied %d", path, len(path), v.Denied)
		}
	}
}

// TestRoot: rules and defaults of the root hold everywhere, and superusers are subject to none.
func TestRoot(t *testing.T) {
	p := parse(t, "deny read,write below /\nnew below / acl auth::r")
	for _, path := range []string{"", "/", "/a", "/a/b"} {
		if d := p.DefaultOf(path); d == nil || d.Line != 2 {
			t.Errorf("%q: the default is %v", path, d)
		}
		if v := p.Decide(path, jute.PermAll, nil); v.Denied != jute.PermRead|jute.PermWrite {
			t.Errorf("%q: denied %d", path, v.Denied)
		}
		for _, ids := range [][]jute.ID{{{Scheme: "super"}}, {{Scheme: "ip", ID: "10.0.0.1"}, {Scheme: "super"}}} {
			if v := p.Decide(path, jute.PermAll, ids); v != (Verdict{}) {
				t.Errorf("%q: a superuser is told %v", path, v)
			}
		}
	}
	var none *Policy
	if d := none.DefaultOf("/a"); d != nil {
		t.Errorf("no policy has the default %v", d)
	}
}

// TestEveryRole: each of as many roles as there may be is excepted where its rule says so, and nowhere else, whatever
// the bearer's other roles, and whichever role was looked at before.
func TestEveryRole(t *testing.T) {
	var text strings.Builder
	for n := range rolesMax {
		fmt.Fprintf(&text, "role r%d = sasl:u%d\n", n, n)
		fmt.Fprintf(&text, "deny read below /one%d except r%d\n", n, n)
		fmt.Fprintf(&text, "deny read below /two%d except r%d r%d\n", n, (n+64)%rolesMax, n)
		fmt.Fprintf(&text, "dryrun deny read below /three except r%d\n", n)
	}
	p := parse(t, text.String())
	for user := range rolesMax {
		ids := []jute.ID{{Scheme: "sasl", ID: fmt.Sprintf("u%d", user)}}
		for n := range rolesMax {
			if v := p.Decide(fmt.Sprintf("/one%d", n), jute.PermRead, ids); (v.Denied == 0) != (user == n) {
				t.Fatalf("/one%d is denied %d to user %d", n, v.Denied, user)
			}
			may := user == n || user == (n+64)%rolesMax
			if v := p.Decide(fmt.Sprintf("/two%d", n), jute.PermRead, ids); (v.Denied == 0) != may {
				t.Fatalf("/two%d is denied %d to user %d", n, v.Denied, user)
			}
		}
	}
	var all []jute.ID
	for n := range rolesMax {
		all = append(all, jute.ID{Scheme: "sasl", ID: fmt.Sprintf("u%d", n)})
	}
	if v := p.Decide("/three", jute.PermRead, all); v.Dry != 0 {
		t.Errorf("who has every role would be denied by line %d", v.DryBy.Line)
	}
	if v := p.Decide("/three", jute.PermRead, all[1:]); v.Dry == 0 || v.DryBy.Line != 4 {
		t.Errorf("who lacks the first role would be denied %d by %v, want line 4", v.Dry, v.DryBy)
	}
}

// FuzzParse: no text panics, and what is read decides without a panic, as the same text does
// again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(example), "/payments/a")
	f.Add([]byte("dryrun deny all below /\ndeny read below \"/a b\" except ip:::1/64"), "/a b/")
	f.Add([]byte("new below / acl auth::r\r\nrole a = x:"), "//")
	f.Fuzz(func(t *testing.T, text []byte, path string) {
		p, err := Parse(text)
		q, again := Parse(text)
		if (err == nil) != (again == nil) || (p == nil) != (q == nil) {
			t.Fatalf("read %v, %v, and then %v, %v", p, err, q, again)
		}
		if p == nil {
			return
		}
		ids := []jute.ID{{Scheme: "ip", ID: "10.0.0.1"}, {Scheme: "sasl", ID: "a"}}
		v, w := p.Decide(path, jute.PermAll, ids), q.Decide(path, jute.PermAll, ids)
		if v.Denied != w.Denied || v.Dry != w.Dry || (v.By == nil) != (v.Denied == 0) {
			t.Fatalf("decided %v, and then %v", v, w)
		}
		if d := p.DefaultOf(path); d != nil && len(d.ACL) == 0 {
			t.Fatal("an ACL of new znodes has no entry")
		}
	})
}
