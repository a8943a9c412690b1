package tree

import (
	"math"
	"slices"
	"unsafe"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/policy"
	"github.com/zooid-project/zooid/jute"
)

// The ACLs of Apache's own znodes have fixed places in the table.
const (
	aclOpen   = 0 // world:anyone, everything
	aclConfig = 1 // world:anyone, read
)

// An aclEntry is one distinct ACL, shared by all znodes that have it. Its list and encoding never
// change, so callers may keep them after the entry is gone.
type aclEntry struct {
	rights
	encoded string // as a vector of ACL; "" marks a free place
	refs    int
	hash    uint64
	world   jute.Perm // permissions granted to world:anyone
}

// rights are an ACL in the form that checks use.
type rights struct {
	list  []jute.ACL
	index *auth.Index // nil for a list shorter than auth.IndexMin
}

// permit reports whether the ACL grants one of the permissions in want to the bearer of ids.
func (r *rights) permit(want jute.Perm, ids []jute.ID, rules auth.Rules) bool {
	if r.index != nil {
		return r.index.Permits(want, ids, rules)
	}
	return rules.Permits(r.list, want, ids)
}

// An aclTable interns ACLs. Its indexes are used only within the package.
type aclTable struct {
	entries  []aclEntry
	free     []uint32
	index    map[string]uint32 // by encoding
	bytes    int               // size of all entries, as size estimates it
	requests map[string]aclFix // results of fixACL, by the bytes that a client sent
	kept     int               // total bytes of the keys of requests
}

// size returns the approximate memory of an entry in bytes: its encoding, a copy of the encoding
// that backs the strings of the list, the list, and its index.
func (e *aclEntry) size() int {
	size := 2*len(e.encoded) + len(e.list)*int(unsafe.Sizeof(jute.ACL{})) + aclBytes
	if e.index != nil {
		size += auth.IndexSize(len(e.list))
	}
	return size
}

// aclBytes is the approximate size of the rest of an ACL: its entry and its place in the index.
const aclBytes = 128

// An aclFix is the result of fixACL. It holds no index into the table, because the entry at that index may be removed.
type aclFix struct {
	list    []jute.ACL
	encoded string
	ok      bool
}

// aclRequestsBytesMax bounds the cached ACLs of requests, in bytes as clients sent them. Clients
// rarely use more than a few ACLs, and one that was dropped only has to be decoded again.
const (
	aclRequestsBytesMax = 1 << 20
	aclRequestSizeMax   = 1024
)

// The limits of ACLs from feature level 2 on; an ACL beyond them is InvalidACL. They bound the work per request: each
// identity of the connection is compared with each entry of an ACL, and an entry of the scheme auth expands to one
// entry per identity.
const (
	aclEntriesMax = 256 // entries of a znode's ACL; no known user needs a tenth of them
	// bytes that the auth entries of a request expand to: enough for all identities of a connection
	// (auth.IDsMax) three times
	aclExpandedMax = 16 << 10

	// aclEntriesMaxFirst is the limit of entries at feature level 1.
	aclEntriesMaxFirst = 1 << 16
)

// aclBudget returns the limits of the ACLs in one request.
func (s *Settings) aclBudget() auth.Budget {
	if s.FeatureLevel < 2 {
		return auth.Budget{Entries: aclEntriesMaxFirst, Expanded: math.MaxInt}
	}
	return auth.Budget{
		Entries: aclEntriesMax, Expanded: aclExpandedMax, Provided: true, Rules: s.Rules,
	}
}

func (a *aclTable) init() {
	a.index = map[string]uint32{}
	a.forgetRequests()
}

// builtIn returns the ACLs with fixed places, in the order of their places.
func builtIn() [2]aclFix {
	var fixed [2]aclFix
	for i, perms := range []jute.Perm{aclOpen: jute.PermAll, aclConfig: jute.PermRead} {
		list := jute.WorldACL(perms)
		fixed[i] = aclFix{list, string(jute.AppendACLs(nil, list)), true}
	}
	return fixed
}

