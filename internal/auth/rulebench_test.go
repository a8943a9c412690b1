package auth

import (
	"strings"
	"testing"

	"github.com/zooid-project/zooid/authprovider"
	"github.com/zooid-project/zooid/jute"
)

// BenchmarkRuledACL is the check of a list with the most entries of a scheme that matches by glob, for a bearer of as
// many identities of it as a connection may have: none matches.
func BenchmarkRuledACL(b *testing.B) {
	rules := Rules(nil).With("team", authprovider.Glob)
	rules.Resolve(FindRule)
	for name, size := range map[string]int{"short": 12, "longest": authprovider.RuleIDBytesMax} {
		var acl []jute.ACL
		var ids []jute.ID
		for i := range ruledEntriesMax {
			entry := "*ba*" + strings.Repeat("ab", (size-8)/4) + "*b*" + string(rune('c'+i))
			acl = append(acl, jute.ACL{Perms: 31, ID: jute.ID{Scheme: "team", ID: entry}})
		}
		for i := range ruledIDsMax {
			ids = append(ids, jute.ID{Scheme: "team", ID: strings.Repeat("ab", (size-1)/2) + string(rune('A'+i))})
		}
		x := NewIndex(acl)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if x.Permits(jute.PermRead, ids, rules) {
					b.Fatal("one matches")
				}
			}
		})
	}
}
