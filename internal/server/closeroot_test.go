package server

import (
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/jute"
)

// TestStrictProfile: the root znode is closed to all but superusers, though another scheme is
// enforced, and nobody makes a znode for everybody; by whatever operation.
func TestStrictProfile(t *testing.T) {
	t.Parallel()
	super, err := auth.Digest("SHA-256", "super:secret")
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, Options{
		Auth: auth.Options{
			SuperDigest: super, DigestAlgorithm: "SHA-256", RefuseOpenACLs: true, EnforceSchemes: []string{"digest"},
		},
		RootACL: []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "digest", ID: super}}},
		// It isn't the server itself, who closes the root znode, that is looked at.
		RecheckInterval: time.Millisecond,
	})
	addr := s.Addrs()[0].String()
	ann, root := connect(t, addr, 0, nil), connect(t, addr, 0, nil)
	for credential, c := range map[string]*rawClient{"ann:x": ann, "super:secret": root} {
		if h, _ := c.call(jute.OpAuth, authPacket("digest", credential)); h.Err != jute.OK {
			t.Fatal(h.Err)
		}
	}
	mine := []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: "auth"}}}
	create := func(path string, acl []jute.ACL) func([]byte) []byte {
		return (&jute.CreateRequest{Path: path, ACL: acl}).Append
	}
	for _, path := range closedPaths {
		for deadline := time.Now().Add(patience); s.Replica().Permits(path, jute.PermCreate, nil); time.Sleep(
			10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s stays open", path)
			}
		}
	}
	if h, _ := ann.call(jute.OpCreate, create("/ann", mine)); h.Err != jute.ErrNoAuth {
		t.Errorf("a client creates a znode below /: %v", h.Err)
	}
	if h, _ := root.call(jute.OpCreate, create("/app", mine)); h.Err != jute.OK {
		t.Fatalf("a superuser creates a znode below /: %v", h.Err)
	}
	mixed := append(jute.WorldACL(jute.PermRead), mine...)
	for name, acl := range map[string][]jute.ACL{
		"world": jute.WorldACL(jute.PermAll), "world reads": mixed,
		"all addresses, in other words": {{Perms: jute.PermAll, ID: jute.ID{Scheme: "ip", ID: "0.0.0.0/00"}}},
		"both halves": {
			{Perms: jute.PermAll, ID: jute.ID{Scheme: "ip", ID: "0.0.0.0/1"}},
			{Perms: jute.PermAll, ID: jute.ID{Scheme: "ip", ID: "128.0.0.0/1"}},
		},
		"all addresses": {{Perms: jute.PermAll, ID: jute.ID{Scheme: "ip", ID: "0.0.0.0/0"}}}, "all of IPv6": {
			{Perms: jute.PermAll, ID: jute.ID{Scheme: "ip", ID: "::/0"}},
		},
	} {
		for op, record := range map[jute.Op]func([]byte) []byte{
			jute.OpCreate: create("/app/x", acl), jute.OpCreate2: create("/app/x", acl),
			jute.OpSetACL: (&jute.SetACLRequest{Path: "/app", ACL: acl, Version: -1}).Append,
		} {
			if h, _ := root.call(op, record); h.Err != jute.ErrInvalidACL {
				t.Errorf("%v with an ACL for %s: %v", op, name, h.Err)
			}
		}
		_, body := root.call(jute.OpMulti, func(b []byte) []byte {
			return jute.AppendMulti(b,
				[]jute.MultiOp{{Op: jute.OpCheck, Path: "/app", Version: -1}, {Op: jute.OpCreate, Path: "/app/x", ACL: acl}})
		})
		if results, err := jute.DecodeMultiResponse(jute.NewDecoder(body)); err != nil || len(results) != 2 ||
			results[1].Err != jute.ErrInvalidACL {
			t.Errorf("a multi with an ACL for %s: %+v, %v", name, results, err)
		}
	}
	if h, _ := root.call(jute.OpCreate, create("/app/x", mine)); h.Err != jute.OK {
		t.Errorf("an ACL of its own: %v", h.Err)
	}
}
