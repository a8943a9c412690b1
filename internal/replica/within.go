package replica

import (
	"strings"

	"github.com/zooid-project/zooid/internal/limit"
	"github.com/zooid-project/zooid/jute"
)

// concerns reports whether a request might exceed a limit of its path or session. It is called for
// each request: for most it compares a few numbers.
func (b *bounds) concerns(l *limiter, op *op, size int) bool {
	if !op.isWrite() {
		return b.rated && hasPath(op.code) && op.code != jute.OpRemoveWatches // removeWatches only releases resources
	}
	return (size > b.bodyMin || b.rated || l.znodes.Load() > b.childrenMin || l.ephemerals.Load() > b.ephemeralsMin) &&
		hasPath(op.code)
}

// hasPath reports whether a request's record begins with a path, or holds operations whose records
// do.
func hasPath(code jute.Op) bool {
	return code.HasPath() || code == jute.OpMulti || code == jute.OpMultiRead
}

// operations returns the operations of a request that hasPath, or none if it is malformed.
func operations(code jute.Op, body []byte) []jute.MultiOp {
	var d jute.Decoder
	d.Reset(body)
	o := jute.MultiOp{Op: code}
	switch code {
	case jute.OpMulti, jute.OpMultiRead:
		ops, err := jute.DecodeMulti(&d)
		if err != nil {
			return nil
		}
		return ops
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer:
		var q jute.CreateRequest
		q.Decode(&d)
		o.Path, o.Data, o.Flags = q.Path, q.Data, q.Flags
	case jute.OpCreateTTL:
		var q jute.CreateTTLRequest
		q.Decode(&d)
		o.Path, o.Data, o.Flags = q.Path, q.Data, q.Flags
	case jute.OpSetData:
		o.Path, o.Data = d.String(), d.Buffer()
	default:
		o.Path = d.String()
	}
	if d.Err() != nil {
		return nil
	}
	return []jute.MultiOp{o}
}

// within decides on a request that b concerns. If the batch holds the replica, within releases it.
func (t *readBatch) within(b *bounds, op *op, body []byte) verdict {
	t.release()
	ops := operations(op.code, body)
	created := map[string]int64{} // by parent, in this request
	ephemerals := int64(0)
	for i := range ops {
		o := &ops[i]
		p := b.of(o.Path)
		if k := t.r.limiter.fits(p, o, created); k != limit.Kinds {
			t.r.limiter.exceeded(t.c, limit.Path, p.path, k, t.now)
			return tooMuch
		}
		if o.Op.IsCreate() && o.Flags.Ephemeral() {
			ephemerals++
		}
	}
	if most := b.sets[limit.Connection][limit.Ephemerals]; most > 0 && ephemerals > 0 &&
		t.r.ephemeralsOf(t.c.session)+ephemerals > most {
		t.r.limiter.exceeded(t.c, limit.Connection, t.c.remote, limit.Ephemerals, t.now)
		return tooMuch
	}
	if ephemerals > 0 && !t.r.limiter.mayHoldEphemerals(t.c, b, ephemerals, t.now) {
		return tooMuch
	}
	if !b.rated {
		return taken
	}
	for i := range ops {
		p := b.of(ops[i].Path)
		if owes, k := p.used.owes(t.now); owes > 0 {
			t.r.limiter.exceeded(t.c, limit.Path, p.path, k, t.now)
			return tooFast
		}
	}
	size := int64(len(body))
	for i := range ops {
		p := b.of(ops[i].Path)
		p.used.use(t.now, 1, size, &p.set)
		size = 0 // the bytes count once for the request, not for each operation
	}
	return taken
}

// fits returns the limit of its path that an operation exceeds, or limit.Kinds if none. It counts a
// create in created.
func (l *limiter) fits(p *pathBound, o *jute.MultiOp, created map[string]int64) limit.Kind {
	creates := o.Op.IsCreate()
	if most := p.set[limit.Value]; most > 0 && (creates || o.Op == jute.OpSetData) && int64(len(o.Data)) > most {
		return limit.Value
	}
	if !creates {
		return limit.Kinds
	}
	if most := p.set[limit.Depth]; most > 0 && int64(strings.Count(o.Path, "/")) > most {
		return limit.Depth
	}
	if most := p.set[limit.Children]; most > 0 && l.znodes.Load() > most-multiOpsSmall {
		parent := o.Path[:max(strings.LastIndexByte(o.Path, '/'), 0)]
		if l.childrenOf(parent)+created[parent] >= most {
			return limit.Children
		}
		created[parent]++
	}
	return limit.Kinds
}

// childrenOf returns how many children a znode has; "" is the root.
func (s *state) childrenOf(path string) int64 {
	if path == "" {
		path = "/"
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	stat, _ := s.tree.Stat(path)
	return int64(stat.NumChildren)
}

func (s *state) ephemeralsOf(session int64) int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return int64(s.tree.EphemeralsOf(session))
}

// mayWatch reports whether a connection may set one more watch, and logs it if not.
func (l *limiter) mayWatch(c *Client) bool {
	b := l.inForce.Load()
	return b == nil || l.mayHoldWatches(c, b, 1)
}
