package replica

import "github.com/zooid-project/zooid/internal/limit"

// within decides on a request that b concerns. If the batch holds the replica, within releases it.
func (t *readBatch) within(b *limit.InForce, op *op, body []byte) verdict {
	t.release()
	ops := limit.Operations(op.code, body)
	created := map[string]int64{} // by parent, in this request
	var ephemerals, pathBytes int64
	for i := range ops {
		o := &ops[i]
		p := b.Of(o.Path)
		if k := p.Exceeded(o, &t.r.limiter.sizes, created, t.r.childrenOf); k != limit.Kinds {
			t.r.limiter.exceeded(t.c, limit.Path, p.Path, k, t.now)
			return tooMuch
		}
		if o.Op.IsCreate() && o.Flags.Ephemeral() {
			ephemerals, pathBytes = ephemerals+1, pathBytes+int64(len(o.Path))
		}
	}
	if ephemerals > 0 {
		if n, bytes := t.r.ephemeralsOf(t.c.session); !b.MayHold(n+ephemerals, bytes+pathBytes) {
			t.r.limiter.exceeded(t.c, limit.Connection, t.c.remote, limit.Ephemerals, t.now)
			return tooMuch
		}
		if !t.r.limiter.mayHoldEphemerals(t.c, b, ephemerals, t.now) {
			return tooMuch
		}
	}
	if !b.Rated() {
		return taken
	}
	for i := range ops {
		p := b.Of(ops[i].Path)
		if owes, k := p.Used.Owes(t.now); owes > 0 {
			t.r.limiter.exceeded(t.c, limit.Path, p.Path, k, t.now)
			return tooFast
		}
	}
	size := int64(len(body))
	for i := range ops {
		p := b.Of(ops[i].Path)
		p.Used.Use(t.now, 1, size, &p.Set)
		size = 0 // the bytes count once for the request, not for each operation
	}
	return taken
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

func (s *state) ephemeralsOf(session int64) (n, pathBytes int64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.tree.Sessions().Ephemerals(session)
}

// mayWatch reports whether a connection may set one more watch, and logs it if not.
func (l *limiter) mayWatch(c *Client) bool {
	b := l.inForce.Load()
	return b == nil || l.mayHoldWatches(c, b, 1)
}
