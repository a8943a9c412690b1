package auth

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// TestIndex compares Index.Permits with Permits, on random lists and bearers.
func TestIndex(t *testing.T) {
	schemes := []string{world, authScheme, ip, ip, digest, digest, sasl, anySASL, x509, super, "own", "own" + unproved, ""}
	texts := []string{
		"anyone", "super", "ann:x", "bob:y", "10.0.0.1", "10.0.0.0/8", "10.1.0.0/9", "::1", "::/0", "10.0.0.1/x", "", "a",
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	id := func() jute.ID {
		return jute.ID{Scheme: schemes[rnd.IntN(len(schemes))], ID: texts[rnd.IntN(len(texts))]}
	}
	rules := Rules{{Scheme: "own", Name: "test", rule: func(id, entry string) bool {
		return id != "" && entry != "" && id[0] == entry[0]
	}}}
	granted, byRule := 0, 0
	for range 100_000 {
		acl, ids := make([]jute.ACL, rnd.IntN(9)), make([]jute.ID, rnd.IntN(4))
		for i := range acl {
			acl[i] = jute.ACL{Perms: jute.Perm(rnd.IntN(64)), ID: id()}
			if i > 0 && rnd.IntN(3) == 0 {
				acl[i].ID = acl[rnd.IntN(i)].ID
			}
		}
		for i := range ids {
			ids[i] = id()
		}
		want := jute.Perm(1 << rnd.IntN(5))
		ok := Permits(acl, want, ids)
		x := NewIndex(acl)
		if got := x.Permits(want, ids, nil); got != ok {
			t.Fatalf("%v grants %v to %v: %v, want %v", acl, want, ids, got, ok)
		}
		ruled := rules.Permits(acl, want, ids)
		if got := x.Permits(want, ids, rules); got != ruled {
			t.Fatalf("by a rule %v grants %v to %v: %v, want %v", acl, want, ids, got, ruled)
		}
		if ruled != ok {
			byRule++
		}
		if ok && len(ids) > 0 {
			granted++
		}
	}
	if granted < 1000 || byRule < 100 {
		t.Errorf("only %d were granted anything, %d by the rule alone", granted, byRule)
	}
}

// large returns a list of n entries, and the identities of a connection with as many as one may have:
// none matches.
func large(n int) ([]jute.ACL, []jute.ID) {
	acl := make([]jute.ACL, n)
	for i := range acl {
		acl[i] = jute.ACL{Perms: jute.PermAll, ID: jute.ID{Scheme: digest, ID: fmt.Sprintf("user%d:x", i)}}
	}
	ids := []jute.ID{{Scheme: ip, ID: "10.0.0.1"}}
	for len(ids) < IDsMax {
		ids = append(ids, jute.ID{Scheme: digest, ID: fmt.Sprintf("person%d:x", len(ids))})
	}
	return acl, ids
}

// TestIndexLooksUpOnce: a look-up meets hardly more than one entry, even for an id that many entries have.
func TestIndexLooksUpOnce(t *testing.T) {
	acl, ids := large(256)
	for i := range acl[:128] { // the same identity with other permissions
		acl[i] = jute.ACL{Perms: jute.Perm(i << 8), ID: jute.ID{Scheme: digest, ID: "same:x"}}
	}
	x, met := NewIndex(acl), 0
	for i := range ids {
		for at := x.place(ids[i].ID); x.places[at] != 0; at = x.next(at) {
			met++
		}
	}
	if met > 4*len(ids) {
		t.Errorf("%d identities meet %d entries", len(ids), met)
	}
}

// BenchmarkLargeACL is the check of a list of 256 entries for a bearer of as many identities as a connection
// may have.
func BenchmarkLargeACL(b *testing.B) {
	acl, ids := large(256)
	x := NewIndex(acl)
	b.Run("index", func(b *testing.B) {
		for b.Loop() {
			x.Permits(jute.PermRead, ids, nil)
		}
	})
	b.Run("compare", func(b *testing.B) {
		for b.Loop() {
			Permits(acl, jute.PermRead, ids)
		}
	})
}
