package check

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/jute"
)

// evidence is a zxid, in a Stat or in a notification's header, of no acknowledged write. It is the zxid of an
// unacknowledged change.
type evidence struct {
	zxid    int64
	n       *node
	kind    evidenceKind
	event   int32
	stat    jute.Stat
	data    []byte
	hasData bool
	typ     jute.EventType
}

type evidenceKind uint8

const (
	provesCreate   evidenceKind = iota // a czxid
	provesSet                          // an mzxid
	provesChildren                     // a pzxid
	provesEvent                        // a notification
)

type evidenceKey struct {
	zxid int64
	n    *node
	kind evidenceKind
	typ  jute.EventType
}

// collectEvidence finds every zxid in the replies that isn't that of an acknowledged write.
func (c *checker) collectEvidence() {
	seen := map[evidenceKey]int{}
	c.proofs = seen
	add := func(e evidence) {
		key := evidenceKey{e.zxid, e.n, e.kind, e.typ}
		if i, ok := seen[key]; ok {
			if old := &c.evidence[i]; e.hasData && !old.hasData {
				old.data, old.hasData = e.data, true
			}
			return
		}
		seen[key] = len(c.evidence)
		c.evidence = append(c.evidence, e)
		c.reserved.add(e.zxid)
	}
	for _, i := range c.suspects() {
		c.statEvidence(&c.ops[i], add)
	}
	if !c.opt.NotificationsUnnumbered {
		for _, i := range c.notes {
			e := &c.h.Events[i]
			if e.Zxid <= 0 || c.taken.has(e.Zxid) {
				continue
			}
			var w jute.WatcherEvent
			c.dec.Reset(e.Body)
			w.Decode(&c.dec)
			if n := c.m.node(w.Path); !n.opaque {
				add(evidence{zxid: e.Zxid, n: n, kind: provesEvent, event: i, typ: w.Type})
			}
		}
	}
	slices.SortStableFunc(c.evidence, func(a, b evidence) int { return cmp.Compare(a.zxid, b.zxid) })
}

// suspects lists in order the requests whose replies have a zxid that isn't that of an acknowledged write. There are
// few, but all replies must be searched, so several goroutines share the work.
func (c *checker) suspects() []int32 {
	const shares = 4
	var lists [shares][]int32
	var tasks [shares]func()
	for n := range shares {
		tasks[n] = func() {
			taken := c.taken // each copy has its own last page
			var d jute.Decoder
			var room []jute.MultiResult
			for i := n * len(c.ops) / shares; i < (n+1)*len(c.ops)/shares; i++ {
				if o := &c.ops[i]; o.rep >= 0 && c.suspect(o, &taken, &d, &room) {
					lists[n] = append(lists[n], int32(i))
				}
			}
		}
	}
	together(tasks[:]...)
	return slices.Concat(lists[:]...)
}

// suspect reports whether a reply has a zxid that isn't taken. It uses the memory of room.
func (c *checker) suspect(o *op, taken *zxidSet, d *jute.Decoder, room *[]jute.MultiResult) bool {
	if o.code != jute.OK {
		return false
	}
	body := c.h.Events[o.rep].Body
	if o.kind != jute.OpMulti && o.kind != jute.OpMultiRead {
		return endsInStat(o.kind, body) && !taken.holds(mentioned(body))
	}
	d.Reset(body)
	results, err := jute.DecodeMultiResponseInto((*room)[:0], d)
	*room = results
	return err == nil &&
		slices.ContainsFunc(results,
			func(r jute.MultiResult) bool { return !taken.holds(r.Stat.Czxid, r.Stat.Mzxid, r.Stat.Pzxid) })
}

// mentioned returns the zxids in the Stat at the end of a reply, without decoding the rest.
func mentioned(body []byte) (czxid, mzxid, pzxid int64) {
	g := body[len(body)-jute.StatSize:]
	long := func(at int) int64 { return int64(binary.BigEndian.Uint64(g[at:])) }
	return long(0), long(8), long(jute.StatSize - 8)
}

// holds reports whether all zxids of a Stat are in the set.
func (s *zxidSet) holds(czxid, mzxid, pzxid int64) bool {
	in := func(z int64) bool { return z <= 0 || s.has(z) }
	return in(czxid) && in(mzxid) && in(pzxid)
}

