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
//	Q1  No create or set exceeds a hard limit, of znodes or of bytes.
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
	// keptData is the most bytes of a znode, and keptBytes the largest limit of all of them together.
	keptData  = 3
	keptBytes = 12
)

// A keeping is what the log says of the quota.
type keeping struct {
	client   *client
	sessions map[int64]bool   // that the keeper has had
	there    map[string]int64 // the path and the znodes below it, with their sizes
	limits   *figures         // nil if that znode doesn't exist; -1 is no limit
	stats    *figures         // nil if that znode doesn't exist
}

// figures are a number of znodes and of their bytes.
type figures struct{ znodes, bytes int64 }

// newKeeper returns the keeper of a World whose plan has quotas, nil for others.
func newKeeper(w *World) *keeping {
	if !w.plan.Quotas {
		return nil
	}
	c := newClient(w, w.plan.Clients+2)
	c.mix, c.user, c.silent, c.asksRO = nil, operatorUser, true, false
	w.after(2*second, c.connect)
	return &keeping{client: c, sessions: map[int64]bool{}, there: map[string]int64{}}
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
	data := func() string { return "abc"[:c.dice.IntN(keptData+1)] }
	set := func(path, data string) jute.MultiOp {
		return jute.MultiOp{Op: jute.OpSetData, Path: path, Data: []byte(data), Version: -1}
	}
	limit := fmt.Sprintf(keptForm, pick(c.dice, -1, 1+c.dice.IntN(keptBytes)), 1+c.dice.IntN(keptMost))
	var ops []jute.MultiOp
	switch n := c.dice.IntN(20); {
	case n < 5:
		ops = []jute.MultiOp{create(child(), data())}
	case n < 7:
		ops = []jute.MultiOp{set(child(), data())}
	case n < 10:
		ops = []jute.MultiOp{remove(child())}
	case n == 10:
		ops = []jute.MultiOp{create(child(), data()), create(child(), data())}
	case n == 11: // it fails, and the quota stays
		ops = []jute.MultiOp{remove(keptLimits), create("/", "")}
	case n == 12:
		ops = []jute.MultiOp{remove(keptLimits)}
	case n == 13:
		ops = []jute.MultiOp{remove(keptStats)}
	case n == 14:
		ops = []jute.MultiOp{set(keptLimits, limit)}
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
	if len(res.Events) == 0 { // refused
		if res.Err == jute.ErrQuotaExceeded {
			w.stats.QuotaRefusals++
			if k.allows(&ops[0]) {
				w.fail("Q2: a change of %s is refused for the quota: %+v of %+v are used", ops[0].Path, k.stats, k.limits)
			}
		}
		return false
	}
	for _, o := range ops {
		if o.Op != jute.OpDelete && k.below(o.Path) && k.limits != nil && k.stats != nil {
			if w.stats.QuotaCreates++; !k.allows(&o) {
				w.fail("Q1: %s is changed though %+v of %+v are used", o.Path, *k.stats, *k.limits)
			}
		}
		k.follow(&o)
	}
	return true
}

// allows reports whether a create or a set stays within the limits. A limit doesn't count if the number stays the same.
func (k *keeping) allows(o *jute.MultiOp) bool {
	if k.limits == nil || k.stats == nil {
		return true
	}
	by := figures{1, int64(len(o.Data))}
	if o.Op == jute.OpSetData {
		by = figures{0, by.bytes - k.there[o.Path]}
	}
	within := func(used, by, limit int64) bool { return by == 0 || limit < 0 || used+by <= limit }
	return within(k.stats.znodes, by.znodes, k.limits.znodes) && within(k.stats.bytes, by.bytes, k.limits.bytes)
}

// below reports whether the quota counts a znode.
func (k *keeping) below(path string) bool {
	return path == keptPath || len(path) > len(keptPath) && path[:len(keptPath)+1] == keptPath+"/"
}

// follow makes a change of one znode.
func (k *keeping) follow(o *jute.MultiOp) {
	switch {
	case k.below(o.Path):
		was, existed := k.there[o.Path]
		by := figures{bytes: int64(len(o.Data)) - was}
		if k.there[o.Path] = int64(len(o.Data)); o.Op == jute.OpDelete {
			by = figures{-1, -was}
			delete(k.there, o.Path)
		} else if !existed {
			by.znodes = 1
		}
		if k.limits != nil && k.stats != nil { // what changes while nothing is limited isn't counted
			k.stats.znodes += by.znodes
			k.stats.bytes += by.bytes
		}
	case o.Path == keptStats:
		if k.stats = nil; o.Op == jute.OpCreate {
			k.stats = &figures{}
			for _, size := range k.there { // any order: sums
				k.stats.znodes++
				k.stats.bytes += size
			}
		}
	case o.Path == keptLimits:
		if k.limits = nil; o.Op != jute.OpDelete {
			k.limits = parseFigures(keptForm, o.Data)
		}
	}
}

// keptForm is the form of limits: the keeper gives hard ones only.
const keptForm = "count=-1,bytes=-1=;byteHardLimit=%d;countHardLimit=%d"

// parseFigures returns the numbers in the data of a limits or stats znode of that form.
func parseFigures(form string, data []byte) *figures {
	f := &figures{}
	to := []any{&f.bytes, &f.znodes}
	if form != keptForm {
		to = []any{&f.znodes, &f.bytes}
	}
	if _, err := fmt.Sscanf(string(data), form, to...); err != nil {
		panic(fmt.Sprintf("sim: a quota's znode holds %q", data))
	}
	return f
}

// restored follows the restoration of a znode; see restorer.go. The first znode is the root.
func (k *keeping) restored(path string, data []byte) {
	switch {
	case k == nil:
	case path == "/":
		clear(k.there)
		k.limits, k.stats = nil, nil
	case k.below(path):
		k.there[path] = int64(len(data))
	case path == keptLimits:
		k.limits = parseFigures(keptForm, data)
	case path == keptStats:
		k.stats = parseFigures("count=%d,bytes=%d", data)
	}
}
