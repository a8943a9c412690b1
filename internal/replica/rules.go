package replica

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// The ids of a provider's scheme may match by a rule (auth.Rules). The replicas' results depend on it, so the log's
// settings say which rule is in force for a scheme. A replica that doesn't have the rule stops at that entry
// (tree.MissingRuleError). The leader prevents that where it can:
//
//   - Each server announces the rules that its providers are configured with.
//   - The leader puts the rule of a scheme in force, changes it or removes it only when it is connected to all
//     members and all of them, itself included, have announced the same.
//   - Until then, if no rule is in force for a scheme for which the leader or a member has one, the leader's settings
//     exclude the scheme from those that an ACL may have: such requests are refused with InvalidACL.

// announced is what one member has announced.
type announced struct {
	id    uint64
	heard bool
	rules auth.Rules
}

func (a announced) equal(b announced) bool {
	return a.id == b.id && a.heard == b.heard && a.rules.Equal(b.rules)
}

// Rules implements quorum.StateMachine.
func (l *levels) Rules() []byte { return l.settings.Rules.Append(nil) }

// Announced implements quorum.StateMachine. An unreadable announcement counts as not heard.
func (l *levels) Announced(members []quorum.Announcement) {
	all := make([]announced, 0, len(members))
	for _, m := range members {
		a := announced{id: m.ID}
		if m.Heard {
			rules, err := auth.DecodeRules(jute.NewDecoder(m.Rules))
			a.heard, a.rules = err == nil, rules
		}
		all = append(all, a)
	}
	if !slices.EqualFunc(all, l.announced, announced.equal) {
		l.mu.Lock()
		l.announced = all
		l.mu.Unlock()
	}
	l.mu.RLock()
	leads, have := l.leader.IsLeader, l.tree.Settings()
	l.mu.RUnlock()
	if !leads {
		return
	}
	want := l.settings
	want.FeatureLevel = have.FeatureLevel
	if l.agreeOnRules(have.Rules, &want); !want.Rules.Equal(have.Rules) || !slices.Equal(want.Schemes, have.Schemes) {
		l.log.Info("the rules that all members have for the ids in ACLs change: they are put in force",
			"inForce", describeRules(have.Rules), "rules", describeRules(want.Rules))
		l.proposeSettings()
	}
}

// agreeOnRules sets the rules of the settings that this leader wants, and removes from these the schemes that wait for
// a rule. inForce are the rules in force.
func (l *levels) agreeOnRules(inForce auth.Rules, want *tree.Settings) {
	want.Rules = nil
	if want.TakesRules() {
		want.Rules = inForce
		for _, scheme := range l.schemesWithRules(inForce) {
			own := l.settings.Rules.Of(scheme)
			if l.allAnnounce(scheme, own) && (own == "" || len(want.Rules.With(scheme, own)) <= auth.RulesMax) {
				want.Rules = want.Rules.With(scheme, own)
			}
		}
	}
	want.Schemes = slices.Clone(want.Schemes)
	for _, scheme := range l.schemesWithRules(nil) {
		if want.Rules.Of(scheme) == "" {
			want.Schemes = slices.DeleteFunc(want.Schemes, func(s string) bool { return s == scheme })
		}
	}
}

// schemesWithRules returns the schemes for which a rule is in force, or this server or a member has announced one.
func (l *levels) schemesWithRules(inForce auth.Rules) auth.Schemes {
	var names []string
	add := func(rules auth.Rules) {
		for i := range rules {
			names = append(names, rules[i].Scheme)
		}
	}
	add(inForce)
	add(l.settings.Rules)
	for i := range l.announced {
		add(l.announced[i].rules)
	}
	return auth.NewSchemes(names...)
}

// allAnnounce reports whether all other members have announced the same rule for a scheme; "" is equality.
func (l *levels) allAnnounce(scheme, rule string) bool {
	for i := range l.announced {
		if a := &l.announced[i]; !a.heard || a.rules.Of(scheme) != rule {
			return false
		}
	}
	return true
}

// describeRules returns rules as "scheme=rule, …".
func describeRules(rules auth.Rules) string {
	var b strings.Builder
	for i := range rules {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(rules[i].Scheme + "=" + rules[i].Name)
	}
	return b.String()
}

// Rules that have waited for members for unmetPatienceMs are logged: servers that start together, or one after another,
// need a while.
const unmetPatienceMs = 10_000

// unmetRules are the rules that wait until all members have them.
type unmetRules struct {
	since  int64 // now (ms), 0 if there are none
	logged bool
	list   []string // of waitingRules
}

// checkRules logs which rules have waited long; mu is held for writing.
func (l *levels) checkRules(now int64) {
	inForce := l.tree.Settings().Rules
	waiting := l.waitingRules(inForce)
	u := &l.unmet
	u.list = waiting
	switch {
	case len(waiting) == 0 || l.leader.Leader == 0:
		if u.logged && len(waiting) == 0 {
			l.log.Info("all members have the same rules for the ids in ACLs", "inForce", describeRules(inForce))
		}
		*u = unmetRules{}
	case u.since == 0:
		u.since = max(now, 1)
	case !u.logged && now-u.since >= unmetPatienceMs:
		u.logged = true
		l.log.Warn("not all members have the same rule for the ids of a scheme in ACLs: the rule in force stays; where there is none, ACLs of the scheme are refused. Only the leader knows the rules of the other members",
			"waiting", strings.Join(waiting, "; "), "inForce", describeRules(inForce), "leader", l.leader.Leader)
	}
}

// waitingRules returns which server has which rule, for each scheme for which this server, or a member that this leader
// has heard, has a rule other than the one in force.
func (l *levels) waitingRules(inForce auth.Rules) (waiting []string) {
	members := l.announced
	if !l.leader.IsLeader {
		members = nil
	}
	for _, scheme := range l.schemesWithRules(inForce) {
		rule := inForce.Of(scheme)
		differs := l.settings.Rules.Of(scheme) != rule
		who := []string{"here " + ruleName(l.settings.Rules.Of(scheme))}
		for i := range members {
			a := &members[i]
			switch {
			case !a.heard:
				who = append(who, fmt.Sprintf("server %d isn't connected or has announced nothing", a.id))
			default:
				differs = differs || a.rules.Of(scheme) != rule
				who = append(who, fmt.Sprintf("server %d %s", a.id, ruleName(a.rules.Of(scheme))))
			}
		}
		if differs {
			waiting = append(waiting, scheme+": "+strings.Join(who, ", "))
		}
	}
	return waiting
}

// ruleName returns a rule's name in logs.
func ruleName(rule string) string { return cmp.Or(rule, "no rule") }
