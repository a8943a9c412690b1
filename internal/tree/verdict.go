package tree

import "github.com/zooid-project/zooid/jute"

// verdictsKept is how many verdicts are cached: more than the operations of any known multi need, and few enough to be
// cleared between two multis.
const verdictsKept = 64

// ruleCallsMax bounds the calls of rules (auth.Rules) by one multi or multiRead: some 20 ms. Ordinary requests stay far
// below: each ACL is checked once for each permission. Beyond it, an ACL with entries that match by a rule admits only
// superusers.
const ruleCallsMax = 1 << 16

// A verdicts caches the permissions that ACLs grant to the sender of one multi or multiRead, which may have 50,000
// operations on znodes with one ACL of 256 entries. The ACLs must not change meanwhile: a multi frees none before it
// ends.
type verdicts struct {
	known [verdictsKept]verdict
	// compared counts 1 for each verdict that wasn't cached, for each identity looked up for it, and for each call of a
	// rule that it may have made.
	compared uint64

	// byRule has all verdicts of ACLs with entries that match by a rule, and calls counts the calls that they may have
	// made. No verdict is dropped: ACLs have different places in the tables of different replicas, and these must not
	// determine which ACLs are beyond ruleCallsMax.
	byRule map[verdictOf]bool
	calls  int
}

type verdictOf struct {
	acl  uint32
	want jute.Perm
}

type verdict struct {
	acl        uint32
	want       jute.Perm
	known, yes bool
}

// keepVerdicts begins to cache verdicts, for the multi that is about to be applied.
func (a *Access) keepVerdicts() { a.verdicts = &a.verdictsRoom }

// forgetVerdicts clears the cache of the multi being applied.
func (a *Access) forgetVerdicts() {
	if a.verdicts = nil; a.verdictsRoom.compared > 0 {
		a.znodes.work += a.verdictsRoom.compared
		a.verdictsRoom = verdicts{}
	}
}

// of reports whether a stored ACL grants one of the permissions in want. ids must be the same in each call.
func (v *verdicts) of(a *Access, acl uint32, want jute.Perm, ids []jute.ID) bool {
	k := &v.known[(acl*5+uint32(want))%verdictsKept] // 5 permissions
	if !k.known || k.acl != acl || k.want != want {
		v.compared += 1 + uint64(len(ids))
		*k = verdict{acl, want, true, v.judge(a, acl, want, ids)}
	}
	return k.yes
}

// judge returns a verdict that isn't cached.
func (v *verdicts) judge(a *Access, acl uint32, want jute.Perm, ids []jute.ID) bool {
	e, rules := &a.znodes.acls.entries[acl], a.settings.Rules
	calls := 0
	if len(rules) > 0 && !isSuper(ids) {
		calls = rules.Calls(e.list, ids)
	}
	if calls == 0 {
		return e.permit(want, ids, rules)
	}
	key := verdictOf{acl, want}
	yes, known := v.byRule[key]
	if known {
		return yes
	}
	if v.calls += calls; v.calls <= ruleCallsMax {
		v.compared += uint64(calls)
		yes = e.permit(want, ids, rules)
	}
	if v.byRule == nil {
		v.byRule = map[verdictOf]bool{}
	}
	v.byRule[key] = yes
	return yes
}