func (a *aclTable) forgetRequests() { a.requests, a.kept = map[string]aclFix{}, 0 }

// internACL returns the place of an ACL in the table, and adds it if necessary. The caller must retain it at once: a
// new entry has no reference yet.
func (z *znodes) internACL(f *aclFix) uint32 {
	a := &z.acls
	if i, ok := a.index[f.encoded]; ok {
		return i
	}
	e := aclEntry{rights: rights{list: f.list}, encoded: f.encoded, hash: z.key.child(aclSeed, f.encoded)}
	if len(f.list) >= auth.IndexMin {
		e.index = auth.NewIndex(f.list)
	}
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

// An Access decides who may do what, by the ACLs of the znodes, the policy and the settings in force, and by nothing
// else. It doesn't change the replicated state. Its fields about the request being applied are used only while that
// request is applied, when no reads run.
type Access struct {
	znodes   *znodes   // of the same tree
	settings *Settings // in force

	policy *policy.Policy // what readPolicy found; nil if there is none
	struck Struck

	// Of the request being applied.
	budget       auth.Budget // the rest of it
	given        givenACL
	verdicts     *verdicts // nil unless it is a multi
	verdictsRoom verdicts
}

// begin prepares for the next request.
func (a *Access) begin() { a.budget, a.given = a.settings.aclBudget(), givenACL{} }

// fixACL returns the form to store of the ACL at d's position, and moves d past it. If the ACL is invalid, the result's
// ok is false; if it is malformed, d has an error.
func (a *Access) fixACL(d *jute.Decoder, ids []jute.ID) (f aclFix) {
	rest := d.Rest()
	begin := d.Offset()
	dependent := skipACL(d)
	if d.Err() != nil {
		return aclFix{}
	}
	raw := rest[:d.Offset()-begin]
	if f, ok := a.znodes.acls.requests[string(raw)]; ok {
		return f
	}
	f = a.fixList(jute.DecodeACLs(jute.NewDecoder(raw)), ids)
	if !dependent && len(raw) <= aclRequestSizeMax {
		if a.znodes.acls.kept+len(raw) > aclRequestsBytesMax {
			a.znodes.acls.forgetRequests()
		}
		a.znodes.acls.requests[string(raw)] = f
		a.znodes.acls.kept += len(raw)
	}
	return f
}

// fixList is fixACL for a list that is already decoded.
func (a *Access) fixList(acl []jute.ACL, ids []jute.ID) aclFix {
	list, ok := auth.Fix(acl, ids, a.settings.Schemes, &a.budget)
	if !ok {
		return aclFix{}
	}
	encoded := string(jute.AppendACLs(nil, list))
	// Decode the list again, so that it doesn't share the request's memory.
	return aclFix{jute.DecodeACLs(jute.NewDecoder([]byte(encoded))), encoded, true}
}

// skipACL moves d past a vector of ACL and reports whether the meaning of the ACL depends on the sender.
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
func (a *Access) allows(acl uint32, want jute.Perm, ids []jute.ID) bool {
	e := &a.znodes.acls.entries[acl]
	switch {
	case e.world&want != 0 || a.settings.SkipACL:
		return true
	case a.verdicts != nil: // only while a multi is applied, when no reads run
		return a.verdicts.of(a, acl, want, ids)
	}
	return e.permit(want, ids, a.settings.Rules)
}

// permits is allows for an ACL that may no longer be stored.
func (a *Access) permits(acl *rights, want jute.Perm, ids []jute.ID) bool {
	return a.settings.SkipACL || acl.permit(want, ids, a.settings.Rules)
}

// isSuper reports whether ids include a superuser.
func isSuper(ids []jute.ID) bool {
	return slices.ContainsFunc(ids, func(id jute.ID) bool { return id.Scheme == "super" })
}
