package auth

import (
	"hash/maphash"
	"math/bits"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// IndexMin is the shortest ACL for which an Index is worth its memory.
const IndexMin = 4

// An Index decides like Permits for one ACL, with one look-up for each identity instead of a comparison with each
// entry: an ACL may have 256 entries, a connection 64 identities, and one request 50,000 operations. Its zero value is
// not ready for use; see NewIndex. An Index doesn't change. It refers to the ACL.
type Index struct {
	acl    []jute.ACL
	places []uint32    // a hash table of the entries by id: 1 + the index of an entry, or 0
	perms  []jute.Perm // by entry: the first entry of an identity has the permissions of all its entries
	blocks []blockPerms
	ruled  []uint32  // the entries of providers' schemes, which may have a rule; see Rules
	anyone jute.Perm // of world:anyone
	sasl   jute.Perm // of all entries of the scheme sasl
}

// blockPerms are the permissions for the addresses of a block.
type blockPerms struct {
	block
	perms jute.Perm
}

var indexSeed = maphash.MakeSeed() // so that clients can't choose ids that collide; no result depends on it

// NewIndex returns the index of an ACL, which must not change afterwards.
func NewIndex(acl []jute.ACL) *Index {
	x := &Index{acl: acl, places: make([]uint32, 2<<bits.Len(uint(len(acl)))), perms: make([]jute.Perm, len(acl))}
	for i := range acl {
		e := &acl[i]
		switch {
		case isAnyone(&e.ID):
			x.anyone |= e.Perms
			continue
		case e.ID.Scheme == ip:
			if b, ok := parseBlock(e.ID.ID); ok {
				x.blocks = append(x.blocks, blockPerms{b, e.Perms})
			}
			continue
		case e.ID.Scheme == sasl:
			x.sasl |= e.Perms
		case isProvided(e.ID.Scheme):
			x.ruled = append(x.ruled, uint32(i))
		}
		at := x.place(e.ID.ID)
		for x.places[at] != 0 && acl[x.places[at]-1].ID != e.ID {
			at = x.next(at)
		}
		if x.places[at] == 0 {
			x.places[at] = uint32(i) + 1
		}
		x.perms[x.places[at]-1] |= e.Perms
	}
	return x
}

// IndexSize returns the memory that an Index of an ACL with n entries takes, in bytes.
func IndexSize(n int) int { return 4*(2<<bits.Len(uint(n))) + 8*n + indexBytes }

// indexBytes is the size of an Index itself.
const indexBytes = 152

func (x *Index) place(id string) int {
	return int(maphash.String(indexSeed, id) & uint64(len(x.places)-1))
}

func (x *Index) next(at int) int { return (at + 1) & (len(x.places) - 1) }

// Permits reports whether the ACL grants at least one of the permissions in want to ids, as Rules.Permits does.
func (x *Index) Permits(want jute.Perm, ids []jute.ID, rules Rules) bool {
	if len(x.acl) == 0 || x.anyone&want != 0 {
		return true
	}
	for i := range ids {
		if x.admits(&ids[i], want, rules) {
			return true
		}
	}
	return false
}

// admits reports whether one identity has one of the permissions in want.
func (x *Index) admits(id *jute.ID, want jute.Perm, rules Rules) bool {
	switch {
	case id.Scheme == super, id.Scheme == sasl && id.ID == super && x.sasl&want != 0:
		return true
	case id.Scheme == ip:
		return x.holdsAddress(id.ID, want)
	}
	if len(rules) > 0 && len(x.ruled) > 0 {
		if s := rules.of(strings.TrimSuffix(id.Scheme, unproved)); s != nil {
			return x.admitsByRule(id, want, s)
		}
	}
	for at := x.place(id.ID); x.places[at] != 0; at = x.next(at) {
		if n := x.places[at] - 1; x.perms[n]&want != 0 && matches(id, &x.acl[n].ID) {
			return true
		}
	}
	return false
}

// admitsByRule is admits for an identity of a scheme with the rule s.
func (x *Index) admitsByRule(id *jute.ID, want jute.Perm, s *SchemeRule) bool {
	for _, n := range x.ruled {
		if e := &x.acl[n]; e.Perms&want != 0 && e.ID.Scheme == s.Scheme && s.admits(id.ID, e.ID.ID) {
			return true
		}
	}
	return false
}

// holdsAddress reports whether an address has one of the permissions in want.
func (x *Index) holdsAddress(id string, want jute.Perm) bool {
	if len(x.blocks) == 0 {
		return false
	}
	have, ok := parseAddress(id)
	for i := range x.blocks {
		if b := &x.blocks[i]; ok && b.perms&want != 0 && b.holds(&have) {
			return true
		}
	}
	return false
}
