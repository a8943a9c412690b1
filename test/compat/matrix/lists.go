package matrix

import (
	"fmt"
	"math"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// lists returns ACLs for a client to set: for each scheme, valid and invalid ones. An entry is "perms scheme:id";
// entries are separated by " | ".
func lists() []string {
	all := []string{
		"", // no entry
		"31 world:anyone", "0 world:anyone", "1 world:anyone", "32 world:anyone", "-1 world:anyone",
		"2147483647 world:anyone",
		"31 world:", "31 world:anybody", "31 World:anyone", "31 world:anyone ", "31 :", "31 :anyone",
		"31 auth:", "31 auth:anything", "0 auth:", "31 Auth:", "1 auth: | 2 auth:", "31 auth: | 31 auth:",
		"31 auth: | 31 world:anyone", "31 world:anyone | 31 auth:", "31 auth: | 31 foo:x",
		"31 digest:ann:hash", "31 digest:ann", "31 digest:", "31 digest::", "31 digest:ann:", "31 digest::hash",
		"31 digest:a:b:c", "31 digest:a:b::", "31 Digest:ann:hash",
		"31 ip:127.0.0.1", "31 ip:127.0.0.0/8", "31 ip:127.0.0.1/0", "31 ip:127.0.0.1/32", "31 ip:127.0.0.1/33",
		"31 ip:127.0.0.1/-1", "31 ip:127.0.0.1/08", "31 ip:127.0.0.1/", "31 ip:127.0.0.1/8/8", "31 ip:/8", "31 ip:",
		"31 ip:127.1",
		"31 ip:256.0.0.1", "31 ip:127.0.0.1.1", "31 ip:localhost", "31 ip:::1", "31 ip:::1/128", "31 ip:::1/129",
		"31 ip:::/0",
		"31 ip:fe80::1%1", "31 ip: 127.0.0.1", "31 ip:127.0.0.0/ 8", "31 ip:127.0.0.0/8 ", "31 ip:0x7f.0.0.1",
		"31 ip:127.0.0.01",
		"31 sasl:ann", "31 sasl:", "31 sasl:ann@REALM", "31 sasl:a/b@REALM", "31 sasl:a/b/c@REALM", "31 sasl:a@b@c",
		"31 sasl:@", "31 sasl:a b",
		"31 x509:CN=ann", "31 x509:", "31 x509:ann", "31 x509:cn=ann", "31 x509:CN=ann,O=x", "31 x509:CN=ann+O=x",
		"31 x509:CN=", "31 x509:XY=ann",
		"31 x509:CN=ann,", "31 x509:2.5.4.3=ann", "31 x509:CN=\"a,b\"", "31 x509:CN=a\\,b", "31 x509:CN=a<b",
		"31 super:", "31 super:super", "31 foo:x", "31 foo:", "31 ensemble:x", "31 ip?:127.0.0.1", "31 sasl*:ann",
		"31 world:anyone | 31 world:anyone", "1 world:anyone | 2 world:anyone", "31 world:anyone | 31 foo:x",
		"31 foo:x | 31 world:anyone",
		"1 digest:ann:hash | 1 digest:ann:hash | 1 ip:127.0.0.1", "1 sasl:ann | 2 x509:CN=ann | 4 digest:a:b | 8 ip:127.0.0.1 | 16 world:anyone",
	}
	var long []string
	for i := range 200 {
		long = append(long, fmt.Sprintf("1 digest:u%d:hash", i))
	}
	return append(all, strings.Join(long, " | "))
}

// parseList reads an ACL of lists.
func parseList(text string) []jute.ACL {
	acl := []jute.ACL{}
	if text == "" {
		return acl
	}
	for _, entry := range strings.Split(text, " | ") {
		perms, id, _ := strings.Cut(entry, " ")
		scheme, rest, _ := strings.Cut(id, ":")
		n := int64(math.MinInt64)
		fmt.Sscan(perms, &n)
		acl = append(acl, jute.ACL{Perms: jute.Perm(n), ID: jute.ID{Scheme: scheme, ID: rest}})
	}
	return acl
}

// A giver is an operation that sets a znode's ACL.
type giver struct {
	name string
	give func(path string, acl []jute.ACL) []step
}

func givers() []giver {
	made := func(op jute.Op, mode jute.CreateMode, within bool) func(path string, acl []jute.ACL) []step {
		return func(path string, acl []jute.ACL) []step {
			o := jute.MultiOp{Op: op, Path: path + "/made", ACL: acl, Flags: mode}
			if mode.TTL() {
				o.TTL = ttl
			}
			if within {
				return multi(jute.OpMulti, setData(path, -1), o)
			}
			return single(o)
		}
	}
	return []giver{
		{"create", made(jute.OpCreate, jute.ModePersistent, false)},
		{"create of an ephemeral znode", made(jute.OpCreate, jute.ModeEphemeral, false)},
		{"create2", made(jute.OpCreate2, jute.ModePersistent, false)},
		{"createContainer", made(jute.OpCreateContainer, jute.ModeContainer, false)},
		{"createTTL", made(jute.OpCreateTTL, jute.ModePersistentWithTTL, false)},
		{"multi of create", made(jute.OpCreate, jute.ModePersistent, true)},
		{"multi of createContainer", made(jute.OpCreateContainer, jute.ModeContainer, true)},
		{"setACL", func(path string, acl []jute.ACL) []step {
			return one(jute.OpSetACL, (&jute.SetACLRequest{Path: path + "/x", ACL: acl, Version: -1}).Append)
		}},
	}
}

// listCells returns operation x form of the ACL x client. The superuser reads the resulting ACL.
func listCells() []cell {
	var cells []cell
	for _, g := range givers() {
		for _, text := range lists() {
			for who, identity := range identities() {
				name := fmt.Sprintf("%s with the ACL %.60q, by %s", g.name, text, identity.name)
				cells = append(cells, cell{name: name, who: who,
					make: func(root string) (prepare []jute.MultiOp, steps, after []step) {
						for _, path := range []string{root + "/made", root + "/x"} {
							after = append(after, one(jute.OpGetACL, (&jute.PathRequest{Path: path}).Append)...)
						}
						return []jute.MultiOp{node(root+"/x", open())}, g.give(root, parseList(text)), after
					}})
			}
		}
	}
	return cells
}