// statEvidence checks the Stat at the end of a reply.
func (c *checker) statEvidence(o *op, add func(evidence)) {
	req, rep := &c.h.Events[o.req], &c.h.Events[o.rep]
	if rep.Code() != jute.OK {
		return
	}
	if req.Op() == jute.OpMulti || req.Op() == jute.OpMultiRead {
		c.multiEvidence(o, req, rep, add)
		return
	}
	g, ok := lastStat(req.Op(), rep.Body)
	if !ok || c.taken.holds(g.Czxid, g.Mzxid, g.Pzxid) {
		return
	}
	d := &c.dec
	d.Reset(req.Body)
	path := d.String()
	d.Reset(rep.Body)
	e := evidence{event: o.rep, stat: g}
	switch req.Op() {
	case jute.OpGetData:
		e.data, e.hasData = d.Buffer(), true
	case jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		path = d.String()
	}
	c.split(path, e, add)
}

func (c *checker) multiEvidence(o *op, req, rep *history.Event, add func(evidence)) {
	c.dec.Reset(req.Body)
	ops, err := jute.DecodeMulti(&c.dec)
	if err != nil {
		return
	}
	c.dec.Reset(rep.Body)
	results, err := jute.DecodeMultiResponse(&c.dec)
	if err != nil || len(results) != len(ops) {
		return
	}
	for i := range results {
		r := &results[i]
		path := ops[i].Path
		if r.Path != "" {
			path = r.Path
		}
		if (r.Op == jute.OpGetData || r.Op == jute.OpSetData || r.Op == jute.OpCreate2) &&
			!c.taken.holds(r.Stat.Czxid, r.Stat.Mzxid, r.Stat.Pzxid) {
			c.split(path, evidence{event: o.rep, stat: r.Stat, data: r.Data, hasData: r.Op == jute.OpGetData}, add)
		}
	}
}

// split makes one piece of evidence of each unknown zxid in a Stat.
func (c *checker) split(path string, e evidence, add func(evidence)) {
	n := c.m.node(path)
	if n.opaque || n.path == "/" && c.opt.Under != "" {
		return
	}
	e.n = n
	g := &e.stat
	for _, p := range [...]struct {
		zxid int64
		kind evidenceKind
		is   bool
	}{
		{g.Czxid, provesCreate, true},
		{g.Mzxid, provesSet, g.Mzxid != g.Czxid},
		{g.Pzxid, provesChildren, g.Pzxid != g.Czxid},
	} {
		if p.is && p.zxid > 0 && !c.taken.has(p.zxid) {
			e.zxid, e.kind = p.zxid, p.kind
			add(e)
		}
	}
}

// evidenceUpTo places the changes that the evidence up to zxid proves.
func (c *checker) evidenceUpTo(zxid int64) {
	for c.nextEvidence < len(c.evidence) && c.evidence[c.nextEvidence].zxid <= zxid {
		first := c.nextEvidence
		z := c.evidence[first].zxid
		for c.nextEvidence < len(c.evidence) && c.evidence[c.nextEvidence].zxid == z {
			c.nextEvidence++
		}
		if !c.taken.has(z) {
			c.m.trail = c.m.trail[:0]
			c.prove(z, c.evidence[first:c.nextEvidence])
		}
	}
}

// prove finds the unanswered change that happened at zxid.
func (c *checker) prove(zxid int64, proofs []evidence) {
	var nodes []*node
	for i := range proofs {
		n := proofs[i].n
		if nodes = append(nodes, n); n.parent != nil && proofs[i].kind != provesChildren {
			nodes = append(nodes, n.parent)
		}
	}
	c.now = c.h.Events[firstSeen(proofs)].Time
	if c.proveBy(zxid, proofs, c.candidates(nodes, zxid)) || c.anyTainted(nodes, zxid) {
		return
	}
	c.premature = true // an expiry that came too early is better than no cause
	c.proveBy(zxid, proofs, c.candidates(nodes, zxid))
	c.premature = false
}

func (c *checker) proveBy(zxid int64, proofs []evidence, list []*unanswered) bool {
	var best *unanswered
	bestVerdict, fits := -2, 0 // number of candidates that fit and that later reads don't contradict
	for _, b := range list {
		c.placing = c.placing[:0]
		if !c.put(b, zxid, true) {
			continue
		}
		ok := c.proven(proofs)
		verdict := 0
		if ok {
			if verdict = c.lookahead(c.pos); verdict >= 0 {
				fits++
			}
		}
		c.take(0, 0)
		if ok && verdict > bestVerdict {
			best, bestVerdict = b, verdict
		}
	}
	if bestVerdict < 0 && c.lostPredecessor(zxid, list, proofs) {
		return true
	}
	if best == nil {
		return c.proveTogether(zxid, proofs, list)
	}
	c.put(best, zxid, true)
	c.placing[len(c.placing)-1].loose = fits != 1
	c.commit(firstSeen(proofs))
	return true
}

