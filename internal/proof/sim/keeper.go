package sim

import (
	"fmt"

	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// The keeper is a client that sets and removes the quota of a path, creates and deletes znodes below it, and restores
// of snapshots take all of that back and forth. Hard limits are enforced. Nobody else uses the path, and the history
// doesn't show what the keeper is told: the checker knows no quotas. What it does is judged here, from the log, and the
// digests of the replicas show whether all have the same.
//
//	Q1  No create exceeds the hard limit of znodes.
//	Q2  None is refused for a quota that it doesn't exceed.

// The path that has the quota, and what makes it one.
const (
	keptPath   = "/kept"
	keptQuota  = "/zookeeper/quota" + keptPath
	keptLimits = keptQuota + "/zookeeper_limits"
	keptStats  = keptQuota + "/zookeeper_stats"
	// keptWide is how many znodes there are at most below the path, and keptMost the largest limit.
	keptWide = 8
	keptMost = 7
)

// A keeping is what the log says of the quota.
type keeping struct {
	client   *client
	sessions map[int64]bool   // that the keeper has had
	there    map[string]bool  // the path and the znodes below it
	hard     map[string]int64 // the limit, under keptLimits, and what is counted, under keptStats; each if it exists
}

// newKeeper returns the keeper of a World whose plan has quotas, nil for others.
func newKeeper(w *World) *keeping {
	if !w.plan.Quotas {
		return nil
	}
	c := newClient(w, w.plan.Clients+2)
	c.mix, c.user, c.silent, c.asksRO = nil, operatorUser, true, false
	w.after(2*second, c.connect)
	return &keeping{client: c, sessions: map[int64]bool{}, there: map[string]bool{}, hard: map[string]int64{}}
}

// is reports whether c is the keeper.
func (k *keeping) is(c *client) bool { return k != nil && k.client == c }

// keepNext sends the keeper's next request after a while.
func (c *client) keepNext() {
	if c.thinking || len(c.pending) > 0 || c.w.healed {
		return
	}
	c.later(between(c.dice, 0, 2*c.w.plan.Think), func() {
		if c.greeted && len(c.pending) == 0 && !c.w.healed {
			c.w.keeping.sessions[c.session] = true
			op, body := c.keeps()
			c.send(op, 0, body)
		}
	})
}

// keeps draws a request of the keeper.
func (c *client) keeps() (jute.Op, []byte) {
	create := func(path, data string) jute.MultiOp {
		return jute.MultiOp{Op: jute.OpCreate, Path: path, Data: []byte(data), ACL: jute.WorldACL(jute.PermAll)}
	}
	remove := func(path string) jute.MultiOp { return jute.MultiOp{Op: jute.OpDelete, Path: path, Version: -1} }
	child := func() string { return fmt.Sprintf("%s/n%d", keptPath, c.dice.IntN(keptWide)) }
	limit := fmt.Sprintf("count=-1,bytes=-1=;byteHardLimit=-1;countHardLimit=%d", 1+c.dice.IntN(keptMost))
	var ops []jute.MultiOp
	switch n := c.dice.IntN(20); {
	case n < 6:
		ops = []jute.MultiOp{create(child(), "")}
	case n < 10:
		ops = []jute.MultiOp{remove(child())}
	case n == 10:
		ops = []jute.MultiOp{create(child(), ""), create(child(), "")}
	case n == 11: // it fails, and the quota stays
		ops = []jute.MultiOp{remove(keptLimits), create("/", "")}
	case n == 12:
		ops = []jute.MultiOp{remove(keptLimits)}
	case n == 13:
		ops = []jute.MultiOp{remove(keptStats)}
	case n == 14:
		ops = []jute.MultiOp{{Op: jute.OpSetData, Path: keptLimits, Data: []byte(limit), Version: -1}}
	case n == 15:
		ops = []jute.MultiOp{create(keptPath, "")}
	case n == 16:
		ops = []jute.MultiOp{create(keptQuota, "")}
	case n == 17:
		ops = []jute.MultiOp{create(keptStats, "")}
	default:
		ops = []jute.MultiOp{create(keptLimits, limit)}
	}
	if len(ops) == 1 {
		return ops[0].Op, ops[0].Append(nil)
	}
	return jute.OpMulti, jute.AppendMulti(nil, ops)
}

// applied follows a request of the keeper when it is evaluated first, and checks Q1 and Q2. It reports whether the
// history is to have the request: the checker wouldn't refuse what a quota refuses.
func (k *keeping) applied(w *World, res *tree.Result, q *tree.Request) (recorded bool) {
	if k == nil || !k.sessions[q.Session] || res.Op == jute.OpCloseSession {
		return true
	}
	var ops []jute.MultiOp
	d := jute.NewDecoder(q.Body)
	switch q.Op {
	case jute.OpCreate:
		var r jute.CreateRequest
		r.Decode(d)
		ops = []jute.MultiOp{{Op: q.Op, Path: r.Path, Data: r.Data}}
	case jute.OpSetData:
		var r jute.SetDataRequest
		r.Decode(d)
		ops = []jute.MultiOp{{Op: q.Op, Path: r.Path, Data: r.Data}}
	case jute.OpDelete:
		var r jute.PathVersionRequest
		r.Decode(d)
		ops = []jute.MultiOp{{Op: q.Op, Path: r.Path}}
	case jute.OpMulti:
		ops, _ = jute.DecodeMulti(d)
	default:
		return true
	}
	limit, limited := k.hard[keptLimits]
	used, counted := k.hard[keptStats]
	enforced := limited && counted
	if len(res.Events) == 0 { // refused
		if res.Err == jute.ErrQuotaExceeded {
			w.stats.QuotaRefusals++
			if !enforced || used+1 <= limit {
				w.fail("Q2: a create of %s is refused for the quota: %d of %d are used (limit: %t, counted: %t)", ops[0].Path,
					used, limit, limited, counted)
			}
		}
		return false
	}
	for _, o := range ops {
		if _, counted := k.hard[keptStats]; o.Op == jute.OpCreate && k.below(o.Path) && enforced && counted {
			if w.stats.QuotaCreates++; k.hard[keptStats]+1 > limit {
				w.fail("Q1: %s is created though %d of %d are used", o.Path, k.hard[keptStats], limit)
			}
		}
		k.follow(&o)
	}
	return true
}

// below reports whether the quota counts a znode.
func (k *keeping) below(path string) bool {
	return path == keptPath || len(path) > len(keptPath) && path[:len(keptPath)+1] == keptPath+"/"
}

// follow makes a change of one znode.
func (k *keeping) follow(o *jute.MultiOp) {
	_, limited := k.hard[keptLimits]
	_, counted := k.hard[keptStats]
	switch {
	case k.below(o.Path):
		by := int64(1)
		if k.there[o.Path] = true; o.Op == jute.OpDelete {
			delete(k.there, o.Path)
			by = -1
		}
		if limited && counted { // what changes while nothing is limited isn't counted
			k.hard[keptStats] += by
		}
	case o.Op == jute.OpDelete:
		delete(k.hard, o.Path)
	case o.Path == keptStats:
		k.hard[keptStats] = int64(len(k.there))
	case o.Path == keptLimits:
		k.hard[keptLimits] = hardLimit(o.Data)
	}
}

// hardLimit returns the last digit of a text, with which the keeper's limits end.
func hardLimit(text []byte) int64 { return int64(text[len(text)-1] - '0') }

// restored follows the restoration of a znode; see restorer.go. The first znode is the root.
func (k *keeping) restored(path string, data []byte) {
	switch {
	case k == nil:
	case path == "/":
		clear(k.there)
		clear(k.hard)
	case k.below(path):
		k.there[path] = true
	case path == keptLimits:
		k.hard[path] = hardLimit(data)
	case path == keptStats:
		n := int64(0)
		if _, err := fmt.Sscanf(string(data), "count=%d,", &n); err != nil {
			panic(fmt.Sprintf("sim: %s holds %q", path, data))
		}
		k.hard[path] = n
	}
}
