package replica

import (
	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/policy"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// use makes t the replica's tree, and subscribes to its policy's denials. All servers deny the same
// writes, so each server counts and logs those of the whole ensemble, and the reads of its own
// clients.
func (r *Replica) use(t *tree.Tree) {
	t.Access().OnStruck(r.progress.struck)
	r.tree = t
}

// struck counts and logs that a rule of the policy has denied a request, or would have in a dry
// run.
func (p *progress) struck(rule *policy.Rule, path string, ids []jute.ID) {
	if p.replaying {
		return
	}
	how := 0
	if rule.Dry {
		how = 1
	}
	p.meters.struck[how].Inc()
	who := ""
	if len(ids) > 0 {
		who = auth.Shown(ids[len(ids)-1])
	}
	if rule.Dry {
		p.policyLog.Warn("a dry run of a policy's rule would deny a request", "path", path, "identity", who,
			"line", rule.Line)
		return
	}
	p.policyLog.Info("a rule of the policy denied a request", "path", path, "identity", who, "line", rule.Line)
}