// proveTogether finds an unanswered change that happened at zxid and is possible only after others with unknown zxids,
// such as two containers reaped one after another without a read in between.
func (c *checker) proveTogether(zxid int64, proofs []evidence, list []*unanswered) bool {
	tries := explainTries
	for _, b := range list {
		c.placing = c.placing[:0]
		if !c.search(zxid-1, list, explainDepth-1, &tries, func() bool {
			keep, placed := len(c.m.trail), len(c.placing)
			if !b.placed && c.put(b, zxid, true) && c.proven(proofs) && c.lookahead(c.pos) >= 0 {
				return true
			}
			c.take(keep, placed)
			return false
		}) {
			continue
		}
		for i := range c.placing {
			c.placing[i].loose = true
		}
		c.commit(firstSeen(proofs))
		return true
	}
	return false
}

// firstSeen returns the earliest event among proofs.
func firstSeen(proofs []evidence) int {
	event := proofs[0].event
	for i := range proofs {
		event = min(event, proofs[i].event)
	}
	return int(event)
}

// lostPredecessor finds a write that happened although an earlier one of its connection can't have happened.
func (c *checker) lostPredecessor(zxid int64, list []*unanswered, proofs []evidence) bool {
	for _, b := range list {
		lost := c.certain(b, zxid)
		if b.o == nil || len(lost) == 0 {
			continue
		}
		prev := b.prev
		b.prev = nil
		c.placing = c.placing[:0]
		if c.put(b, zxid, true) && c.proven(proofs) && c.lookahead(c.pos) >= 0 {
			first := &c.h.Events[lost[0].o.req]
			c.violate(FIFO, fmt.Sprintf("the %s with xid %d was applied at zxid %#x, but the %s with xid %d sent before it on the same connection was not",
				c.h.Events[b.o.req].Op(), c.h.Events[b.o.req].Xid, zxid, first.Op(), first.Xid), int(b.o.req), int(lost[0].o.req))
			c.commit(firstSeen(proofs))
			return true
		}
		c.take(0, 0)
		b.prev = prev
	}
	return false
}

// proven reports whether the model, just after a zxid, agrees with everything known about that zxid.
func (c *checker) proven(proofs []evidence) bool {
	for i := range proofs {
		p := &proofs[i]
		s := p.n.now()
		ok := false
		switch p.kind {
		case provesCreate:
			ok = s != nil && s.czxid == p.zxid && s.owner == p.stat.EphemeralOwner
			if ok && p.stat.Mzxid == p.zxid {
				ok = int(p.stat.DataLength) == len(s.data) && (!p.hasData || string(p.data) == string(s.data))
			}
		case provesSet:
			ok = s != nil && s.mzxid == p.zxid && s.version == p.stat.Version && int(p.stat.DataLength) == len(s.data) &&
				(!p.hasData || string(p.data) == string(s.data))
		case provesChildren:
			ok = s != nil && s.pzxid == p.zxid && s.numChildren == p.stat.NumChildren &&
				2*s.creations-s.numChildren == p.stat.Cversion
		case provesEvent:
			last := c.placing[len(c.placing)-1]
			for j := range last.events {
				ok = ok || last.events[j].n == p.n && last.events[j].typ == p.typ
			}
		}
		if !ok {
			return false
		}
	}
	return true
}

// lookahead reports whether the next reads of the nodes changed by the last placement agree with it: -1 if one doesn't,
// 1 if at least one does, 0 if none comes before another change. It starts with the given item.
func (c *checker) lookahead(from int) int {
	c.look++
	c.supposing = true
	defer func() { c.supposing = false }()
	left := 0
	for _, n := range c.m.trail {
		if n.look != c.look {
			n.look = c.look
			left++
		}
	}
	verdict := 0
	end := min(len(c.items), c.pos+lookaheadItems)
	for i := from; i < end && left > 0 && c.effort > 0; i++ {
		c.effort--
		o := &c.ops[c.items[i].ref]
		req := &c.h.Events[o.req]
		switch op := req.Op(); {
		case op.IsWrite():
			for _, n := range c.touched(o, nil) {
				if n.look == c.look {
					n.look = 0
					left--
				}
			}
		case op == jute.OpGetData || op == jute.OpExists || op == jute.OpGetChildren2:
			c.dec.Reset(req.Body)
			n := c.m.nodes[c.dec.String()]
			if n == nil || n.look != c.look {
				continue
			}
			if bad := c.read(o); bad.found() {
				return -1
			}
			verdict = 1
			n.look = 0
			left--
		}
	}
	return verdict
}
