package tree

import (
	"math"
	"slices"
	"unsafe"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/jute"
)

// The ACLs of Apache's own znodes have fixed places in the table.
const (
	aclOpen   = 0 // world:anyone, everything
	aclConfig = 1 // world:anyone, read
)

// An aclEntry is one distinct ACL, shared by all znodes that have it. Its list
// and encoding never change, so they may be kept beyond the entry.
type aclEntry struct {
	list    []jute.ACL
	encoded string // as a vector of ACL; "" in a free place
	refs    int
	hash    uint64
	world   jute.Perm // what it grants to everybody
}

// The aclTable interns ACLs. Indexes stay inside of the package.
type aclTable struct {
	entries  []aclEntry
	free     []uint32
	index    map[string]uint32 // by encoding
	bytes    int               // of all entries
	requests map[string]aclFix // by the bytes that a client sent
	kept     int               // bytes of the keys of requests
}

// size returns about how many bytes an entry takes: its encoding, a copy of that for the
// strings of the list, and the list.
func (e *aclEntry) size() int {
	return 2*len(e.encoded) + len(e.list)*int(unsafe.Sizeof(jute.ACL{})) + aclBytes
}

// aclBytes is about what an ACL takes beside that: its entry, and its place in the index.
const aclBytes = 128

// aclFix is what became of the ACL of a request: a place in the table isn't kept
// because the entry may go.
type aclFix struct {
	list    []jute.ACL
	encoded string
	ok      bool
}

// aclRequestsBytesMax bounds what is kept of clients' ACLs, in bytes as they were
// sent; clients rarely use more than a few, and a forgotten one is only decoded again.
const (
	aclRequestsBytesMax = 1 << 20
	aclRequestSizeMax   = 1024
)

// The limits of ACLs from feature level 2 on; what exceeds one is InvalidACL. Each
// request of a connection with many identities is compared with each entry of an ACL,
// and an entry of the scheme auth becomes one for each identity.
const (
	aclEntriesMax = 256 // entries of a znode's ACL; nobody is known to use a tenth
	// bytes that the auth entries of a request become: those of auth.IDsMax identities three times
	aclExpandedMax = 16 << 10

	// aclEntriesMaxFirst is the limit of entries at feature level 1.
	aclEntriesMaxFirst = 1 << 16
)

// aclBudget returns what the ACLs of one request may become.
func (t *Tree) aclBudget() auth.Budget {
	if t.settings.FeatureLevel < 2 {
		return auth.Budget{Entries: aclEntriesMaxFirst, Expanded: math.MaxInt}
	}
	return auth.Budget{Entries: aclEntriesMax, Expanded: aclExpandedMax, Provided: true}
}

func (a *aclTable) init() {
	a.index = map[string]uint32{}
	a.forgetRequests()
}

// builtIn returns the ACLs with fixed places, in their order.
func builtIn() [2]aclFix {
	var fixed [2]aclFix
	for i, perms := range []jute.Perm{aclOpen: jute.PermAll, aclConfig: jute.PermRead} {
		list := jute.WorldACL(perms)
		fixed[i] = aclFix{list, string(jute.AppendACLs(nil, list)), true}
	}
	return fixed
}

func (a *aclTable) forgetRequests() { a.requests, a.kept = map[string]aclFix{}, 0 }

// internACL returns the place of an ACL, which the caller retains at once: a new
// one has no reference yet.
func (t *Tree) internACL(f *aclFix) uint32 {
	a := &t.acls
	if i, ok := a.index[f.encoded]; ok {
		return i
	}
	e := aclEntry{list: f.list, encoded: f.encoded, hash: t.key.child(aclSeed, f.encoded)}
	for _, acl := range f.list {
		if acl.ID.Scheme == "world" && acl.ID.ID == "anyone" {
			e.world |= acl.Perms
		}
	}
	i := uint32(len(a.entries))
	if last := len(a.free) - 1; last >= 0 {
		i = a.free[last]
		a.free = a.free[:last]
		a.entries[i] = e
	} else {
		a.entries = append(a.entries, e)
	}
	a.index[f.encoded] = i
	a.bytes += e.size()
	return i
}

func (a *aclTable) retain(i uint32) { a.entries[i].refs++ }

func (a *aclTable) release(i uint32) {
	e := &a.entries[i]
	e.refs--
	if e.refs == 0 {
		delete(a.index, e.encoded)
		a.bytes -= e.size()
		*e = aclEntry{}
		a.free = append(a.free, i)
	}
}

// fixACL returns what to store for the ACL that d stands at, and moves d behind
// it. The ACL is invalid if ok is false, and malformed if d has an error.
func (t *Tree) fixACL(d *jute.Decoder, ids []jute.ID) (f aclFix) {
	rest := d.Rest()
	begin := d.Offset()
	dependent := skipACL(d)
	if d.Err() != nil {
		return aclFix{}
	}
	raw := rest[:d.Offset()-begin]
	if f, ok := t.acls.requests[string(raw)]; ok {
		return f
	}
	f = t.fixList(jute.DecodeACLs(jute.NewDecoder(raw)), ids)
	if !dependent && len(raw) <= aclRequestSizeMax {
		if t.acls.kept+len(raw) > aclRequestsBytesMax {
			t.acls.forgetRequests()
		}
		t.acls.requests[string(raw)] = f
		t.acls.kept += len(raw)
	}
	return f
}

// fixList is fixACL for a list already decoded.
func (t *Tree) fixList(acl []jute.ACL, ids []jute.ID) aclFix {
	list, ok := auth.Fix(acl, ids, t.settings.Schemes, &t.budget)
	if !ok {
		return aclFix{}
	}
	encoded := string(jute.AppendACLs(nil, list))
	// The list of the encoding shares its memory, not the request's.
	return aclFix{jute.DecodeACLs(jute.NewDecoder([]byte(encoded))), encoded, true}
}

// skipACL moves d behind a vector of ACL and reports whether what it means
// depends on who sent it.
func skipACL(d *jute.Decoder) (dependent bool) {
	for range max(d.Count(12), 0) {
		d.Int()
		scheme := d.String()
		_ = d.String()
		dependent = dependent || scheme == "auth"
	}
	return dependent
}

// allows reports whether a stored ACL grants one of the permissions in want.
func (t *Tree) allows(acl uint32, want jute.Perm, ids []jute.ID) bool {
	e := &t.acls.entries[acl]
	return e.world&want != 0 || t.settings.SkipACL || auth.Permits(e.list, want, ids)
}

// permits is allows for a list.
func (t *Tree) permits(acl []jute.ACL, want jute.Perm, ids []jute.ID) bool {
	return t.settings.SkipACL || auth.Permits(acl, want, ids)
}

// isSuper reports whether ids are a superuser's.
func isSuper(ids []jute.ID) bool {
	return slices.ContainsFunc(ids, func(id jute.ID) bool { return id.Scheme == "super" })
}
