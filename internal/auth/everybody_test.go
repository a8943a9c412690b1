package auth

import (
	"slices"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// TestOpenACLs: an ACL for everybody is refused, in whatever form and parts.
func TestOpenACLs(t *testing.T) {
	t.Parallel()
	r := registry(t, Options{RefuseOpenACLs: true})
	var eights []string // all addresses, a 256th each
	for i := range 256 {
		eights = append(eights, AddressID([]byte{byte(i), 0, 0, 0}, "").ID+"/8")
	}
	for _, c := range []struct {
		open bool
		ids  []string // of the scheme ip, unless it is world's
	}{
		{true, []string{"anyone"}},
		{true, []string{"10.0.0.1", "anyone"}},
		{true, []string{"0.0.0.0/0"}},
		{true, []string{"0.0.0.0/00"}},
		{true, []string{"1.2.3.4/0000"}},
		{true, []string{"::/0"}},
		{true, []string{"::/000"}},
		{true, []string{"0.0.0.0/1", "128.0.0.0/1"}},
		{true, []string{"0.0.0.0/1", "128.0.0.0/01"}},
		{true, []string{"::/1", "8000::/1"}},
		{true, []string{"::/2", "4000::/2", "8000::/2", "c000::/2"}},
		{true, []string{"0.0.0.0/1"}}, // everybody but the other half
		{true, []string{"2000::/3"}},  // everybody on the Internet
		{true, eights},
		{true, slices.Repeat([]string{"0.0.0.0/4"}, 2)},
		{false, []string{"10.0.0.1", "::1", "0:0:0:0:0:0:0:1"}},
		{false, []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "127.0.0.0/8"}},
		{false, []string{"16.0.0.0/4", "3000::/4"}},
		{false, eights[:16]},
		{false, []string{"10.0.0.0/33", "x/0", "/0", "0.0.0.0/-0"}}, // which all replicas refuse
	} {
		var acl []jute.ACL
		for _, id := range c.ids {
			scheme := ip
			if id == "anyone" {
				scheme = world
			}
			acl = append(acl, jute.ACL{Perms: jute.PermRead, ID: jute.ID{Scheme: scheme, ID: id}})
		}
		multi := []jute.MultiOp{{Op: jute.OpCheck, Path: "/a"}, {Op: jute.OpCreate, Path: "/b", ACL: acl}}
		for op, body := range map[jute.Op][]byte{
			jute.OpCreate: (&jute.CreateRequest{Path: "/a", ACL: acl}).Append(nil),
			jute.OpSetACL: (&jute.SetACLRequest{Path: "/a", ACL: acl}).Append(nil),
			jute.OpMulti:  jute.AppendMulti(nil, multi),
		} {
			r.Judge(op, body)
			if refused := slices.Contains(body, refusedMark); refused != c.open {
				t.Errorf("%v with an ACL for %.5q: refused is %v, want %v", op, c.ids, refused, c.open)
			}
		}
	}
}
