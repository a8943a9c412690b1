package tree

import (
	"bytes"
	"slices"

	"github.com/zooid-project/zooid/internal/policy"
	"github.com/zooid-project/zooid/jute"
)

// The policy (package policy, decision 066) is the data of one znode. Tree.policy is its parsed form. It is nil without
// a policy, which costs one comparison per check of an ACL. It is derived from the znode, so it isn't part of the
// digest or of snapshots.

// setsRules reports whether different versions with feature level 2 compute different results for a request: it sets a
// policy, or creates a znode that later versions reserve for superusers. A request that can't be decoded has the same
// result in all versions.
func setsRules(op jute.Op, body []byte) bool {
	if !bytes.Contains(body, []byte(policy.Path)) && !bytes.Contains(body, []byte(pathLimits)) {
		return false
	}
	var d jute.Decoder
	d.Reset(body)
	if op != jute.OpMulti {
		return setsRule(op, d.String())
	}
	ops, err := jute.DecodeMulti(&d)
	return err == nil && slices.ContainsFunc(ops, func(o jute.MultiOp) bool { return setsRule(o.Op, o.Path) })
}

func setsRule(op jute.Op, path string) bool {
	return op.IsCreate() && ruledBySuper(path) || op == jute.OpSetData && path == policy.Path
}

// policies reports whether policies exist at the feature level in force.
func (t *Tree) policies() bool { return t.settings.FeatureLevel >= 2 }

// readPolicy applies the policy in the policy's znode. Data that can't be parsed count as no policy: they were
// imported, or are older than policies.
func (t *Tree) readPolicy() {
	t.policy = nil
	if slot := t.find(policy.Path); slot != 0 && t.policies() {
		if t.policy, _ = policy.Parse(t.data(t.at(slot))); t.policy != nil {
			t.policy.Rules = t.settings.Rules
		}
	}
}

// notePolicy calls readPolicy if path, which has changed, is the path of the policy's znode.
func (t *Tree) notePolicy(path string) {
	if path == policy.Path {
		t.readPolicy()
	}
}

// A Struck is called for each denial by a rule, including a dry-run rule. Several goroutines may
// call it at once, and it must not call the tree.
type Struck func(rule *policy.Rule, path string, ids []jute.ID)

// OnStruck sets the function that is called for denials. nil means no function.
func (t *Tree) OnStruck(see Struck) { t.struck = see }

// allowsAt reports whether an ACL and the policy grant one of the permissions in want on a path. path is always the
// znode's own. For a create or delete, the ACL is the parent's.
func (t *Tree) allowsAt(path string, acl uint32, want jute.Perm, ids []jute.ID) bool {
	if t.policy == nil {
		return t.allows(acl, want, ids)
	}
	return t.allows(acl, want, ids) && t.grants(path, &t.acls.entries[acl].rights, want, ids)
}

// grants is the policy's part of allowsAt, after the ACL has granted one of the permissions in want.
func (t *Tree) grants(path string, acl *rights, want jute.Perm, ids []jute.ID) bool {
	if t.policy == nil || t.settings.SkipACL {
		return true
	}
	v := t.policy.Decide(path, want, ids)
	if !t.leaves(acl, want, v.Denied, ids) {
		t.see(v.By, path, ids)
		return false
	}
	if !t.leaves(acl, want, v.Denied|v.Dry, ids) {
		t.see(v.DryBy, path, ids)
	}
	return true
}

// leaves reports whether an ACL that grants one of the permissions in want also grants one that isn't denied.
func (t *Tree) leaves(acl *rights, want, denied jute.Perm, ids []jute.ID) bool {
	return denied == 0 || want&^denied != 0 && t.permits(acl, want&^denied, ids)
}

func (t *Tree) see(rule *policy.Rule, path string, ids []jute.ID) {
	if t.struck != nil {
		t.struck(rule, path, ids)
	}
}

// HasPolicy reports whether the right to read a znode depends on its path in addition to its ACL.
func (t *Tree) HasPolicy() bool { return t.policy != nil }

// Permits reports whether an ACL and the policy grant one of the permissions in want on a path to the identities ids,
// with the settings in force.
func (t *Tree) Permits(path string, acl []jute.ACL, want jute.Perm, ids []jute.ID) bool {
	return t.permitsAt(path, &rights{list: acl}, want, ids)
}

// MayHear reports whether a client with the identities ids may be notified of an event: the event's ACL and the policy
// must grant the right to read.
func (t *Tree) MayHear(ev *Event, ids []jute.ID) bool {
	return t.permitsAt(ev.Path, &rights{ev.ACL, ev.index}, jute.PermRead, ids)
}

func (t *Tree) permitsAt(path string, acl *rights, want jute.Perm, ids []jute.ID) bool {
	if !t.permits(acl, want, ids) {
		return false
	}
	return t.policy == nil || t.settings.SkipACL || t.leaves(acl, want, t.policy.Decide(path, want, ids).Denied, ids)
}

// Denies reports whether the policy denies all of want on a path. It doesn't call the function set by OnStruck.
func (t *Tree) Denies(path string, want jute.Perm, ids []jute.ID) bool {
	return t.policy != nil && !t.settings.SkipACL && t.policy.Decide(path, want, ids).Denied == want
}

// A givenACL caches the result of fixACL for the ACL that a policy gives to new znodes, for the other creates of a
// multi.
type givenACL struct {
	by  *policy.Default
	fix aclFix
}

// givenTo returns the ACL of a znode to be created: the policy's default, if there is one and the creator requested the
// open ACL, and otherwise the requested one.
func (t *Tree) givenTo(path string, asked aclFix, ids []jute.ID) aclFix {
	if asked.encoded != t.acls.entries[aclOpen].encoded {
		return asked
	}
	d := t.policy.DefaultOf(path)
	if d == nil {
		return asked
	}
	if t.given.by != d {
		t.given = givenACL{d, t.fixList(d.ACL, ids)}
	}
	return t.given.fix
}
