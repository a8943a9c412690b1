package rights

import (
	"testing"

	"github.com/zooid-project/zooid/internal/policy"
	"github.com/zooid-project/zooid/zk"
)

// TestMay has what ACLs and policies say to clients, and how certain that is.
func TestMay(t *testing.T) {
	t.Parallel()
	rules, err := policy.Parse([]byte("role pay = sasl:pay digest:ann:HASH\ndeny write,create below /pay except pay\n" +
		"deny delete below /pay/ip except ip:10.0.0.0/8\ndryrun deny read below /pay except digest:bob:HASH\ndeny admin below /"))
	if err != nil {
		t.Fatal(err)
	}
	open := zk.WorldACL(zk.PermAll)
	team := []zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "team", ID: "a*"}}}
	const (
		line2 = "line 2 of the policy: deny write,create below /pay except pay"
		line3 = "line 3 of the policy: deny delete below /pay/ip except ip:10.0.0.0/8"
		line4 = "line 4 of the policy: dryrun deny read below /pay except digest:bob:HASH"
		line5 = "line 5 of the policy: deny admin below /"
	)
	id := func(scheme, user string) []zk.Identity {
		return []zk.Identity{{Scheme: "ip", User: "10.1.1.1"}, {Scheme: scheme, User: user}}
	}
	for _, c := range []struct {
		client Client
		path   string
		acl    []zk.ACL
		perm   zk.Perm
		want   string
	}{
		{Client{Identities: id("x", "")}, "/pay", open, zk.PermWrite, "yes"},
		{Client{Identities: id("x", "")}, "/pay", zk.WorldACL(zk.PermRead), zk.PermWrite, "no"},
		{Client{Identities: id("x", "")}, "/pay", nil, zk.PermRead, "no"},
		{Client{Identities: id("digest", "ann")}, "/pay", zk.DigestACL(zk.PermAll, "ann", "x"), zk.PermWrite, "likely"},
		{Client{Identities: id("team", "ann")}, "/pay", team, zk.PermWrite,
			"unknown: a provider may have a rule of its own for matching entries"},
		{Client{Identities: id("team", "a*")}, "/pay", team, zk.PermWrite, "likely"},
		{Client{Identities: id("team", "ann")}, "/pay", append(open, team...), zk.PermWrite, "yes"},
		{Client{Identities: id("x509", "CN=ann")}, "/pay",
			[]zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "x509", ID: "CN=*"}}}, zk.PermWrite, "no"},
		{Client{Identities: id("team", "ann"), Policy: rules}, "/pay", team, zk.PermWrite, "no: " + line2},
		{Client{Identities: id("super", ""), Policy: rules, Unread: "never"}, "/pay", nil, zk.PermWrite, "yes"},
		{Client{Identities: id("x", ""), Unread: "which is hidden"}, "/pay", open, zk.PermWrite, "unknown: the ACL grants it; a policy may deny it, which is hidden"},
		{Client{Identities: id("x", ""), Unread: "which is hidden"}, "/pay", nil, zk.PermWrite, "no"},
		{Client{Identities: id("x", ""), Policy: rules}, "/pay", open, zk.PermWrite, "no: " + line2},
		{Client{Identities: id("x", ""), Policy: rules}, "/pay/a/b", open, zk.PermCreate, "no: " + line2},
		{Client{Identities: id("x", ""), Policy: rules}, "/pay", nil, zk.PermWrite, "no"},
		{Client{Identities: id("x", ""), Policy: rules}, "/payments", open, zk.PermWrite, "yes"},
		{Client{Identities: id("x", ""), Policy: rules}, "/", open, zk.PermAdmin, "no: " + line5},
		{Client{Identities: id("sasl", "pay"), Policy: rules}, "/pay", open, zk.PermWrite, "yes"},
		{Client{Identities: id("digest", "ann"), Policy: rules}, "/pay", open, zk.PermWrite,
			"likely: unless it is denied by " + line2},
		{Client{Identities: id("digest", "eve"), Policy: rules}, "/pay", open, zk.PermWrite, "no: " + line2},
		{Client{Identities: id("x", ""), Policy: rules}, "/pay/ip", open, zk.PermDelete, "yes"},
		{Client{Policy: rules}, "/pay/ip", open, zk.PermDelete, "no: " + line3},
		{Client{Identities: id("x", ""), Policy: rules}, "/pay", open, zk.PermRead, "yes: a dry run would deny it, " + line4},
		{Client{Identities: id("digest", "bob"), Policy: rules}, "/pay", open, zk.PermRead, "yes"},
	} {
		if got := c.client.May(c.path, c.acl, c.perm); got != c.want {
			t.Errorf("%v %s %v: %q, want %q", c.client.Identities, c.path, c.perm, got, c.want)
		}
	}
}
