package sim

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/tree"
)

// Servers whose programs have rules by which the ids of the scheme "team" match. All begin with a program that has the
// first version of the rule. Operators give them, one by one and among the other faults, a program that has the
// second one too. By mistake, a server is also started with a program without rules, for a while. No server may
// continue with a rule in force that its program doesn't have; in the end the second version is in force everywhere.

// ruledScheme is the scheme that has a rule.
const ruledScheme = "team"

// ruleVersions are the versions of the rule. The program of number n has the first n.
var ruleVersions = []string{"sim/1", "sim/2"}

// drawRules adds rules to some plans, and new programs to their faults.
func (p *Plan) drawRules(r *rand.Rand) {
	if !chance(r, 30) {
		return
	}
	p.Ruled = true
	for id := 1; id <= p.Servers+p.Spare; id++ {
		if chance(r, 60) {
			p.Faults = append(p.Faults, Fault{
				At: between(r, 2*second, p.End), Kind: Program, Server: id, Other: id, Arg: int64(len(ruleVersions)),
			})
		}
		if chance(r, 30) {
			p.Faults = append(p.Faults, Fault{
				At: between(r, 2*second, p.End), Dur: between(r, second, 20*second), Kind: Program, Server: id, Other: id,
			})
		}
	}
	p.sortFaults()
}

// changeProgram stops the server and starts it with another program: the one of that number, or for a while one
// without rules if it is 0.
func (s *host) changeProgram(number int, d int64) {
	w := s.w
	if number > 0 {
		s.program = max(s.program, number)
	} else {
		s.mistaken++
		w.after(d, func() {
			if s.mistaken = max(s.mistaken-1, 0); s.life == nil {
				s.start()
			} else {
				s.kill(restartPause)
			}
		})
	}
	if s.life != nil {
		s.kill(restartPause)
	}
}

// programNow returns the number of the program that the server is started with.
func (s *host) programNow() int {
	if !s.w.plan.Ruled || s.mistaken > 0 || s.level == levelFirst {
		return 0
	}
	return s.program
}

// newestPrograms gives all servers the newest program.
func (w *World) newestPrograms() {
	for _, s := range w.servers {
		s.program, s.mistaken = len(ruleVersions), 0
		if s.life != nil && s.life.program != s.programNow() {
			s.end(false)
			s.disk.reboot()
		}
	}
}

// findRule returns a rule that the process's program has.
func (l *life) findRule(name string) auth.Rule {
	if at := slices.Index(ruleVersions, name); at < 0 || at >= l.program {
		return nil
	}
	return func(id, entry string) bool { return id == entry }
}

// rules returns the rules that the server is configured with.
func (l *life) rules() auth.Rules {
	if l.program == 0 {
		return nil
	}
	return auth.Rules(nil).With(ruledScheme, ruleVersions[l.program-1])
}

// stopsForRule handles a process that stopped because its program lacks the rule in force, and reports whether it had
// to: the program is one without rules, or the server wasn't a member when its version was given up.
func (l *life) stopsForRule(err error) bool {
	var missing *tree.MissingRuleError
	s := l.s
	if !errors.As(err, &missing) || !l.mayLackRules() || missing.Scheme != ruledScheme || l.findRule(missing.Rule) != nil {
		return false
	}
	s.w.stats.Ruleless++
	s.end(false)
	s.disk.reboot()
	if l.program > 0 { // the message says which rule is needed
		s.program = len(ruleVersions)
		s.w.after(restartPause, s.start)
	}
	return true
}

// mayLackRules reports whether a rule may be in force that the process's program doesn't have.
func (l *life) mayLackRules() bool {
	return l.program == 0 || slices.ContainsFunc(l.w.plan.Faults, func(f Fault) bool { return f.Kind.changesMembers() })
}

// checkRules fails if the process continues with a rule in force that its program doesn't have.
func (l *life) checkRules() {
	for _, rule := range l.rep.View().Rules {
		if l.findRule(rule.Name) == nil {
			l.w.fail("server %d, whose program is number %d, goes on with the rule %s in force", l.s.id, l.program, rule.Name)
		}
	}
}

// rulesBehind says at which member another rule is in force than the newest version, or returns "".
func (w *World) rulesBehind() string {
	if !w.plan.Ruled {
		return ""
	}
	for _, s := range w.members() {
		if name := s.life.rep.View().Rules.Of(ruledScheme); name != ruleVersions[len(ruleVersions)-1] {
			return fmt.Sprintf("server %d has the rule %q in force", s.id, cmp.Or(name, "equality"))
		}
	}
	return ""
}
