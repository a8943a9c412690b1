package tree

import (
	"github.com/zooid-project/zooid/internal/policy"
	"github.com/zooid-project/zooid/jute"
)

// The policy (package policy, decision 066) is the data of one znode, and Tree.policy is what
// was read of it: nil without one, which costs one comparison wherever an ACL is asked. It is
// derived, so neither the digest nor snapshots have it.

// ruledBySuper reports whether only superusers may create a path: what is kept there holds for
// everybody.
func ruledBySuper(path string) bool { return path == pathLimits || path == policy.Path }

// policies reports whether there are policies at the feature level in force.
func (t *Tree) policies() bool { return t.settings.FeatureLevel >= 2 }

// takesPolicy reports whether data may be that of path: that of the policy must be one.
func (t *Tree) takesPolicy(path string, data []byte) bool {
	if path != policy.Path || !t.policies() {
		return true
	}
	_, err := policy.Parse(data)
	return err == nil
}

// readPolicy puts the policy of the policy's znode in force. Data that can't be parsed counts
// as no policy: it came from elsewhere, or from before there were policies.
func (t *Tree) readPolicy() {
	t.policy = nil
	if slot := t.find(policy.Path); slot != 0 && t.policies() {
		t.policy, _ = policy.Parse(t.data(t.at(slot)))
	}
}

// notePolicy is readPolicy if the znode that has changed is the policy's.
func (t *Tree) notePolicy(path string) {
	if path == policy.Path {
		t.readPolicy()
	}
}

// A Struck is called for each denial by a rule, also for one that is only a dry run. Several
// goroutines may call it at once, and it must not call the tree.
type Struck func(rule *policy.Rule, path string, ids []jute.ID)

// OnStruck sets the function that is called for denials; nil for none.
func (t *Tree) OnStruck(see Struck) { t.struck = see }

// allowsAt reports whether an ACL and the policy grant one of the permissions in want on a
// path. It is the znode's own: of one to create or delete it isn't that of the ACL, its parent's.
func (t *Tree) allowsAt(path string, acl uint32, want jute.Perm, ids []jute.ID) bool {
	if t.policy == nil {
		return t.allows(acl, want, ids)
	}
	return t.allows(acl, want, ids) && t.grants(path, t.acls.entries[acl].list, want, ids)
}

// grants is the policy's part of allowsAt, where the ACL grants something of want.
func (t *Tree) grants(path string, acl []jute.ACL, want jute.Perm, ids []jute.ID) bool {
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

// leaves reports whether an ACL that grants something of want does so without what is denied.
func (t *Tree) leaves(acl []jute.ACL, want, denied jute.Perm, ids []jute.ID) bool {
	return denied == 0 || want&^denied != 0 && t.permits(acl, want&^denied, ids)
}

func (t *Tree) see(rule *policy.Rule, path string, ids []jute.ID) {
	if t.struck != nil {
		t.struck(rule, path, ids)
	}
}

// HasPolicy reports whether who may read a znode depends on its path, beside its ACL.
func (t *Tree) HasPolicy() bool { return t.policy != nil }

// Permits reports whether an ACL, such as that of an Event, and the policy grant one of the
// permissions in want on a path to the bearer of ids under the settings in force.
func (t *Tree) Permits(path string, acl []jute.ACL, want jute.Perm, ids []jute.ID) bool {
	if !t.permits(acl, want, ids) {
		return false
	}
	return t.policy == nil || t.settings.SkipACL || t.leaves(acl, want, t.policy.Decide(path, want, ids).Denied, ids)
}

// Denies reports whether the policy denies all of want on a path. Nobody is told.
func (t *Tree) Denies(path string, want jute.Perm, ids []jute.ID) bool {
	return t.policy != nil && !t.settings.SkipACL && t.policy.Decide(path, want, ids).Denied == want
}

// givenACL is what became of the ACL that a policy gives to new znodes, for the creates of one
// multi.
type givenACL struct {
	by  *policy.Default
	fix aclFix
}

// givenTo returns the ACL of a znode to create: the policy's, if the creator asks for none in
// particular.
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
