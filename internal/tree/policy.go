package tree

import (
	"bytes"
	"slices"

	"github.com/zooid-project/zooid/internal/policy"
	"github.com/zooid-project/zooid/jute"
)

// The policy (package policy, decision 066) is the data of one znode. Access.policy is its parsed form. It is nil
// without a policy, which costs one comparison per check of an ACL. It is derived from the znode, so it isn't part of
// the digest or of snapshots.

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
	return op.IsCreate() && guardOf(path).rules || op == jute.OpSetData && path == policy.Path
}

// policies reports whether policies exist at the feature level in force.
func (s *Settings) policies() bool { return s.FeatureLevel >= 2 }

// readPolicy applies the policy in the policy's znode. Data that can't be parsed count as no policy: they were
// imported, or are older than policies.
func (a *Access) readPolicy() {
	a.policy = nil
	if slot := a.znodes.find(policy.Path); slot != 0 && a.settings.policies() {
		if a.policy, _ = policy.Parse(a.znodes.data(a.znodes.at(slot))); a.policy != nil {
			a.policy.Rules = a.settings.Rules
		}
	}
}

// notePolicy calls readPolicy if path, which has changed, is the path of the policy's znode.
func (a *Access) notePolicy(path string) {
	if path == policy.Path {
		a.readPolicy()
	}
}

// A Struck is called for each denial by a rule, including a dry-run rule. Several goroutines may
// call it at once, and it must not call the tree.
type Struck func(rule *policy.Rule, path string, ids []jute.ID)

// OnStruck sets the function that is called for denials. nil means no function.
func (a *Access) OnStruck(see Struck) { a.struck = see }

// allowsAt reports whether an ACL and the policy grant one of the permissions in want on a path. path is always the
// znode's own. For a create or delete, the ACL is the parent's.
func (a *Access) allowsAt(path string, acl uint32, want jute.Perm, ids []jute.ID) bool {
	if a.policy == nil {
		return a.allows(acl, want, ids)
	}
	return a.allows(acl, want, ids) && a.grants(path, &a.znodes.acls.entries[acl].rights, want, ids)
}

// grants is the policy's part of allowsAt, after the ACL has granted one of the permissions in want.
func (a *Access) grants(path string, acl *rights, want jute.Perm, ids []jute.ID) bool {
	if a.policy == nil || a.settings.SkipACL {
		return true
	}
	v := a.policy.Decide(path, want, ids)
	if !a.leaves(acl, want, v.Denied, ids) {
		a.see(v.By, path, ids)
		return false
	}
	if !a.leaves(acl, want, v.Denied|v.Dry, ids) {
		a.see(v.DryBy, path, ids)
	}
	return true
}

// leaves reports whether an ACL that grants one of the permissions in want also grants one that isn't denied.
func (a *Access) leaves(acl *rights, want, denied jute.Perm, ids []jute.ID) bool {
	return denied == 0 || want&^denied != 0 && a.permits(acl, want&^denied, ids)
}

func (a *Access) see(rule *policy.Rule, path string, ids []jute.ID) {
	if a.struck != nil {
		a.struck(rule, path, ids)
	}
}

// HasPolicy reports whether the right to read a znode depends on its path in addition to its ACL.
func (a *Access) HasPolicy() bool { return a.policy != nil }

// Permits reports whether an ACL and the policy grant one of the permissions in want on a path to the identities ids,
// with the settings in force.
func (a *Access) Permits(path string, acl []jute.ACL, want jute.Perm, ids []jute.ID) bool {
	return a.permitsAt(path, &rights{list: acl}, want, ids)
}

// MayHear reports whether a client with the identities ids may be notified of an event: the event's ACL and the policy
// must grant the right to read.
func (a *Access) MayHear(ev *Event, ids []jute.ID) bool {
	return a.permitsAt(ev.Path, &rights{ev.ACL, ev.index}, jute.PermRead, ids)
}

func (a *Access) permitsAt(path string, acl *rights, want jute.Perm, ids []jute.ID) bool {
	if !a.permits(acl, want, ids) {
		return false
	}
	return a.policy == nil || a.settings.SkipACL || a.leaves(acl, want, a.policy.Decide(path, want, ids).Denied, ids)
}

// Denies reports whether the policy denies all of want on a path. It doesn't call the function set by OnStruck.
func (a *Access) Denies(path string, want jute.Perm, ids []jute.ID) bool {
	return a.policy != nil && !a.settings.SkipACL && a.policy.Decide(path, want, ids).Denied == want
}

// A givenACL caches the result of fixACL for the ACL that a policy gives to new znodes, for the other creates of a
// multi.
type givenACL struct {
	by  *policy.Default
	fix aclFix
}

// givenTo returns the ACL of a znode to be created: the policy's default, if there is one and the creator requested the
// open ACL, and otherwise the requested one.
func (a *Access) givenTo(path string, asked aclFix, ids []jute.ID) aclFix {
	if asked.encoded != a.znodes.acls.entries[aclOpen].encoded {
		return asked
	}
	d := a.policy.DefaultOf(path)
	if d == nil {
		return asked
	}
	if a.given.by != d {
		a.given = givenACL{d, a.fixList(d.ACL, ids)}
	}
	return a.given.fix
}
