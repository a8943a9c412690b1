package tree

import "github.com/zooid-project/zooid/jute"

// verdictsKept is how many verdicts are remembered at a time: more than the operations of any known
// multi need, and few enough to be forgotten between two multis.
const verdictsKept = 64

// A verdicts remembers what ACLs grant to the sender of one multi or multiRead, which may have 50,000
// operations on znodes with one ACL of 256 entries. The ACLs must not change meanwhile: a multi frees
// none before it ends.
type verdicts struct {
	known [verdictsKept]verdict
	// compared counts 1 for each verdict that wasn't known, for each identity that was looked up for it, and for each
	// call of a rule that it may have taken.
	compared uint64
}

type verdict struct {
	acl        uint32
	want       jute.Perm
	known, yes bool
}

// forgetVerdicts ends what the multi being applied remembers.
func (t *Tree) forgetVerdicts() {
	if t.verdicts = nil; t.verdictsRoom.compared > 0 {
		t.work += t.verdictsRoom.compared
		t.verdictsRoom = verdicts{}
	}
}

// of reports whether a stored ACL grants one of the permissions in want. ids must be the same in each
// call.
func (v *verdicts) of(t *Tree, acl uint32, want jute.Perm, ids []jute.ID) bool {
	k := &v.known[(acl*5+uint32(want))%verdictsKept] // 5 permissions
	if !k.known || k.acl != acl || k.want != want {
		e := &t.acls.entries[acl]
		v.compared += 1 + uint64(len(ids)) + uint64(t.settings.Rules.Calls(e.list, ids))
		*k = verdict{acl, want, true, e.permit(want, ids, t.settings.Rules)}
	}
	return k.yes
}
