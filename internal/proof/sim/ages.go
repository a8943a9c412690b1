package sim

import (
	"maps"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// ages holds the znodes that the log creates, to check the removals by the
// leader: a container goes once its last child is gone, a TTL znode once it has
// no child and has not changed for its TTL. The ages are kept independently of
// the servers, and two things are checked: no znode is removed too early, and
// none stays longer than reapPatience once it may go and nothing is in the way.
type ages map[string]*aging

// An aging is the state of one znode.
type aging struct {
	container bool
	ttl       int64 // ms, 0 if it isn't a TTL znode
	changed   int64 // time of the last change by the log's clock, ms
	children  int
	used      bool  // it has had a child
	alone     int64 // when it was created or lost its last child
}

// reapPatience is how long a znode may stay after it may be removed.
const reapPatience = 2*reapInterval + 3*second

// aged follows a request that was applied and checks the reaper's removals.
func (g *ledger) aged(w *World, res *tree.Result, q *tree.Request) {
	if res.Err != jute.OK || len(res.Events) == 0 {
		return
	}
	var d jute.Decoder
	d.Reset(q.Body)
	if res.Op == jute.OpDeleteContainer {
		g.removed(w, d.String(), res.Time)
	}
	for _, e := range res.Events {
		g.ages.event(w.now, res.Time, e)
	}
	switch res.Op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer:
		var c jute.CreateRequest
		if c.Decode(&d); d.Err() == nil {
			g.ages.born(res.Path, c.Flags, 0)
		}
	case jute.OpCreateTTL:
		var c jute.CreateTTLRequest
		if c.Decode(&d); d.Err() == nil {
			g.ages.born(res.Path, c.Flags, c.TTL)
		}
	case jute.OpMulti:
		ops, err := jute.DecodeMulti(&d)
		for i := range ops {
			if err == nil && i < len(res.Multi) && res.Multi[i].Path != "" {
				g.ages.born(res.Multi[i].Path, ops[i].Flags, ops[i].TTL)
			}
		}
	}
}

// event records one change; now is the World's time, time the log's.
func (a ages) event(now, time int64, e tree.Event) {
	switch n := a[e.Path]; e.Type {
	case jute.EventNodeCreated:
		a[strings.Clone(e.Path)] = &aging{changed: time, alone: now} // the path's memory is reused
		if p := a[parentOf(e.Path)]; p != nil {
			p.children++
			p.used = true
		}
	case jute.EventNodeDataChanged:
		if n != nil {
			n.changed = time
		}
	case jute.EventNodeDeleted:
		if p := a[parentOf(e.Path)]; p != nil && n != nil {
			if p.children--; p.children == 0 {
				p.alone = now
			}
		}
		delete(a, e.Path)
	}
}

// born records the kind of a created znode, if it still exists.
func (a ages) born(path string, flags jute.CreateMode, ttl int64) {
	if n := a[path]; n != nil {
		n.container = flags == jute.ModeContainer
		if n.ttl = 0; flags.TTL() {
			n.ttl = ttl
		}
	}
}

// misled is the profile in which one server's clock jumps and the others' are right.
const misled = "misled"

// stampBound is how far the log's time may differ from the World's in that profile
// (decision 018): the log's time is set back if it is a minute ahead, the leader trusts
// its own clock if that is within ten seconds of the others', and clocks drift.
const stampBound = 90 * second

// stamped checks the time that the leader gave a request, once the leader has
// had time to learn the others' clocks.
func (g *ledger) stamped(w *World, time int64) {
	off := time*millisecond - wallStart - w.now
	if w.plan.Profile == misled && w.now > w.excusedTo()+5*second && max(off, -off) > stampBound {
		w.fail("the log's time is %d s off, and most servers' clocks are right", off/second)
	}
}

// removed checks a removal by the reaper before it is recorded.
func (g *ledger) removed(w *World, path string, time int64) {
	n := g.ages[path]
	switch {
	case n == nil:
		w.fail("the reaper removes %s, which isn't there", path)
	case n.children > 0:
		w.fail("the reaper removes %s, which has %d children", path, n.children)
	case n.container && !n.used:
		w.fail("container %s is removed and never had a child", path)
	case n.container:
		w.stats.Emptied++
	case n.ttl == 0:
		w.fail("the reaper removes %s, which is neither a container nor a TTL znode", path)
	default:
		w.stats.Reaped++
		if age := time - n.changed; age <= n.ttl && !w.plan.jumps() {
			w.fail("TTL znode %s is removed %d ms after it was last changed, and was to stay for %d", path, age, n.ttl)
		}
	}
}

// due returns the time (ns) from which a znode may be removed, and whether it may be by now.
// TTLs go by the log's clock, and only if that differs from the World's by no more than drift.
func (n *aging) due(w *World) (at int64, ok bool) {
	switch {
	case n.children > 0:
	case n.container:
		return n.alone, n.used
	case n.ttl > 0 && !w.plan.jumps():
		at = (n.changed+n.ttl)*millisecond - wallStart
		return max(at, n.alone), at <= w.now
	}
	return 0, false
}

// overdue returns a znode that has stayed too long, "" if there is none.
func (g *ledger) overdue(w *World) string {
	for _, path := range slices.Sorted(maps.Keys(g.ages)) {
		if at, ok := g.ages[path].due(w); ok && w.now-max(at, w.excusedTo()) > reapPatience {
			return path
		}
	}
	return ""
}

// reaped reports whether no znode is left that may be removed.
func (w *World) reaped() bool {
	for _, n := range w.ledger.ages {
		if _, ok := n.due(w); ok {
			return false
		}
	}
	return true
}

func parentOf(path string) string { return path[:max(strings.LastIndexByte(path, '/'), 0)] }
